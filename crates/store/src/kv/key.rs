//! Keys of pairs: bytes, in the order of the bytes.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::StoreError;

/// What a pair can be found by: bytes, compared one by one. Text is its UTF-8; a `u64` is eight bytes, the highest first,
/// so that keys lie in the order of the numbers.
pub trait AsKey {
    /// The bytes, or how to get at them.
    type Bytes<'k>: AsRef<[u8]>
    where
        Self: 'k;

    /// The key.
    fn as_key(&self) -> Self::Bytes<'_>;
}

macro_rules! borrowed {
    ($($kind:ty),*) => {$(
        impl AsKey for $kind {
            type Bytes<'k> = &'k [u8];

            #[inline]
            fn as_key(&self) -> &[u8] {
                self.as_ref()
            }
        }
    )*};
}

borrowed!(str, String, [u8], Vec<u8>, Key);

impl<const N: usize> AsKey for [u8; N] {
    type Bytes<'k> = &'k [u8];

    #[inline]
    fn as_key(&self) -> &[u8] {
        self
    }
}

impl AsKey for u64 {
    type Bytes<'k> = [u8; 8];

    #[inline]
    fn as_key(&self) -> [u8; 8] {
        self.to_be_bytes()
    }
}

impl<K: AsKey + ?Sized> AsKey for &K {
    type Bytes<'k>
        = K::Bytes<'k>
    where
        Self: 'k;

    #[inline]
    fn as_key(&self) -> K::Bytes<'_> {
        (**self).as_key()
    }
}

/// A key that was read.
///
/// It is shown as text if it is text, and else as `0x` and its bytes. In JSON it is a string, or `{"hex": "00ff"}`.
///
/// ```
/// use duramen_store::kv::Key;
/// let key = Key::new("tree/oak");
/// assert_eq!(key, "tree/oak");
/// assert_eq!(key.as_text(), Some("tree/oak"));
/// let key = Key::new([0, 255]);
/// assert_eq!((key.as_text(), key.to_string().as_str()), (None, "0x00ff"));
/// assert_eq!(Key::new(7_u64).to_u64(), Some(7));
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key of its own, of one that is borrowed or a number.
    pub fn new(key: impl AsKey) -> Self {
        Self(key.as_key().as_ref().to_vec())
    }

    /// The key whose bytes are written as hexadecimal digits.
    ///
    /// # Errors
    /// [`StoreError::InvalidInput`] when it has other characters or an odd number of them.
    pub fn from_hex(digits: &str) -> Result<Self, StoreError> {
        let byte = |pair: &[u8]| {
            let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
            Some((digit(0)? * 16 + digit(1)?) as u8)
        };
        let bytes: Option<_> = digits.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Self).ok_or_else(|| {
            let reason = "it is not hexadecimal digits, two for each byte, as in 00ff".to_owned();
            StoreError::InvalidInput { what: "a key", reason }
        })
    }

    /// The key as text, if it is text without control characters other than white space.
    pub fn as_text(&self) -> Option<&str> {
        text_of(&self.0)
    }

    /// The number that [`AsKey`] writes as these bytes; none for a key of another length.
    pub fn to_u64(&self) -> Option<u64> {
        self.0.as_slice().try_into().ok().map(u64::from_be_bytes)
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Text that can be shown: bytes that are no UTF-8 or that steer a terminal are not.
fn text_of(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_shown = |c: char| !c.is_control() || c.is_whitespace();
    text.chars().all(is_shown).then_some(text)
}

/// A key as people read it.
pub(crate) fn display(bytes: &[u8]) -> Cow<'_, str> {
    match text_of(bytes) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(format!("0x{}", hex(bytes))),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&display(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_text() {
            Some(text) => fmt::Debug::fmt(text, f),
            None => fmt::Display::fmt(self, f),
        }
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_text() {
            Some(text) => serializer.serialize_str(text),
            None => Hex { hex: hex(&self.0) }.serialize(serializer),
        }
    }
}

impl<'d> Deserialize<'d> for Key {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a key is a string, or {\"hex\": \"00ff\"}")]
        enum Written {
            Text(String),
            Bytes(Hex),
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self(text.into_bytes())),
            Written::Bytes(Hex { hex }) => Self::from_hex(&hex).map_err(serde::de::Error::custom),
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<String> for Key {
    fn eq(&self, other: &String) -> bool {
        self.0 == other.as_bytes()
    }
}
