//! Rows as text.

use std::io::Write;
use std::ops::ControlFlow;

use serde_json::Value;

use super::cells::{self, Cell};
use super::table::{for_each_row, Filter, RowsError, Table};
use crate::file::GraphFile;
use crate::graph::Sync;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As CSV with a header, by RFC 4180 with LF; texts of one cell are separated by spaces.
    Csv,
    /// As a JSON object a line, by the names of the columns.
    Json,
}

/// Writes the rows that are meant, at most `limit`, and says how many there were.
///
/// # Errors
/// When the file cannot be read, or `out` takes no more.
pub fn write_rows(
    file: &GraphFile,
    sync: &Sync,
    (table, filter): (Table, &Filter),
    form: Form,
    limit: u64,
    out: impl Write,
) -> Result<u64, RowsError> {
    let mut lines = Lines::new(table, form, out)?;
    let (mut rows, mut failed) = (0, None);
    for_each_row(file, sync, (table, filter), &mut |row| {
        if rows == limit {
            return ControlFlow::Break(());
        }
        rows += 1;
        match lines.row(row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => lines.end().map(|()| rows).map_err(RowsError::from),
    }
}

enum Lines<W: Write> {
    Csv { out: Box<csv::Writer<W>>, record: csv::StringRecord },
    Json { out: std::io::BufWriter<W>, table: Table },
}

impl<W: Write> Lines<W> {
    fn new(table: Table, form: Form, out: W) -> std::io::Result<Lines<W>> {
        Ok(match form {
            Form::Json => Lines::Json { out: std::io::BufWriter::new(out), table },
            Form::Csv => {
                let mut out = csv::Writer::from_writer(out);
                out.write_record(table.columns().iter().map(|(name, _)| name))?;
                Lines::Csv { out: Box::new(out), record: csv::StringRecord::new() }
            }
        })
    }

    fn row(&mut self, row: &[Cell<'_>]) -> std::io::Result<()> {
        match self {
            Lines::Csv { out, record } => {
                record.clear();
                for cell in row {
                    match cell {
                        Cell::Text(text) => record.push_field(text),
                        Cell::Texts(texts) => record.push_field(&texts.join(" ")),
                        Cell::Flag(flag) => record.push_field(if *flag { "true" } else { "false" }),
                        Cell::Count(count) => record.push_field(&count.to_string()),
                        Cell::Time(time) => record.push_field(&time.map(cells::time).unwrap_or_default()),
                    }
                }
                Ok(out.write_record(&*record)?)
            }
            Lines::Json { out, table } => {
                for (at, ((name, _), cell)) in table.columns().iter().zip(row).enumerate() {
                    write!(out, "{}\"{name}\":", if at == 0 { '{' } else { ',' })?;
                    serde_json::to_writer(&mut *out, &value(cell))?;
                }
                out.write_all(b"}\n")
            }
        }
    }

    fn end(self) -> std::io::Result<()> {
        match self {
            Lines::Csv { mut out, .. } => out.flush(),
            Lines::Json { mut out, .. } => out.flush(),
        }
    }
}

fn value(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Text(text) => Value::from(*text),
        Cell::Texts(texts) => texts.iter().map(|text| Value::from(*text)).collect(),
        Cell::Flag(flag) => Value::from(*flag),
        Cell::Count(count) => Value::from(*count),
        Cell::Time(time) => time.map(cells::time).map_or(Value::Null, Value::from),
    }
}
