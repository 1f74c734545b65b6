//! Reads version 1 files.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::{remains, scratch, time, MAGIC};
use crate::c1z::connector;
use crate::c1z::decompress;
use crate::c1z::error::{Bad, C1zError};
use crate::c1z::losses::Losses;
use crate::c1z::{ReadOptions, Version};
use crate::graph::format::ksuid;
use crate::graph::{
    Asset, Entitlement, EntitlementRef, Grant, GraphSource, Loss, Resource, ResourceId, ResourceType, Sync,
    Timestamp,
};

/// A version 1 file, unpacked.
///
/// The database lies in a temporary file without a name as long as this exists.
pub struct C1z1 {
    path: PathBuf,
    database: Connection,
    zone: TimeZone,
    left_out: Losses,
    file_bytes: u64,
    raw_bytes: u64,
}

/// A visit, as sources take it.
type Visit<'a, R> = &'a mut dyn FnMut(R) -> ControlFlow<()>;

/// One row on its way: a column of it, read as what it has to be.
struct Columns<'a, 'r> {
    row: &'a Row<'r>,
    table: &'static str,
    path: &'a Path,
    zone: &'a TimeZone,
}

impl Columns<'_, '_> {
    fn value(&self, column: &str) -> Result<ValueRef<'_>, C1zError> {
        self.row.get_ref(column).map_err(C1zError::sqlite("reading a column", self.path))
    }

    fn bad(&self, column: &str, reason: &str) -> C1zError {
        let part = format!("column {column} of {}", self.table);
        C1zError::Damaged { file: self.path.to_owned(), part, at: 0, reason: reason.to_owned() }
    }

    /// The text of a column; empty for null.
    fn text(&self, column: &str) -> Result<&str, C1zError> {
        match self.value(column)? {
            ValueRef::Null => Ok(""),
            ValueRef::Text(text) => {
                std::str::from_utf8(text).map_err(|_| self.bad(column, "text that is not UTF-8"))
            }
            _ => Err(self.bad(column, "no text")),
        }
    }

    fn blob(&self, column: &str) -> Result<&[u8], C1zError> {
        match self.value(column)? {
            ValueRef::Null => Ok(&[]),
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(bytes),
            _ => Err(self.bad(column, "no bytes")),
        }
    }

    /// The bytes of a column that no writer leaves out.
    fn content(&self, column: &str) -> Result<&[u8], C1zError> {
        match self.value(column)? {
            ValueRef::Null => Err(self.bad(column, "nothing")),
            _ => self.blob(column),
        }
    }

    fn flag(&self, column: &str) -> Result<bool, C1zError> {
        match self.value(column)? {
            ValueRef::Null => Ok(false),
            ValueRef::Integer(number) => Ok(number != 0),
            _ => Err(self.bad(column, "no number")),
        }
    }

    fn time(&self, column: &str) -> Result<Option<Timestamp>, C1zError> {
        match self.text(column)? {
            "" => Ok(None),
            text => match time::parse(text, self.zone) {
                Some(time) => Ok(Some(time)),
                None => Err(self.bad(column, &format!("{text:?} is not a time"))),
            },
        }
    }

    /// The message in the column `data`.
    fn message<M>(&self, decode: impl Fn(&[u8]) -> Result<M, Bad>) -> Result<M, C1zError> {
        let bytes = self.content("data")?;
        decode(bytes).map_err(|bad| bad.located(self.path, &format!("column data of {}", self.table)))
    }
}

impl C1z1 {
    /// Opens a file and unpacks its database.
    ///
    /// # Errors
    ///
    /// [`C1zError::Truncated`], [`C1zError::Damaged`], [`C1zError::TrailingBytes`] or [`C1zError::TooLarge`] say where
    /// the file is not what it has to be; [`C1zError::Sqlite`] when SQLite does not take the database.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<C1z1, C1zError> {
        crate::c1z::expect(Version::V1, path)?;
        let (database, mut unpacked) = scratch::database(path)?;
        let start = MAGIC.len() as u64;
        let raw_bytes = decompress::frame(path, start, "the database", &mut unpacked, options)?;
        let file_bytes =
            std::fs::metadata(path).map_err(C1zError::io("asking for the length of", path))?.len();
        scratch::end_log(&unpacked).map_err(C1zError::io("unpacking", path))?;
        // What the schema of a stranger calls may do nothing but compute.
        database
            .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
            .map_err(C1zError::sqlite("opening the database", path))?;
        let zone = options.zone.clone().unwrap_or(TimeZone::UTC);
        let left_out = Losses::default();
        let mut file = C1z1 { path: path.to_owned(), database, zone, left_out, file_bytes, raw_bytes };
        file.check()?;
        file.left_out =
            remains::of(&file.database).map_err(C1zError::sqlite("counting what is left out", path))?;
        Ok(file)
    }

    /// How long the file is, and how long its database is, in bytes.
    pub fn sizes(&self) -> (u64, u64) {
        (self.file_bytes, self.raw_bytes)
    }

    /// What the file holds that is not a row of a graph, and that [`GraphSource`] therefore does not give.
    pub fn left_out(&self) -> &[Loss] {
        self.left_out.all()
    }

    fn check(&mut self) -> Result<(), C1zError> {
        let sqlite = C1zError::sqlite("checking the database", &self.path);
        // The frame's checksum covers the file, if it has one: this covers what its writer got wrong.
        let said: String =
            self.database.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
        if said != "ok" {
            let part = "the database".to_owned();
            return Err(C1zError::Damaged { file: self.path.clone(), part, at: 0, reason: said });
        }
        if !self.has_table("v1_sync_runs")? {
            let what = "its database has no table v1_sync_runs".to_owned();
            let advice = "the database is not one of the ecosystem's: open it with SQLite";
            return Err(C1zError::Unsupported { file: self.path.clone(), what, advice });
        }
        Ok(())
    }

    /// By how many seconds the beginning of a sync is off the second in its id, if that is what another time zone makes
    /// of it: its writer's clock may not have been in the zone that the file is read in. With the id of the sync.
    ///
    /// # Errors
    ///
    /// [`C1zError::Damaged`] or [`C1zError::Sqlite`] when the syncs cannot be read.
    pub fn zone_offset(&self) -> Result<Option<(i64, String)>, C1zError> {
        for sync in self.syncs()? {
            let Some(made) = ksuid::second_of(&sync.id) else { continue };
            let off = sync.started_at.seconds - made;
            // Zones differ by quarters of an hour, and a sync begins when its id is made.
            let quarters = (off + 450).div_euclid(900);
            if quarters != 0 && quarters.abs() <= 14 * 4 && (off - quarters * 900).abs() <= 60 {
                return Ok(Some((quarters * 900, sync.id)));
            }
        }
        Ok(None)
    }

    fn has_table(&self, name: &str) -> Result<bool, C1zError> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let count: u64 = self
            .database
            .query_row(sql, [name], |row| row.get(0))
            .map_err(C1zError::sqlite("reading the schema", &self.path))?;
        Ok(count > 0)
    }

    fn has_column(&self, table: &str, column: &str) -> Result<bool, C1zError> {
        let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
        let count: u64 = self
            .database
            .query_row(sql, [table, column], |row| row.get(0))
            .map_err(C1zError::sqlite("reading the schema", &self.path))?;
        Ok(count > 0)
    }

    /// Columns that files of old writers lack are read as null.
    fn select(&self, table: &'static str, columns: &[&str], rest: &str) -> Result<String, C1zError> {
        let mut list = Vec::with_capacity(columns.len());
        for column in columns {
            let has = self.has_column(table, column)?;
            list.push(if has { (*column).to_owned() } else { format!("NULL AS {column}") });
        }
        Ok(format!("SELECT {} FROM {table} {rest}", list.join(", ")))
    }

    fn each<R>(
        &self,
        sync: &str,
        table: &'static str,
        columns: &[&str],
        decode: impl Fn(&Columns<'_, '_>) -> Result<R, C1zError>,
        visit: Visit<'_, R>,
    ) -> Result<(), C1zError> {
        if !self.syncs()?.iter().any(|known| known.id == sync) {
            return Err(C1zError::NoSuchSync { file: self.path.clone(), sync: sync.to_owned() });
        }
        if !self.has_table(table)? {
            return Ok(());
        }
        let sql = self.select(table, columns, "WHERE sync_id = ?1 ORDER BY id")?;
        let failed = || C1zError::sqlite("reading rows", &self.path);
        let mut statement = self.database.prepare(&sql).map_err(failed())?;
        let mut rows = statement.query([sync]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            if visit(decode(&Columns { row, table, path: &self.path, zone: &self.zone })?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl GraphSource for C1z1 {
    type Error = C1zError;

    fn syncs(&self) -> Result<Vec<Sync>, C1zError> {
        let table = "v1_sync_runs";
        let columns = [
            "sync_id",
            "started_at",
            "ended_at",
            "sync_token",
            "sync_type",
            "parent_sync_id",
            "linked_sync_id",
            "supports_diff",
        ];
        let sql = self.select(table, &columns, "ORDER BY started_at, id")?;
        let failed = || C1zError::sqlite("reading syncs", &self.path);
        let mut statement = self.database.prepare(&sql).map_err(failed())?;
        let mut rows = statement.query([]).map_err(failed())?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed())? {
            let columns = Columns { row, table, path: &self.path, zone: &self.zone };
            let optional =
                |column| columns.text(column).map(|text| (!text.is_empty()).then(|| text.to_owned()));
            let mut sync = Sync { id: columns.text("sync_id")?.to_owned(), ..Sync::default() };
            // Writers who know no kinds make full syncs.
            sync.set_kind(Some(columns.text("sync_type")?).filter(|name| !name.is_empty()).unwrap_or("full"));
            found.push(Sync {
                parent: optional("parent_sync_id")?,
                linked: optional("linked_sync_id")?,
                started_at: columns.time("started_at")?.unwrap_or_default(),
                ended_at: columns.time("ended_at")?,
                token: columns.text("sync_token")?.to_owned(),
                supports_diff: columns.flag("supports_diff")?,
                ..sync
            });
        }
        Ok(found)
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), C1zError> {
        let decode = |columns: &Columns<'_, '_>| {
            let row = columns.message(connector::resource_type)?;
            Ok(ResourceType { discovered_at: columns.time("discovered_at")?, ..row })
        };
        self.each(sync, "v1_resource_types", &["data", "discovered_at"], decode, visit)
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), C1zError> {
        let decode = |columns: &Columns<'_, '_>| {
            let row = columns.message(connector::resource)?;
            Ok(Resource { discovered_at: columns.time("discovered_at")?, ..row })
        };
        self.each(sync, "v1_resources", &["data", "discovered_at"], decode, visit)
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), C1zError> {
        let decode = |columns: &Columns<'_, '_>| {
            let row = columns.message(connector::entitlement)?;
            Ok(Entitlement { discovered_at: columns.time("discovered_at")?, ..row })
        };
        self.each(sync, "v1_entitlements", &["data", "discovered_at"], decode, visit)
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), C1zError> {
        let decode = |columns: &Columns<'_, '_>| {
            // Of old writers the expansion is still among the annotations, and the column is empty.
            let expansion = columns.blob("expansion")?;
            let (mut row, has_entitlement, has_principal) =
                columns.message(|bytes| connector::grant(bytes, expansion.is_empty()))?;
            if !has_entitlement {
                let resource =
                    ResourceId::new(columns.text("resource_type_id")?, columns.text("resource_id")?);
                row.entitlement = EntitlementRef { resource, id: columns.text("entitlement_id")?.to_owned() };
            }
            if !has_principal {
                let (kind, id) =
                    (columns.text("principal_resource_type_id")?, columns.text("principal_resource_id")?);
                row.principal.id = ResourceId::new(kind, id);
            }
            if !expansion.is_empty() {
                let bad = |bad: Bad| bad.located(columns.path, "column expansion of v1_grants");
                row.expansion = connector::expansion(expansion).map_err(bad)?;
                row.needs_expansion = columns.flag("needs_expansion")?;
            }
            row.discovered_at = columns.time("discovered_at")?;
            Ok(row)
        };
        let columns = [
            "data",
            "discovered_at",
            "resource_type_id",
            "resource_id",
            "entitlement_id",
            "principal_resource_type_id",
            "principal_resource_id",
            "expansion",
            "needs_expansion",
        ];
        self.each(sync, "v1_grants", &columns, decode, visit)
    }

    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), C1zError> {
        let decode = |columns: &Columns<'_, '_>| {
            Ok(Asset {
                id: columns.text("external_id")?.to_owned(),
                content_type: columns.text("content_type")?.to_owned(),
                data: columns.content("data")?.to_vec(),
                discovered_at: columns.time("discovered_at")?,
            })
        };
        self.each(sync, "v1_assets", &["external_id", "content_type", "data", "discovered_at"], decode, visit)
    }
}
