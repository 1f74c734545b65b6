//! Reads version 3 files: all logs and tables that count, put together to rows in memory.

use std::ops::ControlFlow;
use std::path::Path;

use super::envelope::{Entry, Envelope};
use super::key::{self, family};
use super::lsm::Rows;
use super::{batch, edit, log, table};
use crate::c1z::error::{Bad, BadKind, C1zError, EXPORT_ADVICE};
use crate::c1z::losses::Losses;
use crate::c1z::{storage, ReadOptions, Version};
use crate::graph::{Asset, Entitlement, Grant, GraphSource, Loss, Resource, ResourceType, Sync};

/// The newest form of directory that is known, and with it the forms of logs and tables.
const FORMAT_MAX: u64 = 24;

/// A version 3 file, verified and read.
///
/// The rows are held in memory as they lie in the file, decompressed: some 200 bytes for each grant.
pub struct C1z3 {
    path: std::path::PathBuf,
    rows: Rows,
    sync: Option<Sync>,
    left_out: Losses,
    file_bytes: u64,
    raw_bytes: u64,
}

/// A visit, as sources take it.
type Visit<'a, Row> = &'a mut dyn FnMut(Row) -> ControlFlow<()>;

impl C1z3 {
    /// Opens a file, verifies it and takes in its rows.
    ///
    /// # Errors
    ///
    /// [`C1zError::Truncated`], [`C1zError::Damaged`] or [`C1zError::TooLarge`] say where the file is not what it has to
    /// be; [`C1zError::Unsupported`] when it is whole but its rows lie in a form that is not read here, such as columnar
    /// tables.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<C1z3, C1zError> {
        crate::c1z::expect(Version::V3, path)?;
        let envelope = Envelope::open(path, options)?;
        let directory = Directory { envelope: &envelope, check_sha256: options.check_sha256 };
        let rows = directory.rows()?;
        let mut file = C1z3 {
            path: path.to_owned(),
            rows,
            sync: None,
            left_out: Losses::default(),
            file_bytes: envelope.len,
            raw_bytes: envelope.entries.iter().map(|entry| entry.raw).sum(),
        };
        file.check_layout(&envelope)?;
        if options.check_sha256 {
            // Files that hold no rows were not read above.
            for entry in &envelope.entries {
                envelope.read(entry, true)?;
            }
        }
        let found =
            file.rows.of_family(family::SYNC_RUN).next().map(|(_, value)| storage::sync(value)).transpose();
        file.sync = found.map_err(|bad| bad.of(path, "the record of the sync"))?;
        file.note_left_out();
        Ok(file)
    }

    /// How long the file is, and how long its files are after decompression, in bytes.
    pub fn sizes(&self) -> (u64, u64) {
        (self.file_bytes, self.raw_bytes)
    }

    /// What the file holds that is no row of a graph, and that [`GraphSource`] therefore does not give.
    pub fn left_out(&self) -> &[Loss] {
        self.left_out.all()
    }

    /// Keys are made in one of several ways, which stamps among the rows tell.
    fn check_layout(&self, envelope: &Envelope) -> Result<(), C1zError> {
        let unsupported =
            |what: String| C1zError::Unsupported { file: self.path.clone(), what, advice: EXPORT_ADVICE };
        let mut found = 0;
        for (name, layout) in key::STAMPS {
            let mut wanted = Vec::new();
            key::meta(&mut wanted, name);
            let stamp = self.rows.of_family(family::META).find(|(key, _)| *key == wanted);
            let Some((_, value)) = stamp else { continue };
            found += 1;
            if value != layout.to_be_bytes() {
                return Err(unsupported(format!("its keys are in another layout ({name} is {value:02x?})")));
            }
        }
        if found == 0 && !self.rows.is_empty() || envelope.manifest.key_layout == 1 {
            return Err(unsupported("its keys are in an older layout".to_owned()));
        }
        Ok(())
    }

    fn note_left_out(&mut self) {
        let (mut sessions, mut others) = (0, 0);
        for key in self.rows.keys() {
            match key {
                [key::VERSION, family::SESSION, ..] => sessions += 1,
                [key::VERSION, family::RESOURCE_TYPE..=family::SYNC_RUN | family::META, ..] => {}
                _ => others += 1,
            }
        }
        self.left_out.note_many("session", "values that connectors keep between steps", sessions, "");
        self.left_out.note_many("row", "rows of kinds that are not known", others, "");
    }

    fn each<Row>(
        &self,
        sync: &str,
        family: u8,
        what: &'static str,
        decode: impl Fn(&[u8]) -> Result<Row, Bad>,
        visit: Visit<'_, Row>,
    ) -> Result<(), C1zError> {
        if self.sync.as_ref().is_none_or(|known| known.id != sync) {
            return Err(C1zError::NoSuchSync { file: self.path.clone(), sync: sync.to_owned() });
        }
        for (key, value) in self.rows.of_family(family) {
            let row = decode(value).map_err(|bad| {
                bad.of(&self.path, &format!("the {what} with the key {}", key.escape_ascii()))
            })?;
            if visit(row).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl GraphSource for C1z3 {
    type Error = C1zError;

    fn syncs(&self) -> Result<Vec<Sync>, C1zError> {
        Ok(self.sync.iter().cloned().collect())
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), C1zError> {
        self.each(sync, family::RESOURCE_TYPE, "resource type", storage::resource_type, visit)
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), C1zError> {
        self.each(sync, family::RESOURCE, "resource", storage::resource, visit)
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), C1zError> {
        self.each(sync, family::ENTITLEMENT, "entitlement", storage::entitlement, visit)
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), C1zError> {
        self.each(sync, family::GRANT, "grant", storage::grant, visit)
    }

    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), C1zError> {
        self.each(sync, family::ASSET, "asset", storage::asset, visit)
    }
}

/// The files of a directory, and which of them count.
struct Directory<'a> {
    envelope: &'a Envelope,
    check_sha256: bool,
}

impl Directory<'_> {
    fn damaged(&self, reason: String) -> C1zError {
        let file = self.envelope.path.clone();
        C1zError::Damaged { file, part: "the directory".to_owned(), at: 0, reason }
    }

    fn read(&self, entry: &Entry) -> Result<Vec<u8>, C1zError> {
        self.envelope.read(entry, self.check_sha256)
    }

    /// What a marker says: of several with one name, the last one counts.
    fn marker(&self, name: &str) -> Option<&str> {
        let prefix = format!("marker.{name}.");
        let markers = self.envelope.entries.iter().filter_map(|entry| {
            let (number, value) = entry.name.strip_prefix(&prefix)?.split_once('.')?;
            Some((number.parse::<u64>().ok()?, value))
        });
        markers.max().map(|(_, value)| value)
    }

    fn rows(&self) -> Result<Rows, C1zError> {
        let path = &self.envelope.path;
        if let Some(format) = self.marker("format-version") {
            if format.parse::<u64>().is_ok_and(|format| format > FORMAT_MAX) {
                let what =
                    format!("its directory is in form {format}, and known are those up to {FORMAT_MAX}");
                return Err(C1zError::Unsupported {
                    file: path.clone(),
                    what,
                    advice: "use a newer duramen",
                });
            }
        }
        let manifest = match self.marker("manifest") {
            Some(name) => name.to_owned(),
            None => match self.envelope.entry("CURRENT") {
                Some(entry) => String::from_utf8_lossy(&self.read(entry)?).trim().to_owned(),
                None => return Err(self.damaged("no file says which manifest counts".to_owned())),
            },
        };
        let Some(entry) = self.envelope.entry(&manifest) else {
            return Err(self.damaged(format!("{manifest} is missing")));
        };
        let bytes = self.read(entry)?;
        let version = edit::read(&bytes).map_err(|bad| bad.of(path, &manifest))?;

        let mut rows = Rows::default();
        for file in version.tables.values() {
            let name = format!("{:06}.sst", file.number);
            let Some(entry) = self.envelope.entry(&name) else {
                return Err(self.damaged(format!("{name} is missing")));
            };
            let bytes = self.read(entry)?;
            rows.part(Vec::new());
            table::open(&bytes)
                .and_then(|table| table.read(file.sequence, &mut rows))
                .map_err(|bad| bad.of(path, &name))?;
        }
        let mut logs = Vec::new();
        for entry in &self.envelope.entries {
            let Some(name) = entry.name.strip_suffix(".log") else { continue };
            let Ok(number) = name.parse::<u64>() else {
                let what = format!("its log {} has a second part", entry.name);
                return Err(C1zError::Unsupported { file: path.clone(), what, advice: EXPORT_ADVICE });
            };
            if number >= version.log_number {
                logs.push((number, entry));
            }
        }
        logs.sort_unstable_by_key(|(number, _)| *number);
        self.logs(&logs, &mut rows)?;
        rows.settle();
        Ok(rows)
    }

    /// Takes in logs. Another thread decompresses the next one meanwhile.
    fn logs(&self, logs: &[(u64, &Entry)], rows: &mut Rows) -> Result<(), C1zError> {
        std::thread::scope(|scope| {
            // One log waits at most, so that there are never more than three in memory twice.
            let (sender, receiver) = std::sync::mpsc::sync_channel(1);
            scope.spawn(move || {
                for (number, entry) in logs {
                    let read = self.read(entry).map(|bytes| (*number, *entry, bytes));
                    let failed = read.is_err();
                    if sender.send(read).is_err() || failed {
                        return;
                    }
                }
            });
            for read in receiver {
                let (number, entry, bytes) = read?;
                self.log(number, &bytes, rows).map_err(|bad| bad.of(&self.envelope.path, &entry.name))?;
            }
            Ok(())
        })
    }

    fn log(&self, number: u64, bytes: &[u8], rows: &mut Rows) -> Result<(), Bad> {
        let (mut records, mut record) = (log::Records::of(bytes, Some(number)), Vec::new());
        rows.part(Vec::with_capacity(bytes.len()));
        while let Some(at) = records.next(&mut record)? {
            let base = rows.current().len();
            rows.current().extend_from_slice(&record);
            batch::read(&record, |entry| {
                let shift = |range: std::ops::Range<usize>| base + range.start..base + range.end;
                rows.change(entry.change, shift(entry.key), shift(entry.value), entry.sequence)
            })
            .map_err(|bad| Bad { at: at as u64, kind: said_of_batch(bad) })?;
        }
        Ok(())
    }
}

/// A batch is spread over chunks: where in the batch something is wrong is said beside the offset of the batch.
fn said_of_batch(bad: Bad) -> BadKind {
    match bad.kind {
        BadKind::Damaged(reason) => {
            BadKind::Damaged(format!("{reason} (byte {} of the batch)", bad.at).into())
        }
        other => other,
    }
}
