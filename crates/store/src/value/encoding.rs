//! Writing values as bytes.
//!
//! A value is one tag byte and a payload. Integers are zigzag varints; floats are eight bytes, least significant
//! first; strings and byte strings are a varint length and the bytes. Arrays and objects begin with the length of
//! their body in four bytes, so that a reader can step over them, and their count; members stand in the order of
//! their keys. There is one way to write each value, so equal bytes mean the same value.

use duramen_base::varint;

use super::error::{ValueError, MAX_ELEMENTS, MAX_ENCODED_BYTES, MAX_NESTING, MAX_STRING_BYTES};
use super::owned::Value;

pub(super) const NULL: u8 = 0;
pub(super) const FALSE: u8 = 1;
pub(super) const TRUE: u8 = 2;
pub(super) const INT: u8 = 3;
pub(super) const FLOAT: u8 = 4;
pub(super) const STRING: u8 = 5;
pub(super) const BYTES: u8 = 6;
pub(super) const ARRAY: u8 = 7;
pub(super) const OBJECT: u8 = 8;

/// What can be written as a value without making a [`Value`] of it first.
///
/// ```
/// use duramen_store::value::{Encode, Value};
///
/// let mut bytes = Vec::new();
/// "text".check()?;
/// "text".encode(&mut bytes);
/// assert_eq!(Value::decode(&bytes)?, Value::from("text"));
/// # Ok::<(), duramen_store::value::ValueError>(())
/// ```
///
/// The crate's own types implement it and no others: it runs while other writers wait.
pub trait Encode: sealed::Sealed {
    /// Checks the limits [`MAX_STRING_BYTES`], [`MAX_ELEMENTS`], [`MAX_NESTING`] and [`MAX_ENCODED_BYTES`].
    ///
    /// # Errors
    /// The limit that is broken.
    fn check(&self) -> Result<(), ValueError>;

    /// Appends the encoded value to `out`. It must have passed [`Encode::check`]: what is written of a value over
    /// the limits need not be readable.
    fn encode(&self, out: &mut Vec<u8>);
}

/// Checks the limits of what is to be stored; see [`Encode::check`].
pub(crate) fn check_encoded<T: Encode + ?Sized>(value: &T) -> Result<(), ValueError> {
    value.check()
}

impl Value {
    /// Checks the limits and appends the encoded value to `out`.
    ///
    /// # Errors
    /// The limit that is broken; nothing is appended then.
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.check()?;
        write(self, out);
        Ok(())
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn check(&self) -> Result<(), ValueError> {
        (**self).check()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

impl Encode for Value {
    fn check(&self) -> Result<(), ValueError> {
        let mut len = 0;
        check(self, &mut len, 0)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        write(self, out);
    }
}

impl Encode for str {
    fn check(&self) -> Result<(), ValueError> {
        check_length("string", self.len())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        write_run(STRING, self.as_bytes(), out);
    }
}

impl Encode for [u8] {
    fn check(&self) -> Result<(), ValueError> {
        check_length("byte string", self.len())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        write_run(BYTES, self, out);
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn check(&self) -> Result<(), ValueError> {
        self.as_slice().check()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl Encode for String {
    fn check(&self) -> Result<(), ValueError> {
        self.as_str().check()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

impl Encode for Vec<u8> {
    fn check(&self) -> Result<(), ValueError> {
        self.as_slice().check()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

macro_rules! scalar {
    ($($type:ty: $value:ident, $out:ident => $write:expr;)*) => {$(
        impl sealed::Sealed for $type {}

        impl Encode for $type {
            fn check(&self) -> Result<(), ValueError> {
                Ok(())
            }

            fn encode(&self, $out: &mut Vec<u8>) {
                let $value = *self;
                $write
            }
        }
    )*};
}

scalar! {
    bool: value, out => out.push(if value { TRUE } else { FALSE });
    i64: value, out => {
        out.push(INT);
        varint::put(out, ((value << 1) ^ (value >> 63)) as u64);
    };
    i32: value, out => i64::from(value).encode(out);
    u32: value, out => i64::from(value).encode(out);
    f64: value, out => {
        out.push(FLOAT);
        out.extend_from_slice(&value.to_bits().to_le_bytes());
    };
}

/// Checks a value that stands inside `depth` arrays and objects, and adds its encoded length to `len`.
pub(super) fn check(value: &Value, len: &mut usize, depth: usize) -> Result<(), ValueError> {
    let mut run = |what, bytes: usize| {
        *len += varint::len(bytes as u64) + bytes;
        check_length(what, bytes)
    };
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Int(value) => *len += varint::len(((value << 1) ^ (value >> 63)) as u64),
        Value::Float(_) => *len += 8,
        Value::String(value) => run("string", value.len())?,
        Value::Bytes(value) => run("byte string", value.len())?,
        Value::Array(elements) => {
            *len += check_list("array", elements.len(), depth)?;
            for element in elements {
                check(element, len, depth + 1)?;
            }
        }
        Value::Object(members) => {
            *len += check_list("object", members.len(), depth)?;
            for (key, member) in members {
                *len += varint::len(key.len() as u64) + key.len();
                check_length("key", key.len())?;
                check(member, len, depth + 1)?;
            }
        }
    }
    *len += 1;
    if *len > MAX_ENCODED_BYTES {
        return Err(ValueError::TooLarge { len: *len, max: MAX_ENCODED_BYTES });
    }
    Ok(())
}

/// Checks an array or object and returns how many bytes stand before its parts, without the tag.
fn check_list(what: &'static str, count: usize, depth: usize) -> Result<usize, ValueError> {
    if depth >= MAX_NESTING {
        return Err(ValueError::TooDeep { max: MAX_NESTING });
    }
    if count > MAX_ELEMENTS {
        return Err(ValueError::TooManyElements { what, count, max: MAX_ELEMENTS });
    }
    Ok(4 + varint::len(count as u64))
}

fn check_length(what: &'static str, len: usize) -> Result<(), ValueError> {
    if len > MAX_STRING_BYTES {
        return Err(ValueError::TooLong { what, len, max: MAX_STRING_BYTES });
    }
    Ok(())
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(value) => value.encode(out),
        Value::Int(value) => value.encode(out),
        Value::Float(value) => value.encode(out),
        Value::String(value) => value.encode(out),
        Value::Bytes(value) => value.encode(out),
        Value::Array(elements) => {
            let body = open(ARRAY, elements.len(), out);
            elements.iter().for_each(|element| write(element, out));
            close(body, out);
        }
        Value::Object(members) => {
            let body = open(OBJECT, members.len(), out);
            for (key, member) in members {
                varint::put(out, key.len() as u64);
                out.extend_from_slice(key.as_bytes());
                write(member, out);
            }
            close(body, out);
        }
    }
}

/// Begins an array or object; what it returns goes to [`close`].
fn open(tag: u8, count: usize, out: &mut Vec<u8>) -> usize {
    out.push(tag);
    out.extend_from_slice(&[0; 4]);
    let body = out.len();
    varint::put(out, count as u64);
    body
}

/// Fills in the length of the body that began at `body`. The limits on a value keep it far below four GiB.
fn close(body: usize, out: &mut [u8]) {
    let len = (out.len() - body) as u32;
    out[body - 4..body].copy_from_slice(&len.to_le_bytes());
}

fn write_run(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 6);
    out.push(tag);
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

mod sealed {
    /// Nobody else implements it.
    pub trait Sealed {}
}

impl<T: Encode + ?Sized> sealed::Sealed for &T {}
impl sealed::Sealed for Value {}
impl sealed::Sealed for str {}
impl sealed::Sealed for [u8] {}
impl<const N: usize> sealed::Sealed for [u8; N] {}
impl sealed::Sealed for String {}
impl sealed::Sealed for Vec<u8> {}
