//! A range of keys.

/// The keys from `start` on, below `end`, read forwards or backwards.
///
/// ```
/// use duramen_tree::KeyRange;
/// assert!(KeyRange::all().contains(b"anything"));
/// let end = KeyRange::end_of_prefix(b"a");
/// assert_eq!(end.as_deref(), Some(&b"b"[..]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The first key that is in the range; empty for the beginning.
    pub start: &'a [u8],
    /// The first key after the range; none for the end.
    pub end: Option<&'a [u8]>,
    /// Whether the last key comes first.
    pub backwards: bool,
}

impl<'a> KeyRange<'a> {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// The keys from `start` on, below `end` if there is one.
    pub fn new(start: &'a [u8], end: Option<&'a [u8]>) -> Self {
        Self { start, end, backwards: false }
    }

    /// The same keys, the last one first.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { backwards: !self.backwards, ..self }
    }

    /// Whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start && self.end.is_none_or(|end| key < end)
    }

    /// The first key after all that begin with `prefix`; none if there is no such key.
    pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
        let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut end = prefix[..=last].to_vec();
        end[last] += 1;
        Some(end)
    }
}
