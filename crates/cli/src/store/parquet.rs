//! Tables in Parquet files: documents in and out, events and vectors out.

use super::handle::Handle;
use clap::Args;
use std::path::PathBuf;

/// A file that is written.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The Parquet file; it is replaced when the new one is complete
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: PathBuf,
}

/// How documents become columns.
#[derive(Debug, Args)]
pub(crate) struct Columns {
    /// How many documents are looked at for the types of the columns
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, requires = "parquet")]
    sample: usize,
    /// Put what does not fit the columns into one more, as JSON text; else it is an error
    #[arg(long, value_name = "COLUMN", requires = "parquet")]
    rest: Option<String>,
    /// The name of the column of keys
    #[arg(long, value_name = "COLUMN", default_value = "key", requires = "parquet")]
    key_column: String,
}

#[cfg(feature = "parquet")]
mod files {
    use super::{Columns, Handle, Target};
    use crate::{context::Outcome, failure::Failure, store::listing};
    use duramen_store_arrow::{
        load_documents,
        parquet::{write_parquet, FileBatches},
        Batches, DocumentOptions, DocumentsIn, EventOptions, KeyFrom, Misfits, Table, VectorOptions,
    };
    use serde_json::json;
    use std::{fmt::Display, path::Path};

    fn told(error: impl Display) -> Failure {
        Failure::Other(error.to_string())
    }

    fn export(handle: &Handle, path: &Path, table: &Table, noun: &str) -> Outcome {
        handle.see(|snapshot| {
            let batches = Batches::open(snapshot, handle.space_name(), table).map_err(told)?;
            let rows = write_parquet(path, batches).map_err(told)?;
            let text = format!("wrote {} to {}", listing::several(rows, noun), path.display());
            handle.say(&json!({ "file": path, "rows": rows }), text)
        })
    }

    pub(crate) fn documents(handle: &Handle, path: &Path, prefix: &str, columns: &Columns) -> Outcome {
        let options = DocumentOptions {
            prefix: prefix.to_owned(),
            key_column: columns.key_column.clone(),
            sample_rows: columns.sample,
            misfits: columns.rest.clone().map_or(Misfits::Refuse, Misfits::Rest),
            ..DocumentOptions::default()
        };
        export(handle, path, &Table::Documents(options), "document")
    }

    pub(crate) fn events(handle: &Handle, to: &Target, from: u64, kind: Option<String>) -> Outcome {
        let options = EventOptions { from, event_type: kind, ..EventOptions::default() };
        export(handle, &to.parquet, &Table::Events(options), "event")
    }

    pub(crate) fn vectors(handle: &Handle, to: &Target, collection: &str) -> Outcome {
        export(handle, &to.parquet, &Table::Vectors(VectorOptions::new(collection)), "vector")
    }

    pub(crate) fn load(
        handle: &Handle,
        path: &Path,
        key: Option<&str>,
        prefix: &str,
        rest: Option<&str>,
    ) -> Outcome {
        let batches = FileBatches::open(path).map_err(told)?;
        let options = DocumentsIn {
            key: key
                .map_or_else(|| KeyFrom::Column("key".to_owned()), |field| KeyFrom::Field(field.to_owned())),
            prefix: prefix.to_owned(),
            rest: rest.map(str::to_owned),
            ..DocumentsIn::default()
        };
        handle.change(|space| {
            let loaded = load_documents(&space, batches, &options).map_err(told)?.rows;
            let text = format_args!("loaded {}", listing::several(loaded, "document")).to_string();
            handle.say(&json!({ "loaded": loaded }), text)
        })
    }
}

#[cfg(not(feature = "parquet"))]
mod files {
    use super::{Columns, Handle, Target};
    use crate::{context::Outcome, failure::Failure};
    use std::path::Path;

    fn missing(path: &Path, instead: &str) -> Outcome {
        Err(Failure::Other(format!(
            "this program was built without Parquet, so nothing was done with {}: build it with `--features parquet`, or {instead}",
            path.display()
        )))
    }

    pub(crate) fn documents(_: &Handle, path: &Path, _: &str, columns: &Columns) -> Outcome {
        let Columns { sample: _, rest: _, key_column: _ } = columns;
        missing(path, "leave out --parquet, and have JSON lines or a CSV")
    }

    pub(crate) fn events(_: &Handle, to: &Target, _: u64, _: Option<String>) -> Outcome {
        missing(&to.parquet, "print events with `duramen store event range --json`")
    }

    pub(crate) fn vectors(_: &Handle, to: &Target, _: &str) -> Outcome {
        missing(&to.parquet, "print vectors with `duramen store vector get --json`")
    }

    pub(crate) fn load(_: &Handle, path: &Path, _: Option<&str>, _: &str, _: Option<&str>) -> Outcome {
        missing(path, "load JSON lines or a CSV")
    }
}

pub(crate) use files::{documents, events, load, vectors};
