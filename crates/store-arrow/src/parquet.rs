//! Tables as Parquet files, written whole or not at all, and files of any origin, read within limits.
//!
//! JSON text has the logical type JSON, which DuckDB reads as such. A `FixedSizeList` is a list in the file, and comes back as a
//! `List`. What a file says of itself is held against limits before it takes memory: see [`duramen_parquet`]. Texts and bytes
//! come as views, so that one long text in many rows is in memory once.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use duramen_base::file;
use duramen_pack::container::Temporary;
use duramen_pack::PackError;
use duramen_parquet::{footer, BatchOf, Budget, Pages, BATCH_ROWS, HELD_BYTES_MAX};

use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::arrow::{parquet_to_arrow_field_levels, parquet_to_arrow_schema, FieldLevels, ProjectionMask};
use parquet::basic::{Compression, Type as Physical};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;

/// The most rows of one group of a file that is written.
const GROUP_ROWS: usize = 128 << 10;
/// The most bytes of a group, which is in memory until it is written.
const GROUP_BYTES: usize = 64 << 20;
/// The most columns of a file that is read, those in structs and lists counted singly.
pub const COLUMNS_MAX: usize = 4096;
/// The longest value of a column whose values are all of one length, in bytes.
pub const FIXED_BYTES_MAX: i32 = 4096;
/// The most values in lists that are read for [`BATCH_ROWS`] rows, in all columns together. A file whose pages have more is
/// refused.
pub const LIST_VALUES_MAX: u64 = 32 << 20;
/// How many rows a file may have, however short it is, and how many more for each of its bytes.
const ROWS_MAX: (u64, u64) = (1 << 20, 64);
/// The same of bytes of texts and of bytes, each of which counts in every row that has it.
const TEXT_BYTES_MAX: (u64, u64) = (1 << 30, 1000);

/// Why a file was not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is no further batch.
    #[error(transparent)]
    Rows(ArrowError),
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
    /// The operating system failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is no Parquet file, is damaged, or says more than is believed.
    #[error("{} cannot be read as Parquet: {what}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
}

/// Writes batches into a file, compressed by Snappy, and says how many rows that were. A file that is there is replaced when the new
/// one is complete and durable.
///
/// ```
/// use duramen_store::{Scope, Store};
/// use duramen_store_arrow::parquet::{write_parquet, FileBatches};
/// use duramen_store_arrow::{Batches, DocumentOptions, Table};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("trees.parquet");
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.json().set("oak", "", &serde_json::json!({ "height": 30 }))?;
/// let batches = Batches::open(&main, "default", &Table::Documents(DocumentOptions::default()))?;
/// assert_eq!(write_parquet(&path, batches)?, 1);
/// assert_eq!(FileBatches::open(&path)?.rows(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When a batch cannot be made, or the file cannot be written: what was there before is there still.
pub fn write_parquet(path: &Path, batches: impl RecordBatchReader) -> Result<u64, FileError> {
    let failed = |source| FileError::Write { path: path.to_owned(), source };
    let target = Temporary::create(path)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let out = BufWriter::new(target.file());
    let mut writer = ArrowWriter::try_new_with_options(out, batches.schema(), options).map_err(failed)?;
    let mut rows = 0;
    for batch in batches {
        let batch = batch.map_err(FileError::Rows)?;
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(failed)?;
    }
    let mut out = writer.into_inner().map_err(failed)?;
    std::io::Write::flush(&mut out).map_err(|error| failed(ParquetError::from(error)))?;
    drop(out);
    target.place()?;
    Ok(rows)
}

/// The batches of a file, of [`BATCH_ROWS`] rows at most. After an error it ends.
pub struct FileBatches {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    metadata: Arc<ParquetMetaData>,
    levels: FieldLevels,
    schema: SchemaRef,
    /// Numbers of row groups that are not begun yet.
    groups: VecDeque<usize>,
    reader: Option<(ParquetRecordBatchReader, Vec<Arc<BatchOf>>)>,
    text_bytes: u64,
}

impl FileBatches {
    /// Opens a file and looks at its schema.
    ///
    /// # Errors
    /// When it cannot be read, is no Parquet file, or says more than is believed.
    pub fn open(path: &Path) -> Result<FileBatches, FileError> {
        let io = |source| FileError::Read { path: path.to_owned(), source };
        let refused = |what: String| FileError::Refused { path: path.to_owned(), what };
        let file = file::open_regular(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let metadata = footer(&file, length).map_err(io)?.map_err(refused)?;
        check(&metadata, length).map_err(refused)?;
        let descriptor = metadata.file_metadata().schema_descr();
        let unread = |error: ParquetError| refused(format!("its schema is not read: {error}"));
        let found = parquet_to_arrow_schema(descriptor, None).map_err(unread)?;
        let mut leaves = descriptor.columns().iter().map(|column| column.physical_type());
        let views: Fields = found.fields().iter().map(|field| as_views(field, &mut leaves)).collect();
        let levels =
            parquet_to_arrow_field_levels(descriptor, ProjectionMask::all(), Some(&views)).map_err(unread)?;
        let schema = Arc::new(Schema::new(views));
        let groups = (0..metadata.num_row_groups()).collect();
        let (file, metadata) = (Arc::new(file), Arc::new(metadata));
        Ok(FileBatches {
            path: path.to_owned(),
            file,
            length,
            metadata,
            levels,
            schema,
            groups,
            reader: None,
            text_bytes: 0,
        })
    }

    /// The names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How many rows the file says that it has.
    pub fn rows(&self) -> u64 {
        rows(&self.metadata)
    }

    /// The next batch; none at the end.
    ///
    /// # Errors
    /// When a part of the file is damaged, or says more than is believed.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, FileError> {
        loop {
            if let Some((mut reader, columns)) = self.reader.take() {
                columns.iter().for_each(|column| column.begin());
                if let Some(batch) = reader.next() {
                    let batch = batch.map_err(|error| self.refused(error.to_string()))?;
                    let checked = batch.columns().iter().try_for_each(|column| self.check_texts(column));
                    checked.map_err(|what| self.refused(what))?;
                    self.reader = Some((reader, columns));
                    return Ok(Some(batch));
                }
            }
            let Some(number) = self.groups.pop_front() else { return Ok(None) };
            self.reader = Some(self.group(number).map_err(|error| {
                self.groups.clear();
                self.refused(format!("row group {}: {error}", number + 1))
            })?);
        }
    }

    /// After this it ends, unless a reader is put back.
    fn refused(&mut self, what: String) -> FileError {
        self.groups.clear();
        FileError::Refused { path: self.path.clone(), what }
    }

    /// Whether texts are UTF-8, which the format's reader does not look at for JSON, and not too many bytes.
    fn check_texts(&mut self, array: &dyn Array) -> Result<(), String> {
        let bytes = match array.data_type() {
            DataType::Utf8View => &array.as_string_view().clone().to_binary_view(),
            DataType::BinaryView => array.as_binary_view(),
            DataType::List(_) => return self.check_texts(array.as_list::<i32>().values()),
            DataType::Map(..) => return self.check_texts(array.as_map().entries()),
            DataType::Struct(_) => {
                return array.as_struct().columns().iter().try_for_each(|column| self.check_texts(column));
            }
            _ => return Ok(()),
        };
        let is_text = *array.data_type() == DataType::Utf8View;
        let most = TEXT_BYTES_MAX.0.saturating_add(self.length.saturating_mul(TEXT_BYTES_MAX.1));
        let mut last: &[u8] = &[];
        for value in bytes.iter().flatten() {
            self.text_bytes += value.len() as u64;
            if self.text_bytes > most {
                return Err(format!(
                    "it has more than {most} bytes of text, which are allowed for its length"
                ));
            }
            // The same one again, as from a dictionary.
            if is_text && !std::ptr::eq(value, last) && std::str::from_utf8(value).is_err() {
                return Err("a text is not UTF-8; write it again".to_owned());
            }
            last = value;
        }
        Ok(())
    }

    fn group(
        &mut self,
        number: usize,
    ) -> Result<(ParquetRecordBatchReader, Vec<Arc<BatchOf>>), ParquetError> {
        let first = BatchOf::new(LIST_VALUES_MAX);
        let others = (1..self.metadata.file_metadata().schema_descr().num_columns()).map(|_| first.beside());
        let columns: Vec<_> = others.map(Arc::new).collect();
        let columns: Vec<_> = std::iter::once(Arc::new(first)).chain(columns).collect();
        let group = Group {
            file: Arc::clone(&self.file),
            length: self.length,
            metadata: Arc::clone(&self.metadata),
            number,
            budget: Arc::default(),
            columns: columns.clone(),
        };
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, &group, BATCH_ROWS, None)?;
        Ok((reader, columns))
    }
}

impl Iterator for FileBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for FileBatches {
    fn schema(&self) -> SchemaRef {
        FileBatches::schema(self)
    }
}

impl std::fmt::Debug for FileBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileBatches")
            .field("path", &self.path)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

fn rows(metadata: &ParquetMetaData) -> u64 {
    let groups = metadata.row_groups().iter();
    groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

/// Whether the footer says no more than a file of this length can hold.
fn check(metadata: &ParquetMetaData, length: u64) -> Result<(), String> {
    let schema = metadata.file_metadata().schema_descr();
    let columns = schema.num_columns();
    if columns == 0 || columns > COLUMNS_MAX {
        return Err(format!("it has {columns} columns, and 1 to {COLUMNS_MAX} are read"));
    }
    let long = schema.columns().iter().find(|column| {
        column.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY && column.type_length() > FIXED_BYTES_MAX
    });
    if let Some(long) = long {
        let (name, bytes) = (long.path(), long.type_length());
        return Err(format!("each value of {name} has {bytes} bytes, and {FIXED_BYTES_MAX} are allowed"));
    }
    // Of a dictionary, a page holds each of them once, and every row has its own in memory. Those in lists are counted with the
    // pages.
    let fixed = schema.columns().iter().filter(|column| {
        column.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY && column.max_rep_level() == 0
    });
    let bytes = fixed.map(|column| u64::try_from(column.type_length()).unwrap_or(0)).sum::<u64>();
    let most = HELD_BYTES_MAX / BATCH_ROWS as u64;
    if bytes > most {
        return Err(format!(
            "the values of fixed length of one row have {bytes} bytes, and {most} are allowed: leave columns out"
        ));
    }
    let (found, most) = (rows(metadata), ROWS_MAX.0.saturating_add(length.saturating_mul(ROWS_MAX.1)));
    if found > most {
        return Err(format!(
            "it says that it has {found} rows, and for a file of its length {most} are allowed"
        ));
    }
    match metadata.row_groups().iter().position(|group| group.num_columns() != columns) {
        Some(group) => Err(format!("row group {} has other columns than the schema", group + 1)),
        None => Ok(()),
    }
}

/// The same with texts and bytes as views, and moments of the physical type INT96 in microseconds: in nanoseconds, only the years 1677 to
/// 2262 have a number of 64 bits. `leaves` are the physical types of the columns from here on, in their order.
fn as_views(field: &Field, leaves: &mut impl Iterator<Item = Physical>) -> Field {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(Arc::new(as_views(item, leaves))),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| as_views(field, leaves)).collect())
        }
        DataType::Map(entries, sorted) => DataType::Map(Arc::new(as_views(entries, leaves)), *sorted),
        leaf => match (leaf, leaves.next()) {
            (DataType::Utf8, _) => DataType::Utf8View,
            (DataType::Binary, _) => DataType::BinaryView,
            (DataType::Timestamp(_, zone), Some(Physical::INT96)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            (other, _) => other.clone(),
        },
    };
    field.clone().with_data_type(data_type)
}

/// A row group whose pages are looked at before they are read.
struct Group {
    file: Arc<File>,
    length: u64,
    metadata: Arc<ParquetMetaData>,
    number: usize,
    budget: Arc<Budget>,
    columns: Vec<Arc<BatchOf>>,
}

impl RowGroups for Group {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.number).num_rows()).unwrap_or_default()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let missing = || ParquetError::General(format!("the row group does not have column {}", column + 1));
        let chunk = self.metadata.row_group(self.number).columns().get(column).ok_or_else(missing)?;
        let batch = Arc::clone(self.columns.get(column).ok_or_else(missing)?);
        let pages = Pages::new(Arc::clone(&self.file), self.length, chunk, Arc::clone(&self.budget), batch)?;
        Ok(Box::new(OneChunk(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.number)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of a column in one row group.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}
