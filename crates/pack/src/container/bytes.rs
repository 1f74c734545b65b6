//! Numbers and lengths in bytes, taken apart without trusting any of them.

/// Appends a number in groups of seven bits, the lowest first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

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
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err("holds a number that is too large");
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("holds a number that is too long")
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
