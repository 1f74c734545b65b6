//! Bringing rows of a change set into temporary tables of the transaction, with the types that their columns have here.

use super::{
    run::Run,
    sql::{self, Side},
};
use crate::{error::ApplyError, read::ChangeSet};
use bytes::{Bytes, BytesMut};
use duramen_changes::{shown_name, Row, Table};
use futures_util::SinkExt;
use std::pin::pin;

/// Bytes that are sent at a time.
const CHUNK: usize = 64 << 10;
/// Groups of updates that a table has at most: updates of the same columns. Rows beyond have all columns of the last group.
const GROUPS_MAX: usize = 256;

/// What a temporary table has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Staged {
    /// Rows of the group -1.
    pub(crate) single: u64,
    /// Which columns the updates of each group change, and how many there are.
    pub(crate) groups: Vec<(Vec<usize>, u64)>,
}

/// Makes a temporary table of one side of a table's rows, with the columns at `places`.
pub(crate) async fn stage(
    run: &Run<'_>,
    set: &ChangeSet,
    number: usize,
    side: Side,
    places: &[usize],
) -> Result<Staged, ApplyError> {
    let Some(stored) = set.tables().get(number) else { return Ok(Staged::default()) };
    let table = &stored.table;
    let doing = format!("bringing the rows of {}", shown_name(&table.schema, &table.name));
    run.batch(&doing, &sql::make_staged(table, sql::TEMPORARY, side, number, places)).await?;
    let name = sql::staged(sql::TEMPORARY, side, number);
    let columns: Vec<String> = places.iter().map(|place| format!(", c{place}")).collect();
    let copy = format!("COPY {name} (n, g{}) FROM STDIN", columns.concat());
    let sink = run.client.copy_in::<_, Bytes>(&copy).await.map_err(|error| run.failed(&doing, error))?;
    let mut sink = pin!(sink);
    let (mut staged, mut buffer) = (Staged::default(), BytesMut::new());
    let mut blocks = set.blocks(number)?;
    let mut n = 0_u64;
    while let Some(rows) = blocks.next()? {
        for row in rows {
            n += 1;
            let Some((values, group)) = of_side(table, &row, side, places, &mut staged) else { continue };
            line(
                &mut buffer,
                n,
                group,
                places.iter().map(|place| values.get(*place).and_then(Option::as_deref)),
            );
            if buffer.len() >= CHUNK {
                let chunk = buffer.split().freeze();
                sink.send(chunk).await.map_err(|error| run.failed(&doing, error))?;
            }
        }
    }
    if !buffer.is_empty() {
        sink.send(buffer.freeze()).await.map_err(|error| run.failed(&doing, error))?;
    }
    sink.finish().await.map_err(|error| run.failed(&doing, error))?;
    run.batch(&doing, &format!("ANALYZE {name}")).await?;
    Ok(staged)
}

/// Has a temporary table of old rows keep their keys alone: statements may drop or alter the types of its other columns, and nothing
/// but the comparison, which is over, needs these.
pub(crate) async fn keep_keys(
    run: &Run<'_>,
    table: &Table,
    number: usize,
    places: &[usize],
) -> Result<(), ApplyError> {
    let others: Vec<String> = places
        .iter()
        .filter(|place| !table.key.is_empty() && !table.key.contains(place))
        .map(|place| format!("DROP COLUMN c{place}"))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let sql = format!("ALTER TABLE {} {}", sql::staged(sql::TEMPORARY, Side::Old, number), others.join(", "));
    run.batch("letting go of values that were compared", &sql).await
}

/// The values of a row on a side, and its group: -1 for one that goes or comes, else which columns are changed in it.
pub(crate) fn of_side<'a>(
    table: &Table,
    row: &'a Row,
    side: Side,
    places: &[usize],
    staged: &mut Staged,
) -> Option<(&'a [Option<String>], i64)> {
    let (values, other) = match side {
        Side::Old => (row.old.as_deref()?, row.new.as_deref()),
        Side::New | Side::Early => (row.new.as_deref()?, row.old.as_deref()),
        Side::Key => return row.new.as_deref().or(row.old.as_deref()).map(|values| (values, 0)),
    };
    let Some(other) = other else {
        staged.single += 1;
        return Some((values, -1));
    };
    if side == Side::Old {
        return Some((values, 0));
    }
    // What a new column has before is what its definition gives, whatever the branch had.
    let changes = |place: &usize| {
        values.get(*place) != other.get(*place)
            || table.columns.get(*place).is_some_and(|column| table.is_new(&column.name))
    };
    let changed: Vec<usize> = places.iter().copied().filter(changes).collect();
    if changed.is_empty() {
        return None;
    }
    let known = staged.groups.iter().position(|(places, _)| *places == changed);
    let group = known.unwrap_or_else(|| {
        if staged.groups.len() < GROUPS_MAX {
            staged.groups.push((changed, 0));
        } else if let Some((places, _)) = staged.groups.last_mut() {
            places.extend(changed);
            places.sort_unstable();
            places.dedup();
        }
        staged.groups.len() - 1
    });
    staged.groups[group].1 += 1;
    Some((values, i64::try_from(group).unwrap_or(0)))
}

/// Appends a line of a copy.
/// Source: the PostgreSQL documentation, "COPY", section on the text format.
pub(crate) fn line<'a>(
    out: &mut BytesMut,
    n: u64,
    group: i64,
    values: impl Iterator<Item = Option<&'a str>>,
) {
    out.extend_from_slice(format!("{n}\t{group}").as_bytes());
    for value in values {
        out.extend_from_slice(b"\t");
        let Some(text) = value else {
            out.extend_from_slice(b"\\N");
            continue;
        };
        for byte in text.bytes() {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                other => out.extend_from_slice(&[other]),
            }
        }
    }
    out.extend_from_slice(b"\n");
}

#[cfg(test)]
mod tests {
    use super::line;
    use bytes::BytesMut;

    #[test]
    fn c5_no_value_ends_its_field_or_line() {
        let mut out = BytesMut::new();
        line(&mut out, 7, -1, [Some("a\tb\nc\r\\."), None, Some("\\N"), Some("")].into_iter());
        assert_eq!(&out[..], b"7\t-1\ta\\tb\\nc\\r\\\\.\t\\N\t\\\\N\t\n");
    }
}
