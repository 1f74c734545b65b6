//! A journal of the engine whose last batch a power cut tore.
//!
//! The engine reads its journal batch by batch, and takes a last batch of which some pages never reached the disk for
//! damage of what was there. So the journal is read here before the engine reads it, and such a batch is cut off. It
//! was never acknowledged: every commit flushes the journal before it returns, and nothing else is in it unflushed.
//!
//! A broken batch with a whole one behind it is damage, and stays. So does one in a journal that is not the newest,
//! because the engine flushes a journal before it begins the next.
//!
//! ```text
//! start   1, items u32, sequence number u64
//! item    2, kind u8, compression u8, keyspace u64, key length u16, value length u32, stored length u32, key, value
//! clear   4, keyspace u64
//! end     3, XXH3-64 of items and clears, "FJL" 3
//! ```

use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use duramen_base::lock::{FileLock, LockError};
use rustix::fs::{seek, SeekFrom};

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: &[u8; 4] = b"FJL\x03";

/// How many bytes a search walks over per byte that it searches, at most, before it gives up. Only bytes that were made
/// to look like thousands of batches get there.
const SEARCH_COST_MAX: u64 = 64;

/// The only compression that is written: none.
const UNCOMPRESSED: u8 = 0;

/// What was wrong with a journal that is not torn but damaged.
pub(crate) struct Damage {
    pub(crate) journal: PathBuf,
    pub(crate) at: u64,
    pub(crate) reason: &'static str,
}

/// Cuts a torn last batch off the newest journal in the engine's folder. Returns how many bytes were cut.
pub(crate) fn cut(path: &Path) -> Result<std::result::Result<u64, Damage>> {
    let lock = match File::options().read(true).write(true).open(path.join("lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Ok(0)),
        Err(error) => return Err(error),
    };
    match FileLock::exclusive(lock) {
        Ok(_lock) => cut_locked(path),
        // The engine will find out, too.
        Err(LockError::Held) => Ok(Ok(0)),
        Err(LockError::Io(_, error)) => Err(error),
    }
}

fn cut_locked(path: &Path) -> Result<std::result::Result<u64, Damage>> {
    let mut journals = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_suffix(".jnl")).and_then(|id| id.parse::<u64>().ok());
        journals.extend(number.map(|number| (number, path.join(&name))));
    }
    journals.sort_unstable();
    let newest = journals.len().saturating_sub(1);
    for (at, (_, journal)) in journals.into_iter().enumerate() {
        let bytes = content(&journal)?;
        let (end, last) = whole(&bytes);
        let tail = &bytes[end..];
        if is_zero(tail) {
            continue;
        }
        let damage = |reason| Ok(Err(Damage { journal: journal.clone(), at: end as u64, reason }));
        if at < newest {
            return damage("a batch is broken, and later journals follow");
        }
        match follows(tail, last) {
            Follows::Nothing => {}
            Follows::Batch => return damage("a batch is broken, and whole ones follow"),
            Follows::TooMany => {
                return damage("a batch is broken, and what follows looks like too many to tell")
            }
        }
        let file = File::options().write(true).open(&journal)?;
        file.set_len(end as u64)?;
        file.sync_all()?;
        return Ok(Ok(tail.len() as u64));
    }
    Ok(Ok(0))
}

/// The bytes of a journal without the hole at its end: the engine makes it long and sparse.
fn content(journal: &Path) -> Result<Vec<u8>> {
    let file = File::open(journal)?;
    let len = file.metadata()?.len();
    let mut end = 0;
    // From one end of data to the next: where a file system knows no holes, there is one piece.
    while end < len {
        match seek(&file, SeekFrom::Data(end)) {
            Ok(data) => end = seek(&file, SeekFrom::Hole(data)).unwrap_or(len).max(data + 1),
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => end = len,
        }
    }
    let size = usize::try_from(end.min(len)).map_err(|_| IoError::from(ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Where the whole batches from the beginning end, and the highest of their sequence numbers.
fn whole(bytes: &[u8]) -> (usize, Option<u64>) {
    let (mut end, mut last) = (0, None);
    while let Walked::Whole { len, seqno } = walk(&bytes[end..]) {
        end += len;
        last = last.max(Some(seqno));
    }
    (end, last)
}

enum Follows {
    Nothing,
    Batch,
    TooMany,
}

/// Looks for a whole batch that was written later. Every place is tried, because where one is broken nothing says where
/// the next begins.
fn follows(bytes: &[u8], last: Option<u64>) -> Follows {
    let mut budget = SEARCH_COST_MAX.saturating_mul(bytes.len() as u64);
    for (at, _) in bytes.iter().enumerate().skip(1).filter(|(_, byte)| **byte == START) {
        let walked = walk(&bytes[at..]);
        let cost = match walked {
            Walked::Whole { seqno, .. } if last.is_none_or(|last| seqno > last) => return Follows::Batch,
            Walked::Whole { len, .. } | Walked::Broken { len } => len as u64,
        };
        match budget.checked_sub(cost) {
            Some(left) => budget = left,
            None => return Follows::TooMany,
        }
    }
    Follows::Nothing
}

enum Walked {
    /// A batch of this length, with its sequence number.
    Whole { len: usize, seqno: u64 },
    /// None: it was looked at so far.
    Broken { len: usize },
}

/// Reads the batch with which bytes begin.
fn walk(bytes: &[u8]) -> Walked {
    let mut reader = Reader { bytes, at: 0 };
    match batch(&mut reader) {
        Some(seqno) => Walked::Whole { len: reader.at, seqno },
        None => Walked::Broken { len: reader.at },
    }
}

fn batch(reader: &mut Reader<'_>) -> Option<u64> {
    (reader.number::<1>()? == u64::from(START)).then_some(())?;
    let items = reader.number::<4>()?;
    let seqno = reader.number::<8>()?;
    let begin = reader.at;
    for _ in 0..items {
        match u8::try_from(reader.number::<1>()?).ok()? {
            ITEM => {
                let _kind = reader.number::<1>()?;
                (reader.number::<1>()? == u64::from(UNCOMPRESSED)).then_some(())?;
                reader.skip(8)?;
                let key = reader.number::<2>()?;
                let value = reader.number::<4>()?;
                (reader.number::<4>()? == value).then_some(())?;
                reader.skip(key + value)?;
            }
            CLEAR => reader.skip(8)?,
            _ => return None,
        }
    }
    let covered = reader.bytes.get(begin..reader.at)?;
    (reader.number::<1>()? == u64::from(END)).then_some(())?;
    let sum = reader.number::<8>()?;
    let trailer = reader.bytes.get(reader.at..)?.starts_with(TRAILER);
    (trailer && xxhash_rust::xxh3::xxh3_64(covered) == sum).then_some(())?;
    reader.at += TRAILER.len();
    Some(seqno)
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn number<const N: usize>(&mut self) -> Option<u64> {
        let mut number = [0; 8];
        number[..N].copy_from_slice(self.bytes.get(self.at..self.at + N)?);
        self.at += N;
        Some(u64::from_le_bytes(number))
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        (end <= self.bytes.len()).then_some(())?;
        self.at = end;
        Some(())
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

#[cfg(test)]
#[path = "../tests/unit/torn_journal.rs"]
mod tests;
