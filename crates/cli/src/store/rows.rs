//! Documents as lines and tables: JSON lines and CSV, in and out.

use super::{
    handle::Handle,
    input::{self, Input},
    listing::{self, Lines},
    parquet,
};
use crate::{context::Outcome, failure::Failure};
use clap::{Args, ValueEnum};
use duramen_store::{filter, Branch, Snapshot, Space};
use serde::Deserialize;
use serde_json::{json, Map, Value};
use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

/// Documents of one commit of a load.
const BATCH_DOCUMENTS: usize = 10_000;

/// How documents are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A document a line.
    Jsonl,
    /// A head with the names of the fields, then a document a row.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// How the documents are written
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// The field whose value is the key of the document. Without it, lines are {"key": ..., "value": ...}, and a CSV has
    /// a column `key`, which is not part of the document
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// Put before each key
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Of a CSV, take cells that are numbers, true or false as such, and leave out empty ones. Else all are text
    #[arg(long)]
    infer: bool,
    /// Load the rows of this Parquet file instead of the standard input: a document a row, with a null left out
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "infer"])]
    parquet: Option<PathBuf>,
    /// The column of the Parquet file into which `scan --rest` put what did not fit
    #[arg(long, value_name = "COLUMN", requires = "parquet")]
    rest: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Scan {
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// How the documents are written; JSON lines can be loaded again
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// The columns of a CSV: members (`a`, `a.b`), beside the key
    #[arg(long, value_name = "FIELD", value_delimiter = ',', required_if_eq("format", "csv"))]
    fields: Vec<String>,
    /// Write a Parquet file instead: a row a document, a column a field
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "fields"])]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    columns: parquet::Columns,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    value: Value,
}

/// The key that a document has in one of its fields.
fn key_in(document: &Value, field: &str) -> Result<String, String> {
    match filter::field(document, field) {
        Some(Value::String(key)) => Ok(key.clone()),
        Some(Value::Number(key)) => Ok(key.to_string()),
        Some(_) => Err(format!("its {field:?} is neither text nor a number, so it cannot be the key")),
        None => Err(format!("it has no {field:?}, which is to be the key")),
    }
}

/// The documents that the command is fed with, in their order there.
fn read(input: &Input, load: &Load) -> Result<Vec<(String, Value)>, Failure> {
    let documents = match load.format {
        Format::Jsonl => input.lines(|line| match &load.key {
            None => {
                let line: Line = input::json(line, r#"{"key": "user:1", "value": {"name": "Ada"}}"#)?;
                Ok((line.key, line.value))
            }
            Some(field) => {
                let document = input::json(line, r#"{"id": 1, "name": "Ada"}"#)?;
                Ok((key_in(&document, field)?, document))
            }
        })?,
        Format::Csv => read_csv(input, load)?,
    };
    Ok(documents.into_iter().map(|(key, document)| (format!("{}{key}", load.prefix), document)).collect())
}

fn read_csv(input: &Input, load: &Load) -> Result<Vec<(String, Value)>, Failure> {
    let mut reader = csv::Reader::from_reader(input.open()?);
    let refused = |error: csv::Error| {
        Failure::Other(format!("the CSV on {} cannot be read: {error}; nothing was written", input.name()))
    };
    let names = reader.headers().map_err(refused)?.clone();
    let mut documents = Vec::new();
    for record in reader.records() {
        let record = record.map_err(refused)?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut members: Map<String, Value> = Map::new();
        for (name, cell) in names.iter().zip(&record) {
            if !(load.infer && cell.is_empty()) {
                members.insert(name.to_owned(), value_of(cell, load.infer));
            }
        }
        let key = match &load.key {
            Some(field) => key_in(&Value::Object(members.clone()), field),
            None => match members.remove("key") {
                Some(Value::String(key)) => Ok(key),
                Some(other) => Ok(other.to_string()),
                None => Err("it has no column `key`; name the one that is the key with --key".to_owned()),
            },
        };
        let told = |reason| Failure::Other(format!("line {line} of the CSV: {reason}; nothing was written"));
        documents.push((key.map_err(told)?, Value::Object(members)));
    }
    Ok(documents)
}

/// A cell as text, or as what it looks like.
fn value_of(cell: &str, infer: bool) -> Value {
    let read: Option<Value> = infer.then(|| serde_json::from_str(cell).ok()).flatten();
    match read {
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::from(cell),
    }
}

/// Puts documents from the standard input, or from a file.
pub(crate) fn load(handle: &Handle, load: &Load) -> Outcome {
    if let Some(path) = &load.parquet {
        return parquet::load(handle, path, load.key.as_deref(), &load.prefix, load.rest.as_deref());
    }
    let documents = read(&handle.input, load)?;
    handle.change(|space| {
        put(&space, &documents)?;
        let count = documents.len() as u64;
        handle
            .say(&json!({ "loaded": count }), format_args!("loaded {}", listing::several(count, "document")))
    })
}

fn put(space: &Space<'_, Branch>, documents: &[(String, Value)]) -> Result<(), Failure> {
    for (index, batch) in documents.chunks(BATCH_DOCUMENTS).enumerate() {
        let batch = batch.iter().map(|(key, document)| (key, "", document));
        space.json().set_many(batch).map_err(|error| {
            let before = index * BATCH_DOCUMENTS;
            Failure::Other(format!("{error}; the first {before} documents are loaded, the others are not"))
        })?;
    }
    Ok(())
}

/// Prints the documents of a space, in the order of their keys, or writes them to a file.
pub(crate) fn scan(handle: &Handle, scan: &Scan) -> Outcome {
    match &scan.parquet {
        Some(path) => parquet::documents(handle, path, &scan.prefix, &scan.columns),
        None => handle.look(|space| print(&space, scan)),
    }
}

fn print(space: &Space<'_, Snapshot>, scan: &Scan) -> Outcome {
    let mut failed = None;
    let mut lines = Lines::new();
    let head = std::iter::once("key").chain(scan.fields.iter().map(String::as_str));
    if scan.format == Format::Csv && lines.line(row(head)?).is_break() {
        return Ok(ExitCode::SUCCESS);
    }
    space.json().scan(&scan.prefix, |key, text| {
        let line = match scan.format {
            Format::Jsonl => Ok(format!("{{\"key\":{},\"value\":{text}}}", Value::from(key))),
            Format::Csv => cells(key, text, &scan.fields),
        };
        match line {
            Ok(line) => lines.line(line),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// A document as a row: text as it is, what is missing as nothing, and all else as JSON.
fn cells(key: &str, text: &str, fields: &[String]) -> Result<String, Failure> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| Failure::Other(format!("document {key:?} cannot be read: {error}")))?;
    let cells = fields.iter().map(|field| match filter::field(&document, field) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    });
    row(std::iter::once(key.to_owned()).chain(cells))
}

fn row(cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<String, Failure> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    writer.write_record(cells).map_err(|error| Failure::Other(format!("cannot write a row: {error}")))?;
    let bytes =
        writer.into_inner().map_err(|error| Failure::Other(format!("cannot write a row: {error}")))?;
    let row = String::from_utf8_lossy(&bytes);
    Ok(row.strip_suffix('\n').unwrap_or(&row).to_owned())
}
