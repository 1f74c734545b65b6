//! Numbers and lengths in bytes, taken apart without trusting any of them.

use duramen_base::varint::{self, VarintError};

pub(crate) use varint::put as put_varint;

/// Bytes that are read front to back.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What is wrong with bytes, in words that fit after "its section table".
pub(crate) type Wrong = &'static str;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next byte lies.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Wrong> {
        let end = self.at.checked_add(len).ok_or("holds a length beyond its end")?;
        let taken = self.bytes.get(self.at..end).ok_or("ends too early")?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Wrong> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Wrong> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Wrong> {
        varint::get(self.bytes, &mut self.at).map_err(|error| match error {
            VarintError::Short => "ends too early",
            VarintError::Large => "holds a number that is too large",
        })
    }

    /// A number that is at most `max`.
    pub(crate) fn bounded(&mut self, max: u64, wrong: Wrong) -> Result<u64, Wrong> {
        let value = self.varint()?;
        if value > max {
            return Err(wrong);
        }
        Ok(value)
    }
}
