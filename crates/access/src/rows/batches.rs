//! Rows as batches of Apache Arrow: the seam for Python and whatever else reads Arrow.
//!
//! A text is `Utf8`, texts are a `List` of `Utf8`, a flag is `Boolean`, a count `Int64`, and a time `Timestamp` in UTC with
//! microseconds, null if there is none.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use super::cells::{micros, Cell, Kind};
use super::table::{for_each_row, Filter, RowsError, Table};
use crate::c1z::ReadOptions;
use crate::file::GraphFile;

/// The most bytes of text in one batch. A batch has one row at least.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// Which rows are read, and how many at a time.
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// The id of the sync; without one, that which is [read by default](crate::graph::Sync::to_read).
    pub sync: Option<String>,
    /// Which rows are meant.
    pub filter: Filter,
    /// The most rows of a batch. A batch that has [`BATCH_BYTES_MAX`] bytes of text ends before.
    pub rows_max: usize,
    /// How a `.c1z` file is read.
    pub read: ReadOptions,
}

impl Default for BatchOptions {
    fn default() -> Self {
        BatchOptions { sync: None, filter: Filter::default(), rows_max: 8192, read: ReadOptions::default() }
    }
}

/// The batches of a table, one after another. At most three are in memory at a time: the one that the caller has, one that
/// waits, and one that a thread fills. Dropping this ends the thread when it has filled the next batch.
///
/// ```
/// use duramen_access::graph::{GraphStore, ResourceType, SyncKind};
/// use duramen_access::rows::{BatchOptions, Batches, Table};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("access.dpack");
/// let mut store = GraphStore::open(&path)?;
/// store.start_sync(SyncKind::Full, None)?;
/// let rows = ["user", "group", "app"].map(|id| ResourceType { id: id.to_owned(), ..ResourceType::default() });
/// store.put_resource_types(&rows)?;
/// store.end_sync()?;
/// store.close()?;
///
/// let two = BatchOptions { rows_max: 2, ..BatchOptions::default() };
/// let batches = Batches::open(&path, Table::ResourceTypes, two)?;
/// assert_eq!(batches.schema().field(0).name(), "id");
/// let sizes: Result<Vec<usize>, _> = batches.map(|batch| Ok::<_, arrow_schema::ArrowError>(batch?.num_rows())).collect();
/// assert_eq!(sizes?, [2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
}

impl Batches {
    /// Opens a file, finds the sync, and begins to read a table of it. Each has the file open for itself, so several can be read
    /// side by side; a sync of an id never changes.
    ///
    /// # Errors
    /// When the file cannot be opened, has no such sync, or no thread can be started. What fails later is an item.
    pub fn open(path: &Path, table: Table, options: BatchOptions) -> Result<Batches, RowsError> {
        let file = GraphFile::open(path, &options.read)?;
        let sync = file.sync(options.sync.as_deref())?;
        let schema = schema(table);
        let (send, batches) = sync_channel(1);
        let mut filling = Filling::new(Arc::clone(&schema), table, options.rows_max.max(1), send);
        let read = move || {
            let done = for_each_row(&file, &sync, (table, &options.filter), &mut |row| filling.push(row));
            filling.end(done);
        };
        std::thread::Builder::new().name(format!("rows of {}", table.name())).spawn(read)?;
        Ok(Batches { schema, batches })
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Batches::schema(self)
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

fn schema(table: Table) -> SchemaRef {
    let field = |(name, kind): &(&str, Kind)| match kind {
        Kind::Text => Field::new(*name, DataType::Utf8, false),
        Kind::Texts => Field::new(*name, DataType::List(item()), false),
        Kind::Flag => Field::new(*name, DataType::Boolean, false),
        Kind::Count => Field::new(*name, DataType::Int64, false),
        Kind::Time => Field::new(*name, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    };
    Arc::new(Schema::new(table.columns().iter().map(field).collect::<Vec<_>>()))
}

/// What is in a list.
fn item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Utf8, false))
}

/// A column of the batch that is filled.
enum Column {
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Flag(BooleanBuilder),
    Count(Int64Builder),
    Time(TimestampMicrosecondBuilder),
}

impl Column {
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Text => Column::Text(StringBuilder::new()),
            Kind::Texts => Column::Texts(ListBuilder::new(StringBuilder::new()).with_field(item())),
            Kind::Flag => Column::Flag(BooleanBuilder::new()),
            Kind::Count => Column::Count(Int64Builder::new()),
            Kind::Time => Column::Time(TimestampMicrosecondBuilder::new().with_timezone("UTC")),
        }
    }

    /// Takes a cell; how many bytes of text it has.
    fn push(&mut self, cell: &Cell<'_>) -> usize {
        match (self, cell) {
            (Column::Text(to), Cell::Text(text)) => {
                to.append_value(text);
                return text.len();
            }
            (Column::Texts(to), Cell::Texts(texts)) => {
                texts.iter().for_each(|text| to.values().append_value(text));
                to.append(true);
                return texts.iter().map(|text| text.len()).sum();
            }
            (Column::Flag(to), Cell::Flag(flag)) => to.append_value(*flag),
            (Column::Count(to), Cell::Count(count)) => {
                to.append_value(i64::try_from(*count).unwrap_or(i64::MAX))
            }
            (Column::Time(to), Cell::Time(time)) => to.append_option(time.and_then(micros)),
            // A row has the cells that its table names.
            _ => debug_assert!(false, "a cell of another kind than its column"),
        }
        0
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Text(of) => ArrayBuilder::finish(of),
            Column::Texts(of) => ArrayBuilder::finish(of),
            Column::Flag(of) => ArrayBuilder::finish(of),
            Column::Count(of) => ArrayBuilder::finish(of),
            Column::Time(of) => ArrayBuilder::finish(of),
        }
    }
}

/// The batch that is filled, and where it goes.
struct Filling {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    rows_max: usize,
    bytes: usize,
    to: SyncSender<Result<RecordBatch, ArrowError>>,
}

impl Filling {
    fn new(
        schema: SchemaRef,
        table: Table,
        rows_max: usize,
        to: SyncSender<Result<RecordBatch, ArrowError>>,
    ) -> Filling {
        let columns = table.columns().iter().map(|(_, kind)| Column::new(*kind)).collect();
        Filling { schema, columns, rows: 0, rows_max, bytes: 0, to }
    }

    fn push(&mut self, row: &[Cell<'_>]) -> ControlFlow<()> {
        let bytes = self.columns.iter_mut().zip(row).map(|(column, cell)| column.push(cell));
        self.bytes += bytes.sum::<usize>();
        self.rows += 1;
        if self.rows < self.rows_max && self.bytes < BATCH_BYTES_MAX {
            return ControlFlow::Continue(());
        }
        self.send()
    }

    /// Sends the batch. Nobody may wait for it any more.
    fn send(&mut self) -> ControlFlow<()> {
        let columns = self.columns.iter_mut().map(Column::finish).collect();
        (self.rows, self.bytes) = (0, 0);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        match self.to.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn end(mut self, done: Result<(), RowsError>) {
        match done {
            Ok(()) if self.rows > 0 => {
                let _ = self.send();
            }
            Ok(()) => {}
            Err(error) => {
                let _ = self.to.send(Err(ArrowError::ExternalError(Box::new(error))));
            }
        }
    }
}
