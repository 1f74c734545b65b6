//! Reading and changing a document in its stored text, by byte ranges.
//!
//! A stored text is canonical: without white space, as `serde_json` writes it, keys in the order in which they came,
//! none twice. A change at a path is a [`Splice`]; the rest of the text is neither parsed nor rewritten.

use std::io::{self, Write};
use std::ops::Range;

use serde_json::Value;

use super::error::JsonError;
use super::path::{key_as_index, Path, Place, Segment};
use super::scan::{kind, Parts};

/// The most bytes of one document's text: 16 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 16 << 20;
/// The most arrays and objects that may stand inside one another in a document. A scalar has none, `[1]` has one.
pub const MAX_DOCUMENT_DEPTH: usize = 100;
/// The most elements of one array in a document: a million.
pub const MAX_DOCUMENT_ARRAY: usize = 1_000_000;

/// A change of a text: at offset `at`, take `remove` bytes out and put `insert` there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    /// The offset in bytes.
    pub(crate) at: usize,
    /// How many bytes go.
    pub(crate) remove: usize,
    /// The bytes that come.
    pub(crate) insert: Vec<u8>,
}

impl Splice {
    /// The text after the change.
    #[cfg(test)]
    pub(crate) fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut changed = Vec::with_capacity(text.len() - self.remove + self.insert.len());
        changed.extend_from_slice(&text[..self.at]);
        changed.extend_from_slice(&self.insert);
        changed.extend_from_slice(&text[self.at + self.remove..]);
        changed
    }
}

/// What a document is to hold at a path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewValue<'a> {
    /// A parsed value.
    Value(&'a Value),
    /// A text that is canonical already.
    Text(&'a str),
}

impl<'a> From<&'a Value> for NewValue<'a> {
    fn from(value: &'a Value) -> Self {
        NewValue::Value(value)
    }
}

/// Where a path leads in a text.
enum Target {
    /// To a value.
    Found {
        /// The first byte of its key or, without one, of the value.
        start: usize,
        /// The first byte of the value.
        value: usize,
        /// The first byte after the value.
        end: usize,
    },
    /// To an object or array that lacks the part which the segment number `segment` names.
    Missing {
        segment: usize,
        /// The closing bracket.
        close: usize,
        object: bool,
        /// How many parts there are.
        len: usize,
    },
    /// To a value that has no such parts.
    Blocked { segment: usize, found: &'static str, expected: &'static str },
}

/// What a segment asks of an array.
enum Element {
    At(usize),
    /// The place after the last element.
    Next,
}

fn element(segment: &Segment) -> Option<Element> {
    match segment {
        Segment::Index(index) => Some(Element::At(*index)),
        Segment::Key(key) if key == "-" => Some(Element::Next),
        Segment::Key(key) => key_as_index(key).map(Element::At),
    }
}

fn walk(text: &[u8], path: &Path) -> Result<Target, JsonError> {
    let segments = path.segments();
    let (mut start, mut value) = (0, 0);
    let mut parent = None;
    for (segment, step) in segments.iter().enumerate() {
        let blocked = |expected| Target::Blocked { segment, found: kind(text, value), expected };
        let Some(mut parts) = Parts::begin_at(text, value) else {
            return Ok(match step {
                Segment::Key(_) => blocked("an object"),
                Segment::Index(_) => blocked("an array"),
            });
        };
        let object = parts.is_object();
        let mut len = 0;
        let found = if object {
            let Segment::Key(key) = step else { return Ok(blocked("an array")) };
            loop {
                let Some((raw, at)) = parts.head()? else { break None };
                if raw.is_some_and(|raw| raw.is(key)) {
                    break Some(at);
                }
                parts.step_over(at)?;
                len += 1;
            }
        } else {
            let Some(element) = element(step) else { return Ok(blocked("an object")) };
            loop {
                let Some((_, at)) = parts.head()? else { break None };
                if matches!(element, Element::At(index) if index == len) {
                    break Some(at);
                }
                parts.step_over(at)?;
                len += 1;
            }
        };
        let Some(at) = found else {
            return Ok(Target::Missing { segment, close: parts.position(), object, len });
        };
        (start, value) = (parts.position(), at);
        parent = Some(parts);
    }
    // The parent checks what follows the value; the whole document is not stepped over to find its end.
    let end = match parent {
        Some(mut parts) => parts.step_over(value)?,
        None => text.len(),
    };
    Ok(Target::Found { start, value, end })
}

/// The byte range of the value at `path`, or nothing if there is none.
///
/// # Errors
/// [`JsonError::Corrupt`] when the text is damaged on the way.
pub(crate) fn locate(text: &[u8], path: &Path) -> Result<Option<Range<usize>>, JsonError> {
    Ok(match walk(text, path)? {
        Target::Found { value, end, .. } => Some(value..end),
        Target::Missing { .. } | Target::Blocked { .. } => None,
    })
}

/// The change that makes the value at `path` be `new`, in a text that may not exist yet.
///
/// Members that are missing on the way are created as objects, or as arrays where an index follows. An index equal
/// to an array's length appends, and so does the key `-`.
///
/// # Errors
/// [`JsonError::WrongType`] when the path leads through a scalar or mistakes an object for an array or an array for an
/// object, [`JsonError::IndexOutOfRange`] beyond the end of an array, the limits' errors, and [`JsonError::Corrupt`].
pub(crate) fn set<'a>(
    text: Option<&[u8]>,
    path: &Path,
    new: impl Into<NewValue<'a>>,
) -> Result<Splice, JsonError> {
    let new = new.into();
    let segments = path.segments();
    check_depth(&new, segments.len())?;
    let Some(text) = text else {
        let mut insert = Vec::new();
        write_missing(segments, 0, &new, &mut insert)?;
        return checked(0, Splice { at: 0, remove: 0, insert });
    };
    let mut insert = Vec::with_capacity(64);
    let splice = match walk(text, path)? {
        Target::Found { value, end, .. } => {
            write_new(&new, &mut insert)?;
            Splice { at: value, remove: end - value, insert }
        }
        Target::Missing { segment, close, object, len } => {
            if len > 0 {
                insert.push(b',');
            }
            match (&segments[segment], object) {
                (Segment::Key(key), true) => write_key(key, &mut insert)?,
                (step, _) => match element(step) {
                    Some(Element::At(index)) if index > len => {
                        let place = Place(&segments[..segment]).to_string();
                        return Err(JsonError::IndexOutOfRange { place, index, len });
                    }
                    _ if len >= MAX_DOCUMENT_ARRAY => {
                        return Err(JsonError::ArrayTooLong { count: len + 1, max: MAX_DOCUMENT_ARRAY });
                    }
                    _ => {}
                },
            }
            write_missing(segments, segment + 1, &new, &mut insert)?;
            Splice { at: close, remove: 0, insert }
        }
        Target::Blocked { segment, found, expected } => {
            let place = Place(&segments[..segment]).to_string();
            return Err(JsonError::WrongType { place, found, expected });
        }
    };
    checked(text.len(), splice)
}

/// The change that takes the member or element at `path` out with its comma, or nothing if there is none.
///
/// # Errors
/// [`JsonError::Root`] when the path is the whole document, and [`JsonError::Corrupt`].
pub(crate) fn delete(text: &[u8], path: &Path) -> Result<Option<Splice>, JsonError> {
    if path.is_root() {
        return Err(JsonError::Root);
    }
    let Target::Found { start, end, .. } = walk(text, path)? else { return Ok(None) };
    let range = if text.get(end) == Some(&b',') {
        start..end + 1
    } else if text.get(start.wrapping_sub(1)) == Some(&b',') {
        start - 1..end
    } else {
        start..end
    };
    Ok(Some(Splice { at: range.start, remove: range.len(), insert: Vec::new() }))
}

/// Checks the limits of a whole document: [`MAX_DOCUMENT_DEPTH`], [`MAX_DOCUMENT_ARRAY`], [`MAX_DOCUMENT_BYTES`].
///
/// # Errors
/// The limit that is broken.
#[cfg(test)]
pub(crate) fn validate(value: &Value) -> Result<(), JsonError> {
    validate_shape(value, 0)?;
    write_value(value, &mut io::sink())
}

/// Writes a value as a whole document's text.
pub(super) fn to_text(value: &Value) -> Result<Vec<u8>, JsonError> {
    validate_shape(value, 0)?;
    let mut text = Vec::with_capacity(128);
    write_value(value, &mut text)?;
    Ok(text)
}

/// Checks a value that stands inside `depth` arrays and objects, but for its size.
pub(super) fn validate_shape(value: &Value, depth: usize) -> Result<(), JsonError> {
    match value {
        Value::Array(elements) => {
            check_level(depth)?;
            check_array(elements.len())?;
            elements.iter().try_for_each(|element| validate_shape(element, depth + 1))
        }
        Value::Object(members) => {
            check_level(depth)?;
            members.values().try_for_each(|member| validate_shape(member, depth + 1))
        }
        _ => Ok(()),
    }
}

/// Refuses an array or object that stands inside `depth` others.
pub(super) fn check_level(depth: usize) -> Result<(), JsonError> {
    if depth >= MAX_DOCUMENT_DEPTH {
        return Err(JsonError::TooDeep { max: MAX_DOCUMENT_DEPTH });
    }
    Ok(())
}

/// Refuses an array of that many elements.
pub(super) fn check_array(count: usize) -> Result<(), JsonError> {
    if count > MAX_DOCUMENT_ARRAY {
        return Err(JsonError::ArrayTooLong { count, max: MAX_DOCUMENT_ARRAY });
    }
    Ok(())
}

/// Refuses a document of that many bytes.
pub(super) fn check_size(len: usize) -> Result<(), JsonError> {
    if len > MAX_DOCUMENT_BYTES {
        return Err(JsonError::TooLarge { len, max: MAX_DOCUMENT_BYTES });
    }
    Ok(())
}

/// Appends a key in quotes and its colon.
pub(super) fn write_key(key: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    serde_json::to_writer(&mut *out, key).map_err(syntax)?;
    out.push(b':');
    Ok(())
}

/// Writes a value, but no more bytes than a document may have.
pub(super) fn write_value(value: &Value, out: &mut impl Write) -> Result<(), JsonError> {
    let mut out = Limited { out, written: 0 };
    serde_json::to_writer(&mut out, value).or_else(|error| {
        check_size(out.written)?;
        Err(syntax(error))
    })
}

pub(super) fn syntax(error: serde_json::Error) -> JsonError {
    JsonError::Syntax { reason: error.to_string() }
}

/// Passes on what is written as long as it is within the size of a document.
struct Limited<'a, W> {
    out: &'a mut W,
    written: usize,
}

impl<W: Write> Write for Limited<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        if self.written > MAX_DOCUMENT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Refuses a change that makes the text of `len` bytes too long.
fn checked(len: usize, splice: Splice) -> Result<Splice, JsonError> {
    check_size(len - splice.remove + splice.insert.len())?;
    Ok(splice)
}

/// Refuses a new value that has too many levels for a place inside of `depth` arrays and objects.
fn check_depth(new: &NewValue<'_>, depth: usize) -> Result<(), JsonError> {
    if depth > MAX_DOCUMENT_DEPTH {
        return Err(JsonError::TooDeep { max: MAX_DOCUMENT_DEPTH });
    }
    match new {
        NewValue::Value(value) => validate_shape(value, depth),
        // At the root, where it has been checked already, nothing is gained by another count.
        NewValue::Text(text) if depth > 0 && levels(text) + depth > MAX_DOCUMENT_DEPTH => {
            Err(JsonError::TooDeep { max: MAX_DOCUMENT_DEPTH })
        }
        NewValue::Text(_) => Ok(()),
    }
}

/// How many arrays and objects stand inside one another in a canonical text.
fn levels(text: &str) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    let mut in_text = false;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                bytes.next();
            }
            b'{' | b'[' if !in_text => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' if !in_text => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn write_new(new: &NewValue<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    match new {
        NewValue::Value(value) => write_value(value, out),
        NewValue::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
}

/// Writes the new value and around it what the segments from number `from` on create.
fn write_missing(
    segments: &[Segment],
    from: usize,
    new: &NewValue<'_>,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    let created = &segments[from..];
    for (number, step) in created.iter().enumerate() {
        match step {
            Segment::Key(key) => {
                out.push(b'{');
                write_key(key, out)?;
            }
            Segment::Index(0) => out.push(b'['),
            Segment::Index(index) => {
                let place = Place(&segments[..from + number]).to_string();
                return Err(JsonError::IndexOutOfRange { place, index: *index, len: 0 });
            }
        }
    }
    write_new(new, out)?;
    out.extend(created.iter().rev().map(|step| match step {
        Segment::Key(_) => b'}',
        Segment::Index(_) => b']',
    }));
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/json_text.rs"]
mod tests;
