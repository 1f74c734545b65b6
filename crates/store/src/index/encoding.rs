//! Values as bytes whose order is that of the values.
//!
//! ```text
//! missing 1 | null 2 | false 3 | true 4
//! number  5, f64 (big-endian, order-preserving), u16 (big-endian): what an integer is above that float
//! text    6, its bytes with 0 written as 0 255, then 0 0
//! other   7, the first 16 bytes of a hash: arrays and objects are equal or not, and in no order that means something
//! ```
//!
//! None is the beginning of another, so several can follow each other, and a key can follow them.

use serde_json::{Number, Value};

const MISSING: u8 = 1;
const NULL: u8 = 2;
const FALSE: u8 = 3;
const TRUE: u8 = 4;
pub(super) const NUMBER: u8 = 5;
pub(super) const TEXT: u8 = 6;
const OTHER: u8 = 7;

/// Bytes of the hash of an array or object.
const HASH: usize = 16;

/// Appends a value; none for a field that is missing.
pub(super) fn encode(value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        None => out.push(MISSING),
        Some(Value::Null) => out.push(NULL),
        Some(Value::Bool(false)) => out.push(FALSE),
        Some(Value::Bool(true)) => out.push(TRUE),
        Some(Value::Number(number)) => {
            out.push(NUMBER);
            out.extend_from_slice(&number_bytes(number));
        }
        Some(Value::String(text)) => {
            out.push(TEXT);
            for part in text.as_bytes().split_inclusive(|byte| *byte == 0) {
                out.extend_from_slice(part);
                if part.ends_with(&[0]) {
                    out.push(u8::MAX);
                }
            }
            out.extend_from_slice(&[0, 0]);
        }
        Some(list @ (Value::Array(_) | Value::Object(_))) => {
            let mut hasher = blake3::Hasher::new();
            hash(list, &mut hasher);
            out.push(OTHER);
            out.extend_from_slice(&hasher.finalize().as_bytes()[..HASH]);
        }
    }
}

/// Equal values hash alike, whatever the notation of their numbers and the order of their members.
fn hash(value: &Value, hasher: &mut blake3::Hasher) {
    match value {
        Value::Array(elements) => {
            hasher.update(b"[").update(&(elements.len() as u64).to_le_bytes());
            elements.iter().for_each(|element| hash(element, hasher));
        }
        Value::Object(members) => {
            hasher.update(b"{").update(&(members.len() as u64).to_le_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            for (key, member) in members {
                hasher.update(&(key.len() as u64).to_le_bytes()).update(key.as_bytes());
                hash(member, hasher);
            }
        }
        scalar => {
            let mut bytes = Vec::new();
            encode(Some(scalar), &mut bytes);
            hasher.update(&bytes);
        }
    }
}

/// A number as the greatest float that is not above it, and what an integer is above that.
fn number_bytes(number: &Number) -> [u8; 10] {
    let (float, above) = match number.as_i128() {
        Some(integer) => {
            let mut float = integer as f64;
            if float as i128 > integer {
                float = float.next_down();
            }
            // Integers of 64 bits are less than 2^11 above the float.
            (float, (integer - float as i128) as u16)
        }
        None => (number.as_f64().unwrap_or_default(), 0),
    };
    // Zero has two signs and is one number. A set sign turns the order of all other bits.
    let bits = if float == 0.0 { 0 } else { float.to_bits() };
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&ordered.to_be_bytes());
    bytes[8..].copy_from_slice(&above.to_be_bytes());
    bytes
}

/// Steps over a value. Returns what follows it and whether it is null or missing; none if the bytes are no value.
pub(super) fn skip(bytes: &[u8]) -> Option<(&[u8], bool)> {
    let (tag, rest) = bytes.split_first()?;
    let rest = match *tag {
        MISSING | NULL | FALSE | TRUE => rest,
        NUMBER => rest.get(10..)?,
        OTHER => rest.get(HASH..)?,
        TEXT => {
            let mut at = 0;
            loop {
                at += rest.get(at..)?.iter().position(|byte| *byte == 0)?;
                match rest.get(at + 1)? {
                    0 => break rest.get(at + 2..)?,
                    _ => at += 2,
                }
            }
        }
        _ => return None,
    };
    Some((rest, matches!(*tag, MISSING | NULL)))
}

#[cfg(test)]
#[path = "../../tests/unit/index_encoding.rs"]
mod tests;
