//! Flat bytes, as rows and questions cross the boundary: numbers in four bytes, least significant first, and texts with
//! their length before them.

use crate::error::Error;

/// Reads flat bytes from their start to their end.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(Error::Malformed { at: self.at, reason: "it ends within a value" })?;
        let found = &self.bytes[self.at..end];
        self.at = end;
        Ok(found)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<u32, Error> {
        let bytes = self.bytes(4)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    #[inline]
    pub(crate) fn numbers<const N: usize>(&mut self) -> Result<[usize; N], Error> {
        let bytes = self.bytes(4 * N)?;
        let mut numbers = [0; N];
        for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
            *number = bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
        }
        Ok(numbers)
    }

    /// The next `len` bytes as text.
    #[inline]
    pub(crate) fn text_of(&mut self, len: usize) -> Result<&'a str, Error> {
        let at = self.at;
        std::str::from_utf8(self.bytes(len)?)
            .map_err(|_| Error::Malformed { at, reason: "a text is not UTF-8" })
    }

    pub(crate) fn blob(&mut self) -> Result<&'a [u8], Error> {
        let len = self.number()? as usize;
        self.bytes(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        let len = self.number()? as usize;
        self.text_of(len)
    }

    /// All texts that are left.
    pub(crate) fn texts(&mut self) -> Result<Vec<&'a str>, Error> {
        let mut texts = Vec::new();
        while !self.is_at_end() {
            texts.push(self.text()?);
        }
        Ok(texts)
    }
}

#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&(number as u32).to_le_bytes());
}

pub(crate) fn put_signed(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read_and_what_is_cut_is_refused() {
        let mut out = Vec::new();
        put_number(&mut out, 70_000);
        put_number(&mut out, 3);
        put_blob(&mut out, b"ada");
        put_blob(&mut out, b"");
        let mut reader = Reader::new(&out);
        assert_eq!(reader.numbers().unwrap(), [70_000, 3]);
        assert_eq!(reader.texts().unwrap(), ["ada", ""]);
        for end in 8..out.len() {
            let mut cut = Reader::new(&out[8..end]);
            assert!(cut.texts().is_err() || [8, 15].contains(&end), "{end}");
        }
        assert!(Reader::new(&out[..7]).numbers::<2>().is_err());
        assert!(Reader::new(&[255, 255, 255, 255, 0]).blob().is_err());
        assert!(Reader::new(&[1, 0, 0, 0, 255]).text().is_err());
    }
}
