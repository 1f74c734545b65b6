//! Reading all of a pack, to know that it is what was written.

use crate::container::compress::Decompressor;
use crate::container::reader::Pack;
use crate::error::PackError;

/// What a verification found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Sections.
    pub sections: u64,
    /// Blocks, each held against its digest and decompressed.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of the blocks before compression.
    pub raw_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Called with progress: bytes of the file that are done, and all of them.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

/// Called with each block that is right: the name of its section, its number there, and its content.
pub type Inspect<'i, E> = &'i mut dyn FnMut(&str, usize, &[u8]) -> Result<(), E>;

impl Pack {
    /// Reads and checks every byte, in the order of the file, in memory for one block and one index. Opening has
    /// checked header, footer and section table.
    ///
    /// # Errors
    /// The first byte range that is damaged, or what cannot be read. The blocks of a section are found by its index: if
    /// that is damaged, its range is reported, and nothing of the section before it.
    pub fn verify(&self, progress: Progress<'_>) -> Result<Verified, PackError> {
        self.verify_with(progress, &mut |_, _, _| Ok(()))
    }

    /// As [`verify`](Self::verify), and calls `inspect` with each block that is right: the name of its section, its number
    /// there, and its content. So a kind of pack checks what its blocks mean without reading them twice.
    ///
    /// # Errors
    /// As there, and what `inspect` returned, whichever comes first in the file.
    pub fn verify_with<E: From<PackError>>(
        &self,
        progress: Progress<'_>,
        inspect: Inspect<'_, E>,
    ) -> Result<Verified, E> {
        let inner = self.inner();
        let size = inner.header.size;
        let mut verified = Verified { bytes: size, ..Verified::default() };
        let (mut stored, mut out) = (Vec::new(), Vec::new());
        for placed in &inner.placed {
            let dictionary = inner.read_dictionary(placed)?;
            let index = inner.read_index(placed)?;
            let mut decompressor = Decompressor::new(&dictionary, &inner.name)?;
            for (block, entry) in index.iter().enumerate() {
                let name = &placed.entry.name;
                inner.read_block(name, block, entry, &mut decompressor, &mut stored, &mut out)?;
                inspect(name, block, &out)?;
                verified.blocks += 1;
                verified.records += u64::from(entry.records);
                verified.raw_bytes += u64::from(entry.raw_len);
                progress(entry.range().end, size);
            }
            verified.sections += 1;
        }
        inner.read_manifest()?;
        progress(size, size);
        Ok(verified)
    }
}
