//! The protobuf wire format, as far as rows need it.
//!
//! Generated messages drop the fields they do not know, and allocate for those they do. Rows of a graph must lose
//! nothing and are many, so they are walked field by field, and what is not understood is kept as it lies.

use super::error::Bad;
use duramen_base::varint::{self, VarintError};

pub(crate) use duramen_base::varint::{len as varint_len, put as put_varint};

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) value: Value<'a>,
    /// The field with its tag, as it lies in the message.
    pub(crate) raw: &'a [u8],
    /// Where it begins in the message.
    pub(crate) at: usize,
}

/// The fields of a message, one after another.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    /// The next field; none at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, Bad> {
        let start = self.at;
        if start == self.bytes.len() {
            return Ok(None);
        }
        let tag = varint(self.bytes, &mut self.at)?;
        let number = u32::try_from(tag >> 3).unwrap_or(0);
        if number == 0 || number >= 1 << 29 {
            return Err(Bad::new(start, format!("protobuf field number {} does not exist", tag >> 3)));
        }
        let value = match tag & 7 {
            0 => Value::Varint(varint(self.bytes, &mut self.at)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length_at = self.at;
                let length = varint(self.bytes, &mut self.at)?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
                let Some(end) = end else {
                    let left = self.bytes.len() - self.at;
                    return Err(Bad::new(
                        length_at,
                        format!("a field of {length} bytes where {left} are left"),
                    ));
                };
                let bytes = &self.bytes[self.at..end];
                self.at = end;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed()?)),
            other => return Err(Bad::new(start, format!("protobuf wire type {other} is not used"))),
        };
        Ok(Some(Field { number, value, raw: &self.bytes[start..self.at], at: start }))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let bytes = self.bytes.get(self.at..self.at + N).and_then(|bytes| bytes.try_into().ok());
        let Some(bytes) = bytes else {
            return Err(Bad::new(self.at, "the message ends within a number"));
        };
        self.at += N;
        Ok(bytes)
    }
}

impl<'a> Field<'a> {
    /// Its bytes, when it is a string, message or byte string.
    #[inline]
    pub(crate) fn bytes(&self) -> Result<&'a [u8], Bad> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.of_another_type("bytes")),
        }
    }

    /// Its text.
    #[inline]
    pub(crate) fn text(&self) -> Result<&'a str, Bad> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|e| {
            Bad::new(self.at + self.raw.len() - bytes.len() + e.valid_up_to(), "text that is not UTF-8")
        })
    }

    /// Its number.
    #[inline]
    pub(crate) fn varint(&self) -> Result<u64, Bad> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.of_another_type("a number")),
        }
    }

    /// Its number, for fields of type int32 and enums: the low 32 bits, as the wire format has it.
    pub(crate) fn int32(&self) -> Result<i32, Bad> {
        Ok(self.varint()? as u32 as i32)
    }

    pub(crate) fn flag(&self) -> Result<bool, Bad> {
        Ok(self.varint()? != 0)
    }

    pub(crate) fn fixed64(&self) -> Result<u64, Bad> {
        match self.value {
            Value::Fixed64(value) => Ok(value),
            _ => Err(self.of_another_type("a number of eight bytes")),
        }
    }

    /// Where its content begins in the message.
    pub(crate) fn content_at(&self) -> usize {
        match self.value {
            Value::Bytes(bytes) => self.at + self.raw.len() - bytes.len(),
            _ => self.at,
        }
    }

    /// What is said of a field that a message of a fixed shape does not have.
    pub(crate) fn unknown_in(&self, message: &'static str) -> Bad {
        Bad::unsupported(
            self.at,
            format!("field {} of {message} is not known", self.number),
            "the file comes from a newer tool: use a newer duramen",
        )
    }

    fn of_another_type(&self, wanted: &'static str) -> Bad {
        Bad::new(self.at, format!("field {} is not {wanted}", self.number))
    }
}

/// Reads a varint at `*at`, and moves behind it.
#[inline(always)]
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Result<u64, Bad> {
    varint::get(bytes, at).map_err(|error| {
        let reason = match error {
            VarintError::Short => "the bytes end within a number",
            VarintError::Large => "a number of more than 64 bits",
        };
        Bad::new(*at, reason)
    })
}

/// Writes a byte string or text; nothing when it is empty, as proto3 has it.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        put_bytes_always(out, number, bytes);
    }
}

/// Writes a byte string or text, also when it is empty: an element of a list, or a message.
#[inline]
pub(crate) fn put_bytes_always(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a number; nothing when it is zero.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(number) << 3);
        put_varint(out, value);
    }
}

/// Writes an int32 or enum; nothing when it is zero. Negative ones take ten bytes, as the wire format has it.
pub(crate) fn put_int32(out: &mut Vec<u8>, number: u32, value: i32) {
    put_number(out, number, i64::from(value) as u64);
}

/// Writes a flag; nothing when it is not set.
pub(crate) fn put_flag(out: &mut Vec<u8>, number: u32, value: bool) {
    put_number(out, number, u64::from(value));
}

/// Writes a fixed64; nothing when it is zero.
pub(crate) fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(number) << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Writes a message that `fill` writes. Its length comes first and is known last, so room for a short one is made, and
/// a longer one is moved.
pub(crate) fn put_message(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, u64::from(number) << 3 | 2);
    let start = out.len();
    out.push(0);
    fill(out);
    let length = out.len() - start - 1;
    let size = varint_len(length as u64);
    if size > 1 {
        let end = out.len();
        out.resize(end + size - 1, 0);
        out.copy_within(start + 1..end, start + size);
    }
    let mut rest = length as u64;
    for (index, slot) in out[start..start + size].iter_mut().enumerate() {
        *slot = rest as u8 & 0x7f | if index + 1 < size { 0x80 } else { 0 };
        rest >>= 7;
    }
}

#[cfg(test)]
#[path = "wire/tests.rs"]
mod tests;
