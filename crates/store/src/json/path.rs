//! Paths to a place in a JSON document.

use std::fmt;
use std::str::FromStr;

/// The most segments of one path.
pub const MAX_PATH_SEGMENTS: usize = 256;

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// The member of an object with this key. On an array, a key that is written like an index (`0`, `12`) is that
    /// index, because JSON pointers do not distinguish the two; `-` is the place after the last element.
    Key(String),
    /// The element of an array at this index, counted from 0.
    Index(usize),
}

/// A path to a place in a JSON document; without segments it is the whole document.
///
/// It is written as `$.a.b[0]`, where the `$` and the dot after it may be left out. Keys with other characters than
/// letters, digits, `_`, `-`, `$`, `@` and `:` are quoted: `$["odd key"]` or `$['odd key']`, with the escapes of JSON.
/// JSON pointers (RFC 6901) such as `/a/b/0` are understood too. Text that is empty is the whole document.
///
/// ```
/// use duramen_store::json::{Path, Segment};
///
/// let path: Path = "$.trees[0].name".parse()?;
/// assert_eq!(path.segments()[1], Segment::Index(0));
/// assert_eq!(path, Path::root().key("trees").index(0).key("name"));
/// assert_eq!(path.to_string(), "$.trees[0].name");
/// # Ok::<(), duramen_store::json::PathError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(Vec<Segment>);

/// Why a text is not a path. Positions are offsets in the text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A character stands where it cannot.
    #[error("the path has {found:?} at byte {position}; expected {expected}")]
    Unexpected {
        /// Where.
        position: usize,
        /// The character.
        found: char,
        /// What could stand there.
        expected: &'static str,
    },
    /// The path stops in the middle.
    #[error("the path ends at byte {position}; expected {expected}")]
    Incomplete {
        /// The length of the path.
        position: usize,
        /// What is missing.
        expected: &'static str,
    },
    /// An index counts from the end.
    #[error(
        "the path has a negative index at byte {position}; indexes count from 0, at the start of the array"
    )]
    NegativeIndex {
        /// Where.
        position: usize,
    },
    /// An index has a zero before it or is too large.
    #[error("the path has no valid index at byte {position}; write it without leading zeros, below 2^32")]
    BadIndex {
        /// Where.
        position: usize,
    },
    /// An escape sequence means nothing.
    #[error("the path has an unknown escape at byte {position}; use those of JSON in quotes, ~0 and ~1 in a pointer")]
    BadEscape {
        /// Where.
        position: usize,
    },
    /// The path has more than [`MAX_PATH_SEGMENTS`] segments.
    #[error("the path has more than {max} segments, from byte {position} on")]
    TooLong {
        /// Where the first one too many begins.
        position: usize,
        /// The limit.
        max: usize,
    },
}

impl Path {
    /// The whole document.
    pub fn root() -> Path {
        Path::default()
    }

    /// This path and one key more.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Path {
        self.0.push(Segment::Key(key.into()));
        self
    }

    /// This path and one index more.
    #[must_use]
    pub fn index(mut self, index: usize) -> Path {
        self.0.push(Segment::Index(index));
        self
    }

    /// The steps from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Whether this is the whole document.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<Segment>> for Path {
    fn from(segments: Vec<Segment>) -> Path {
        Path(segments)
    }
}

/// The first segments of a path, written as a path.
pub(super) struct Place<'a>(pub(super) &'a [Segment]);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for segment in self.0 {
            match segment {
                Segment::Key(key) if is_bare(key) => write!(f, ".{key}")?,
                Segment::Key(key) => write!(f, "[{}]", serde_json::Value::from(key.as_str()))?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Place(&self.0).fmt(f)
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Path, PathError> {
        if text.starts_with('/') {
            return pointer(text);
        }
        let mut parser = Parser { text, position: 0 };
        let mut segments = Vec::new();
        if !parser.skip('$') && parser.peek().is_some_and(|first| first != '[') {
            segments.push(Segment::Key(parser.name()?));
        }
        while let Some(next) = parser.peek() {
            check_count(&segments, parser.position)?;
            segments.push(match next {
                '.' => {
                    parser.position += 1;
                    Segment::Key(parser.name()?)
                }
                '[' => {
                    parser.position += 1;
                    parser.bracket()?
                }
                _ => return Err(parser.unexpected("a dot or a bracket; keys with other signs go in [\"\"]")),
            });
        }
        Ok(Path(segments))
    }
}

/// A key as an index, if it is written like one.
pub(super) fn key_as_index(key: &str) -> Option<usize> {
    let canonical = key == "0" || (!key.starts_with('0') && !key.is_empty());
    if canonical && key.bytes().all(|byte| byte.is_ascii_digit()) {
        return key.parse().ok();
    }
    None
}

fn is_bare_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@' | ':')
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(is_bare_char)
}

fn check_count(segments: &[Segment], position: usize) -> Result<(), PathError> {
    if segments.len() >= MAX_PATH_SEGMENTS {
        return Err(PathError::TooLong { position, max: MAX_PATH_SEGMENTS });
    }
    Ok(())
}

/// A JSON pointer, which begins with a slash.
fn pointer(text: &str) -> Result<Path, PathError> {
    let mut segments = Vec::new();
    let mut position = 1;
    for token in text[1..].split('/') {
        check_count(&segments, position)?;
        let mut key = String::with_capacity(token.len());
        let mut parts = token.split('~');
        key.push_str(parts.next().unwrap_or_default());
        let mut tilde = position + key.len();
        for part in parts {
            let sign = match part.as_bytes().first() {
                Some(b'0') => '~',
                Some(b'1') => '/',
                _ => return Err(PathError::BadEscape { position: tilde }),
            };
            key.push(sign);
            key.push_str(&part[1..]);
            tilde += 1 + part.len();
        }
        segments.push(Segment::Key(key));
        position += token.len() + 1;
    }
    Ok(Path(segments))
}

struct Parser<'a> {
    text: &'a str,
    /// Always at the border of a character.
    position: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn skip(&mut self, sign: char) -> bool {
        let there = self.peek() == Some(sign);
        if there {
            self.position += sign.len_utf8();
        }
        there
    }

    fn unexpected(&self, expected: &'static str) -> PathError {
        match self.peek() {
            Some(found) => PathError::Unexpected { position: self.position, found, expected },
            None => PathError::Incomplete { position: self.position, expected },
        }
    }

    fn name(&mut self) -> Result<String, PathError> {
        let rest = &self.text[self.position..];
        let len = rest.find(|c| !is_bare_char(c)).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.unexpected("a key; keys with other signs go in [\"\"]"));
        }
        self.position += len;
        Ok(rest[..len].to_owned())
    }

    /// What stands after an opening bracket, up to and with the closing one.
    fn bracket(&mut self) -> Result<Segment, PathError> {
        let segment = match self.peek() {
            Some(quote @ ('"' | '\'')) => Segment::Key(self.quoted(quote)?),
            Some('-') => return Err(PathError::NegativeIndex { position: self.position }),
            _ => Segment::Index(self.index()?),
        };
        if !self.skip(']') {
            return Err(self.unexpected("a closing bracket"));
        }
        Ok(segment)
    }

    fn index(&mut self) -> Result<usize, PathError> {
        let rest = &self.text[self.position..];
        let len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if len == 0 {
            return Err(self.unexpected("an index or a key in quotes"));
        }
        let index = key_as_index(&rest[..len]).filter(|index| u32::try_from(*index).is_ok());
        let index = index.ok_or(PathError::BadIndex { position: self.position })?;
        self.position += len;
        Ok(index)
    }

    fn quoted(&mut self, quote: char) -> Result<String, PathError> {
        self.position += 1;
        let mut key = String::new();
        loop {
            let start = self.position;
            let next = self.peek().ok_or_else(|| self.unexpected("a closing quote"))?;
            self.position += next.len_utf8();
            match next {
                _ if next == quote => return Ok(key),
                '\\' => {
                    let c = self.escape().ok_or(PathError::BadEscape { position: start })?;
                    key.push(c);
                }
                _ => key.push(next),
            }
        }
    }

    /// What an escape sequence means, after its backslash.
    fn escape(&mut self) -> Option<char> {
        let sign = self.peek()?;
        self.position += sign.len_utf8();
        Some(match sign {
            '"' | '\'' | '\\' | '/' => sign,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let mut units = vec![self.code_unit()?];
                // Half of a surrogate pair: the other one must follow.
                if (0xd800..0xdc00).contains(&units[0]) {
                    if !(self.skip('\\') && self.skip('u')) {
                        return None;
                    }
                    units.push(self.code_unit()?);
                }
                let mut characters = char::decode_utf16(units);
                let character = characters.next()?.ok()?;
                return characters.next().is_none().then_some(character);
            }
            _ => return None,
        })
    }

    fn code_unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.position..self.position + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.position += 4;
        u16::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/json_path.rs"]
mod tests;
