//! Just enough of PostgreSQL's lexical rules to know what is code and what is quoted.
//!
//! Taken from the server's scanner; `standard_conforming_strings` is on, as it is in every session of a worker.

/// Bytes of a word: a name or a keyword. (Dollar signs, which may stand inside a name, are not counted.)
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// White space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The length of the comment that `text` begins with: `-- ..` without its newline, or `/* .. */`, which nests.
/// One that is not closed goes on to the end.
pub(crate) fn comment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes.starts_with(b"--") {
        return Some(text.find(['\n', '\r']).unwrap_or(text.len()));
    }
    if !bytes.starts_with(b"/*") {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    Some(bytes.len())
}

/// The length of the white space and comments that `text` begins with.
pub(crate) fn blank(text: &str) -> usize {
    let mut at = 0;
    loop {
        at += text.as_bytes()[at..].iter().take_while(|byte| is_space(**byte)).count();
        match comment(&text[at..]) {
            Some(len) => at += len,
            None => return at,
        }
    }
}

/// The delimiter of the dollar-quoted text that `text` begins with: `$$`, or `$tag$`.
pub(crate) fn delimiter(text: &str) -> Option<&str> {
    let tag = text.strip_prefix('$')?;
    let end = tag.bytes().position(|byte| !is_word(byte))?;
    (tag.as_bytes()[end] == b'$' && !tag.starts_with(|c: char| c.is_ascii_digit())).then(|| &text[..end + 2])
}

/// Whether a literal that ends right before `text` goes on there: after a line break, the server joins the next one
/// to it, and reads it by the same rules.
pub(crate) fn continues(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut line_break) = (0, false);
    loop {
        match bytes.get(at) {
            Some(b'\'') if line_break => return Some(at),
            Some(byte) if is_space(*byte) => {
                line_break |= matches!(byte, b'\n' | b'\r');
                at += 1;
            }
            Some(b'-') => match comment(&text[at..]) {
                Some(len) => at += len,
                None => return None,
            },
            _ => return None,
        }
    }
}
