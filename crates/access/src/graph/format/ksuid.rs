//! Ids of syncs: KSUIDs, 20 bytes of which 4 are the second and 16 are random, as 27 characters that sort by time.

use duramen_base::{clock, entropy};

/// Seconds of 1970 time at which KSUIDs begin to count.
const EPOCH: i64 = 1_400_000_000;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How many characters one has.
pub(crate) const LEN: usize = 27;

/// A new one, of this second.
pub(crate) fn new() -> String {
    let seconds = clock::unix_ms().div_euclid(1000).saturating_sub(EPOCH).clamp(0, i64::from(u32::MAX));
    encode(seconds as u32, entropy::random_bytes())
}

/// The text of a time and random bytes.
pub(crate) fn encode(seconds: u32, random: [u8; 16]) -> String {
    let mut digits = [0_u8; 20];
    digits[..4].copy_from_slice(&seconds.to_be_bytes());
    digits[4..].copy_from_slice(&random);
    let mut text = [b'0'; LEN];
    // Division by hand: 160 bits are more than any integer has.
    for place in text.iter_mut().rev() {
        let mut rest = 0_u32;
        for digit in &mut digits {
            let value = rest << 8 | u32::from(*digit);
            *digit = (value / 62) as u8;
            rest = value % 62;
        }
        *place = ALPHABET[rest as usize];
    }
    text.iter().map(|byte| char::from(*byte)).collect()
}

/// The second in an id, as seconds since 1970-01-01T00:00:00Z; none if it is no id, or one that no clock made.
pub(crate) fn second_of(text: &str) -> Option<i64> {
    if !is_one(text) {
        return None;
    }
    let mut bytes = [0_u8; 20];
    for letter in text.bytes() {
        let mut carry = ALPHABET.iter().position(|each| *each == letter)? as u32;
        for byte in bytes.iter_mut().rev() {
            carry += u32::from(*byte) * 62;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return None;
        }
    }
    let [a, b, c, d, ..] = bytes;
    Some(EPOCH + i64::from(u32::from_be_bytes([a, b, c, d])))
}

/// Whether a text has the form of one.
pub(crate) fn is_one(text: &str) -> bool {
    text.len() == LEN && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::{encode, is_one, new, second_of, EPOCH};

    #[test]
    fn the_published_example_comes_out() {
        let random = u128::from_str_radix("B5A1CD34B5F99D1154FB6853345C9735", 16).unwrap();
        assert_eq!(encode(107_608_047, random.to_be_bytes()), "0ujtsYcgvSTl8PAuAdqWYSMnLOv");
        assert_eq!(second_of("0ujtsYcgvSTl8PAuAdqWYSMnLOv"), Some(EPOCH + 107_608_047));
        assert_eq!(second_of(&"z".repeat(27)), None);
        assert_eq!(second_of("aWgEPTl1tmebfsQzFP4bxwgy80V"), Some(EPOCH + i64::from(u32::MAX)));
        assert_eq!(encode(0, [0; 16]), "0".repeat(27));
        assert_eq!(encode(u32::MAX, [0xff; 16]), "aWgEPTl1tmebfsQzFP4bxwgy80V");
    }

    #[test]
    fn new_ones_differ_and_have_the_form() {
        let (a, b) = (new(), new());
        assert_ne!(a, b);
        assert!(is_one(&a) && is_one(&b));
        assert!(!is_one("short") && !is_one(&"!".repeat(27)));
    }
}
