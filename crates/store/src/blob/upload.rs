//! Putting a blob: chunks first, then the row.

use std::collections::HashSet;
use std::io::Read;

use duramen_base::entropy;
use parking_lot::Mutex;

use super::chunks::chunk_key;
use super::{BlobInfo, Id, BLOB_BYTES_MAX, CHUNK_BYTES};
use crate::access::Access;
use crate::branch::Branch;
use crate::durability::Durability;
use crate::error::StoreError;
use crate::keys;

/// Chunks of one commit.
const COMMIT_CHUNKS: usize = 8;

/// The blobs that are being put, by branch: their chunks belong to no row yet.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<HashSet<(u64, Id)>>);

impl Uploads {
    pub(crate) fn has(&self, branch: u64, id: &Id) -> bool {
        self.0.lock().contains(&(branch, *id))
    }
}

/// A blob on its way. What is there of it is taken back unless its row was put.
struct Upload<'u> {
    /// The branch, at the lowest level: it is the row that is waited for, which comes last.
    branch: &'u Branch,
    id: Id,
    chunks: u64,
    done: bool,
}

impl<'u> Upload<'u> {
    fn begin(branch: &'u Branch) -> Self {
        let id = entropy::random_bytes();
        branch.engine().uploads().0.lock().insert((branch.state.id(), id));
        Self { branch, id, chunks: 0, done: false }
    }

    /// Writes chunks, the last of which may be shorter, and the mark that they belong to no row yet.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let (id, first) = (self.id, self.chunks);
        self.branch.write(|edit| {
            for (number, chunk) in (first..).zip(bytes.chunks(CHUNK_BYTES)) {
                edit.put(&chunk_key(&id, number), &mut |out| out.extend_from_slice(chunk))?;
            }
            // Each time: of a branch that is reset meanwhile, it is gone.
            edit.put(&keys::mark(&id), &mut |_| {})
        })?;
        self.chunks += bytes.len().div_ceil(CHUNK_BYTES) as u64;
        Ok(())
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        self.branch.engine().uploads().0.lock().remove(&(self.branch.state.id(), self.id));
        if !self.done && self.chunks > 0 {
            // What is not deleted now is deleted by the thread of the store, or by the next that opens it.
            self.branch.state.marks().expect();
            if let Err(error) = self.branch.engine().delete_marked(&self.branch.state) {
                log::debug!("chunks of a blob that was not put stay for now: {error}");
            }
        }
    }
}

/// Puts a blob under a key of the tree.
pub(super) fn put(branch: &Branch, at: &[u8], mut reader: impl Read) -> Result<BlobInfo, StoreError> {
    let quick = branch.with_durability(Durability::Memory);
    let mut upload = Upload::begin(&quick);
    let (mut hasher, mut bytes) = (blake3::Hasher::new(), 0_u64);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let most = (COMMIT_CHUNKS * CHUNK_BYTES) as u64;
        let read = (&mut reader).take(most).read_to_end(&mut buffer);
        read.map_err(StoreError::io("read", "what is to be put as a blob"))?;
        bytes += buffer.len() as u64;
        if bytes > BLOB_BYTES_MAX {
            let (len, max) = (usize::try_from(bytes).unwrap_or(usize::MAX), BLOB_BYTES_MAX as usize);
            return Err(StoreError::TooLarge { what: "blob", len, max });
        }
        if buffer.is_empty() {
            break;
        }
        hasher.update(&buffer);
        upload.write(&buffer)?;
        if (buffer.len() as u64) < most {
            break;
        }
    }
    let info = BlobInfo { bytes, hash: *hasher.finalize().as_bytes(), id: upload.id };
    // Who waits for this commit waits for those before it.
    branch.write(|edit| {
        // A branch that was reset meanwhile has nothing of it.
        if bytes > 0 && !edit.get(&chunk_key(&info.id, 0), &mut |_, _| {})? {
            return Err(StoreError::TransactionConflict { key: keys::display(at) });
        }
        edit.delete(&keys::mark(&info.id))?;
        edit.put(at, &mut |out| info.encode(out))
    })?;
    upload.done = true;
    Ok(info)
}
