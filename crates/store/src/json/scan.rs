//! Stepping over stored JSON text without parsing it.
//!
//! The text is canonical: no white space, no key twice. It is trusted to be JSON, so what is only stepped over is not
//! checked; but whatever the bytes are, these functions end, do not panic, and stay within the text.

use std::borrow::Cow;
use std::ops::Range;

use super::error::JsonError;

/// An object's member or an array's element, as it stands in the text.
pub(super) struct Part<'a> {
    /// The key between its quotes, escapes and all; nothing for an element.
    pub(super) raw_key: Option<RawKey<'a>>,
    /// Where the part begins: its key's opening quote or its value.
    pub(super) start: usize,
    /// Where the value is.
    pub(super) value: Range<usize>,
}

/// A key as it stands in the text, without its quotes.
#[derive(Clone, Copy)]
pub(super) struct RawKey<'a> {
    bytes: &'a [u8],
    escaped: bool,
}

impl<'a> RawKey<'a> {
    /// Whether this is the key `key`.
    #[inline]
    pub(super) fn is(&self, key: &str) -> bool {
        if !self.escaped {
            return self.bytes == key.as_bytes();
        }
        self.text().is_some_and(|text| text == key)
    }

    /// The key without escapes, unless it is not text.
    pub(super) fn text(&self) -> Option<Cow<'a, str>> {
        if !self.escaped {
            return std::str::from_utf8(self.bytes).ok().map(Cow::Borrowed);
        }
        let mut quoted = Vec::with_capacity(self.bytes.len() + 2);
        quoted.push(b'"');
        quoted.extend_from_slice(self.bytes);
        quoted.push(b'"');
        serde_json::from_slice::<String>(&quoted).ok().map(Cow::Owned)
    }
}

/// The parts of the array or object that begins at a position, one after the other.
pub(super) struct Parts<'a> {
    text: &'a [u8],
    /// The next part's first byte, or the closing bracket.
    position: usize,
    object: bool,
}

impl<'a> Parts<'a> {
    /// The parts of what begins at `position`, or nothing if that is a scalar.
    #[inline]
    pub(super) fn begin_at(text: &'a [u8], position: usize) -> Option<Parts<'a>> {
        let object = match text.get(position) {
            Some(b'{') => true,
            Some(b'[') => false,
            _ => return None,
        };
        Some(Parts { text, position: position + 1, object })
    }

    /// Whether these are the members of an object rather than the elements of an array.
    pub(super) fn is_object(&self) -> bool {
        self.object
    }

    /// Where the next part begins or, after the last one, the closing bracket.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// The next part's key and where its value begins, without stepping over the value.
    #[inline]
    pub(super) fn head(&self) -> Result<Option<(Option<RawKey<'a>>, usize)>, JsonError> {
        let at = self.position;
        match self.text.get(at) {
            Some(b'"') if self.object => {
                let (close, escaped) = string_close(self.text, at + 1)?;
                if self.text.get(close + 1) != Some(&b':') {
                    return Err(JsonError::Corrupt { position: close + 1 });
                }
                let bytes = &self.text[at + 1..close];
                Ok(Some((Some(RawKey { bytes, escaped }), close + 2)))
            }
            Some(b'}') if self.object => Ok(None),
            Some(b']') if !self.object => Ok(None),
            Some(_) if !self.object => Ok(Some((None, at))),
            _ => Err(JsonError::Corrupt { position: at }),
        }
    }

    /// Steps over the value that begins at `value`, where [`Parts::head`] found it, and returns where it ends.
    #[inline]
    pub(super) fn step_over(&mut self, value: usize) -> Result<usize, JsonError> {
        let end = value_end(self.text, value)?;
        self.position = match self.text.get(end) {
            // A comma before a closing bracket ends the walk as damage, not as the end of the parts.
            Some(b',') if !matches!(self.text.get(end + 1), Some(b'}' | b']')) => end + 1,
            Some(b'}') if self.object => end,
            Some(b']') if !self.object => end,
            _ => return Err(JsonError::Corrupt { position: end }),
        };
        Ok(end)
    }

    /// The next part, stepped over.
    pub(super) fn next_part(&mut self) -> Result<Option<Part<'a>>, JsonError> {
        let start = self.position;
        let Some((raw_key, value)) = self.head()? else { return Ok(None) };
        let end = self.step_over(value)?;
        Ok(Some(Part { raw_key, start, value: value..end }))
    }
}

/// Where the value that begins at `start` ends: the offset of the first byte after it.
#[inline]
pub(super) fn value_end(text: &[u8], start: usize) -> Result<usize, JsonError> {
    match text.get(start) {
        Some(b'"') => Ok(string_close(text, start + 1)?.0 + 1),
        Some(b'{' | b'[') => container_end(text, start),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
            let rest = &text[start..];
            let len = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']')).unwrap_or(rest.len());
            Ok(start + len)
        }
        _ => Err(JsonError::Corrupt { position: start }),
    }
}

/// What a value is, by its first byte.
pub(super) fn kind(text: &[u8], start: usize) -> &'static str {
    match text.get(start) {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The closing quote of a string whose first byte is at `start`, and whether the string has an escape.
#[inline]
fn string_close(text: &[u8], start: usize) -> Result<(usize, bool), JsonError> {
    let mut escaped = false;
    let mut at = start;
    loop {
        // Eight bytes at a time as long as there is neither a quote nor a backslash.
        while let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*word);
            let found = bytes_equal(word, b'"') | bytes_equal(word, b'\\');
            if found != 0 {
                at += found.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        match text.get(at) {
            Some(b'"') => return Ok((at, escaped)),
            Some(b'\\') => {
                escaped = true;
                at += 2;
            }
            Some(_) => at += 1,
            None => return Err(JsonError::Corrupt { position: text.len() }),
        }
    }
}

/// Where the array or object that begins at `start` ends.
///
/// Blocks of 64 bytes are looked at as sets of positions: with an odd number of quotes up to it, a position is inside
/// of a string, and brackets there do not count. Blocks with a backslash and the last bytes are gone through singly.
fn container_end(text: &[u8], start: usize) -> Result<usize, JsonError> {
    let mut depth = 0_usize;
    let mut inside_before = 0;
    let mut at = start;
    while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>()) {
        let marks = Marks::find(block);
        if marks.escaped {
            let mut inside = inside_before != 0;
            if let Some(end) = singly(text, &mut at, BLOCK, &mut inside, &mut depth) {
                return Ok(end);
            }
            inside_before = if inside { u64::MAX } else { 0 };
            continue;
        }
        let inside = odd_up_to(marks.quotes) ^ inside_before;
        let mut brackets = marks.brackets & !inside;
        while brackets != 0 {
            let bracket = brackets.trailing_zeros() as usize;
            brackets &= brackets - 1;
            if matches!(block[bracket & (BLOCK - 1)], b'{' | b'[') {
                depth += 1;
            } else {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + bracket + 1);
                }
            }
        }
        inside_before = (inside as i64 >> 63) as u64;
        at += BLOCK;
    }
    let mut inside = inside_before != 0;
    singly(text, &mut at, BLOCK, &mut inside, &mut depth).ok_or(JsonError::Corrupt { position: text.len() })
}

/// Goes through `len` bytes from `at`, one more if the last is a backslash, and returns where the outermost bracket ends.
fn singly(text: &[u8], at: &mut usize, len: usize, inside: &mut bool, depth: &mut usize) -> Option<usize> {
    let end = *at + len;
    while *at < end {
        match text.get(*at)? {
            b'"' => *inside = !*inside,
            b'\\' if *inside => *at += 1,
            b'{' | b'[' if !*inside => *depth += 1,
            b'}' | b']' if !*inside => {
                *depth = depth.saturating_sub(1);
                if *depth == 0 {
                    return Some(*at + 1);
                }
            }
            _ => {}
        }
        *at += 1;
    }
    None
}

const BLOCK: usize = 64;

/// Where in a block the bytes are that matter: bit `n` stands for byte `n`.
struct Marks {
    quotes: u64,
    brackets: u64,
    /// Whether there is a backslash.
    escaped: bool,
}

impl Marks {
    /// The loops over single bytes are written so that the compiler makes vector instructions of them.
    #[inline]
    fn find(block: &[u8; BLOCK]) -> Marks {
        let quotes = block.map(|byte| u8::from(byte == b'"'));
        // The bit distinguishes square brackets from braces; no other byte becomes a brace by it.
        let brackets = block.map(|byte| u8::from(byte | 0x20 == b'{') | u8::from(byte | 0x20 == b'}'));
        let escaped = block.iter().fold(0, |any, byte| any | u8::from(*byte == b'\\')) != 0;
        Marks { quotes: one_bit_each(&quotes), brackets: one_bit_each(&brackets), escaped }
    }
}

/// The lowest bits of the bytes, side by side.
#[inline]
fn one_bit_each(bytes: &[u8; BLOCK]) -> u64 {
    bytes.chunks_exact(8).enumerate().fold(0, |bits, (number, word)| {
        let word = u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes"));
        bits | (word.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * number)
    })
}

/// The highest bit of each byte of `word` that is `byte`, and no other bit.
#[inline]
fn bytes_equal(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zero_where_equal = word ^ u64::from_ne_bytes([byte; 8]);
    !(((zero_where_equal & LOW) + LOW) | zero_where_equal | LOW)
}

/// Bit `n` is set if `bits` has an odd number of bits set up to and with bit `n`.
#[inline]
fn odd_up_to(bits: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(bits, |odd, shift| odd ^ (odd << shift))
}
