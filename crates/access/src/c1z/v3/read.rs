//! Reads version 3 files: the rows that logs and tables make up together.

mod indexes;
mod pages;
mod scopes;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use self::indexes::Owed;
use super::directory::Directory;
use super::envelope::Envelope;
use super::key::{self, family};
use super::lsm::{Fault, Tree};
use crate::c1z::error::{Bad, C1zError, UPDATE_ADVICE};
use crate::c1z::losses::Losses;
use crate::c1z::stored_grant::GrantReader;
use crate::c1z::{storage, ReadOptions, Version};
use crate::graph::{Asset, Entitlement, Grant, GrantRef, GraphSource, Loss, Resource, ResourceType, Sync};

/// Takes key and value of a row.
type VisitRow<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Bad>;

/// A version 3 file, verified and read.
///
/// Tables are read when one of their rows is asked for first, and then held in memory as they lie in the directory, with
/// their blocks compressed; a block at a time is decompressed as rows are visited. Rows that are in logs only are held
/// decompressed: some 200 bytes for each grant.
pub struct C1z3 {
    path: std::path::PathBuf,
    tree: Tree,
    sync: Option<Sync>,
    /// What indexes lack because what wrote the file was interrupted.
    owed: Owed,
    left_out: Losses,
    file_bytes: u64,
    raw_bytes: u64,
}

/// A visit, as sources take it.
type Visit<'a, Row> = &'a mut dyn FnMut(Row) -> ControlFlow<()>;

impl C1z3 {
    /// Opens a file: its structure, the list of its tables, and its logs are read and verified. Tables are read, and their
    /// checksums verified, when one of their rows is asked for first; what is wrong with one of them is reported then, or
    /// here with [`ReadOptions::check_rows`].
    ///
    /// # Errors
    ///
    /// [`C1zError::Truncated`], [`C1zError::Damaged`] or [`C1zError::TooLarge`] say where the file is not what it has to
    /// be; [`C1zError::Unsupported`] when it is whole but its rows lie in a form that is not read here, such as columnar
    /// tables.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<C1z3, C1zError> {
        crate::c1z::expect(Version::V3, path)?;
        let envelope = Arc::new(Envelope::open(path, options)?);
        let directory = Directory {
            envelope: &envelope,
            check_sha256: options.check_sha256,
            keep_indexes: options.check_rows,
        };
        let tree = directory.tree()?;
        if options.check_sha256 {
            // Files that hold no rows were not read above.
            for entry in &envelope.entries {
                envelope.read(entry, true)?;
            }
        }
        let fault = |fault: Fault| fault.located(path);
        let mut survey = Survey::default();
        tree.each_beside_the_graph(&mut |key, value| {
            survey.take(key, value);
            Ok(ControlFlow::Continue(()))
        })
        .map_err(fault)?;
        if !survey.is_stamped() {
            let (from, to) = ([key::VERSION, family::RESOURCE_TYPE], [key::VERSION, family::ASSET + 1]);
            survey.any |= tree.has_any(&from, &to).map_err(fault)?;
        }
        survey.check_layout(&envelope)?;
        if options.check_rows {
            indexes::check(&tree, survey.owed).map_err(fault)?;
        }
        let sync = survey.sync.as_deref().map(storage::sync).transpose();
        let mut left_out = Losses::default();
        left_out.note_many("session", "values that connectors keep between steps", survey.sessions, "");
        left_out.note_many("row", "rows of kinds that are not known", survey.others, "");
        Ok(C1z3 {
            path: path.to_owned(),
            tree,
            sync: sync.map_err(|bad| bad.located(path, "the record of the sync"))?,
            owed: survey.owed,
            left_out,
            file_bytes: envelope.len,
            raw_bytes: envelope.entries.iter().map(|entry| entry.raw).sum(),
        })
    }

    /// How long the file is, and how long its files are after decompression, in bytes.
    pub fn sizes(&self) -> (u64, u64) {
        (self.file_bytes, self.raw_bytes)
    }

    /// What the file holds that is not a row of a graph, and that [`GraphSource`] therefore does not give.
    pub fn left_out(&self) -> &[Loss] {
        self.left_out.all()
    }

    /// Refuses another sync than the one of the file.
    fn expect(&self, sync: &str) -> Result<(), C1zError> {
        if self.sync.as_ref().is_none_or(|known| known.id != sync) {
            return Err(C1zError::NoSuchSync { file: self.path.clone(), sync: sync.to_owned() });
        }
        Ok(())
    }

    /// Calls `visit` with key and value of each row of a family.
    fn each(&self, sync: &str, (family, what): (u8, &str), visit: VisitRow<'_>) -> Result<(), C1zError> {
        self.expect(sync)?;
        let (from, to) = ([key::VERSION, family], [key::VERSION, family + 1]);
        let walked = self.tree.each(&from, Some(&to), &mut |key, value| {
            visit(key, value).map_err(|bad| of_row(what, key, bad))
        });
        walked.map_err(|fault| fault.located(&self.path))
    }
}

/// What is wrong with a row.
fn of_row(what: &str, key: &[u8], bad: Bad) -> Fault {
    Fault::In { part: format!("the {what} with the key {}", key.escape_ascii()), bad }
}

impl GraphSource for C1z3 {
    type Error = C1zError;

    fn syncs(&self) -> Result<Vec<Sync>, C1zError> {
        Ok(self.sync.iter().cloned().collect())
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), C1zError> {
        self.each(sync, (family::RESOURCE_TYPE, "resource type"), &mut |_, value| {
            Ok(visit(storage::resource_type(value)?))
        })
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), C1zError> {
        self.each(sync, (family::RESOURCE, "resource"), &mut |_, value| Ok(visit(storage::resource(value)?)))
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), C1zError> {
        self.each(sync, (family::ENTITLEMENT, "entitlement"), &mut |_, value| {
            Ok(visit(storage::entitlement(value)?))
        })
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), C1zError> {
        let mut reader = GrantReader::default();
        self.each(sync, (family::GRANT, "grant"), &mut |_, value| Ok(visit(reader.grant(value)?)))
    }

    fn for_each_grant_ref(
        &self,
        sync: &str,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), C1zError> {
        let mut reader = GrantReader::default();
        self.each(sync, (family::GRANT, "grant"), &mut |_, value| Ok(visit(reader.borrowed(value)?)))
    }

    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), C1zError> {
        self.each(sync, (family::ASSET, "asset"), &mut |_, value| Ok(visit(storage::asset(value)?)))
    }
}

/// What is asked of the rows beside the graph when a file is opened.
#[derive(Default)]
struct Survey {
    /// Whether there is any row, of the graph or beside it.
    any: bool,
    sync: Option<Vec<u8>>,
    stamps: [Option<Vec<u8>>; key::STAMPS.len()],
    owed: Owed,
    sessions: u64,
    others: u64,
}

impl Survey {
    #[inline]
    fn take(&mut self, key: &[u8], value: &[u8]) {
        self.any = true;
        match key {
            [key::VERSION, family::SYNC_RUN, ..] => {
                self.sync.get_or_insert_with(|| value.to_vec());
            }
            [key::VERSION, family::META, name @ ..] => {
                self.owed.by_principal |= name == key::OWES_INDEX.as_bytes();
                self.owed.digests |= name == key::OWES_DIGESTS.as_bytes();
                for ((stamp, _), found) in key::STAMPS.iter().zip(&mut self.stamps) {
                    if stamp.as_bytes() == name {
                        *found = Some(value.to_vec());
                    }
                }
            }
            [key::VERSION, family::SESSION, ..] => self.sessions += 1,
            _ => self.others += 1,
        }
    }

    fn is_stamped(&self) -> bool {
        self.stamps.iter().any(Option::is_some)
    }

    /// Keys are made in one of several ways, which stamps among the rows name.
    fn check_layout(&self, envelope: &Envelope) -> Result<(), C1zError> {
        let unsupported =
            |what: String, advice| C1zError::Unsupported { file: envelope.path.clone(), what, advice };
        for ((name, layout), found) in key::STAMPS.iter().zip(&self.stamps) {
            if let Some(value) = found.as_ref().filter(|value| **value != layout.to_be_bytes()) {
                let what = format!("its keys are in another layout ({name} is {value:02x?})");
                return Err(unsupported(what, UPDATE_ADVICE));
            }
        }
        if !self.is_stamped() && self.any || envelope.manifest.key_layout == 1 {
            return Err(unsupported("its keys are in an older layout".to_owned(), UPDATE_ADVICE));
        }
        Ok(())
    }
}
