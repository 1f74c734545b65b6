//! Values that stand for others: the same one for the same value, and no way back without the key.
//!
//! Texts, bytes and UUIDs become (part of) their HMAC-SHA-256. Integers are permuted, so that keys stay keys: a Feistel
//! network over 16, 32 or 64 bits whose round function is that HMAC, walked until it is back among the integers of the
//! same sign. A sign stays, because keys are positive and constraints say so.

use super::class::Class;
use duramen_postgres::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Rounds of the network. Luby and Rackoff need four; small halves are given more.
const ROUNDS: u8 = 10;
/// Hexadecimal digits of a text: 128 bits, where the column is wide enough.
const TEXT_DIGITS: usize = 32;

/// Bytes of what is drawn from that are put together before.
const SHORT: usize = 256;
/// Bytes of the length of a part.
const LENGTH: usize = 4;

/// What is drawn for values of one source, by its key.
#[derive(Clone)]
pub(super) struct Pseudonyms {
    hash: Hmac<Sha256>,
    /// For all that is not a hash: faster, and as long as is asked for.
    draw: [u8; 32],
}

impl Pseudonyms {
    pub(super) fn new(key: &Secret) -> Pseudonyms {
        let keyed = Hmac::new_from_slice(key.expose().as_bytes());
        Pseudonyms {
            hash: keyed.expect("HMAC takes a key of any length"),
            draw: blake3::derive_key("duramen 2026 what masked values are drawn by", key.expose().as_bytes()),
        }
    }

    /// Fills `out` with what follows from the key and the parts, and tells nothing about either. `domain` keeps what is drawn
    /// for one purpose apart from what is drawn for another.
    pub(super) fn fill(&self, domain: &str, parts: &[&[u8]], out: &mut [u8]) {
        // With their lengths, so that no two lists of parts are one text. In one piece, if it is short, as nearly all are: many
        // small ones take twice the time, and so does a longer output than there is need for.
        let (mut text, mut length) = ([0_u8; SHORT], 0);
        let whole = std::iter::once(domain.as_bytes()).chain(parts.iter().copied());
        let is_short = out.len() <= blake3::OUT_LEN
            && whole.clone().map(|part| part.len() + LENGTH).sum::<usize>() <= SHORT;
        if is_short {
            for part in whole {
                text[length..length + LENGTH].copy_from_slice(&(part.len() as u64).to_le_bytes()[..LENGTH]);
                text[length + LENGTH..length + LENGTH + part.len()].copy_from_slice(part);
                length += LENGTH + part.len();
            }
            let drawn = blake3::keyed_hash(&self.draw, &text[..length]);
            out.copy_from_slice(&drawn.as_bytes()[..out.len()]);
        } else {
            let mut hasher = blake3::Hasher::new_keyed(&self.draw);
            for part in whole {
                hasher.update(&(part.len() as u64).to_le_bytes()[..LENGTH]);
                hasher.update(part);
            }
            hasher.finalize_xof().fill(out);
        }
    }

    /// A number that follows from the key and the parts.
    pub(super) fn number(&self, domain: &str, parts: &[&[u8]]) -> u128 {
        let mut out = [0; 16];
        self.fill(domain, parts, &mut out);
        u128::from_le_bytes(out)
    }

    fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.hash.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    /// What stands for a value, both in the binary form in which a server sends and takes them. `None` for bytes that are
    /// no value of the class.
    pub(super) fn of(&self, class: Class, value: &[u8]) -> Option<Vec<u8>> {
        Some(match class {
            Class::Text(limit) => {
                let digits = limit.map_or(TEXT_DIGITS, |limit| TEXT_DIGITS.min(limit as usize));
                hexadecimal(&self.tag(&[b"text:", value]), digits)
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
            _ => return None,
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

/// The first so many hexadecimal digits of bytes.
fn hexadecimal(bytes: &[u8], digits: usize) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let both = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(both).take(digits).collect()
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

    /// B38: what is drawn of a value is the same whichever way it is drawn, and whichever version draws it: a generation is masked as
    /// the one before it was.
    #[test]
    fn what_is_drawn_follows_from_the_parts_alone() {
        let pseudonyms = pseudonyms(1);
        for length in [0, 1, 60, 200, SHORT - 40, SHORT, SHORT + 1, 2000] {
            let part = vec![7_u8; length];
            let mut hasher = blake3::Hasher::new_keyed(&pseudonyms.draw);
            for part in [&b"a test"[..], &part, b"\x01"] {
                hasher.update(&u32::try_from(part.len()).expect("short").to_le_bytes());
                hasher.update(part);
            }
            let mut expected = [0; 100];
            hasher.finalize_xof().fill(&mut expected);
            for wanted in [0, 1, 16, 31, 32, 33, 100] {
                let mut found = vec![0; wanted];
                pseudonyms.fill("a test", &[&part, b"\x01"], &mut found);
                assert_eq!(found, expected[..wanted], "{length} bytes, {wanted} drawn");
            }
        }
    }
}
