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
    let (name, old, places) =
        (sql::table(&table.schema, &table.name), sql::staged(Side::Old, number), common(table));
    let (image, staged_image) = (sql::image(table, &places), sql::staged_image(&places));
    let is_to_go = table.only_in == Some(Only::Snapshot);
    if table.key.is_empty() || is_to_go {
        // Which rows they are is not known before all are read.
        run.batch(
            &format!("locking {shown}"),
            &format!("LOCK TABLE ONLY {name} IN SHARE ROW EXCLUSIVE MODE"),
        )
        .await?;
    }
    let limit = conflicts.room();
    if table.key.is_empty() {
        let sql = format!(
            "SELECT w.image, w.times, coalesce(h.times, 0) FROM \
               (SELECT {staged_image} AS image, count(*) AS times, min(s.n) AS first FROM {old} s GROUP BY 1) w \
               LEFT JOIN (SELECT {image} AS image, count(*) AS times FROM ONLY {name} t GROUP BY 1) h ON h.image = w.image \
             WHERE coalesce(h.times, 0) < w.times ORDER BY w.first LIMIT {limit}"
        );
        for row in run.rows(&doing, &sql, &[]).await? {
            let values: Vec<Option<String>> = row.get(0);
            let kind = ConflictKind::TooFew { expected: row.get(1), found: row.get(2) };
            conflicts.push(of_row(table, &places, &values, kind));
        }
    } else {
        let same = sql::is_same(table, here);
        if !is_to_go {
            let lock = format!(
                "SELECT count(*) FROM (SELECT 1 FROM ONLY {name} t JOIN {old} s ON {same} FOR UPDATE OF t) locked"
            );
            run.rows(&format!("locking rows of {shown}"), &lock, &[]).await?;
        }
        // A statement of its own: it sees what whoever held a lock has committed.
        let sql = format!(
            "SELECT {staged_image}, CASE WHEN t.ctid IS NULL THEN NULL ELSE {image} END FROM {old} s \
               LEFT JOIN ONLY {name} t ON {same} \
             WHERE t.ctid IS NULL OR {image} <> {staged_image} ORDER BY s.n LIMIT {limit}"
        );
        for row in run.rows(&doing, &sql, &[]).await? {
            let expected: Vec<Option<String>> = row.get(0);
            let kind = match row.get::<_, Option<Vec<Option<String>>>>(1) {
                None => ConflictKind::Missing,
                Some(found) => {
                    ConflictKind::Changed { columns: differing(table, &places, &expected, &found) }
                }
            };
            conflicts.push(of_row(table, &places, &expected, kind));
        }
    }
    if is_to_go {
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

/// Whether rows that are to come are there already. They are in a temporary table.
pub(crate) async fn new_rows(
    run: &Run<'_>,
    number: usize,
    stored: &StoredTable,
    here: &TargetTable,
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    let table = &stored.table;
    if table.key.is_empty() {
        return Ok(());
    }
    let places: Vec<usize> = (0..table.columns.len()).collect();
    let sql = format!(
        "SELECT {} FROM {} s JOIN ONLY {} t ON {} WHERE s.g = -1 ORDER BY s.n LIMIT {}",
        sql::staged_image(&places),
        sql::staged(Side::New, number),
        sql::table(&table.schema, &table.name),
        sql::is_same(table, here),
        conflicts.room()
    );
    let doing = format!("looking for new rows in {}", shown_name(&table.schema, &table.name));
    for row in run.rows(&doing, &sql, &[]).await? {
        let values: Vec<Option<String>> = row.get(0);
        conflicts.push(of_row(table, &places, &values, ConflictKind::Exists));
    }
    Ok(())
}

/// Whether rows of other tables, which the change set does not know, refer to rows that are to go, and would go or be changed with
/// them. Those that it knows and that are to go have gone by then.
pub(crate) async fn referring_rows(
    run: &Run<'_>,
    set: &ChangeSet,
    number: usize,
    here: &Catalogue,
    staged: &[bool],
    conflicts: &mut Conflicts,
) -> Result<(), ApplyError> {
    let (Some(stored), Some(Some(parent))) = (set.tables().get(number), here.tables.get(number)) else {
        return Ok(());
    };
    let table = &stored.table;
    if table.key.is_empty() {
        return Ok(());
    }
    let keys = here.foreign_keys.iter().filter(|key| key.cascades && parent.lineage.contains(&key.parent));
    for key in keys {
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
                sql::staged(Side::Old, place),
                found.id
            );
        }
        let only = if *is_partitioned { "" } else { "ONLY " };
        let sql = format!(
            "SELECT count(*) FROM {only}{} c JOIN ONLY {} t ON {} JOIN {} s ON s.g = -1 AND {} WHERE true{unknown}",
            sql::table(&child_name.0, &child_name.1),
            sql::table(&table.schema, &table.name),
            refers.join(" AND "),
            sql::staged(Side::Old, number),
            sql::is_same(table, parent)
        );
        let doing = format!("looking who refers to {}", shown_name(&table.schema, &table.name));
        let counted = run.rows(&doing, &sql, &[]).await?;
        let rows: i64 = counted.first().map_or(0, |row| row.get(0));
        if rows > 0 {
            let by = shown_name(&child_name.0, &child_name.1);
            conflicts.push(about(table, ConflictKind::Referenced { by, rows }));
        }
    }
    Ok(())
}
