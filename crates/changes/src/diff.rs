//! What differs between two sets of rows.
//!
//! Rows are the lines of `COPY ... TO STDOUT`: under the same settings two rows are the same if their lines are. Lines
//! that came from both sides cancel each other out as they come, so what is held is what differs, and what the other side has not
//! sent yet.

use std::collections::HashMap;

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

/// One row that differs, as its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Before; `None` for one that was added.
    pub old: Option<Box<[u8]>>,
    /// After; `None` for one that was removed.
    pub new: Option<Box<[u8]>>,
    /// How often: rows that are the same are told at once.
    pub times: u64,
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
        let with_keys = self.lines.into_iter().map(|(line, count)| (Key::of(&line, key), count, line));
        let mut lines: Vec<(Key, i64, Box<[u8]>)> = with_keys.collect();
        // What the snapshot has comes before what the branch has of the same key.
        lines.sort_unstable_by(|a, b| match (&a.0, &b.0) {
            (Key::Whole, Key::Whole) => a.2.cmp(&b.2),
            _ => a.cmp(b),
        });
        let mut differences = Vec::with_capacity(lines.len());
        let mut lines = lines.into_iter().peekable();
        while let Some((key, count, line)) = lines.next() {
            let is_pair = |next: &(Key, i64, Box<[u8]>)| {
                key != Key::Whole && next.0 == key && (count, next.1) == (-1, 1)
            };
            let (old, new) = match lines.next_if(is_pair) {
                Some((_, _, new)) => (Some(line), Some(new)),
                None if count < 0 => (Some(line), None),
                None => (None, Some(line)),
            };
            differences.push(Difference { old, new, times: count.unsigned_abs() });
        }
        differences
    }
}

/// What identifies a row.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Values(Vec<KeyValue>),
    /// The row itself.
    Whole,
}

impl Key {
    fn of(line: &[u8], places: &[usize]) -> Key {
        if places.is_empty() {
            return Key::Whole;
        }
        let values = values(line);
        let of_key: Option<Vec<KeyValue>> =
            places.iter().map(|place| values.get(*place)?.clone().map(KeyValue::of)).collect();
        of_key.map_or(Key::Whole, Key::Values)
    }
}

/// A value in the order that people expect: numbers by their size, and before all else.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    /// With its text: 7 and 07 are two keys.
    Number(i128, Vec<u8>),
    Text(Vec<u8>),
}

impl KeyValue {
    fn of(text: Vec<u8>) -> KeyValue {
        match std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()) {
            Some(number) => KeyValue::Number(number, text),
            None => KeyValue::Text(text),
        }
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
