//! A table in a Parquet file: its columns by their names, whatever their order, and its rows batch by batch.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_base::file::open_regular;
use duramen_parquet::{footer, BatchOf, Budget, Pages, BATCH_ROWS, LIST_VALUES_MAX};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result as Read};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type};

use super::error::TableError;
use crate::graph::Timestamp;
use crate::rows::{Kind, Table};

/// How many rows a file may have, however short it is, and how many more for each of its bytes.
const ROWS_MAX: (u64, u64) = (1 << 20, 64);
/// The same of bytes of text, each of which counts in every row that has it.
const TEXT_BYTES_MAX: (u64, u64) = (1 << 30, 1000);

/// A table, open.
pub(super) struct TableFile {
    pub(super) table: Table,
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    metadata: ParquetMetaData,
    columns: Vec<Column>,
    /// Columns that no table has.
    pub(super) unknown: Vec<String>,
}

/// A column that is there.
struct Column {
    name: &'static str,
    kind: Kind,
    /// Its place among those of the file.
    leaf: usize,
    descriptor: ColumnDescPtr,
    /// From which definition level on a list has a value at a place.
    in_list: i16,
    /// How many nanoseconds a time counts.
    nanos: i64,
}

/// The cells of a column in a batch.
pub(super) enum Cells {
    Text(Vec<Option<ByteArray>>),
    /// Texts of all rows, and where those of a row end.
    Texts(Vec<ByteArray>, Vec<usize>),
    Flag(Vec<Option<bool>>),
    Time(Vec<Option<Timestamp>>),
}

/// Rows in memory.
pub(super) struct Batch<'a> {
    file: &'a TableFile,
    cells: Vec<(&'static str, Cells)>,
    /// The number of its first row, from 1.
    first: u64,
    pub(super) rows: usize,
}

/// One column of a batch, there or not.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    batch: &'a Batch<'a>,
    pub(super) name: &'static str,
    cells: Option<&'a Cells>,
}

impl Cells {
    fn text_bytes(&self) -> u64 {
        let bytes: usize = match self {
            Cells::Text(all) => all.iter().flatten().map(ByteArray::len).sum(),
            Cells::Texts(all, _) => all.iter().map(ByteArray::len).sum(),
            Cells::Flag(_) | Cells::Time(_) => 0,
        };
        bytes as u64
    }
}

impl TableFile {
    /// Opens the file of a table in a folder, which has to have the columns that `needed` names.
    pub(super) fn open(
        folder: &Path,
        table: Table,
        needed: &[&'static str],
    ) -> Result<TableFile, TableError> {
        let path = folder.join(format!("{}.parquet", table.name()));
        let io = |source| TableError::Io { file: path.clone(), source };
        let damaged = |what: String| TableError::Damaged { file: path.clone(), what };
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(TableError::Missing { file: path });
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(damaged("it is not a regular file".to_owned()));
            }
            Err(error) => return Err(io(error)),
        };
        let length = file.metadata().map_err(io)?.len();
        let metadata = footer(&file, length).map_err(io)?.map_err(damaged)?;
        let mut opened = TableFile {
            table,
            path: path.clone(),
            file: Arc::new(file),
            length,
            columns: Vec::new(),
            unknown: Vec::new(),
            metadata,
        };
        opened.find_columns(needed)?;
        opened.check("rows", opened.rows(), ROWS_MAX)?;
        Ok(opened)
    }

    /// Whether there is no more of something than a file of this length can have.
    fn check(&self, what: &'static str, found: u64, (free, each): (u64, u64)) -> Result<(), TableError> {
        let most = free.saturating_add(self.length.saturating_mul(each));
        match found > most {
            true => Err(TableError::TooMuch { file: self.path.clone(), what, found, most }),
            false => Ok(()),
        }
    }

    fn find_columns(&mut self, needed: &[&'static str]) -> Result<(), TableError> {
        let schema = self.metadata.file_metadata().schema_descr_ptr();
        let mut known: Vec<String> = Vec::new();
        for field in schema.root_schema().get_fields() {
            let name = field.name();
            if known.iter().any(|each| each == name) {
                let what = format!("it has two columns {name:?}");
                return Err(TableError::Damaged { file: self.path.clone(), what });
            }
            known.push(name.to_owned());
            match self.table.columns().iter().find(|(known, _)| *known == name) {
                Some((name, kind)) => {
                    let column = Column::new(name, *kind, field, &schema);
                    self.columns.push(column.map_err(|found| TableError::WrongType {
                        file: self.path.clone(),
                        column: name,
                        found,
                        wanted: wanted(*kind),
                    })?);
                }
                None => self.unknown.push(name.to_owned()),
            }
        }
        match needed.iter().find(|needed| !self.columns.iter().any(|column| column.name == **needed)) {
            Some(column) => Err(TableError::MissingColumn { file: self.path.clone(), column, known }),
            None => Ok(()),
        }
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> u64 {
        let groups = self.metadata.row_groups().iter();
        groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
    }

    /// Calls `visit` with all rows.
    pub(super) fn for_each_batch(
        &self,
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<ControlFlow<()>, TableError>,
    ) -> Result<(), TableError> {
        let (mut first, mut text_bytes) = (1, 0);
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            let mut left = usize::try_from(group.num_rows()).map_err(|_| TableError::Damaged {
                file: self.path.clone(),
                what: format!("row group {} says that it has {} rows", number + 1, group.num_rows()),
            })?;
            let failed = |column: &Column| {
                let (file, column) = (self.path.clone(), column.name);
                move |source| TableError::Column { file, column, group: number + 1, source }
            };
            let budget = Arc::new(Budget::default());
            let mut readers = Vec::new();
            for column in &self.columns {
                let reader = ColumnReader::new(self, column, group, &budget);
                readers.push(reader.map_err(failed(column))?);
            }
            while left > 0 {
                let rows = left.min(BATCH_ROWS);
                let mut cells = Vec::new();
                for (column, reader) in self.columns.iter().zip(&mut readers) {
                    cells.push((column.name, reader.read(column, rows).map_err(failed(column))?));
                }
                text_bytes += cells.iter().map(|(_, cells)| cells.text_bytes()).sum::<u64>();
                self.check("bytes of text", text_bytes, TEXT_BYTES_MAX)?;
                let batch = Batch { file: self, cells, first, rows };
                if visit(&batch)?.is_break() {
                    return Ok(());
                }
                first += rows as u64;
                left -= rows;
            }
        }
        Ok(())
    }
}

/// What a column of a kind has to be.
fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "a string",
        Kind::Texts => "a list of strings",
        Kind::Flag => "a boolean",
        Kind::Count => "an integer of 64 bits",
        Kind::Time => "a timestamp of 64 bits, in UTC",
    }
}

impl Column {
    /// A column of a file, or what it is if that is not what it has to be.
    fn new(
        name: &'static str,
        kind: Kind,
        field: &Type,
        schema: &SchemaDescriptor,
    ) -> Result<Column, String> {
        let mut leaves = (0..schema.num_columns()).filter(|leaf| {
            schema.column(*leaf).path().parts().first().is_some_and(|first| first == field.name())
        });
        let (Some(leaf), None) = (leaves.next(), leaves.next()) else {
            return Err("a group of columns".to_owned());
        };
        let descriptor = schema.column(leaf);
        let is_list = descriptor.max_rep_level() == 1;
        let found = || {
            let logical = descriptor.logical_type_ref().map(|logical| format!(" ({logical:?})"));
            let what = format!("{}{}", descriptor.physical_type(), logical.unwrap_or_default());
            match descriptor.max_rep_level() {
                0 => what,
                1 => format!("a list of {what}"),
                _ => format!("lists in lists of {what}"),
            }
        };
        let is_text = || {
            let logical = matches!(
                descriptor.logical_type_ref(),
                None | Some(LogicalType::String | LogicalType::Enum | LogicalType::Json)
            );
            let converted = matches!(
                descriptor.converted_type(),
                ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON
            );
            descriptor.physical_type() == Physical::BYTE_ARRAY && logical && converted
        };
        let nanos = nanos(&descriptor);
        let is_right = match kind {
            Kind::Text => !is_list && field.is_primitive() && is_text(),
            Kind::Texts => is_list && is_text(),
            Kind::Flag => field.is_primitive() && !is_list && descriptor.physical_type() == Physical::BOOLEAN,
            Kind::Count => field.is_primitive() && !is_list && descriptor.physical_type() == Physical::INT64,
            Kind::Time => field.is_primitive() && !is_list && nanos.is_some(),
        };
        let nanos = nanos.unwrap_or(1);
        if !is_right {
            return Err(found());
        }
        Ok(Column { name, kind, leaf, in_list: in_list(field), descriptor, nanos })
    }
}

/// How many nanoseconds the times of a column count, if it is one of times.
fn nanos(descriptor: &ColumnDescPtr) -> Option<i64> {
    if descriptor.physical_type() != Physical::INT64 {
        return None;
    }
    match (descriptor.logical_type_ref(), descriptor.converted_type()) {
        (Some(LogicalType::Timestamp(time)), _) => Some(match time.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        }),
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some(1_000_000),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some(1_000),
        _ => None,
    }
}

/// The definition level of what is in a list, whether it is null or not.
fn in_list(field: &Type) -> i16 {
    use parquet::basic::Repetition;
    let (mut node, mut level) = (field, 0);
    loop {
        match node.get_basic_info().repetition() {
            Repetition::REQUIRED => {}
            Repetition::OPTIONAL => level += 1,
            Repetition::REPEATED => return level + 1,
        }
        match node {
            Type::GroupType { fields, .. } if !fields.is_empty() => node = &fields[0],
            _ => return level,
        }
    }
}

/// A column in a row group.
struct ColumnReader {
    typed: Typed,
    batch: Arc<BatchOf>,
    /// Definition and repetition levels, again for each batch.
    levels: [Vec<i16>; 2],
}

enum Typed {
    Texts(ColumnReaderImpl<ByteArrayType>),
    Flags(ColumnReaderImpl<BoolType>),
    Numbers(ColumnReaderImpl<Int64Type>),
}

impl ColumnReader {
    fn new(
        file: &TableFile,
        column: &Column,
        group: &RowGroupMetaData,
        budget: &Arc<Budget>,
    ) -> Read<ColumnReader> {
        let chunk = group.columns().get(column.leaf);
        let chunk =
            chunk.ok_or_else(|| ParquetError::General("the row group does not have it".to_owned()))?;
        let (source, batch) = (Arc::clone(&file.file), Arc::new(BatchOf::new(LIST_VALUES_MAX)));
        let pages = Pages::new(source, file.length, chunk, Arc::clone(budget), Arc::clone(&batch))?;
        let (descriptor, pages) = (Arc::clone(&column.descriptor), Box::new(pages));
        let typed = match column.kind {
            Kind::Text | Kind::Texts => Typed::Texts(ColumnReaderImpl::new(descriptor, pages)),
            Kind::Flag => Typed::Flags(ColumnReaderImpl::new(descriptor, pages)),
            Kind::Time | Kind::Count => Typed::Numbers(ColumnReaderImpl::new(descriptor, pages)),
        };
        Ok(ColumnReader { typed, batch, levels: Default::default() })
    }

    fn read(&mut self, column: &Column, rows: usize) -> Read<Cells> {
        self.batch.begin();
        let [is_there, goes_on] = &mut self.levels;
        is_there.clear();
        goes_on.clear();
        let most = column.descriptor.max_def_level();
        let (mut texts, mut flags, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let (found, _, levels) = match &mut self.typed {
            Typed::Texts(of) => of.read_records(rows, Some(is_there), Some(goes_on), &mut texts),
            Typed::Flags(of) => of.read_records(rows, Some(is_there), Some(goes_on), &mut flags),
            Typed::Numbers(of) => of.read_records(rows, Some(is_there), Some(goes_on), &mut numbers),
        }?;
        if found != rows {
            return Err(ParquetError::General(
                "it ends before the row group does; write the file again".to_owned(),
            ));
        }
        if most == 0 {
            is_there.resize(levels, 0);
        }
        Ok(match column.kind {
            Kind::Text => Cells::Text(spread(texts, is_there, most)),
            Kind::Flag => Cells::Flag(spread(flags, is_there, most)),
            Kind::Time | Kind::Count => {
                let times = numbers.into_iter().map(|count| time(count, column.nanos));
                Cells::Time(spread(times.collect(), is_there, most))
            }
            Kind::Texts => {
                let (mut ends, mut end): (Vec<usize>, usize) = Default::default();
                for (at, level) in is_there.iter().enumerate() {
                    if at > 0 && goes_on.get(at) == Some(&0) {
                        ends.push(end);
                    }
                    if *level >= column.in_list && *level < most {
                        return Err(ParquetError::General(
                            "a list has a null; write lists without them".to_owned(),
                        ));
                    }
                    end += usize::from(*level == most);
                }
                ends.push(end);
                if ends.len() != rows || end != texts.len() {
                    return Err(ParquetError::General(
                        "its lists do not fit its rows; write the file again".to_owned(),
                    ));
                }
                Cells::Texts(texts, ends)
            }
        })
    }
}

/// Values and nulls, each in its row.
fn spread<T>(values: Vec<T>, is_there: &[i16], most: i16) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    is_there.iter().map(|level| if *level == most { values.next() } else { None }).collect()
}

/// A time that counts so many nanoseconds.
fn time(count: i64, nanos: i64) -> Timestamp {
    let each = 1_000_000_000 / nanos;
    Timestamp { seconds: count.div_euclid(each), nanos: (count.rem_euclid(each) * nanos) as i32 }
}

impl<'a> Batch<'a> {
    /// A column of the batch.
    pub(super) fn column(&'a self, name: &'static str) -> Of<'a> {
        let cells = self.cells.iter().find(|(known, _)| *known == name).map(|(_, cells)| cells);
        Of { batch: self, name, cells }
    }
}

impl<'a> Of<'a> {
    /// An error about a row.
    pub(super) fn wrong(&self, row: usize, problem: String) -> TableError {
        let row = self.batch.first + row as u64;
        TableError::Cell { file: self.batch.file.path.clone(), column: self.name, row, problem }
    }

    fn utf8(&self, row: usize, text: &'a ByteArray) -> Result<&'a str, TableError> {
        std::str::from_utf8(text.data()).map_err(|_| self.wrong(row, "is not UTF-8; write text".to_owned()))
    }

    /// The text of a row; empty if it is null or the column is not there.
    pub(super) fn text(&self, row: usize) -> Result<&'a str, TableError> {
        match self.cells {
            Some(Cells::Text(all)) => {
                all.get(row).and_then(Option::as_ref).map_or(Ok(""), |text| self.utf8(row, text))
            }
            _ => Ok(""),
        }
    }

    /// The text of a row, which has to have one.
    pub(super) fn needed(&self, row: usize) -> Result<&'a str, TableError> {
        match self.text(row)? {
            "" => Err(self.wrong(row, "is null or empty, and every row needs it".to_owned())),
            text => Ok(text),
        }
    }

    /// The texts of a row.
    pub(super) fn texts(&self, row: usize) -> Result<Vec<&'a str>, TableError> {
        match self.cells {
            Some(Cells::Texts(all, ends)) => {
                let start =
                    row.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
                let of_row = ends.get(row).and_then(|end| all.get(start..*end)).unwrap_or_default();
                of_row.iter().map(|text| self.utf8(row, text)).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether the row says yes.
    pub(super) fn flag(&self, row: usize) -> bool {
        matches!(self.cells, Some(Cells::Flag(all)) if all.get(row) == Some(&Some(true)))
    }

    /// The time of the row.
    pub(super) fn time(&self, row: usize) -> Option<Timestamp> {
        match self.cells {
            Some(Cells::Time(all)) => all.get(row).copied().flatten(),
            _ => None,
        }
    }
}
