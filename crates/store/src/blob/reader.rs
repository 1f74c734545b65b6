//! Reading a blob from any place on.

use std::io::{self, Read, Seek, SeekFrom};

use super::chunks::chunk_key;
use super::{BlobInfo, CHUNK_BYTES};
use crate::access::{Access, Space, View};
use crate::error::StoreError;
use crate::snapshot::Snapshot;

/// A blob that is read. Whatever happens to its key meanwhile, it reads what it was opened for. One chunk is in memory at a time.
pub struct BlobReader<'s, S> {
    space: Space<'s, S>,
    held: Option<Snapshot>,
    info: BlobInfo,
    at: u64,
    /// The chunk that was read last, and its number.
    chunk: Vec<u8>,
    number: Option<u64>,
}

impl<'s, S: Access> BlobReader<'s, S> {
    pub(super) fn new(space: Space<'s, S>, held: Option<Snapshot>, info: BlobInfo) -> Self {
        Self { space, held, info, at: 0, chunk: Vec::new(), number: None }
    }

    /// What is known of the blob.
    pub fn info(&self) -> &BlobInfo {
        &self.info
    }

    fn fetch(&mut self, number: u64) -> Result<(), StoreError> {
        let key = chunk_key(&self.info.id, number);
        let (chunk, mut is_there) = (&mut self.chunk, false);
        self.number = None;
        chunk.clear();
        let look = |view: &dyn View| {
            is_there = view.get(&key, &mut |_, bytes| chunk.extend_from_slice(bytes))?;
            Ok(())
        };
        match &self.held {
            Some(snapshot) => snapshot.read(look)?,
            None => self.space.scope().read(look)?,
        }
        let begin = number * CHUNK_BYTES as u64;
        let expected = (self.info.bytes - begin).min(CHUNK_BYTES as u64);
        if !is_there || self.chunk.len() as u64 != expected {
            let reason = format!("chunk {number} of a blob of {} bytes is not there", self.info.bytes);
            return Err(StoreError::Damaged(reason));
        }
        self.number = Some(number);
        Ok(())
    }
}

impl<S: Access> Read for BlobReader<'_, S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || self.at >= self.info.bytes {
            return Ok(0);
        }
        let number = self.at / CHUNK_BYTES as u64;
        if self.number != Some(number) {
            self.fetch(number).map_err(io::Error::other)?;
        }
        let from = (self.at % CHUNK_BYTES as u64) as usize;
        let rest = &self.chunk[from..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl<S: Access> Seek for BlobReader<'_, S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.info.bytes.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the begin of a blob");
        self.at = place.ok_or_else(before)?;
        Ok(self.at)
    }
}

impl<S> std::fmt::Debug for BlobReader<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobReader").field("info", &self.info).field("at", &self.at).finish_non_exhaustive()
    }
}
