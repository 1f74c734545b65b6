//! How many standbys a commit waits for: what `synchronous_standby_names` says.

/// Whom a commit waits for.
///
/// ```
/// use duramen_replication::topology::quorum::Quorum;
///
/// assert_eq!(Quorum::parse("ANY 2 (a, b, c)"), Quorum::Any(2));
/// assert_eq!(Quorum::parse("FIRST 1 (a, b)"), Quorum::First(1));
/// assert_eq!(Quorum::parse("2 (a, b)"), Quorum::First(2));
/// assert_eq!(Quorum::parse("a, b"), Quorum::First(1));
/// assert_eq!(Quorum::parse(""), Quorum::Nobody);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// The setting is empty: commits wait for no standby.
    Nobody,
    /// For so many standbys, those that are named first.
    First(usize),
    /// For any so many of those that are named.
    Any(usize),
}

impl Quorum {
    /// Reads the setting as PostgreSQL does (`syncrep_gram.y`): `FIRST n (...)`, `ANY n (...)`, `n (...)` or a list of
    /// names. Names are not looked at: `sync_state` says who they are.
    #[must_use]
    pub fn parse(setting: &str) -> Quorum {
        let setting = setting.trim();
        if setting.is_empty() {
            return Quorum::Nobody;
        }
        // A list without a number is led by a name, which may be quoted and hold anything.
        let Some((head, _)) = setting.split_once('(').filter(|(head, _)| !head.contains(['"', ','])) else {
            return Quorum::First(1);
        };
        let mut words = head.split_whitespace();
        let count = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(1);
        match words.next() {
            Some(word) if word.eq_ignore_ascii_case("any") => Quorum::Any(count(words.next())),
            Some(word) if word.eq_ignore_ascii_case("first") => Quorum::First(count(words.next())),
            number => Quorum::First(count(number)),
        }
    }
}
