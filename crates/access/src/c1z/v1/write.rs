//! Writes version 1 files.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rusqlite::{params, Connection, ToSql};

use super::{schema, scratch, time, MAGIC};
use crate::c1z::connector;
use crate::c1z::error::C1zError;
use crate::c1z::losses::Losses;
use crate::c1z::WriteOptions;
use crate::graph::{
    Asset, Entitlement, Extra, Grant, GrantRef, GraphSink, Loss, Resource, ResourceType, Sync, Timestamp,
};
use duramen_pack::container::Temporary;

const FIELDS_OF_RECORDS: &str = "unknown fields of stored records";
const FIELDS_OF_CONNECTORS: &str = "unknown fields of connector messages";
const NO_TIME: &str = "that no time of discovery is known (the beginning of the sync is written)";
const BAD_TIME: &str = "a time that no calendar has (the beginning of the sync is written)";
// A version 1 file knows a resource by `type:id`, and an entitlement by its id alone.
const JOINED: &str = "all but the last of several resources whose type and id make one text";
const SHARED_ID: &str = "all but the last of several entitlements of one id";
const NO_EXPANSION: &str = "an expansion that names no entitlement";
const EXPANDS: &str = "an annotation that says an expansion beside none (it is read as the expansion)";

/// Writes one version 1 file, which holds any number of syncs.
///
/// The file appears under its name when [`finish`](Self::finish) returns, durably; a writer that is dropped before
/// leaves nothing. A second writer of the same file is refused. Times are written in UTC, or in the zone of the options.
///
/// ```
/// use duramen_access::c1z::{C1z1, C1z1Writer, ReadOptions, WriteOptions};
/// use duramen_access::graph::{GraphSink, GraphSource, Sync};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("sync.c1z");
/// let mut writer = C1z1Writer::create(&path, &WriteOptions::default())?;
/// for id in ["2aGyRUbxAdE4MTzLqMxgsT1HNjq", "2aGyRWGmu5kZmV8UYWUZ9ISXyhE"] {
///     writer.begin_sync(&Sync { id: id.to_owned(), ..Sync::default() })?;
///     writer.end_sync()?;
/// }
/// writer.finish()?;
/// assert_eq!(C1z1::open(&path, &ReadOptions::default())?.syncs()?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct C1z1Writer {
    path: PathBuf,
    target: Temporary,
    database: Connection,
    temporary: File,
    options: WriteOptions,
    zone: TimeZone,
    losses: Losses,
    /// The sync that was begun, and the time that stands for unknown ones in it.
    sync: Option<(String, String)>,
    /// The ids of all syncs so far.
    begun: Vec<String>,
    poisoned: bool,
    data: Vec<u8>,
}

impl C1z1Writer {
    /// Begins a file. What is there under that name stays until [`finish`](Self::finish).
    ///
    /// # Errors
    ///
    /// [`C1zError::Locked`] when somebody else writes the same file; [`C1zError::Io`] when the folder does not take it.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<C1z1Writer, C1zError> {
        let target = Temporary::create(path).map_err(|error| C1zError::of_pack(error, path))?;
        let (database, temporary) = scratch::database(path)?;
        // The database is worth nothing before it is compressed: nothing of it has to survive anything.
        database
            .execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;")
            .and_then(|()| database.execute_batch(schema::TABLES))
            .map_err(C1zError::sqlite("making the database", path))?;
        Ok(C1z1Writer {
            path: path.to_owned(),
            target,
            database,
            temporary,
            options: options.clone(),
            zone: options.zone.clone().unwrap_or(TimeZone::UTC),
            losses: Losses::default(),
            sync: None,
            begun: Vec::new(),
            poisoned: false,
            data: Vec::new(),
        })
    }

    /// Completes the file: when this returns, it is durable under its name. Gives its length in bytes.
    ///
    /// # Errors
    ///
    /// [`C1zError::Order`] within a sync; [`C1zError::Io`] or [`C1zError::Sqlite`] when the system fails: the file that
    /// was there before is untouched then.
    pub fn finish(mut self) -> Result<u64, C1zError> {
        self.expect_sound("finishing the file")?;
        if self.sync.is_some() {
            return Err(C1zError::Order { doing: "finishing the file", reason: "end the sync first" });
        }
        let path = self.path.clone();
        let failed = || C1zError::sqlite("finishing the database", &path);
        self.database.execute_batch(schema::INDEXES).map_err(failed())?;
        self.database.close().map_err(|(_, error)| failed()(error))?;
        let io = || C1zError::io("compressing the database for", &path);
        let source = &mut self.temporary;
        let length = source.seek(SeekFrom::End(0)).map_err(io())?;
        source.seek(SeekFrom::Start(0)).map_err(io())?;
        let bytes = compress(source, length, self.target.file(), self.options.level).map_err(io())?;
        self.target.place().map_err(|error| C1zError::of_pack(error, &path))?;
        Ok(bytes)
    }

    /// After an error of the system nobody knows what is in the database.
    fn expect_sound(&self, doing: &'static str) -> Result<(), C1zError> {
        match self.poisoned {
            true => Err(C1zError::Order { doing, reason: "writing failed before: begin the file again" }),
            false => Ok(()),
        }
    }

    /// The sync that rows go to, and the time that stands for unknown ones.
    fn sync(&self) -> Result<(&str, &str), C1zError> {
        self.expect_sound("putting a row")?;
        match &self.sync {
            Some((id, started)) => Ok((id, started)),
            None => Err(C1zError::Order { doing: "putting a row", reason: "begin a sync first" }),
        }
    }

    /// The text of a time of discovery.
    fn discovered(
        &mut self,
        row: &'static str,
        id: &str,
        time: Option<Timestamp>,
    ) -> Result<String, C1zError> {
        let (what, text) = match time.map(|time| time::format(time, &self.zone)) {
            Some(Some(text)) => return Ok(text),
            Some(None) => (BAD_TIME, self.sync()?.1.to_owned()),
            None => (NO_TIME, self.sync()?.1.to_owned()),
        };
        self.losses.note(row, what, id);
        Ok(text)
    }

    fn note_extra(&mut self, row: &'static str, id: &str, extra: &Extra) {
        if !extra.storage.is_empty() {
            self.losses.note(row, FIELDS_OF_RECORDS, id);
        }
    }

    /// The message of a grant's expansion. Without one, an annotation that says one is taken for it by readers.
    fn expansion(&mut self, grant: &Grant) -> Option<Vec<u8>> {
        if let Some(expansion) = &grant.expansion {
            if connector::names_entitlement(expansion) {
                let mut bytes = Vec::new();
                connector::put_expansion(&mut bytes, expansion);
                return Some(bytes);
            }
            self.losses.note("grant", NO_EXPANSION, &grant.id);
        }
        let says = |any| connector::expansion_of(any).is_ok_and(|expansion| expansion.is_some());
        if grant.annotations.iter().any(says) {
            self.losses.note("grant", EXPANDS, &grant.id);
        }
        None
    }

    /// Runs one statement. Gives how many rows it changed.
    fn execute(&mut self, sql: &str, values: impl rusqlite::Params) -> Result<usize, C1zError> {
        let done = self.database.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        self.poisons("writing a row", done)
    }

    /// Puts a row that may stand in the place of another one: that one goes then, and is counted as a loss.
    fn put_in_place(
        &mut self,
        (put, remove): (&str, &str),
        (row, what, id): (&'static str, &'static str, &str),
        key: &[&dyn ToSql],
        values: &[&dyn ToSql],
    ) -> Result<(), C1zError> {
        if self.execute(put, values)? == 0 {
            self.losses.note(row, what, id);
            self.execute(remove, key)?;
            self.execute(put, values)?;
        }
        Ok(())
    }

    fn poisons<T>(&mut self, doing: &'static str, done: rusqlite::Result<T>) -> Result<T, C1zError> {
        self.poisoned |= done.is_err();
        done.map_err(C1zError::sqlite(doing, &self.path))
    }
}

/// Writes magic and frame. Gives how many bytes that is.
fn compress(source: &mut File, length: u64, mut target: &File, level: i32) -> std::io::Result<u64> {
    target.write_all(&MAGIC)?;
    let mut encoder = zstd::stream::write::Encoder::new(target, level)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(length))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        encoder.write_all(&buffer[..read])?;
    }
    encoder.finish()?;
    target.stream_position()
}

impl GraphSink for C1z1Writer {
    type Error = C1zError;

    fn begin_sync(&mut self, sync: &Sync) -> Result<(), C1zError> {
        self.expect_sound("beginning a sync")?;
        if self.sync.is_some() {
            return Err(C1zError::Order { doing: "beginning a sync", reason: "end the other sync first" });
        }
        let Some(started) = time::format(sync.started_at, &self.zone) else {
            let reason = "its beginning is a time that no calendar has".to_owned();
            return Err(C1zError::Row { row: "sync", id: sync.id.clone(), reason });
        };
        let ended = match sync.ended_at.map(|time| time::format(time, &self.zone)) {
            Some(None) => {
                let reason = "its end is a time that no calendar has".to_owned();
                return Err(C1zError::Row { row: "sync", id: sync.id.clone(), reason });
            }
            ended => ended.flatten(),
        };
        if self.begun.contains(&sync.id) {
            let reason = "there is a sync of that id in the file already".to_owned();
            return Err(C1zError::Row { row: "sync", id: sync.id.clone(), reason });
        }
        let begun = self.database.execute_batch("BEGIN");
        self.poisons("beginning a transaction", begun)?;
        self.note_extra("sync", &sync.id, &sync.extra);
        if !sync.extra.connector.is_empty() {
            self.losses.note("sync", FIELDS_OF_CONNECTORS, &sync.id);
        }
        if sync.compacted {
            self.losses.note("sync", "that it was compacted", &sync.id);
        }
        let sql = "INSERT INTO v1_sync_runs (sync_id, started_at, ended_at, sync_token, sync_type, parent_sync_id, \
                   linked_sync_id, supports_diff, grants_backfilled) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1)";
        let parent = sync.parent.as_deref().unwrap_or_default();
        let linked = sync.linked.as_deref().unwrap_or_default();
        let (kind, marks) = (sync.kind_name(), sync.supports_diff);
        self.execute(sql, params![sync.id, started, ended, sync.token, kind, parent, linked, marks])?;
        self.begun.push(sync.id.clone());
        self.sync = Some((sync.id.clone(), started));
        Ok(())
    }

    fn put_resource_type(&mut self, row: &ResourceType) -> Result<(), C1zError> {
        let discovered = self.discovered("resource type", &row.id, row.discovered_at)?;
        self.note_extra("resource type", &row.id, &row.extra);
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        connector::put_resource_type(&mut data, row);
        let sync = self.sync()?.0.to_owned();
        let done = self.execute(schema::PUT_RESOURCE_TYPE, params![row.id, data, sync, discovered]);
        self.data = data;
        done.map(drop)
    }

    fn put_resource(&mut self, row: &Resource) -> Result<(), C1zError> {
        let discovered = self.discovered("resource", &row.id.resource, row.discovered_at)?;
        self.note_extra("resource", &row.id.resource, &row.extra);
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        connector::put_resource(&mut data, row);
        let sync = self.sync()?.0.to_owned();
        let external = format!("{}:{}", row.id.resource_type, row.id.resource);
        let parent = row.parent.as_ref();
        let parent_type = parent.map(|parent| parent.resource_type.as_str());
        let parent = parent.map(|parent| parent.resource.as_str());
        let values = params![row.id.resource_type, external, parent_type, parent, data, sync, discovered];
        let lost = ("resource", JOINED, row.id.resource.as_str());
        let done = self.put_in_place(schema::RESOURCE, lost, params![external, sync], values);
        self.data = data;
        done
    }

    fn put_entitlement(&mut self, row: &Entitlement) -> Result<(), C1zError> {
        let discovered = self.discovered("entitlement", &row.id, row.discovered_at)?;
        self.note_extra("entitlement", &row.id, &row.extra);
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        connector::put_entitlement(&mut data, row);
        let sync = self.sync()?.0.to_owned();
        let resource = &row.resource;
        let values = params![resource.resource_type, resource.resource, row.id, data, sync, discovered];
        let lost = ("entitlement", SHARED_ID, row.id.as_str());
        let done = self.put_in_place(schema::ENTITLEMENT, lost, params![row.id, sync], values);
        self.data = data;
        done
    }

    fn put_grant(&mut self, row: &GrantRef<'_>) -> Result<(), C1zError> {
        let discovered = self.discovered("grant", row.id, row.discovered_at)?;
        if let Some(rest) = row.rest {
            self.note_extra("grant", row.id, &rest.extra);
        }
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        connector::put_grant(&mut data, row);
        let expansion = row.rest.and_then(|rest| self.expansion(rest));
        let needs_expansion = row.rest.is_some_and(|rest| rest.needs_expansion);
        if needs_expansion && expansion.is_none() {
            self.losses.note("grant", "that it needs expansion, without one", row.id);
        }
        let sync = self.sync()?.0.to_owned();
        let values = params![
            row.resource_type,
            row.resource,
            row.entitlement,
            row.principal_type,
            row.principal,
            row.id,
            expansion,
            needs_expansion,
            data,
            sync,
            discovered,
        ];
        let done = self.execute(schema::PUT_GRANT, values);
        self.data = data;
        done.map(drop)
    }

    fn put_asset(&mut self, row: &Asset) -> Result<(), C1zError> {
        let discovered = self.discovered("asset", &row.id, row.discovered_at)?;
        let sync = self.sync()?.0.to_owned();
        self.execute(schema::PUT_ASSET, params![row.id, row.content_type, row.data, sync, discovered])
            .map(drop)
    }

    fn end_sync(&mut self) -> Result<(), C1zError> {
        self.expect_sound("ending the sync")?;
        if self.sync.take().is_none() {
            return Err(C1zError::Order { doing: "ending the sync", reason: "begin a sync first" });
        }
        let committed = self.database.execute_batch("COMMIT");
        self.poisons("committing", committed)
    }

    fn losses(&self) -> &[Loss] {
        self.losses.all()
    }
}
