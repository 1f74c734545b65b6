//! Reading values in place.

use duramen_base::varint::{self, VarintError};

use super::encoding::{ARRAY, BYTES, FALSE, FLOAT, INT, NULL, OBJECT, STRING, TRUE};
use super::error::{ValueError, MAX_ELEMENTS, MAX_ENCODED_BYTES, MAX_NESTING, MAX_STRING_BYTES};
use super::owned::Value;

/// A value that borrows from the bytes it was read from.
///
/// Reading one allocates nothing and steps over the inside of arrays and objects: their parts are read, and checked,
/// as they are asked for.
///
/// ```
/// use duramen_store::value::{Value, ValueRef};
///
/// let mut bytes = Vec::new();
/// Value::from(vec![Value::from("oak"), Value::from(3)]).encode_into(&mut bytes)?;
/// let ValueRef::Array(trees) = ValueRef::decode(&bytes)? else { panic!("an array went in") };
/// assert_eq!(trees.len(), 2);
/// assert!(matches!(trees.iter().next(), Some(Ok(ValueRef::Str("oak")))));
/// # Ok::<(), duramen_store::value::ValueError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Float(f64),
    /// UTF-8 text.
    Str(&'a str),
    /// Bytes of any kind.
    Bytes(&'a [u8]),
    /// Values in order, not read yet.
    Array(RawArray<'a>),
    /// Values by name, not read yet.
    Object(RawObject<'a>),
}

/// An array whose elements are read as they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct RawArray<'a> {
    body: Cursor<'a>,
    count: usize,
}

/// An object whose members are read as they are asked for, in the order of their keys.
#[derive(Debug, Clone, Copy)]
pub struct RawObject<'a> {
    body: Cursor<'a>,
    count: usize,
}

/// The elements of a [`RawArray`]. After an error it ends.
#[derive(Debug, Clone)]
pub struct RawArrayIter<'a> {
    body: Cursor<'a>,
    left: usize,
}

/// The members of a [`RawObject`]. After an error it ends.
#[derive(Debug, Clone)]
pub struct RawObjectIter<'a> {
    body: Cursor<'a>,
    left: usize,
    previous: Option<&'a str>,
}

impl Value {
    /// Reads a whole encoded value.
    ///
    /// # Errors
    /// [`ValueError::Corrupt`] unless the bytes are exactly what encoding a value writes, and the errors of the limits.
    pub fn decode(bytes: &[u8]) -> Result<Value, ValueError> {
        ValueRef::decode(bytes)?.to_value()
    }
}

impl<'a> ValueRef<'a> {
    /// Reads an encoded value in place.
    ///
    /// # Errors
    /// [`ValueError::Corrupt`] when the bytes do not begin as a value or do not end with it. What is wrong inside
    /// of an array or object shows when its parts are read.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<ValueRef<'a>, ValueError> {
        // Short byte strings are what scans meet most.
        if let [BYTES, len @ 0..0x80, rest @ ..] = bytes {
            if rest.len() == usize::from(*len) {
                return Ok(ValueRef::Bytes(rest));
            }
        }
        Self::decode_any(bytes)
    }

    fn decode_any(bytes: &'a [u8]) -> Result<ValueRef<'a>, ValueError> {
        if bytes.len() > MAX_ENCODED_BYTES {
            return Err(ValueError::TooLarge { len: bytes.len(), max: MAX_ENCODED_BYTES });
        }
        let mut cursor = Cursor { bytes, position: 0 };
        let value = cursor.value()?;
        cursor.end()?;
        Ok(value)
    }

    /// The same value, owned.
    ///
    /// # Errors
    /// [`ValueError::Corrupt`] when a part inside of it is damaged, and [`ValueError::TooDeep`].
    pub fn to_value(&self) -> Result<Value, ValueError> {
        self.own(0)
    }

    fn own(&self, depth: usize) -> Result<Value, ValueError> {
        Ok(match self {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(value) => Value::Bool(*value),
            ValueRef::Int(value) => Value::Int(*value),
            ValueRef::Float(value) => Value::Float(*value),
            ValueRef::Str(value) => Value::String((*value).to_owned()),
            ValueRef::Bytes(value) => Value::Bytes(value.to_vec()),
            ValueRef::Array(_) | ValueRef::Object(_) if depth >= MAX_NESTING => {
                return Err(ValueError::TooDeep { max: MAX_NESTING });
            }
            // No room is reserved by the count: until they are read, nothing says that the elements are there.
            ValueRef::Array(array) => {
                let mut elements = Vec::new();
                for element in array {
                    elements.push(element?.own(depth + 1)?);
                }
                Value::Array(elements)
            }
            ValueRef::Object(object) => {
                let mut members = std::collections::BTreeMap::new();
                for member in object {
                    let (key, member) = member?;
                    members.insert(key.to_owned(), member.own(depth + 1)?);
                }
                Value::Object(members)
            }
        })
    }
}

impl<'a> RawArray<'a> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The elements in order; an item is an error where the bytes are damaged.
    pub fn iter(&self) -> RawArrayIter<'a> {
        RawArrayIter { body: self.body, left: self.count }
    }
}

impl<'a> RawObject<'a> {
    /// How many members there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The members in the order of their keys; an item is an error where the bytes are damaged.
    pub fn iter(&self) -> RawObjectIter<'a> {
        RawObjectIter { body: self.body, left: self.count, previous: None }
    }

    /// The member named `key`. The members before it are stepped over one by one.
    ///
    /// # Errors
    /// [`ValueError::Corrupt`] when the bytes are damaged before that member or in it.
    pub fn get(&self, key: &str) -> Result<Option<ValueRef<'a>>, ValueError> {
        for member in self {
            let (name, value) = member?;
            match name.cmp(key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(Some(value)),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }
}

impl<'a> IntoIterator for &RawArray<'a> {
    type Item = Result<ValueRef<'a>, ValueError>;
    type IntoIter = RawArrayIter<'a>;

    fn into_iter(self) -> RawArrayIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &RawObject<'a> {
    type Item = Result<(&'a str, ValueRef<'a>), ValueError>;
    type IntoIter = RawObjectIter<'a>;

    fn into_iter(self) -> RawObjectIter<'a> {
        self.iter()
    }
}

impl<'a> Iterator for RawArrayIter<'a> {
    type Item = Result<ValueRef<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let last = self.left == 0;
        let element = self.body.value().and_then(|element| {
            if last {
                self.body.end()?;
            }
            Ok(element)
        });
        if element.is_err() {
            self.left = 0;
        }
        Some(element)
    }
}

impl<'a> Iterator for RawObjectIter<'a> {
    type Item = Result<(&'a str, ValueRef<'a>), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let member = self.member();
        if member.is_err() {
            self.left = 0;
        }
        Some(member)
    }
}

impl<'a> RawObjectIter<'a> {
    fn member(&mut self) -> Result<(&'a str, ValueRef<'a>), ValueError> {
        let position = self.body.position;
        let key = self.body.text()?;
        if self.previous.is_some_and(|previous| previous >= key) {
            return Err(ValueError::Corrupt { position, what: "the keys of an object are out of order" });
        }
        self.previous = Some(key);
        let value = self.body.value()?;
        if self.left == 0 {
            self.body.end()?;
        }
        Ok((key, value))
    }
}

/// What is left to read, and where it stands in the whole value.
#[derive(Debug, Clone, Copy)]
struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn corrupt<T>(&self, what: &'static str) -> Result<T, ValueError> {
        Err(ValueError::Corrupt { position: self.position, what })
    }

    fn end(&self) -> Result<(), ValueError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.corrupt("there are bytes after the end")
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], ValueError> {
        let Some((taken, rest)) = self.bytes.split_at_checked(len) else {
            return self.corrupt("the bytes end too early");
        };
        self.bytes = rest;
        self.position += len;
        Ok(taken)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let Some((taken, rest)) = self.bytes.split_first_chunk::<N>() else {
            return self.corrupt("the bytes end too early");
        };
        self.bytes = rest;
        self.position += N;
        Ok(*taken)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ValueError> {
        let mut len = 0;
        let number = match varint::get(self.bytes, &mut len) {
            Ok(number) => number,
            Err(VarintError::Short) => return self.corrupt("the bytes end too early"),
            Err(VarintError::Large) => return self.corrupt("a number has more than 64 bits"),
        };
        if len > varint::len(number) {
            return self.corrupt("a number is longer than it needs to be");
        }
        self.bytes = &self.bytes[len..];
        self.position += len;
        Ok(number)
    }

    #[inline]
    fn run(&mut self) -> Result<&'a [u8], ValueError> {
        let len = self.varint()?;
        if len > MAX_STRING_BYTES as u64 {
            return self.corrupt("a length is over the limit");
        }
        self.take(len as usize)
    }

    #[inline]
    fn text(&mut self) -> Result<&'a str, ValueError> {
        let bytes = self.run()?;
        std::str::from_utf8(bytes).or_else(|_| self.corrupt("the text before is not UTF-8"))
    }

    /// The body and the count of an array or object, which this steps over.
    fn body(&mut self) -> Result<(Cursor<'a>, usize), ValueError> {
        let len = u32::from_le_bytes(self.fixed()?) as usize;
        let mut body = Cursor { position: self.position, bytes: self.take(len)? };
        let count = body.varint()?;
        // An element takes a byte at least.
        if count > MAX_ELEMENTS as u64 || count > body.bytes.len() as u64 {
            return body.corrupt("a count is more than there can be");
        }
        if count == 0 {
            body.end()?;
        }
        Ok((body, count as usize))
    }

    #[inline]
    fn value(&mut self) -> Result<ValueRef<'a>, ValueError> {
        let [tag] = self.fixed()?;
        Ok(match tag {
            NULL => ValueRef::Null,
            FALSE => ValueRef::Bool(false),
            TRUE => ValueRef::Bool(true),
            INT => {
                let number = self.varint()?;
                ValueRef::Int((number >> 1) as i64 ^ -((number & 1) as i64))
            }
            FLOAT => ValueRef::Float(f64::from_bits(u64::from_le_bytes(self.fixed()?))),
            STRING => ValueRef::Str(self.text()?),
            BYTES => ValueRef::Bytes(self.run()?),
            ARRAY => {
                let (body, count) = self.body()?;
                ValueRef::Array(RawArray { body, count })
            }
            OBJECT => {
                let (body, count) = self.body()?;
                ValueRef::Object(RawObject { body, count })
            }
            _ => return self.corrupt("the byte before is no known kind of value"),
        })
    }
}
