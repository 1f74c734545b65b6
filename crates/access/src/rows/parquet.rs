//! Tables as Parquet files, for DuckDB, Polars, pandas and whatever else reads them.
//!
//! A text is a string, texts are a list of strings, a time is a timestamp in UTC with microseconds, null if there is none.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_pack::container::Temporary;
use duramen_pack::PackError;
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::cells::{micros, Cell, Kind};
use super::table::{for_each_row, Filter, RowsError, Table};
use crate::file::GraphFile;
use crate::graph::Sync;

/// Rows of one group: what is in memory at a time.
const GROUP_ROWS: usize = 128 << 10;

/// Why a table was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The rows could not be read.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The file could not be made.
    #[error(transparent)]
    File(#[from] PackError),
    /// Its content could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ParquetError,
    },
    /// The folder could not be made.
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// What is in it.
    pub table: Table,
    /// The file.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
}

/// Writes every table of a sync into a folder, which is made if it is not there: `grants.parquet`, `effective_grants.parquet`
/// and so on. A file that is there is replaced when the new one is complete.
///
/// ```
/// use duramen_access::c1z::ReadOptions;
/// use duramen_access::file::GraphFile;
/// use duramen_access::graph::{GraphStore, SyncKind};
/// use duramen_access::rows::export_parquet;
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("access.dpack");
/// let mut store = GraphStore::open(&path)?;
/// store.start_sync(SyncKind::Full, None)?;
/// store.end_sync()?;
/// let file = GraphFile::open(&path, &ReadOptions::default())?;
/// let exported = export_parquet(&file, &file.sync(None)?, &dir.path().join("tables"))?;
/// assert!(exported.iter().any(|each| each.path.ends_with("tables/effective_grants.parquet")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the sync cannot be read, or a file cannot be written. Files that were complete before stay.
pub fn export_parquet(file: &GraphFile, sync: &Sync, folder: &Path) -> Result<Vec<Exported>, ExportError> {
    let failed = |source| ExportError::Folder { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut exported = Vec::new();
    for table in Table::ALL {
        let path = folder.join(format!("{}.parquet", table.name()));
        let rows = write_parquet(file, sync, table, &path)?;
        exported.push(Exported { table, path, rows });
    }
    Ok(exported)
}

/// Writes one table into a file, and says how many rows it has.
///
/// # Errors
/// As [`export_parquet`].
pub fn write_parquet(file: &GraphFile, sync: &Sync, table: Table, path: &Path) -> Result<u64, ExportError> {
    let failed = |source| ExportError::Write { path: path.to_owned(), source };
    let target = Temporary::create(path)?;
    let schema = Arc::new(parse_message_type(&schema(table)).map_err(failed)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let out = BufWriter::new(target.file());
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
    let mut columns: Vec<Column> = table.columns().iter().map(|(_, kind)| Column::new(*kind)).collect();
    let (mut rows, mut pending, mut broken) = (0, 0, None);
    for_each_row(file, sync, (table, &Filter::default()), &mut |row| {
        columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        rows += 1;
        pending += 1;
        if pending == GROUP_ROWS {
            pending = 0;
            if let Err(error) = write_group(&mut writer, &mut columns) {
                broken = Some(error);
                return std::ops::ControlFlow::Break(());
            }
        }
        std::ops::ControlFlow::Continue(())
    })?;
    match broken {
        Some(error) => return Err(failed(error)),
        None if pending > 0 => write_group(&mut writer, &mut columns).map_err(failed)?,
        None => {}
    }
    let mut out = writer.into_inner().map_err(failed)?;
    std::io::Write::flush(&mut out).map_err(|error| failed(ParquetError::from(error)))?;
    drop(out);
    target.place()?;
    Ok(rows)
}

/// What a reader is told of the columns.
fn schema(table: Table) -> String {
    let column = |(name, kind): &(&str, Kind)| match kind {
        Kind::Text => format!("required binary {name} (STRING);"),
        Kind::Texts => format!(
            "required group {name} (LIST) {{ repeated group list {{ required binary element (STRING); }} }}"
        ),
        Kind::Flag => format!("required boolean {name};"),
        Kind::Count => format!("required int64 {name};"),
        Kind::Time => format!("optional int64 {name} (TIMESTAMP(MICROS, true));"),
    };
    let columns: Vec<String> = table.columns().iter().map(column).collect();
    format!("message {} {{ {} }}", table.name(), columns.join(" "))
}

/// Cells of a column until their group is written.
enum Column {
    Text(Vec<ByteArray>),
    /// With, for each text or empty list, whether there is one, and whether it goes on a list.
    Texts {
        values: Vec<ByteArray>,
        is_there: Vec<i16>,
        goes_on: Vec<i16>,
    },
    Flag(Vec<bool>),
    Count(Vec<i64>),
    Time {
        values: Vec<i64>,
        is_there: Vec<i16>,
    },
}

impl Column {
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Text => Column::Text(Vec::new()),
            Kind::Texts => Column::Texts { values: Vec::new(), is_there: Vec::new(), goes_on: Vec::new() },
            Kind::Flag => Column::Flag(Vec::new()),
            Kind::Count => Column::Count(Vec::new()),
            Kind::Time => Column::Time { values: Vec::new(), is_there: Vec::new() },
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Column::Text(values), Cell::Text(text)) => values.push(ByteArray::from(*text)),
            (Column::Texts { values, is_there, goes_on }, Cell::Texts(texts)) => {
                if texts.is_empty() {
                    is_there.push(0);
                    goes_on.push(0);
                }
                for (at, text) in texts.iter().enumerate() {
                    values.push(ByteArray::from(*text));
                    is_there.push(1);
                    goes_on.push(i16::from(at > 0));
                }
            }
            (Column::Flag(values), Cell::Flag(flag)) => values.push(*flag),
            (Column::Count(values), Cell::Count(count)) => {
                values.push(i64::try_from(*count).unwrap_or(i64::MAX))
            }
            (Column::Time { values, is_there }, Cell::Time(time)) => {
                let micros = time.and_then(micros);
                values.extend(micros);
                is_there.push(i16::from(micros.is_some()));
            }
            // A row has the cells that its table names.
            _ => debug_assert!(false, "a cell of another kind than its column"),
        }
    }
}

fn write_group<W: std::io::Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &mut [Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut to) = group.next_column()? else { break };
        match column {
            Column::Text(values) => {
                to.typed::<ByteArrayType>().write_batch(values, None, None)?;
                values.clear();
            }
            Column::Texts { values, is_there, goes_on } => {
                to.typed::<ByteArrayType>().write_batch(values, Some(is_there), Some(goes_on))?;
                values.clear();
                is_there.clear();
                goes_on.clear();
            }
            Column::Flag(values) => {
                to.typed::<BoolType>().write_batch(values, None, None)?;
                values.clear();
            }
            Column::Count(values) => {
                to.typed::<Int64Type>().write_batch(values, None, None)?;
                values.clear();
            }
            Column::Time { values, is_there } => {
                to.typed::<Int64Type>().write_batch(values, Some(is_there), None)?;
                values.clear();
                is_there.clear();
            }
        }
        to.close()?;
    }
    group.close()?;
    Ok(())
}
