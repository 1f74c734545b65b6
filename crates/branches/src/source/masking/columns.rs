//! The values of columns are replaced.
//!
//! Hashes are computed here, from a stream of the values, and come back as a table with the place of each row. The
//! statement that writes them (and constants, and nulls) is one of the role that may do as much as a branch's holder:
//! constraints, domains and generated columns are code of the source.

use super::{
    catalogue::{Catalogue, Column, Table},
    failed, masked,
    pseudonym::{Class, Pseudonyms},
    rules::Rules,
    stream::{self, Raw},
    Failure, Sessions, HOLDER, READER, SCHEMA,
};
use crate::model::{Mask, Sanitised};
use duramen_postgres::{quote_identifier, quote_literal};

/// A column with what becomes of it.
struct Masked<'a> {
    column: &'a Column,
    mask: &'a Mask,
    class: Option<Class>,
}

impl Masked<'_> {
    fn quoted(&self) -> String {
        quote_identifier(&self.column.name)
    }

    /// Its column in the table of hashes.
    fn kept(&self) -> String {
        format!("k{}", self.column.number)
    }

    fn class(&self) -> Option<Class> {
        self.class.filter(|_| *self.mask == Mask::Hash)
    }
}

/// Applies the rules for columns, and makes sure that they were.
pub(super) async fn mask(
    sessions: &Sessions,
    catalogue: &Catalogue,
    rules: &Rules,
    pseudonyms: &Pseudonyms,
) -> Result<Vec<Sanitised>, Failure> {
    let mut report = Vec::new();
    for (id, wanted) in &rules.columns {
        let Some(table) = catalogue.tables.get(id).filter(|table| table.kind == 'r') else { continue };
        let columns: Vec<Masked<'_>> = wanted
            .iter()
            .filter_map(|(number, mask)| {
                let column = table.column(*number)?;
                Some(Masked { column, mask, class: Class::of(column.base.0, column.base.1) })
            })
            .collect();
        if columns.len() != wanted.len() {
            return Err(Failure::Wrong(format!("a column of {} is not there any more", table.plain_name())));
        }
        let doing = format!("masking {}", table.plain_name());
        let count = format!("select count(*) from only {}", table.quoted());
        let count = sessions.reader.query_one(&count, &[]).await.map_err(failed(&doing))?;
        let count = u64::try_from(count.get::<_, i64>(0)).unwrap_or_default();
        hashes(sessions, table, &columns, pseudonyms).await?;
        let written = sessions.holder.execute(&update(table, &columns), &[]).await.map_err(failed(&doing))?;
        if written != count {
            return Err(Failure::Wrong(format!("{doing}: {written} of {count} rows were written")));
        }
        for column in &columns {
            let left = sessions.reader.query_one(&left(table, column), &[]).await.map_err(failed(&doing))?;
            if left.get(0) {
                let name = &column.column.name;
                return Err(Failure::Wrong(format!("{doing}: values of {name} are not what the rule makes")));
            }
            let name = format!("{}.{}", table.plain_name(), column.column.name);
            report.push(masked("column", &name, format!("masked ({})", column.mask)));
        }
    }
    Ok(report)
}

/// Makes the table with the hashes of a table's values, if any of its columns has them.
async fn hashes(
    sessions: &Sessions,
    table: &Table,
    columns: &[Masked<'_>],
    pseudonyms: &Pseudonyms,
) -> Result<(), Failure> {
    let hashed: Vec<(String, Class, String)> =
        columns.iter().filter_map(|column| Some((column.quoted(), column.class()?, column.kept()))).collect();
    if hashed.is_empty() {
        return Ok(());
    }
    let mut reading = vec!["t.ctid".to_owned()];
    let mut kept = vec!["place tid".to_owned()];
    for (column, class, name) in &hashed {
        reading.push(class.reading(&format!("t.{column}")));
        kept.push(format!("{name} {}", class.type_name()));
    }
    let query = format!("select {} from only {} t", reading.join(", "), table.quoted());
    let doing = format!("reading {}", table.plain_name());
    let name = format!("of_{}", table.id);
    let each = |values: &mut [Option<Raw>]| {
        for ((column, class, _), value) in hashed.iter().zip(&mut values[1..]) {
            if let Some(raw) = value {
                raw.0 = pseudonyms.of(*class, &raw.0).ok_or_else(|| {
                    Failure::Wrong(format!("{doing}: a value of {column} is none of its type"))
                })?;
            }
        }
        Ok(())
    };
    stream::into_table((&sessions.read, &query, &doing), &sessions.write, (&name, &kept), each).await?;
    let ready = format!("grant select on {SCHEMA}.{name} to {HOLDER}, {READER}; analyze {SCHEMA}.{name}");
    sessions.write.batch_execute(&ready).await.map_err(failed(&doing))
}

fn update(table: &Table, columns: &[Masked<'_>]) -> String {
    let values = columns.iter().map(|column| {
        let value = match column.mask {
            Mask::Hash => format!("m.{}", column.kept()),
            Mask::Constant(text) => quote_literal(text),
            Mask::Null | Mask::Keep => "null".to_owned(),
        };
        format!("{} = {value}", column.quoted())
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let joined = if columns.iter().any(|column| column.class().is_some()) {
        format!(" from {SCHEMA}.of_{} m where t.ctid operator(pg_catalog.=) m.place", table.id)
    } else {
        String::new()
    };
    format!("update only {} t set {values}{joined}", table.quoted())
}

/// Whether a column holds anything that its rule does not make.
fn left(table: &Table, column: &Masked<'_>) -> String {
    let name = format!("t.{}", column.quoted());
    let wrong = match (column.mask, column.class()) {
        (Mask::Constant(text), _) => format!(
            "{name}::pg_catalog.text is distinct from ({}::{})::pg_catalog.text",
            quote_literal(text),
            column.column.type_name
        ),
        (Mask::Hash, Some(class)) => {
            let collate = if matches!(class, Class::Text(_)) { " collate \"C\"" } else { "" };
            format!(
                "{name} is not null and not exists (select from {SCHEMA}.of_{} m where m.{}{collate} \
                 operator(pg_catalog.=) {name}::{}{collate})",
                table.id,
                column.kept(),
                class.type_name()
            )
        }
        _ => format!("{name} is distinct from null"),
    };
    // Counted and not asked for by `exists`: for the first row that there never is, nested loops are planned.
    format!("select count(*) > 0 from only {} t where {wrong}", table.quoted())
}
