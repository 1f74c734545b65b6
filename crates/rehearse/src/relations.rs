//! Tables and indexes before and after: files, sizes, rows written.

use crate::error::RehearseError;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Relations that are looked at.
const RELATIONS_MAX: usize = 200_000;

/// A table's size includes what is stored out of line.
const RELATIONS: &str = "
SELECT c.oid, pg_catalog.format('%I.%I', n.nspname, c.relname), c.relkind::pg_catalog.text,
       coalesce(pg_catalog.pg_relation_filenode(c.oid), 0)::pg_catalog.int8,
       CASE WHEN c.relkind IN ('r', 'm', 'i', 't') THEN coalesce(pg_catalog.pg_relation_size(c.oid), 0)
            + CASE WHEN c.reltoastrelid <> 0 THEN coalesce(pg_catalog.pg_total_relation_size(c.reltoastrelid), 0) ELSE 0 END
            ELSE 0 END,
       coalesce(pg_catalog.pg_stat_get_tuples_inserted(c.oid), 0), coalesce(pg_catalog.pg_stat_get_tuples_updated(c.oid), 0),
       coalesce(pg_catalog.pg_stat_get_tuples_deleted(c.oid), 0), coalesce(i.indisvalid, true),
       coalesce((SELECT pg_catalog.format('%I.%I', m.nspname, t.relname) FROM pg_catalog.pg_class t
                 JOIN pg_catalog.pg_namespace m ON m.oid = t.relnamespace WHERE t.oid = i.indrelid), '')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
WHERE c.relkind IN ('r', 'm', 'i', 'p', 'I', 'v', 'S', 'f') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
ORDER BY c.oid LIMIT 200000";

/// What a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// A table, or a partition.
    Table,
    /// A partitioned table or index, which has no file.
    Partitioned,
    /// A materialised view.
    MaterializedView,
    /// An index.
    Index,
    /// Anything else that can be locked.
    Other,
}

impl Kind {
    fn of(letter: &str) -> Kind {
        match letter {
            "r" => Kind::Table,
            "m" => Kind::MaterializedView,
            "i" => Kind::Index,
            "p" | "I" => Kind::Partitioned,
            _ => Kind::Other,
        }
    }

    /// As it is said.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Partitioned => "partitioned",
            Kind::MaterializedView => "materialized view",
            Kind::Index => "index",
            Kind::Other => "other",
        }
    }

    fn has_file(self) -> bool {
        matches!(self, Kind::Table | Kind::MaterializedView | Kind::Index)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    file: i64,
    bytes: u64,
    written: [i64; 3],
    is_valid: bool,
    /// For an index: its table.
    table: String,
}

/// The relations of a branch at one moment, by id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Relations {
    pub(crate) all: BTreeMap<u32, Relation>,
    pub(crate) is_cut: bool,
}

/// What happened to a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum What {
    /// It has another file: it was truncated, or written anew as a whole.
    Rewritten,
    /// It was not there.
    Created,
    /// It is not there any more.
    Dropped,
    /// Rows of it were written, or its size changed.
    Written,
}

/// A relation that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelationChange {
    /// Its name in SQL: `schema.name`.
    pub name: String,
    /// The name that it had, if that was another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// For an index: its table.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub table: String,
    /// What happened to it.
    pub what: What,
    /// Its size before, with what is stored out of line, in bytes.
    pub bytes_before: u64,
    /// Its size after.
    pub bytes_after: u64,
    /// Rows that were inserted, by the migration and the load.
    pub inserted: u64,
    /// Rows that were updated.
    pub updated: u64,
    /// Rows that were deleted.
    pub deleted: u64,
    /// For an index: whether it can be used. One that is not valid is what a failed `CREATE INDEX CONCURRENTLY` leaves.
    pub is_valid: bool,
}

impl Relations {
    pub(crate) async fn read(probe: &Client) -> Result<Relations, RehearseError> {
        let rows = probe.query(RELATIONS, &[]).await;
        let rows = rows.map_err(RehearseError::query("read the tables and indexes of the branch"))?;
        let is_cut = rows.len() >= RELATIONS_MAX;
        let relation = |row: &tokio_postgres::Row| {
            let relation = Relation {
                name: row.get(1),
                kind: Kind::of(row.get(2)),
                file: row.get(3),
                bytes: u64::try_from(row.get::<_, i64>(4)).unwrap_or_default(),
                written: [row.get(5), row.get(6), row.get(7)],
                is_valid: row.get(8),
                table: row.get(9),
            };
            (row.get::<_, u32>(0), relation)
        };
        Ok(Relations { all: rows.iter().map(relation).collect(), is_cut })
    }

    /// What is not as it was, what was rewritten first.
    pub(crate) fn changes(&self, after: &Relations) -> Vec<RelationChange> {
        let mut changes = Vec::new();
        for (id, now) in &after.all {
            let before = self.all.get(id);
            let old = before.map_or([0; 3], |before| before.written);
            let written: [i64; 3] = std::array::from_fn(|at| now.written[at] - old[at]);
            let renamed_from = before.filter(|before| before.name != now.name).map(|it| it.name.clone());
            let bytes_before = before.map_or(0, |before| before.bytes);
            let what = match before {
                None => What::Created,
                Some(before) if before.file != now.file && now.kind.has_file() => What::Rewritten,
                Some(before)
                    if written != [0; 3]
                        || bytes_before != now.bytes
                        || renamed_from.is_some()
                        || before.is_valid != now.is_valid =>
                {
                    What::Written
                }
                Some(_) => continue,
            };
            changes.push(RelationChange {
                renamed_from,
                bytes_before,
                ..now.changed(what, written.map(|rows| u64::try_from(rows).unwrap_or_default()))
            });
        }
        for (id, gone) in &self.all {
            if !after.all.contains_key(id) {
                let change = gone.changed(What::Dropped, [0; 3]);
                changes.push(RelationChange { bytes_before: gone.bytes, bytes_after: 0, ..change });
            }
        }
        changes.retain(|change| change.kind != Kind::Other || change.renamed_from.is_some());
        changes.sort_by(|one, other| {
            let key = |it: &RelationChange| (it.what, std::cmp::Reverse(it.bytes_before.max(it.bytes_after)));
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
        changes
    }
}

impl Relation {
    fn changed(&self, what: What, written: [u64; 3]) -> RelationChange {
        let [inserted, updated, deleted] = written;
        RelationChange {
            name: self.name.clone(),
            renamed_from: None,
            kind: self.kind,
            table: self.table.clone(),
            what,
            bytes_before: 0,
            bytes_after: self.bytes,
            inserted,
            updated,
            deleted,
            is_valid: self.is_valid,
        }
    }
}
