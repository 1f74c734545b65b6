//! Values that stand for others: the same one for the same value, and no way back without the key.
//!
//! Texts, bytes and UUIDs become (part of) their HMAC-SHA-256. Integers are permuted, so that keys stay keys: a Feistel
//! network over 16, 32 or 64 bits whose round function is that HMAC, walked until it is back among the integers of the
//! same sign. A sign stays, because keys are positive and constraints say so.

use duramen_postgres::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Rounds of the network. Luby and Rackoff need four; small halves are given more.
const ROUNDS: u8 = 10;
/// Hexadecimal digits of a text: 128 bits, where the column is wide enough.
const TEXT_DIGITS: usize = 32;

/// What a hash makes of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Text of at most so many characters.
    Text(Option<u32>),
    Int2,
    Int4,
    Int8,
    Uuid,
    Bytes,
}

/// The types that can be hashed, in words.
pub(super) const HASHABLE: &str =
    "text, varchar, char, smallint, integer, bigint, uuid, bytea, and domains over them";

impl Class {
    /// That of a built-in type, by its id and modifier.
    pub(super) fn of(type_id: u32, modifier: i32) -> Option<Class> {
        Some(match type_id {
            // Modifiers of character types count four bytes more than characters.
            25 | 1042 | 1043 => Class::Text(u32::try_from(modifier - 4).ok()),
            21 => Class::Int2,
            23 => Class::Int4,
            20 => Class::Int8,
            2950 => Class::Uuid,
            17 => Class::Bytes,
            _ => return None,
        })
    }

    /// The built-in type in which hashed values are kept until they are in their column.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Class::Text(_) => "pg_catalog.text",
            Class::Int2 => "pg_catalog.int2",
            Class::Int4 => "pg_catalog.int4",
            Class::Int8 => "pg_catalog.int8",
            Class::Uuid => "pg_catalog.uuid",
            Class::Bytes => "pg_catalog.bytea",
        }
    }

    /// What is read of a column of the class: text as the bytes that it has in its database, whatever they are.
    pub(super) fn reading(self, column: &str) -> String {
        match self {
            Class::Text(_) => {
                format!("pg_catalog.convert_to({column}::pg_catalog.text, pg_catalog.getdatabaseencoding())")
            }
            _ => format!("{column}::{}", self.type_name()),
        }
    }
}

/// The hash of one source.
#[derive(Clone)]
pub(super) struct Pseudonyms(Hmac<Sha256>);

impl Pseudonyms {
    pub(super) fn new(key: &Secret) -> Pseudonyms {
        let keyed = Hmac::new_from_slice(key.expose().as_bytes());
        Pseudonyms(keyed.expect("HMAC takes a key of any length"))
    }

    fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    /// What stands for a value, both in the binary form in which a server sends and takes them. `None` for bytes that are
    /// no value of the class.
    pub(super) fn of(&self, class: Class, value: &[u8]) -> Option<Vec<u8>> {
        Some(match class {
            Class::Text(limit) => {
                let digits = limit.map_or(TEXT_DIGITS, |limit| TEXT_DIGITS.min(limit as usize));
                let hex: String =
                    self.tag(&[b"text:", value]).iter().map(|byte| format!("{byte:02x}")).collect();
                hex.as_bytes()[..digits].to_vec()
            }
            Class::Bytes => self.tag(&[b"bytea:", value]).to_vec(),
            Class::Uuid => {
                let mut uuid: [u8; 16] = self.tag(&[b"uuid:", value])[..16].try_into().ok()?;
                // Version 8, whose bits mean nothing (RFC 9562).
                uuid[6] = uuid[6] & 0x0f | 0x80;
                uuid[8] = uuid[8] & 0x3f | 0x80;
                uuid.to_vec()
            }
            Class::Int2 => {
                let value = i16::from_be_bytes(value.try_into().ok()?);
                let mapped = self.signed(16, value.into());
                i16::try_from(mapped).ok()?.to_be_bytes().to_vec()
            }
            Class::Int4 => {
                let value = i32::from_be_bytes(value.try_into().ok()?);
                let mapped = self.signed(32, value.into());
                i32::try_from(mapped).ok()?.to_be_bytes().to_vec()
            }
            Class::Int8 => {
                let value = i64::from_be_bytes(value.try_into().ok()?);
                self.signed(64, value).to_be_bytes().to_vec()
            }
        })
    }

    /// A permutation of the integers of so many bits that keeps signs.
    fn signed(&self, bits: u32, value: i64) -> i64 {
        let magnitude = if value < 0 { !value } else { value };
        let top = 1_u64 << (bits - 1);
        let mut walked = magnitude.unsigned_abs();
        loop {
            walked = self.network(bits, walked);
            if walked < top {
                // Below 2^63, so it is one.
                let mapped = i64::try_from(walked).unwrap_or(i64::MAX);
                return if value < 0 { !mapped } else { mapped };
            }
        }
    }

    fn network(&self, bits: u32, value: u64) -> u64 {
        let half = bits / 2;
        let mask = (1_u64 << half) - 1;
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 0..ROUNDS {
            let tag = self.tag(&[b"integer:", &bits.to_be_bytes(), &[round], &right.to_be_bytes()]);
            let mut word = [0; 8];
            word.copy_from_slice(&tag[..8]);
            (left, right) = (right, left ^ (u64::from_be_bytes(word) & mask));
        }
        left << half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn pseudonyms(seed: u8) -> Pseudonyms {
        Pseudonyms::new(&Secret::derived(&[seed; 32], "a test"))
    }

    /// B38: what would make a key no key is that two of its values become one.
    #[test]
    fn smallints_are_permuted_and_keep_their_sign() {
        let pseudonyms = pseudonyms(1);
        let mut seen = HashSet::new();
        let mut same = 0;
        for value in (i16::MIN..=i16::MAX).step_by(3) {
            let mapped = pseudonyms.of(Class::Int2, &value.to_be_bytes()).expect("an integer");
            let mapped = i16::from_be_bytes(mapped.try_into().expect("two bytes"));
            assert_eq!(value < 0, mapped < 0, "{value} became {mapped}");
            assert!(seen.insert(mapped), "{mapped} stands for two values");
            same += u32::from(mapped == value);
        }
        assert!(same < 20, "{same} values stand for themselves");
    }

    #[test]
    fn equal_values_stay_equal_under_one_key_alone() {
        let (one, other) = (pseudonyms(1), pseudonyms(2));
        for (class, value) in [
            (Class::Text(None), &b"anna@example.org"[..]),
            (Class::Int4, &7_i32.to_be_bytes()[..]),
            (Class::Int8, &(-7_i64).to_be_bytes()[..]),
            (Class::Uuid, &[9; 16][..]),
            (Class::Bytes, &[1, 2, 3][..]),
        ] {
            let masked = one.of(class, value).expect("a value");
            assert_eq!(Some(&masked), one.of(class, value).as_ref());
            assert_ne!(Some(&masked), other.of(class, value).as_ref());
            assert_ne!(masked, value);
        }
        let wide = one.of(Class::Text(None), b"x").expect("text");
        let narrow = one.of(Class::Text(Some(5)), b"x").expect("text");
        assert_eq!((wide.len(), &wide[..5]), (TEXT_DIGITS, &narrow[..]));
        assert_eq!(one.of(Class::Int4, b"no"), None, "two bytes are no integer");
    }
}
