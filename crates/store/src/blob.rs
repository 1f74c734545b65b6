//! Blobs: values of up to a gibibyte, written and read as streams.
//!
//! A blob is a row with its length, its hash and a number of its own, and rows of chunks by that number, which are hidden.
//! Chunks are written before the row, in commits of their own, so that no more than a few are in memory; a blob is there,
//! whole, from the commit of its row on. `docs/design/store.md` gives the layout and the invariants.

mod chunks;
mod reader;
mod upload;

use std::io::Read;

use crate::access::{Access, Space};
use crate::branch::Branch;
use crate::error::StoreError;
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::{count_keys, list_keys, Page};
use crate::names::check_key;

pub(crate) use chunks::{are_alike, check, copy, maintain, Checked, Marks};
pub use reader::BlobReader;
pub(crate) use upload::Uploads;

/// The longest blob.
pub const BLOB_BYTES_MAX: u64 = 1 << 30;

/// Bytes of each chunk but the last.
const CHUNK_BYTES: usize = 128 << 10;

/// What distinguishes the chunks of one blob from those of another, in all stores.
type Id = [u8; 16];

/// What is known of a blob without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobInfo {
    /// Its length.
    pub bytes: u64,
    /// The BLAKE3 hash of it.
    pub hash: [u8; 32],
    id: Id,
}

impl BlobInfo {
    /// The hash as hexadecimal digits.
    pub fn hash_hex(&self) -> String {
        blake3::Hash::from_bytes(self.hash).to_hex().to_string()
    }

    /// `length u64, id, hash`.
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.hash);
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let (bytes, rest) = row.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let bytes = u64::from_le_bytes(*bytes);
        let hash = rest.try_into().ok()?;
        (bytes <= BLOB_BYTES_MAX).then_some(Self { bytes, hash, id: *id })
    }

    /// How many chunks it has.
    fn chunks(&self) -> u64 {
        self.bytes.div_ceil(CHUNK_BYTES as u64)
    }
}

/// The row of a blob as people read it.
pub(crate) fn display_value(row: &[u8]) -> Option<serde_json::Value> {
    let info = BlobInfo::decode(row)?;
    Some(serde_json::json!({ "bytes": info.bytes, "blake3": info.hash_hex() }))
}

/// The blobs of a space.
///
/// ```
/// use std::io::{Read, Seek, SeekFrom};
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let film = vec![7; 1_000_000];
/// main.blobs().put("film", &film[..])?;
/// assert_eq!(main.blobs().info("film")?.map(|info| info.bytes), Some(1_000_000));
///
/// let mut end = Vec::new();
/// let mut reader = main.blobs().open("film")?.expect("it was put");
/// reader.seek(SeekFrom::End(-3)).and_then(|_| reader.read_to_end(&mut end)).expect("it is whole");
/// assert_eq!(end, [7; 3]);
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Blobs<'s, S> {
    space: Space<'s, S>,
}

impl<'s, S: Access> Blobs<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn key(&self, key: &str) -> Result<KeyBuf, StoreError> {
        check_key(key)?;
        Ok(keys::key(Primitive::Blob, self.space.name(), key.as_bytes()))
    }

    /// What is known of a blob; none if there is none.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn info(&self, key: &str) -> Result<Option<BlobInfo>, StoreError> {
        let at = self.key(key)?;
        let mut found = None;
        self.space.scope().peek(|view| view.get(&at, &mut |_, row| found = Some(BlobInfo::decode(row))))?;
        found.map(|info| info.ok_or_else(|| damaged(&at))).transpose()
    }

    /// A blob for reading, from any place on, as it is now; none if there is none.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn open(&self, key: &str) -> Result<Option<BlobReader<'s, S>>, StoreError> {
        let at = self.key(key)?;
        let held = self.space.scope().moment()?;
        let mut found = None;
        let look = |view: &dyn crate::access::View| {
            view.get(&at, &mut |_, row| found = Some(BlobInfo::decode(row))).map(drop)
        };
        match &held {
            Some(snapshot) => snapshot.read(look)?,
            None => self.space.scope().read(look)?,
        }
        let info = found.map(|info| info.ok_or_else(|| damaged(&at))).transpose()?;
        Ok(info.map(|info| BlobReader::new(self.space, held, info)))
    }

    /// Deletes a blob. Returns whether it was there.
    ///
    /// # Errors
    /// When the key is not allowed, or nothing can be written.
    pub fn delete(&self, key: &str) -> Result<bool, StoreError> {
        let at = self.key(key)?;
        let (existed, _) = self.space.scope().write(|edit| {
            let existed = edit.get(&at, &mut |_, _| {})?;
            if existed {
                edit.delete(&at)?;
            }
            Ok(existed)
        })?;
        Ok(existed)
    }

    /// The blobs whose keys begin with `prefix`, after the key `after` if there is one, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page<String>, StoreError> {
        list_keys(&self.space, Primitive::Blob, prefix, after, limit)
    }

    /// The number of blobs whose keys begin with `prefix`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, prefix: &str) -> Result<u64, StoreError> {
        count_keys(&self.space, Primitive::Blob, prefix)
    }
}

impl Blobs<'_, Branch> {
    /// Puts what a reader gives under a key, in the place of what is there. Returns what is known of it.
    ///
    /// It is there, whole, from one commit on, which comes last; until then, and if anything fails, the key has what it had. About a
    /// mebibyte is in memory at a time. The reader is not read while others wait. A transaction cannot put a blob: what it
    /// would have to take back may be larger than memory.
    ///
    /// # Errors
    /// When the key is not allowed, the reader fails or gives more than [`BLOB_BYTES_MAX`], the branch was deleted, or reset meanwhile
    /// ([`StoreError::TransactionConflict`]), or nothing can be written.
    pub fn put(&self, key: &str, reader: impl Read) -> Result<BlobInfo, StoreError> {
        let at = self.key(key)?;
        upload::put(self.space.scope(), &at, reader)
    }
}

fn damaged(at: &[u8]) -> StoreError {
    StoreError::Damaged(format!("the row of {} cannot be read", keys::display(at)))
}
