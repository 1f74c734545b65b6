//! Payloads that are tar archives: which files are in one, and where.
//!
//! ```text
//! archive = (header of 512 bytes | content, filled up to a multiple of 512)* | zeros, 1,024 bytes at least
//! header  = name 100 bytes | ... | size 12 at 124 | ... | sum of the header 8 at 148 | kind u8 at 156 | ...
//!           | "ustar" at 257 | ... | what stands before the name 155 at 345
//! kinds   = 0 a file, 5 a folder, x and g longer fields of the next header or of all, L a longer name of the next
//! ```
//! Numbers are octal digits, or with the highest bit of the first byte big-endian.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::envelope::{check_name, Entry};
use crate::c1z::error::{Bad, C1zError};
use crate::c1z::limits::{FILES_MAX, NAME_BYTES_MAX};

const BLOCK: u64 = 512;
/// The longest list of fields that stands before a header, in bytes.
const FIELDS_BYTES_MAX: u64 = 64 << 10;

/// What stands before a header for it, in fields of their own.
#[derive(Default)]
struct Fields {
    name: Option<String>,
    size: Option<u64>,
}

/// Lists the files of the archive that lies in `file` from `start` to `end`. Errors are those of `path`.
pub(crate) fn entries(file: &File, start: u64, end: u64, path: &Path) -> Result<Vec<Entry>, C1zError> {
    let bad = |bad: Bad| bad.located(path, "the archive");
    let read = |at: u64, length: u64| -> Result<Vec<u8>, C1zError> {
        if end.checked_sub(at).is_none_or(|left| left < length) {
            let reason = "the archive of its files has no end".to_owned();
            return Err(C1zError::Truncated { file: path.to_owned(), at: end, reason });
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, at).map_err(C1zError::io("reading", path))?;
        Ok(bytes)
    };
    let mut found: Vec<Entry> = Vec::new();
    let mut names = HashSet::new();
    let mut fields = Fields::default();
    let mut at = start;
    loop {
        let header = read(at, BLOCK)?;
        let here = at - start;
        if header.iter().all(|byte| *byte == 0) {
            // Archives are filled up with zeros to the length of a tape's blocks.
            while at < end {
                let rest = read(at, BLOCK.min(end - at))?;
                if rest.iter().any(|byte| *byte != 0) {
                    return Err(bad(Bad::new((at - start) as usize, "bytes behind the end of the archive")));
                }
                at += rest.len() as u64;
            }
            return Ok(found);
        }
        let (kind, size) = head(&header).map_err(|it| bad(it.shifted(here as usize)))?;
        let size = match kind {
            b'x' | b'g' | b'L' => size,
            _ => fields.size.take().unwrap_or(size),
        };
        let content = at + BLOCK;
        // Beyond the end of the file, where reading says that the archive has no end.
        let next = size.checked_next_multiple_of(BLOCK).and_then(|size| content.checked_add(size));
        at = next.unwrap_or(u64::MAX);
        match kind {
            b'x' | b'g' | b'L' => {
                if size > FIELDS_BYTES_MAX {
                    return Err(bad(Bad::too_large(
                        here as usize,
                        "fields of a file",
                        size,
                        FIELDS_BYTES_MAX,
                    )));
                }
                let bytes = read(content, size)?;
                match kind {
                    b'x' => fields.read(&bytes).map_err(|it| bad(it.shifted((content - start) as usize)))?,
                    b'L' => {
                        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
                        fields.name = Some(String::from_utf8_lossy(name).into_owned());
                    }
                    // What holds for all files are remarks.
                    _ => {}
                }
                continue;
            }
            b'0' | 0 | b'5' => {}
            other => {
                let other = char::from(other);
                let reason = format!("an entry of kind {other:?}, where only files and folders belong");
                return Err(bad(Bad::new(here as usize, reason)));
            }
        }
        let name = fields.name.take().unwrap_or_else(|| name_of(&header));
        let name = name.strip_suffix('/').unwrap_or(&name).to_owned();
        check_name(&name).map_err(|it| bad(it.shifted(here as usize)))?;
        if kind == b'5' {
            continue;
        }
        if found.len() == FILES_MAX {
            let limit = FILES_MAX as u64;
            return Err(bad(Bad::too_large(here as usize, "the number of files", limit + 1, limit)));
        }
        if at > end {
            let reason = format!("{name} is not all there");
            return Err(C1zError::Truncated { file: path.to_owned(), at: end, reason });
        }
        if !names.insert(name.clone()) {
            return Err(bad(Bad::new(here as usize, format!("two files have the name {name:?}"))));
        }
        found.push(Entry { name, offset: content, stored: size, raw: size, xxh64: 0, sha256: [0; 32] });
    }
}

/// Kind and size of what follows a header, whose sum has to be right.
fn head(header: &[u8]) -> Result<(u8, u64), Bad> {
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
        .sum();
    if number(&header[148..156]) != Some(sum) {
        return Err(Bad::new(148, "a header of the archive does not match its sum"));
    }
    let size = number(&header[124..136]).ok_or_else(|| Bad::new(124, "a size that is not a number"))?;
    Ok((header[156], size))
}

fn number(field: &[u8]) -> Option<u64> {
    if let Some((first, rest)) = field.split_first().filter(|(first, _)| **first >= 0x80) {
        let first = u64::from(first & 0x7f);
        return rest.iter().try_fold(first, |sum, byte| Some(sum.checked_mul(256)? | u64::from(*byte)));
    }
    let mut digits =
        field.iter().skip_while(|byte| **byte == b' ').take_while(|byte| !matches!(byte, 0 | b' '));
    digits.try_fold(0u64, |sum, byte| match byte {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

fn text(field: &[u8]) -> String {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn name_of(header: &[u8]) -> String {
    let (name, before) = (text(&header[..100]), text(&header[345..500]));
    if &header[257..262] == b"ustar" && !before.is_empty() {
        format!("{before}/{name}")
    } else {
        name
    }
}

impl Fields {
    /// Reads lines, each of its length, a name, `=`, and a value.
    fn read(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        let mut at = 0;
        while at < bytes.len() {
            let wrong = || Bad::new(at, "fields of a file that are none");
            let rest = &bytes[at..];
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
            let length = std::str::from_utf8(&rest[..space]).ok().and_then(|it| it.parse::<usize>().ok());
            let line = length.and_then(|length| rest.get(space + 1..length)).ok_or_else(wrong)?;
            let line =
                std::str::from_utf8(line).ok().and_then(|it| it.strip_suffix('\n')).ok_or_else(wrong)?;
            match line.split_once('=').ok_or_else(wrong)? {
                ("path", name) if name.len() > NAME_BYTES_MAX => {
                    let limit = NAME_BYTES_MAX as u64;
                    return Err(Bad::too_large(at, "the length of a name", name.len() as u64, limit));
                }
                ("path", name) => self.name = Some(name.to_owned()),
                ("size", size) => self.size = Some(size.parse().map_err(|_| wrong())?),
                // Times, owners, and the like.
                _ => {}
            }
            at += length.unwrap_or(rest.len());
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "tar/tests.rs"]
mod tests;
