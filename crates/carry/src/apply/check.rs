//! Whether everything that a change set touches is as it was.

use super::{
    conflict::{Conflict, ConflictKind, Conflicts, Differing},
    run::Run,
    sql::{self, Side},
    target::{Catalogue, ForeignKey, TargetTable},
};
use crate::{error::ApplyError, read::ChangeSet, set::StoredTable};
use duramen_changes::{shown_name, Only, Table};
use duramen_postgres::quote_identifier;
use std::collections::BTreeSet;

/// Places of the columns that a table had before.
pub(crate) fn common(table: &Table) -> Vec<usize> {
    let is_old = |place: &usize| !table.is_new(&table.columns[*place].name);
    (0..table.columns.len()).filter(is_old).collect()
}

pub(crate) fn about(table: &Table, kind: ConflictKind) -> Conflict {
    Conflict { schema: table.schema.clone(), table: table.name.clone(), key: Vec::new(), kind }
}

/// A conflict of one row, whose values stand at `places` of its table's columns.
fn of_row(table: &Table, places: &[usize], values: &[Option<String>], kind: ConflictKind) -> Conflict {
    let named =
        places.iter().zip(values).filter(|(place, _)| table.key.is_empty() || table.key.contains(place));
    let key = named.map(|(place, value)| (table.columns[*place].name.clone(), value.clone())).collect();
    Conflict { key, ..about(table, kind) }
}

/// Whether the tables are there with the columns that rows are compared and written by. `is_after` is whether the statements of the
/// change set were run: only then columns have the types that they have in the branch.
pub(crate) fn structure(set: &ChangeSet, here: &Catalogue, is_after: bool, conflicts: &mut Conflicts) {
    let has_statements = !set.ddl().is_empty();
    for (StoredTable { table, rows }, found) in set.tables().iter().zip(&here.tables) {
        let is_expected = match table.only_in {
            None => true,
            Some(Only::Branch) => is_after || !has_statements,
            Some(Only::Snapshot) => !is_after,
        };
        let is_to_go = table.only_in == Some(Only::Snapshot);
        if !is_expected || (rows.total() == 0 && !is_to_go) {
            continue;
        }
        let Some(found) = found else {
            conflicts.push(about(table, ConflictKind::NotThere));
            continue;
        };
        for column in &table.columns {
            if !is_after && table.is_new(&column.name) {
                continue;
            }
            match found.columns.get(&column.name) {
                None => conflicts.push(about(table, ConflictKind::NoColumn { column: column.name.clone() })),
                // The types of before are not known where the statements change them.
                Some(it) if it.type_name != column.type_name && (is_after || !has_statements) => {
                    let (column, expected) = (column.name.clone(), column.type_name.clone());
                    let found = it.type_name.clone();
                    conflicts.push(about(table, ConflictKind::OtherType { column, expected, found }));
                }
                Some(_) => {}
            }
        }
        let key: BTreeSet<String> =
            table.key.iter().map(|place| table.columns[*place].name.clone()).collect();
        if !key.is_empty() && !found.keys.contains(&key) && !is_after {
            conflicts.push(about(table, ConflictKind::NoKey));
        }
    }
}

/// The statements by which rows that are to be changed or to go are looked at, in their order.
pub(crate) struct OldRows {
    /// Keeps writers from the table, where it is not known which rows they are before all are read.
    pub(crate) lock_table: Option<String>,
    /// Locks the rows.
    pub(crate) lock_rows: Option<String>,
    /// Compares them: a statement of its own, which sees what whoever held a lock has committed. With a key it tells what a row had
    /// to be (`expected`) and what it is (`found`); without one what it had to be, how often (`times`), and how often it is there.
    pub(crate) compare: String,
}

/// How rows are looked at that are to be changed or to go, and stand in a table in `home`. At most `limit` conflicts are told.
pub(crate) fn old_rows_of(
    home: &str,
    number: usize,
    stored: &StoredTable,
    here: &TargetTable,
    limit: usize,
) -> OldRows {
    let table = &stored.table;
    let (name, old, places) =
        (sql::table(&table.schema, &table.name), sql::staged(home, Side::Old, number), common(table));
    let (image, staged_image) = (sql::image(table, &places), sql::staged_image(&places));
    let is_to_go = table.only_in == Some(Only::Snapshot);
    let is_locked = table.key.is_empty() || is_to_go;
    let lock_table = is_locked.then(|| format!("LOCK TABLE ONLY {name} IN SHARE ROW EXCLUSIVE MODE"));
    if table.key.is_empty() {
        let compare = format!(
            "SELECT w.image AS expected, w.times AS times, coalesce(h.times, 0) AS found FROM \
               (SELECT {staged_image} AS image, count(*) AS times, min(s.n) AS first FROM {old} s GROUP BY 1) w \
               LEFT JOIN (SELECT {image} AS image, count(*) AS times FROM ONLY {name} t GROUP BY 1) h ON h.image = w.image \
             WHERE coalesce(h.times, 0) < w.times ORDER BY w.first LIMIT {limit}"
        );
        return OldRows { lock_table, lock_rows: None, compare };
    }
    let same = sql::is_same(table, here);
    let lock_rows = (!is_to_go).then(|| {
        format!(
            "SELECT count(*) FROM (SELECT 1 FROM ONLY {name} t JOIN {old} s ON {same} FOR UPDATE OF t) locked"
        )
    });
    let compare = format!(
        "SELECT {staged_image} AS expected, CASE WHEN t.ctid IS NULL THEN NULL ELSE {image} END AS found FROM {old} s \
           LEFT JOIN ONLY {name} t ON {same} \
         WHERE t.ctid IS NULL OR {image} <> {staged_image} ORDER BY s.n LIMIT {limit}"
    );
    OldRows { lock_table, lock_rows, compare }
}

/// A row with a key that is not as it had to be. Values are those of the columns that the table had before.
pub(crate) fn not_as_it_was(
    table: &Table,
    expected: &[Option<String>],
    found: Option<&[Option<String>]>,
) -> Conflict {
    let places = common(table);
    let kind = match found {
        None => ConflictKind::Missing,
        Some(found) => ConflictKind::Changed { columns: differing(table, &places, expected, found) },
    };
    of_row(table, &places, expected, kind)
}

/// Rows without a key of which there are fewer than are to go.
pub(crate) fn too_few(table: &Table, values: &[Option<String>], expected: i64, found: i64) -> Conflict {
    of_row(table, &common(table), values, ConflictKind::TooFew { expected, found })
}

/// A row that is to come and is there.
pub(crate) fn is_there(table: &Table, values: &[Option<String>]) -> Conflict {
    let places: Vec<usize> = (0..table.columns.len()).collect();
    of_row(table, &places, values, ConflictKind::Exists)
}

/// Locks the rows that are to be changed or to go, and compares them with what they were. They are in a temporary table.
pub(crate) async fn old_rows(
    run: &Run<'_>,
    number: usize,
    stored: &StoredTable,
    here: &TargetTable,
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    let StoredTable { table, rows } = stored;
    let shown = shown_name(&table.schema, &table.name);
    let doing = format!("comparing the rows of {shown}");
    let looks = old_rows_of(sql::TEMPORARY, number, stored, here, conflicts.room());
    if let Some(lock) = &looks.lock_table {
        run.batch(&format!("locking {shown}"), lock).await?;
    }
    if let Some(lock) = &looks.lock_rows {
        run.rows(&format!("locking rows of {shown}"), lock, &[]).await?;
    }
    for row in run.rows(&doing, &looks.compare, &[]).await? {
        let expected: Vec<Option<String>> = row.get(0);
        conflicts.push(match table.key.is_empty() {
            true => too_few(table, &expected, row.get(1), row.get(2)),
            false => not_as_it_was(table, &expected, row.get::<_, Option<Vec<Option<String>>>>(1).as_deref()),
        });
    }
    if table.only_in == Some(Only::Snapshot) {
        let name = sql::table(&table.schema, &table.name);
        let counted = run.rows(&doing, &format!("SELECT count(*) FROM ONLY {name}"), &[]).await?;
        let found: i64 = counted.first().map_or(0, |row| row.get(0));
        let expected = i64::try_from(rows.removed).unwrap_or(i64::MAX);
        if found > expected {
            conflicts.push(about(table, ConflictKind::MoreRows { expected, found }));
        }
    }
    Ok(())
}

fn differing(
    table: &Table,
    places: &[usize],
    expected: &[Option<String>],
    found: &[Option<String>],
) -> Vec<Differing> {
    let values = places.iter().zip(expected.iter().zip(found));
    values
        .filter(|(_, (expected, found))| expected != found)
        .map(|(place, (expected, found))| Differing {
            column: table.columns[*place].name.clone(),
            expected: expected.clone(),
            found: found.clone(),
        })
        .collect()
}

/// How it is looked whether rows that are to come, which stand in a table in `home`, are there already: `expected` is such a row.
/// Not at all without a key.
pub(crate) fn new_rows_of(
    home: &str,
    number: usize,
    table: &Table,
    here: &TargetTable,
    limit: usize,
) -> Option<String> {
    if table.key.is_empty() {
        return None;
    }
    let places: Vec<usize> = (0..table.columns.len()).collect();
    Some(format!(
        "SELECT {} AS expected FROM {} s JOIN ONLY {} t ON {} WHERE s.g = -1 ORDER BY s.n LIMIT {limit}",
        sql::staged_image(&places),
        sql::staged(home, Side::New, number),
        sql::table(&table.schema, &table.name),
        sql::is_same(table, here),
    ))
}

/// Whether rows that are to come are there already. They are in a temporary table.
pub(crate) async fn new_rows(
    run: &Run<'_>,
    number: usize,
    stored: &StoredTable,
    here: &TargetTable,
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    let table = &stored.table;
    let Some(sql) = new_rows_of(sql::TEMPORARY, number, table, here, conflicts.room()) else { return Ok(()) };
    let doing = format!("looking for new rows in {}", shown_name(&table.schema, &table.name));
    for row in run.rows(&doing, &sql, &[]).await? {
        conflicts.push(is_there(table, &row.get::<_, Vec<Option<String>>>(0)));
    }
    Ok(())
}

/// A table whose rows would go or be changed with rows that are to go, and how they are counted.
pub(crate) struct Referring {
    pub(crate) by: String,
    pub(crate) sql: String,
}

/// How rows of other tables are counted, which the change set does not know, that refer to rows that are to go, and would go or be
/// changed with them. Those that it knows and that are to go have gone by then. `staged` says which tables have rows in `home`.
pub(crate) fn referring_rows_of(
    home: &str,
    set: &ChangeSet,
    number: usize,
    here: &Catalogue,
    staged: &[bool],
) -> Vec<Referring> {
    let (Some(stored), Some(Some(parent))) = (set.tables().get(number), here.tables.get(number)) else {
        return Vec::new();
    };
    let table = &stored.table;
    if table.key.is_empty() {
        return Vec::new();
    }
    let keys = here.foreign_keys.iter().filter(|key| key.cascades && parent.lineage.contains(&key.parent));
    let referring = |key: &ForeignKey| {
        let ForeignKey { child, is_partitioned, child_name, columns, .. } = key;
        let refers: Vec<String> = columns
            .iter()
            .map(|(own, other)| format!("c.{} = t.{}", quote_identifier(own), quote_identifier(other)))
            .collect();
        let mut unknown = String::new();
        let tables = set.tables().iter().zip(&here.tables).enumerate();
        for (place, (StoredTable { table, .. }, found)) in tables {
            let Some(found) = found.as_ref().filter(|found| found.lineage.contains(child)) else { continue };
            if table.key.is_empty() || !staged.get(place).is_some_and(|is| *is) {
                continue;
            }
            let same = sql::is_same_as(table, found, "c", "k");
            unknown += &format!(
                " AND NOT EXISTS (SELECT 1 FROM {} k WHERE c.tableoid = {}::oid AND {same})",
                sql::staged(home, Side::Old, place),
                found.id
            );
        }
        let only = if *is_partitioned { "" } else { "ONLY " };
        let sql = format!(
            "SELECT count(*) AS rows FROM {only}{} c JOIN ONLY {} t ON {} JOIN {} s ON s.g = -1 AND {} WHERE true{unknown}",
            sql::table(&child_name.0, &child_name.1),
            sql::table(&table.schema, &table.name),
            refers.join(" AND "),
            sql::staged(home, Side::Old, number),
            sql::is_same(table, parent)
        );
        Referring { by: shown_name(&child_name.0, &child_name.1), sql }
    };
    keys.map(referring).collect()
}

/// Whether there are such rows.
pub(crate) async fn referring_rows(
    run: &Run<'_>,
    set: &ChangeSet,
    number: usize,
    here: &Catalogue,
    staged: &[bool],
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    for Referring { by, sql } in referring_rows_of(sql::TEMPORARY, set, number, here, staged) {
        let table = &set.tables()[number].table;
        let doing = format!("looking who refers to {}", shown_name(&table.schema, &table.name));
        let counted = run.rows(&doing, &sql, &[]).await?;
        let rows: i64 = counted.first().map_or(0, |row| row.get(0));
        if rows > 0 {
            conflicts.push(about(table, ConflictKind::Referenced { by, rows }));
        }
    }
    Ok(())
}
