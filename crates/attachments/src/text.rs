//! Foreign bytes as text, so that nothing is lost and nothing of it acts: keys that can be read back, and values up to a limit.

use std::fmt::Write as _;
use std::ops::ControlFlow;

/// Whether a character is shown as itself: none that steers a terminal, breaks a line or turns the direction of writing.
fn is_plain(c: char) -> bool {
    !c.is_control() && !turns(c)
}

/// Whether a character is not seen and changes how others are: marks of direction, embeddings, joiners that are not seen, separators.
fn turns(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

/// Bytes as text: what is no plain UTF-8 is `\xNN`, byte by byte, and a backslash is `\\`.
///
/// ```
/// use duramen_attachments::text::{escaped, unescaped};
/// assert_eq!(escaped(b"user/\xc3\xa9\\\x00\xff"), "user/\u{e9}\\\\\\x00\\xff");
/// assert_eq!(unescaped("user/\u{e9}\\\\\\x00\\xff"), b"user/\xc3\xa9\\\x00\xff");
/// ```
#[must_use]
pub fn escaped(bytes: &[u8]) -> String {
    let mut cut = Cut::new(usize::MAX);
    let _ = cut.push_escaped(bytes);
    cut.text
}

/// The bytes that a text stands for. A backslash that begins no escape stands for itself, so that people can type what they see.
#[must_use]
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
        let code = || Some(digit(1)? * 16 + digit(2)?);
        match rest.first() {
            Some(b'\\') => {
                bytes.push(b'\\');
                rest = &rest[1..];
            }
            Some(b'x') => match code() {
                Some(code) => {
                    bytes.push(code as u8);
                    rest = &rest[3..];
                }
                None => bytes.push(b'\\'),
            },
            _ => bytes.push(b'\\'),
        }
    }
    bytes
}

/// A text of at most so many bytes.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) text: String,
    limit: usize,
    /// Whether something was left out.
    pub(crate) is_cut: bool,
}

impl Cut {
    pub(crate) fn new(limit: usize) -> Cut {
        Cut { text: String::new(), limit, is_cut: false }
    }

    /// Adds text as it is, if all of it has room. Nothing comes after what has none.
    pub(crate) fn push(&mut self, part: &str) -> ControlFlow<()> {
        if self.is_cut || self.text.len() + part.len() > self.limit {
            self.is_cut = true;
            return ControlFlow::Break(());
        }
        self.text.push_str(part);
        ControlFlow::Continue(())
    }

    pub(crate) fn push_display(&mut self, part: impl std::fmt::Display) -> ControlFlow<()> {
        self.push(&part.to_string())
    }

    /// Adds bytes as [`escaped`] writes them.
    pub(crate) fn push_escaped(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        for chunk in bytes.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '\\' {
                    self.push("\\\\")?;
                } else if is_plain(c) {
                    self.push(c.encode_utf8(&mut [0; 4]))?;
                } else {
                    self.push_bytes(c.encode_utf8(&mut [0; 4]).as_bytes())?;
                }
            }
            self.push_bytes(chunk.invalid())?;
        }
        ControlFlow::Continue(())
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        bytes.iter().try_for_each(|byte| self.push_display(format_args!("\\x{byte:02x}")))
    }

    /// Adds a text to be read by people: lines and tabs stay, other control characters are `\xNN`.
    pub(crate) fn push_prose(&mut self, text: &str) -> ControlFlow<()> {
        for c in text.chars() {
            if is_plain(c) || matches!(c, '\n' | '\t') {
                self.push(c.encode_utf8(&mut [0; 4]))?;
            } else {
                self.push_bytes(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Adds a string of JSON.
    pub(crate) fn push_json_string(&mut self, text: &str) -> ControlFlow<()> {
        self.push("\"")?;
        for c in text.chars() {
            match c {
                '"' => self.push("\\\"")?,
                '\\' => self.push("\\\\")?,
                '\n' => self.push("\\n")?,
                '\t' => self.push("\\t")?,
                c if is_plain(c) => self.push(c.encode_utf8(&mut [0; 4]))?,
                c => self.push_code(c)?,
            }
        }
        self.push("\"")
    }

    /// Adds JSON that is known to be some: in its strings alone stand characters that are not plain.
    pub(crate) fn push_json(&mut self, json: &str) -> ControlFlow<()> {
        for c in json.chars() {
            if is_plain(c) || matches!(c, '\n' | '\t' | '\r') {
                self.push(c.encode_utf8(&mut [0; 4]))?;
            } else {
                self.push_code(c)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn push_code(&mut self, c: char) -> ControlFlow<()> {
        let mut code = String::with_capacity(6);
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(code, "\\u{unit:04x}").expect("a string takes what is written to it");
        }
        self.push(&code)
    }
}

/// The beginning of a text of at most so many bytes, plain.
pub(crate) fn named(text: &str, limit: usize) -> String {
    let mut cut = Cut::new(limit);
    for c in text.chars() {
        let c = if is_plain(c) { c } else { '\u{fffd}' };
        if cut.push(c.encode_utf8(&mut [0; 4])).is_break() {
            break;
        }
    }
    cut.text
}

#[cfg(test)]
#[path = "../tests/unit/text.rs"]
mod tests;
