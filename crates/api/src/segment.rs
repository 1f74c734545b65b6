//! Names in request paths: any name fits into one segment, because what would end it is escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// Appends a name as one segment of a path.
pub fn escape(name: &str, path: &mut String) {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(char::from(byte));
        } else {
            write!(path, "%{byte:02X}").expect("a string takes what is written to it");
        }
    }
}

/// The text of one segment. `None`: its escapes are broken, or do not make UTF-8.
pub fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut plain = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
        plain.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
        rest = rest.get(2..)?;
    }
    String::from_utf8(plain).ok().map(Cow::Owned)
}

#[cfg(test)]
#[path = "../tests/unit/segments.rs"]
mod tests;
