//! The files of a directory: which of them count, and the rows they make up.

use std::collections::HashMap;
use std::sync::Arc;

use super::edit::{TableFile, Version};
use super::envelope::{Entry, Envelope};
use super::key::{self, family};
use super::listed::{Listed, RowsFile};
use super::lsm::{Change, Tree};
use super::{batch, edit, log};
use crate::c1z::error::{Bad, BadKind, C1zError, EXPORT_ADVICE};

/// The newest form of directory that is known, and with it the forms of logs and tables.
const FORMAT_MAX: u64 = 24;

/// The files of a directory, and which of them count.
pub(crate) struct Directory<'a> {
    pub(crate) envelope: &'a Arc<Envelope>,
    pub(crate) check_sha256: bool,
    /// Whether rows of indexes and digests that lie in logs are kept: they repeat what other rows say.
    pub(crate) keep_indexes: bool,
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

    /// The rows that logs and tables make up. Logs are read, tables are not.
    pub(crate) fn tree(&self) -> Result<Tree, C1zError> {
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
        let version = edit::read(&bytes).map_err(|bad| bad.located(path, &manifest))?;

        let mut tree = Tree::default();
        self.tables(&version, &mut tree)?;
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
        tree.has_logs = logs.iter().any(|(_, entry)| entry.raw > 0);
        self.logs(&logs, &mut tree)?;
        tree.deletions.finish();
        tree.memory.finish(!tree.runs.is_empty());
        Ok(tree)
    }

    /// Lists the tables, and puts those behind each other that follow each other.
    fn tables(&self, version: &Version, tree: &mut Tree) -> Result<(), C1zError> {
        let mut files: Vec<(u64, &TableFile)> =
            version.tables.iter().map(|((level, _), file)| (*level, file)).collect();
        files.sort_unstable_by(|(a_level, a), (b_level, b)| {
            (a_level, &a.smallest, &a.largest).cmp(&(b_level, &b.smallest, &b.largest))
        });
        self.check_shown_once(&files)?;
        let entries: HashMap<&str, &Entry> =
            self.envelope.entries.iter().map(|entry| (entry.name.as_str(), entry)).collect();
        // Several tables can show parts of one file.
        let mut known: HashMap<u64, Arc<RowsFile>> = HashMap::new();
        let mut before: Option<(u64, &TableFile)> = None;
        for (level, file) in files {
            let rows = match known.get(&file.backing) {
                Some(rows) => Arc::clone(rows),
                None => {
                    let name = format!("{:06}.sst", file.backing);
                    let Some(entry) = entries.get(name.as_str()) else {
                        return Err(self.damaged(format!("{name} is missing")));
                    };
                    let (envelope, entry) = (Arc::clone(self.envelope), (*entry).clone());
                    let rows = Arc::new(RowsFile::new(name, envelope, entry, self.check_sha256));
                    known.insert(file.backing, Arc::clone(&rows));
                    rows
                }
            };
            let table = Listed::new(rows, file);
            // Of two tables that share a key either can hold the newer row.
            let follows = before.is_some_and(|(at, before)| {
                at == level
                    && (before.largest < file.smallest || before.is_open && before.largest == file.smallest)
            });
            match tree.runs.last_mut().filter(|_| follows) {
                Some(run) => run.push(table),
                None => tree.runs.push(vec![table]),
            }
            before = Some((level, file));
        }
        Ok(())
    }

    /// No row of a file is shown by two tables: what a file costs to read is bounded by its length.
    fn check_shown_once(&self, files: &[(u64, &TableFile)]) -> Result<(), C1zError> {
        let mut views: Vec<&TableFile> = files.iter().map(|(_, file)| *file).collect();
        views.sort_unstable_by_key(|file| (file.backing, &file.smallest, &file.largest));
        for (before, file) in views.iter().zip(views.iter().skip(1)) {
            let apart = before.largest < file.smallest || before.is_open && before.largest == file.smallest;
            if before.backing == file.backing && !apart {
                return Err(self.damaged(format!("two tables show the same rows of {:06}.sst", file.backing)));
            }
        }
        Ok(())
    }

    /// Takes in logs. Another thread decompresses the next one meanwhile.
    fn logs(&self, logs: &[(u64, &Entry)], tree: &mut Tree) -> Result<(), C1zError> {
        std::thread::scope(|scope| {
            // One log waits at most, so that there are never more than three in memory twice.
            let (sender, receiver) = std::sync::mpsc::sync_channel(1);
            // Buffers come back: memory that was used before costs less than new one.
            let (used, spare) = std::sync::mpsc::channel();
            scope.spawn(move || {
                for (number, entry) in logs {
                    let buffer = spare.try_recv().unwrap_or_default();
                    let read = self.envelope.read_into(entry, self.check_sha256, buffer);
                    let read = read.map(|bytes| (*number, *entry, bytes));
                    let failed = read.is_err();
                    if sender.send(read).is_err() || failed {
                        return;
                    }
                }
            });
            for read in receiver {
                let (number, entry, bytes) = read?;
                self.log(number, &bytes, tree)
                    .map_err(|bad| bad.located(&self.envelope.path, &entry.name))?;
                // After the last log nobody wants it.
                let _ = used.send(bytes);
            }
            Ok(())
        })
    }

    fn log(&self, number: u64, bytes: &[u8], tree: &mut Tree) -> Result<(), Bad> {
        let (mut records, mut record) = (log::Records::new(bytes, Some(number)), Vec::new());
        tree.memory.begin(bytes.len());
        while let Some(at) = records.next(&mut record)? {
            batch::read(&record, |entry| {
                let (key, value) = (&record[entry.key.clone()], &record[entry.value]);
                match key {
                    _ if entry.change == Change::DeleteRange => {
                        tree.deletions.push(entry.key.start, key, value, entry.sequence)
                    }
                    // Rows of indexes repeat what the rows say.
                    [key::VERSION, family::INDEX | family::DIGEST, ..] if !self.keep_indexes => Ok(()),
                    _ => tree.memory.change(entry.key.start, entry.change, key, value, entry.sequence),
                }
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

#[cfg(test)]
#[path = "directory/tests.rs"]
mod tests;
