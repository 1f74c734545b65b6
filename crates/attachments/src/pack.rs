//! Packs of branches, and what the files of packs and graphs say of themselves.

use crate::{
    error::ReadError,
    limits::{OPEN_BYTES, STORE_BYTES},
};
use duramen_api::attachments::pack::PackedBranch;
use duramen_pack::branch::BranchPack;
use duramen_store::{Options, Store};
use jiff::Timestamp;
use std::path::Path;

/// Packs that one stands on, at most: each is an open file.
const BASES_MAX: u64 = 32;
/// The longest indexes of a pack and those that it stands on, in bytes: they are in memory.
const INDEX_BYTES_MAX: u64 = OPEN_BYTES / 2;

/// The branch of a pack, open.
#[derive(Debug)]
pub struct OpenBranch {
    store: Store,
    view: PackedBranch,
    bytes: u64,
}

impl OpenBranch {
    /// Opens a pack of a branch. If it is based on others, those are looked for beside it.
    ///
    /// # Errors
    /// [`ReadError::Branch`] when it is damaged or a base is missing, [`ReadError::TooLarge`] when its indexes are.
    ///
    /// # Examples
    /// ```
    /// use duramen_attachments::pack::OpenBranch;
    /// use duramen_pack::branch::{export, ExportOptions};
    /// # let dir = tempfile::tempdir()?;
    /// let store = duramen_store::Store::memory();
    /// let path = dir.path().join("main.dpack");
    /// export(&store.branch("main")?, &path, ExportOptions::default(), &mut |_, _| {})?;
    /// assert_eq!(OpenBranch::open(&path)?.view().name, "main");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path) -> Result<OpenBranch, ReadError> {
        let pack = BranchPack::open(path)?;
        let at = || path.display().to_string();
        let (mut index, mut bases) = (0_u64, 0_u64);
        let mut next = Some(&pack);
        while let Some(pack) = next {
            let bytes = pack.pack().sections().iter().map(|section| section.index_bytes);
            index = bytes.fold(index, u64::saturating_add);
            next = pack.base();
            bases += u64::from(next.is_some());
        }
        if index > INDEX_BYTES_MAX {
            let what = "bytes of indexes";
            return Err(ReadError::TooLarge { at: at(), what, found: index, limit: INDEX_BYTES_MAX });
        }
        if bases > BASES_MAX {
            let what = "packs that it is based on";
            return Err(ReadError::TooLarge { at: at(), what, found: bases, limit: BASES_MAX });
        }
        let info = pack.info();
        let view = PackedBranch {
            name: info.branch,
            exported_at: Timestamp::from_millisecond(info.exported_ms).unwrap_or_default(),
            version: info.version,
            entries: info.entries,
            bytes: info.entry_bytes,
            based_on: info.base.map(|base| base.file),
        };
        let store = pack.store(Options { memory_bytes: STORE_BYTES, ..Options::default() })?;
        Ok(OpenBranch { store, view, bytes: STORE_BYTES as u64 + index })
    }

    /// What is known of it.
    #[must_use]
    pub fn view(&self) -> &PackedBranch {
        &self.view
    }

    /// The branch as a store, which nobody can write.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
