//! What differs between two sets of rows.
//!
//! Rows are the lines of `COPY ... TO STDOUT`: under the same settings two rows are the same if their lines are. Lines
//! that came from both sides cancel each other out as they come, so what is held is what differs, and what the other side has not
//! sent yet.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
};

/// What one entry of a map takes besides its line, roughly.
const ENTRY: usize = 64;

/// More rows differ than may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rows that differ take more than {bytes_max} bytes")]
pub struct TooMany {
    /// How many bytes may be held.
    pub bytes_max: usize,
}

/// A row's values as text; `None` is NULL.
pub type Values = Vec<Option<Vec<u8>>>;

/// One row that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Before; `None` for one that was added.
    pub old: Option<Values>,
    /// After; `None` for one that was removed.
    pub new: Option<Values>,
}

/// The lines that one side has more often than the other.
#[derive(Debug)]
pub struct Unmatched {
    /// How much more often the new side has it.
    lines: HashMap<Box<[u8]>, i64>,
    bytes: usize,
    bytes_max: usize,
}

impl Unmatched {
    /// Nothing yet, and never more than `bytes_max`.
    #[must_use]
    pub fn new(bytes_max: usize) -> Unmatched {
        Unmatched { lines: HashMap::new(), bytes: 0, bytes_max }
    }

    /// A line of the snapshot's.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn old(&mut self, line: &[u8]) -> Result<(), TooMany> {
        self.count(line, -1)
    }

    /// A line of the branch's.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn new_line(&mut self, line: &[u8]) -> Result<(), TooMany> {
        self.count(line, 1)
    }

    fn count(&mut self, line: &[u8], by: i64) -> Result<(), TooMany> {
        match self.lines.get_mut(line) {
            Some(count) if *count + by == 0 => {
                self.lines.remove(line);
                self.bytes -= line.len() + ENTRY;
            }
            Some(count) => *count += by,
            None => {
                self.bytes += line.len() + ENTRY;
                if self.bytes > self.bytes_max {
                    return Err(TooMany { bytes_max: self.bytes_max });
                }
                self.lines.insert(line.into(), by);
            }
        }
        Ok(())
    }

    /// Pairs what is left by the values at the places of `key`, in the order of those values. Without a key, or where a value of
    /// it is NULL, a row is its own identity: it was added or removed.
    #[must_use]
    pub fn pair(self, key: &[usize]) -> Vec<Difference> {
        let mut keyed: BTreeMap<Key, (Vec<Values>, Vec<Values>)> = BTreeMap::new();
        let mut whole: BTreeMap<Key, (Vec<Values>, Vec<Values>)> = BTreeMap::new();
        for (line, count) in self.lines {
            let values = values(&line);
            let of_key: Option<Vec<Vec<u8>>> =
                key.iter().map(|place| values.get(*place).cloned().flatten()).collect();
            let (olds, news) = match of_key {
                Some(of_key) if !key.is_empty() => keyed.entry(Key(of_key)).or_default(),
                _ => {
                    let all = values.iter().map(|value| value.clone().unwrap_or_default()).collect();
                    whole.entry(Key(all)).or_default()
                }
            };
            let side = if count < 0 { olds } else { news };
            side.extend((0..count.unsigned_abs()).map(|_| values.clone()));
        }
        let mut differences = Vec::new();
        for (olds, news) in keyed.into_values() {
            let (mut olds, mut news) = (olds.into_iter(), news.into_iter());
            loop {
                match (olds.next(), news.next()) {
                    (None, None) => break,
                    (old, new) => differences.push(Difference { old, new }),
                }
            }
        }
        for (olds, news) in whole.into_values() {
            differences.extend(olds.into_iter().map(|old| Difference { old: Some(old), new: None }));
            differences.extend(news.into_iter().map(|new| Difference { old: None, new: Some(new) }));
        }
        differences
    }
}

/// Values in an order that people expect: numbers by their size.
#[derive(Debug, PartialEq, Eq)]
struct Key(Vec<Vec<u8>>);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i128>().ok();
        for (one, two) in self.0.iter().zip(&other.0) {
            let order = match (number(one), number(two)) {
                (Some(a), Some(b)) => a.cmp(&b).then_with(|| one.cmp(two)),
                // All numbers before all else, so that it is an order.
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => one.cmp(two),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        self.0.len().cmp(&other.0.len())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The values in a line of a copy.
/// Source: the PostgreSQL documentation, "COPY", section on the text format.
#[must_use]
pub fn values(line: &[u8]) -> Values {
    line.split(|byte| *byte == b'\t')
        .map(|field| if field == b"\\N" { None } else { Some(unescaped(field)) })
        .collect()
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(field.len());
    let mut bytes = field.iter().copied();
    while let Some(byte) = bytes.next() {
        let meant = match byte {
            b'\\' => match bytes.next() {
                Some(b'b') => 0x08,
                Some(b'f') => 0x0c,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'v') => 0x0b,
                Some(other) => other,
                None => b'\\',
            },
            other => other,
        };
        text.push(meant);
    }
    text
}

#[cfg(test)]
#[path = "../tests/unit/diff.rs"]
mod tests;
