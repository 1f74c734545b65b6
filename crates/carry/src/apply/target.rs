//! What the database has of the tables in a change set.

use super::run::Run;
use crate::{error::ApplyError, read::ChangeSet};
use std::collections::{BTreeMap, BTreeSet};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetColumn {
    pub(crate) type_name: String,
    /// Whether the system's operator `=` compares values of its type, and not one that a user made.
    pub(crate) is_compared_by_system: bool,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetTable {
    pub(crate) id: u32,
    /// The partitioned tables that it is a part of, and itself.
    pub(crate) lineage: Vec<u32>,
    pub(crate) columns: BTreeMap<String, TargetColumn>,
    /// Sets of columns of which no two rows have the same values.
    pub(crate) keys: Vec<BTreeSet<String>>,
    /// Triggers of users that fire, and the letter that says when.
    pub(crate) triggers: Vec<(String, String)>,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignKey {
    /// The table that has it, and whether that is partitioned.
    pub(crate) child: u32,
    pub(crate) is_partitioned: bool,
    pub(crate) child_name: (String, String),
    pub(crate) parent: u32,
    /// Pairs of columns: its own, and the ones that they refer to.
    pub(crate) columns: Vec<(String, String)>,
    /// Whether rows that refer to one that goes are changed, or go with it.
    pub(crate) cascades: bool,
}

/// What the database has. Tables stand at the places that they have in the change set.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue {
    pub(crate) tables: Vec<Option<TargetTable>>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
}

impl Catalogue {
    /// Reads it. Names have to mean what the system means.
    pub(crate) async fn read(run: &Run<'_>, set: &ChangeSet) -> Result<Catalogue, ApplyError> {
        const DOING: &str = "reading what the database has";
        let mut tables: Vec<Option<TargetTable>> = vec![None; set.tables().len()];
        let (schemas, names): (Vec<&str>, Vec<&str>) = set
            .tables()
            .iter()
            .map(|stored| (stored.table.schema.as_str(), stored.table.name.as_str()))
            .unzip();
        let found = run
.rows(
            DOING,
            "SELECT w.number - 1, c.oid, \
               ARRAY(SELECT a.relid::oid FROM pg_partition_ancestors(c.oid) a WHERE a.relid <> c.oid) || c.oid \
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY w (schema, name, number) \
               JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name \
             WHERE c.relkind = 'r'",
            &[&schemas, &names],
        ).await?;
        let mut places = BTreeMap::new();
        for row in found {
            let place = usize::try_from(row.get::<_, i64>(0)).unwrap_or(usize::MAX);
            let id: u32 = row.get(1);
            if let Some(table) = tables.get_mut(place) {
                places.insert(id, place);
                let (columns, keys, triggers) = (BTreeMap::new(), Vec::new(), Vec::new());
                *table = Some(TargetTable { id, lineage: row.get(2), columns, keys, triggers });
            }
        }
        let ids: Vec<u32> = places.keys().copied().collect();
        let place = |id: u32| places.get(&id).copied().unwrap_or(usize::MAX);
        let columns = run
.rows(
            DOING,
            "SELECT a.attrelid, a.attname::text, format_type(a.atttypid, a.atttypmod), \
               coalesce(e.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace OR t.typtype IN ('e', 'r', 'm') \
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = nullif(t.typbasetype, 0) \
             WHERE a.attrelid = ANY($1) AND a.attnum > 0 AND NOT a.attisdropped",
            &[&ids],
        ).await?;
        for row in columns {
            if let Some(table) = tables.get_mut(place(row.get(0))).and_then(Option::as_mut) {
                let column = TargetColumn { type_name: row.get(2), is_compared_by_system: row.get(3) };
                table.columns.insert(row.get(1), column);
            }
        }
        let keys = run
.rows(
            DOING,
            "SELECT i.indrelid, ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (number, place) \
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts) \
             FROM pg_index i WHERE i.indrelid = ANY($1) AND i.indisunique AND i.indisvalid AND i.indisready \
               AND i.indpred IS NULL AND i.indexprs IS NULL",
            &[&ids],
        ).await?;
        for row in keys {
            if let Some(table) = tables.get_mut(place(row.get(0))).and_then(Option::as_mut) {
                table.keys.push(row.get::<_, Vec<String>>(1).into_iter().collect());
            }
        }
        let triggers = run
            .rows(
                DOING,
                "SELECT t.tgrelid, t.tgname::text, t.tgenabled::text FROM pg_trigger t \
             WHERE t.tgrelid = ANY($1) AND NOT t.tgisinternal AND t.tgenabled <> 'D' ORDER BY 2",
                &[&ids],
            )
            .await?;
        for row in triggers {
            if let Some(table) = tables.get_mut(place(row.get(0))).and_then(Option::as_mut) {
                table.triggers.push((row.get(1), row.get(2)));
            }
        }
        let parents: Vec<u32> = tables.iter().flatten().flat_map(|table| table.lineage.clone()).collect();
        let foreign_keys = run
.rows(
            DOING,
            "SELECT f.conrelid, c.relkind = 'p', n.nspname::text, c.relname::text, f.confrelid, f.confdeltype IN ('c', 'n', 'd'), \
               ARRAY(SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY k (number, place) \
                 JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.number ORDER BY k.place), \
               ARRAY(SELECT a.attname::text FROM unnest(f.confkey) WITH ORDINALITY k (number, place) \
                 JOIN pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.number ORDER BY k.place) \
             FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE f.contype = 'f' AND f.conparentid = 0 AND f.confrelid = ANY($1) ORDER BY f.oid",
            &[&parents],
        ).await?;
        let foreign_keys = foreign_keys.iter().map(|row| ForeignKey {
            child: row.get(0),
            is_partitioned: row.get(1),
            child_name: (row.get(2), row.get(3)),
            parent: row.get(4),
            cascades: row.get(5),
            columns: row.get::<_, Vec<String>>(6).into_iter().zip(row.get::<_, Vec<String>>(7)).collect(),
        });
        let foreign_keys = foreign_keys.collect();
        Ok(Catalogue { tables, foreign_keys })
    }
}
