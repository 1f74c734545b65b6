//! Writes version 3 files: a manifest and sorted tables, without logs.
//!
//! Rows are taken in any order and kept until the sync ends; then they are sorted, and tables are filled one after
//! another while those before are compressed by other threads.

use std::path::Path;

use hashbrown::HashTable;
use xxhash_rust::xxh3::{xxh3_128, xxh3_64};

use super::envelope;
use super::grants::{check_length, moved, Grants, GRANTS_MAX};
use super::key::{self, family};
use super::output::Output;
use super::records::Records;
use super::values::Values;
use crate::c1z::error::C1zError;
use crate::c1z::limits::{GRANT_ID_BYTES_MAX, ID_BYTES_MAX};
use crate::c1z::losses::Losses;
use crate::c1z::{storage, WriteOptions};
use crate::graph::{Asset, Entitlement, GrantRef, GraphSink, Loss, Resource, ResourceType, Sync};
use duramen_pack::PackError;

/// How many bytes of records stay in memory until they are written; more of them wait in a file without a name.
const MEMORY_BYTES: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    InSync,
    Ended,
    Poisoned,
}

/// Writes one version 3 file, which holds one sync.
///
/// The file appears under its name when [`finish`](Self::finish) returns, durably; a writer that is dropped before
/// leaves nothing. A second writer of the same file is refused.
///
/// Until the sync ends rows are held in memory: 16 bytes for a grant, each entitlement and principal of a grant once,
/// and the keys of all other rows. Records beyond 64 MiB wait in a file without a name beside the target. Sorting takes
/// 36 bytes more for each grant.
///
/// ```
/// use duramen_access::c1z::{C1z3, C1z3Writer, ReadOptions, WriteOptions};
/// use duramen_access::graph::{GraphSink, GraphSource, ResourceType, Sync};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("sync.c1z");
/// let mut writer = C1z3Writer::create(&path, &WriteOptions::default())?;
/// writer.begin_sync(&Sync { id: "2aGyRUbxAdE4MTzLqMxgsT1HNjq".to_owned(), ..Sync::default() })?;
/// writer.put_resource_type(&ResourceType { id: "user".to_owned(), ..ResourceType::default() })?;
/// writer.end_sync()?;
/// assert!(writer.losses().is_empty());
/// writer.finish()?;
///
/// let file = C1z3::open(&path, &ReadOptions::default())?;
/// assert_eq!(file.syncs()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct C1z3Writer {
    output: Output,
    state: State,
    sync: Sync,
    losses: Losses,
    grants: Grants,
    records: Records,
    values: Values,
    /// Hashes of the ids of entitlements, and of their keys.
    entitlements: HashTable<(u128, u64)>,
    key: Vec<u8>,
    index: Vec<u8>,
    value: Vec<u8>,
}

impl C1z3Writer {
    /// Begins a file. What is there under that name stays until [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// [`C1zError::Locked`] when somebody else writes the same file; [`C1zError::Io`] when the folder does not take it.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<C1z3Writer, C1zError> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Ok(C1z3Writer {
            output: Output::create(path, options)?,
            state: State::Empty,
            sync: Sync::default(),
            losses: Losses::default(),
            grants: Grants::default(),
            records: Records::default(),
            values: Values::new(folder, MEMORY_BYTES),
            entitlements: HashTable::new(),
            key: Vec::new(),
            index: Vec::new(),
            value: Vec::new(),
        })
    }

    /// Completes the file: when this returns, it is durable under its name. Gives its length in bytes.
    ///
    /// # Errors
    ///
    /// [`C1zError::Order`] without a sync that has ended; [`C1zError::Io`] when the system fails: the file that was
    /// there before is untouched then.
    pub fn finish(self) -> Result<u64, C1zError> {
        self.expect(State::Ended, "finishing the file", "end the sync first")?;
        self.output.finish()
    }

    fn expect(&self, state: State, doing: &'static str, reason: &'static str) -> Result<(), C1zError> {
        match self.state {
            State::Poisoned => {
                Err(C1zError::Order { doing, reason: "writing failed before: begin the file again" })
            }
            found if found == state => Ok(()),
            _ => Err(C1zError::Order { doing, reason }),
        }
    }

    fn in_sync(&self) -> Result<(), C1zError> {
        self.expect(State::InSync, "putting a row", "begin a sync first")
    }

    /// Takes nothing more after an error of the system.
    fn unless_broken<T>(&mut self, result: Result<T, C1zError>) -> Result<T, C1zError> {
        if matches!(result, Err(C1zError::Io { .. })) {
            self.state = State::Poisoned;
        }
        result
    }

    /// Keeps the row `self.key` with `self.value`, which readers find by `self.index` too.
    fn keep(&mut self, row: &'static str, id: &str) -> Result<(), C1zError> {
        check_length(row, id, &self.value)?;
        let place = self.values.push(&self.value);
        let place = self.unless_broken(place)?;
        self.records.push(&self.key, &self.index, place);
        Ok(())
    }

    fn clear(&mut self) {
        self.key.clear();
        self.index.clear();
        self.value.clear();
    }

    /// Writes all rows in the order of their keys.
    fn write_tables(&mut self) -> Result<(), C1zError> {
        let C1z3Writer { output, losses, values, .. } = self;
        let grants = std::mem::take(&mut self.grants).sorted(values, losses)?;
        let mut records = std::mem::take(&mut self.records);
        records.sort();
        const GRANTS: &[u8] = &key::GRANTS;
        const INDEX: &[u8] = &[key::VERSION, family::INDEX];
        const END: &[u8] = &[key::VERSION + 1];
        records.each(values, (&[], GRANTS), |key, value| output.add(key, value))?;
        grants.each(values, |key, value| output.add(key, value))?;
        records.each(values, (GRANTS, INDEX), |key, value| output.add(key, value))?;
        records.indexes().into_iter().try_for_each(|key| output.add(key, &[]))?;
        grants.each_by_principal(|key| output.add(key, &[]))?;
        grants.each_needs_expansion(|key| output.add(key, &[]))?;
        records.each(values, (INDEX, END), |key, value| output.add(key, value))?;
        output.end_rows()
    }
}

/// Refuses ids that are empty, or too long for what reads them here.
#[inline]
fn check(row: &'static str, id: &str, parts: &[&str]) -> Result<(), C1zError> {
    let bad = |reason: &str| C1zError::Row { row, id: id.to_owned(), reason: reason.to_owned() };
    if parts.iter().any(|part| part.is_empty()) {
        return Err(bad("an id in it is empty; a version 3 file knows rows by their ids"));
    }
    if parts.iter().any(|part| part.len() > ID_BYTES_MAX) {
        return Err(bad("an id in it has more than 4 KiB"));
    }
    Ok(())
}

impl GraphSink for C1z3Writer {
    type Error = C1zError;

    fn begin_sync(&mut self, sync: &Sync) -> Result<(), C1zError> {
        self.expect(State::Empty, "beginning a sync", "a version 3 file holds one sync: write another file")?;
        check("sync", &sync.id, &[&sync.id])?;
        if storage::number_of_kind(sync).is_none() {
            // Without a number it would be a full one.
            let kind = sync.kind_name();
            let reason =
                format!("its kind {kind:?} has no number, by which version 3 files know kinds: write a pack");
            return Err(C1zError::Row { row: "sync", id: sync.id.clone(), reason });
        }
        self.sync = sync.clone();
        let begun = self.output.begin(envelope::manifest_of(|out| storage::put_sync_summary(out, sync)));
        self.unless_broken(begun)?;
        self.state = State::InSync;
        for (name, layout) in key::STAMPS {
            self.clear();
            key::meta(&mut self.key, name);
            self.value.extend_from_slice(&layout.to_be_bytes());
            self.keep("stamp", name)?;
        }
        self.clear();
        self.key.extend_from_slice(&key::SYNC_RUN);
        storage::put_sync(&mut self.value, sync, &mut self.losses);
        self.keep("sync", &sync.id)
    }

    fn put_resource_type(&mut self, row: &ResourceType) -> Result<(), C1zError> {
        self.in_sync()?;
        check("resource type", &row.id, &[&row.id])?;
        self.clear();
        key::resource_type(&mut self.key, &row.id);
        storage::put_resource_type(&mut self.value, row, &mut self.losses);
        self.keep("resource type", &row.id)
    }

    fn put_resource(&mut self, row: &Resource) -> Result<(), C1zError> {
        self.in_sync()?;
        let (resource_type, resource) = (&row.id.resource_type, &row.id.resource);
        check("resource", resource, &[resource_type, resource])?;
        self.clear();
        key::resource(&mut self.key, resource_type, resource);
        if let Some(parent) = &row.parent {
            let parent = (parent.resource_type.as_str(), parent.resource.as_str());
            key::by_parent(&mut self.index, parent, (resource_type, resource));
        }
        storage::put_resource(&mut self.value, row, &mut self.losses);
        self.keep("resource", resource)
    }

    fn put_entitlement(&mut self, row: &Entitlement) -> Result<(), C1zError> {
        self.in_sync()?;
        let (resource_type, resource) = (&row.resource.resource_type, &row.resource.resource);
        check("entitlement", &row.id, &[&row.id, resource_type, resource])?;
        self.clear();
        key::entitlement(&mut self.key, resource_type, resource, &row.id);
        let (id, place) = (xxh3_128(row.id.as_bytes()), xxh3_64(&self.key));
        match self.entitlements.find(id as u64, |(known, _)| *known == id) {
            Some((_, known)) if *known != place => return Err(moved("entitlement", &row.id)),
            Some(_) => {}
            None => drop(self.entitlements.insert_unique(id as u64, (id, place), |(known, _)| *known as u64)),
        }
        storage::put_entitlement(&mut self.value, row, &mut self.losses);
        self.keep("entitlement", &row.id)
    }

    fn put_grant(&mut self, row: &GrantRef<'_>) -> Result<(), C1zError> {
        self.in_sync()?;
        let parts = [row.resource_type, row.resource, row.entitlement, row.principal_type, row.principal];
        check("grant", row.id, &parts)?;
        if row.id.is_empty() || row.id.len() > GRANT_ID_BYTES_MAX {
            let reason =
                format!("its id has {} bytes, and has to have 1 to {GRANT_ID_BYTES_MAX}", row.id.len());
            return Err(C1zError::Row { row: "grant", id: row.id.to_owned(), reason });
        }
        if self.grants.len() >= GRANTS_MAX {
            let reason = format!("a file takes {GRANTS_MAX} grants: write several files");
            return Err(C1zError::Row { row: "grant", id: row.id.to_owned(), reason });
        }
        let pushed = self.grants.push(row, &mut self.values, &mut self.losses);
        self.unless_broken(pushed)
    }

    fn put_asset(&mut self, row: &Asset) -> Result<(), C1zError> {
        self.in_sync()?;
        check("asset", &row.id, &[&row.id])?;
        self.clear();
        key::asset(&mut self.key, &row.id);
        storage::put_asset(&mut self.value, &self.sync.id, row);
        self.keep("asset", &row.id)
    }

    fn end_sync(&mut self) -> Result<(), C1zError> {
        self.expect(State::InSync, "ending the sync", "begin a sync first")?;
        // Whatever fails, the rows are no longer there to try again.
        self.state = State::Poisoned;
        self.write_tables()?;
        self.state = State::Ended;
        Ok(())
    }

    fn losses(&self) -> &[Loss] {
        self.losses.all()
    }
}

impl C1zError {
    /// An error of the file that is being made.
    pub(crate) fn of_pack(error: PackError, path: &Path) -> C1zError {
        match error {
            PackError::Locked { path } => C1zError::Locked { file: path },
            PackError::Io { doing, path, source } => {
                let source = std::io::Error::new(source.kind(), source.to_string());
                C1zError::Io { doing, path, source }
            }
            other => {
                C1zError::Io { doing: "making", path: path.to_owned(), source: std::io::Error::other(other) }
            }
        }
    }
}
