//! Bytes as padded base64 text.
//!
//! Source: RFC 4648, section 4. What is read is what would be written: no line breaks, all of the padding, and no bits
//! behind the last byte.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of some bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let is_there = place <= group.len();
            let digit = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if is_there { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The bytes of a text, or what is wrong with it.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return Err(format!("{} characters, without all of the padding", text.len()));
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (index, group) in digits.as_bytes().chunks(4).enumerate() {
        let mut bits = 0;
        for (place, digit) in group.iter().enumerate() {
            let value = value_of(*digit)
                .ok_or_else(|| format!("byte {} is not a digit of base64", index * 4 + place))?;
            bits |= value << (18 - 6 * place);
        }
        let count = group.len() * 6 / 8;
        if group.len() == 1 || bits & (0xFF_FFFF >> (8 * count)) != 0 {
            return Err(format!("bits are left over at byte {}", index * 4 + group.len() - 1));
        }
        bytes.extend(&bits.to_be_bytes()[1..=count]);
    }
    Ok(bytes)
}

fn value_of(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use base64::{engine::general_purpose::STANDARD, Engine};

    #[test]
    fn text_is_that_of_the_library() {
        let mut rng = fastrand::Rng::with_seed(64);
        for length in (0..100).chain([1_000, 100_001]) {
            let bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            let text = encode(&bytes);
            assert_eq!(text, STANDARD.encode(&bytes));
            assert_eq!(decode(&text), Ok(bytes));
        }
    }

    #[test]
    fn what_the_library_refuses_is_refused() {
        let mut rng = fastrand::Rng::with_seed(46);
        let characters = b"AZaz09+/=-_ \n\xc3";
        for _ in 0..200_000 {
            let text: Vec<u8> =
                (0..rng.usize(0..10)).map(|_| characters[rng.usize(..characters.len())]).collect();
            let text = String::from_utf8_lossy(&text);
            assert_eq!(decode(&text).ok(), STANDARD.decode(text.as_bytes()).ok(), "{text:?}");
        }
    }
}
