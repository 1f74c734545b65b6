//! Numbers and byte strings as bytes: LEB128 numbers, zigzag for signed ones, and lengths before what they count.
//!
//! The reader trusts nothing: a length is compared with what is left before it is used.

use crate::graph::error::GraphError;
use duramen_base::varint;

pub(crate) use varint::put as put_u64;

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    put_u64(out, u64::from(value));
}

pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Reads what the `put_` functions wrote.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Reader { bytes, at: 0, what }
    }

    pub(crate) fn malformed(&self) -> GraphError {
        GraphError::Malformed { what: self.what, at: self.at }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn u8(&mut self) -> Result<u8, GraphError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.malformed())?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, GraphError> {
        varint::get(self.bytes, &mut self.at).map_err(|_| self.malformed())
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, GraphError> {
        u32::try_from(self.u64()?).map_err(|_| self.malformed())
    }

    pub(crate) fn i64(&mut self) -> Result<i64, GraphError> {
        let value = self.u64()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A count of things of which each takes at least `least` bytes of what is left.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, GraphError> {
        let count = usize::try_from(self.u64()?).map_err(|_| self.malformed())?;
        match count.checked_mul(least) {
            Some(bytes) if bytes <= self.left() => Ok(count),
            _ => Err(self.malformed()),
        }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], GraphError> {
        let end = self.at.checked_add(len).ok_or_else(|| self.malformed())?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| self.malformed())?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], GraphError> {
        let len = self.count(1)?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, GraphError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed())
    }

    pub(crate) fn string(&mut self) -> Result<String, GraphError> {
        Ok(self.text()?.to_owned())
    }

    /// That nothing is left.
    pub(crate) fn end(&self) -> Result<(), GraphError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.malformed())
        }
    }
}
