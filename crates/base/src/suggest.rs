//! The name that was probably meant.

/// How many known names are compared, and up to how many characters of a name.
const KNOWN_MAX: usize = 100;
const LENGTH_MAX: usize = 100;
/// One slip in so many characters is a slip; more make another name.
const SLIP_IN: usize = 3;

/// The known name that is most like a mistyped one, if one is like it at all; of at most 100.
///
/// # Examples
/// ```
/// use duramen_base::suggest::closest;
/// assert_eq!(closest("flihgts", ["flights", "app"].into_iter()), Some("flights"));
/// assert_eq!(closest("zebra", ["flights", "app"].into_iter()), None);
/// ```
pub fn closest<'n>(typed: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let characters = |text: &str| text.chars().take(LENGTH_MAX).collect::<Vec<char>>();
    let typed = characters(typed);
    known
        .take(KNOWN_MAX)
        .map(|name| (slips(&typed, &characters(name)), name))
        .filter(|(slips, name)| *slips <= (name.chars().count().max(typed.len()) / SLIP_IN).max(1))
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// How many characters must be put in, left out, changed, or changed with their neighbour to make one text the other.
///
/// Source: optimal string alignment, after Damerau (1964).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let changed = above[column] + usize::from(x != y);
            let mut least = changed.min(above[column + 1] + 1).min(line[column] + 1);
            if row > 0 && column > 0 && *x == b[column - 1] && a[row - 1] == *y {
                least = least.min(before[column - 1] + 1);
            }
            line.push(least);
        }
        before = std::mem::replace(&mut above, line);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::slips;

    #[test]
    fn slips_are_counted_one_by_one() {
        let of = |a: &str, b: &str| slips(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (a, b, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("main", "main", 0),
            ("mian", "main", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("flihgts", "flights", 1),
        ] {
            assert_eq!((of(a, b), of(b, a)), (count, count), "{a} {b}");
        }
    }
}
