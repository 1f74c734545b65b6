//! Pages of a column, none of which is believed before it was looked at.
//!
//! The reader of the format reserves memory by what the head of a page says. Here every head is read first, and refused if
//! it says more than a limit; what is in memory of one row group is counted over all of its columns. Encodings that
//! repeat one long value in a few bytes are refused by name, because no head says what comes out of them.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use crate::thrift::{Broken, Reader, FALSE};

/// The longest page, in bytes, before or after compression.
pub const PAGE_BYTES_MAX: u64 = 128 << 20;
/// The most bytes of pages in memory: of all columns, for one batch of rows.
pub const HELD_BYTES_MAX: u64 = 512 << 20;
/// The most values of a column of lists that are read for one batch of rows. A value of fixed length counts once for each
/// 16 bytes of it.
pub const LIST_VALUES_MAX: u64 = 4 << 20;
/// The bytes of a value of fixed length that count as one value.
const FIXED_BYTES: u64 = 16;
/// How many rows are in memory at a time.
pub const BATCH_ROWS: usize = 256;
/// The longest head of a page, in bytes: it can have the least and the greatest value of the page.
const HEAD_BYTES_MAX: usize = 4 << 20;

/// Encodings that are read, by their numbers.
const READ: [i64; 4] = [0, 2, 3, 8];
/// Names of all encodings in the order of their numbers, of which the second was never used.
const ENCODINGS: [&str; 10] = [
    "PLAIN",
    "",
    "PLAIN_DICTIONARY",
    "RLE",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "RLE_DICTIONARY",
    "BYTE_STREAM_SPLIT",
];

/// What the columns of a row group have in memory.
#[derive(Debug, Default)]
pub struct Budget {
    held: AtomicU64,
}

/// The rows that are read of a column.
#[derive(Debug)]
pub struct BatchOf {
    /// Whether no page was read for them yet.
    is_new: AtomicBool,
    /// How many values of lists may still come for them.
    list_values: Arc<AtomicU64>,
    list_values_max: u64,
}

impl BatchOf {
    /// Rows of a column that has at most so many values of lists in one batch.
    pub fn new(list_values_max: u64) -> BatchOf {
        let list_values = Arc::new(AtomicU64::new(list_values_max));
        BatchOf { is_new: AtomicBool::new(true), list_values, list_values_max }
    }

    /// Rows of another column, whose values of lists count together with those of this one.
    pub fn beside(&self) -> BatchOf {
        let (list_values, list_values_max) = (Arc::clone(&self.list_values), self.list_values_max);
        BatchOf { is_new: AtomicBool::new(true), list_values, list_values_max }
    }

    /// Another batch begins; that before it is gone.
    pub fn begin(&self) {
        self.is_new.store(true, Ordering::Relaxed);
        self.list_values.store(self.list_values_max, Ordering::Relaxed);
    }
}

/// Bytes of pages in memory.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    dictionary: u64,
    /// Of all pages of the batch.
    pages: u64,
    /// Of the last of them, in which the next batch may begin.
    last: u64,
}

impl Held {
    fn all(&self) -> u64 {
        self.dictionary + self.pages
    }
}

/// The pages of a column in one row group.
pub struct Pages {
    inner: SerializedPageReader<File>,
    file: Arc<File>,
    at: u64,
    end: u64,
    is_gzip: bool,
    has_dictionary: bool,
    descriptor: ColumnDescPtr,
    /// The head at `at`, if it was looked at.
    head: Option<Head>,
    budget: Arc<Budget>,
    held: Held,
    batch: Arc<BatchOf>,
    is_list: bool,
}

/// What the head of a page says.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    bytes: u64,
    kind: i64,
    raw: u64,
    compressed: u64,
    values: u64,
    /// Bytes in front that are not compressed.
    levels: u64,
    /// An encoding that is not read.
    unread: Option<i64>,
    /// Whether the values are places in a dictionary.
    is_of_dictionary: bool,
    /// How definition and repetition levels are encoded, if the head says so.
    level_encodings: [Option<i64>; 2],
    /// Whether the page is as it is, in spite of the codec of its column.
    is_plain: bool,
}

fn refused(what: impl Into<String>) -> ParquetError {
    ParquetError::General(what.into())
}

impl Pages {
    /// The pages of a chunk of `file`, whose place the footer says.
    ///
    /// # Errors
    /// When the chunk lies beyond the end of the file or in another one, or is compressed by something that is not read.
    pub fn new(
        file: Arc<File>,
        length: u64,
        chunk: &ColumnChunkMetaData,
        budget: Arc<Budget>,
        batch: Arc<BatchOf>,
    ) -> Result<Pages> {
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let range = range.and_then(|(at, bytes)| at.checked_add(bytes).map(|end| (at, end)));
        let (at, end) = range
            .filter(|(_, end)| *end <= length)
            .ok_or_else(|| refused("it lies beyond the end of the file; write it again"))?;
        if chunk.file_path().is_some() {
            return Err(refused("it lies in another file; write one file"));
        }
        let is_gzip = match chunk.compression() {
            Compression::GZIP(_) => true,
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) | Compression::LZ4_RAW => {
                false
            }
            other => {
                return Err(refused(format!(
                "it is compressed by {other}, which is not read: write it with snappy, zstd, gzip or lz4_raw"
            )))
            }
        };
        // The number of rows is asked for only with an index of pages.
        let inner = SerializedPageReader::new(Arc::clone(&file), chunk, 0, None)?;
        let (descriptor, has_dictionary) = (chunk.column_descr_ptr(), false);
        let is_list = descriptor.max_rep_level() > 0;
        Ok(Pages {
            inner,
            file,
            at,
            end,
            is_gzip,
            has_dictionary,
            descriptor,
            head: None,
            budget,
            held: Held::default(),
            batch,
            is_list,
        })
    }

    /// Looks at the head of the next page; none at the end.
    fn look(&mut self) -> Result<Option<Head>> {
        if self.head.is_none() && self.at < self.end {
            let head = self.read_head()?;
            self.check(&head)?;
            self.head = Some(head);
        }
        Ok(self.head)
    }

    fn read_head(&self) -> Result<Head> {
        let left = self.end - self.at;
        for most in [1 << 10, HEAD_BYTES_MAX] {
            let mut bytes = vec![0; left.min(most as u64) as usize];
            self.file.read_exact_at(&mut bytes, self.at)?;
            match Head::read(&bytes) {
                Ok(head) => return Ok(head),
                Err(Broken::Short) if (bytes.len() as u64) < left && most < HEAD_BYTES_MAX => {}
                Err(_) => break,
            }
        }
        Err(refused(format!("no head of a page is at byte {}; write the file again", self.at)))
    }

    fn check(&self, head: &Head) -> Result<()> {
        if head.raw.max(head.compressed) > PAGE_BYTES_MAX {
            return Err(refused(format!(
                "the page at byte {} says that it has {} bytes, and {PAGE_BYTES_MAX} are allowed: write smaller pages or \
                 row groups",
                self.at,
                head.raw.max(head.compressed)
            )));
        }
        let beyond = head.bytes + head.compressed > self.end - self.at;
        if beyond || head.levels > head.raw.min(head.compressed) {
            return Err(refused(format!("the page at byte {} is cut off; write the file again", self.at)));
        }
        if let Some(id) = head.unread {
            let name = usize::try_from(id)
                .ok()
                .and_then(|id| ENCODINGS.get(id))
                .copied()
                .unwrap_or("an unknown one");
            return Err(refused(format!(
                "its encoding is {name}, which is not read: write it with PLAIN or a dictionary"
            )));
        }
        let most = [self.descriptor.max_def_level(), self.descriptor.max_rep_level()];
        let has_odd_levels =
            |(most, encoding): (i16, Option<i64>)| most > 0 && encoding.is_some_and(|id| id != 3);
        if most.into_iter().zip(head.level_encodings).any(has_odd_levels) {
            return Err(refused(
                "its levels are not encoded as RLE, which is not read: write the file with another tool",
            ));
        }
        if head.is_of_dictionary && !self.has_dictionary {
            return Err(refused(format!(
                "the page at byte {} needs a dictionary, and there is none before it; write the file again",
                self.at
            )));
        }
        // A value of a dictionary has four bytes for its length at least.
        if head.kind == 2 && head.values > head.raw / 4 {
            return Err(refused(format!(
                "the dictionary at byte {} says that it has {} values in {} bytes; write the file again",
                self.at, head.values, head.raw
            )));
        }
        Ok(())
    }

    /// Whether as much comes out of a gzip stream as the head says: the reader of the format takes whatever comes.
    fn check_gzip(&self, head: &Head) -> Result<()> {
        let mut bytes = vec![0; (head.compressed - head.levels) as usize];
        self.file.read_exact_at(&mut bytes, self.at + head.bytes + head.levels)?;
        let most = head.raw - head.levels;
        let mut out = flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(most + 1);
        if std::io::copy(&mut out, &mut std::io::sink())? > most {
            return Err(refused(format!("more comes out of the page at byte {} than it says", self.at)));
        }
        Ok(())
    }

    /// Counts a page. The texts of a batch keep all pages that they lie in, so those before it count until the batch is done.
    fn hold(&mut self, head: &Head) -> Result<()> {
        let bytes = head.raw.max(head.compressed);
        let before = self.held;
        match head.kind {
            2 => self.held.dictionary = bytes,
            _ if self.batch.is_new.swap(false, Ordering::Relaxed) => {
                self.held.pages = self.held.last + bytes;
                self.held.last = bytes;
            }
            _ => {
                self.held.pages += bytes;
                self.held.last = bytes;
            }
        }
        self.budget.held.fetch_sub(before.all(), Ordering::Relaxed);
        let others = self.budget.held.fetch_add(self.held.all(), Ordering::Relaxed);
        if others + self.held.all() > HELD_BYTES_MAX {
            return Err(refused(format!(
                "the pages of {BATCH_ROWS} rows have more than {HELD_BYTES_MAX} bytes: write smaller pages or row groups"
            )));
        }
        if !self.is_list || head.kind == 2 {
            return Ok(());
        }
        let length = match self.descriptor.physical_type() {
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.descriptor.type_length()).unwrap_or(0),
            _ => 0,
        };
        let values = head.values.saturating_mul(length.div_ceil(FIXED_BYTES).max(1));
        let enough = self
            .batch
            .list_values
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(values));
        enough.map(drop).map_err(|_| {
            refused(format!(
                "a page has {values} values of lists (one for each {FIXED_BYTES} bytes of those of fixed length), and for \
                 {BATCH_ROWS} rows {} are allowed: write smaller pages or row groups",
                self.batch.list_values_max
            ))
        })
    }
}

impl Head {
    fn read(bytes: &[u8]) -> std::result::Result<Head, Broken> {
        let mut reader = Reader::new(bytes);
        let mut head = Head::default();
        let (mut is_page, mut kind, mut sizes) = (false, None, [None; 2]);
        reader.fields(&mut |reader, field, _| {
            match field {
                1 => kind = Some(reader.integer()?),
                2 => sizes[0] = Some(size(reader)?),
                3 => sizes[1] = Some(size(reader)?),
                5 | 7 | 8 => reader.fields(&mut |reader, part, value| {
                    match (field, part) {
                        (_, 1) => head.values = head.values.max(size(reader)?),
                        (5 | 7, 2) | (8, 4) => {
                            is_page = true;
                            let id = reader.integer()?;
                            head.is_of_dictionary |= field != 7 && matches!(id, 2 | 8);
                            head.unread = Some(id).filter(|id| !READ.contains(id)).or(head.unread);
                        }
                        (5, 3 | 4) => head.level_encodings[(part - 3) as usize] = Some(reader.integer()?),
                        (8, 7) => {
                            head.is_plain = value == FALSE;
                            return Ok(false);
                        }
                        (8, 5 | 6) => head.levels += size(reader)?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let ([Some(raw), Some(compressed)], Some(kind)) = (sizes, kind) else {
            return Err(Broken::Malformed);
        };
        // Data, a dictionary, data of the second version.
        if !matches!(kind, 0 | 2 | 3) || !is_page {
            return Err(Broken::Malformed);
        }
        Ok(Head { bytes: reader.at() as u64, kind, raw, compressed, ..head })
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(head) = self.look()? else { return Ok(None) };
        self.hold(&head)?;
        if self.is_gzip && !head.is_plain && head.raw > head.levels {
            self.check_gzip(&head)?;
        }
        self.at += head.bytes + head.compressed;
        self.head = None;
        self.has_dictionary |= head.kind == 2;
        let page = self.inner.get_next_page()?;
        Ok(page
            .map(|page| if self.descriptor.physical_type() == Type::BYTE_ARRAY { ended(page) } else { page }))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        match self.look()? {
            Some(_) => self.inner.peek_next_page(),
            None => Ok(None),
        }
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if let Some(head) = self.look()? {
            self.at += head.bytes + head.compressed;
            self.head = None;
        }
        self.inner.skip_next_page()
    }
}

/// A page of texts with an end that is no length of a text: behind the last one, the reader of the format takes whatever
/// comes for the length of the next.
fn ended(page: Page) -> Page {
    let with_end = |bytes: &[u8]| [bytes, &[u8::MAX; 4]].concat().into();
    match page {
        Page::DictionaryPage { buf, num_values, encoding, is_sorted } => {
            Page::DictionaryPage { buf: with_end(&buf), num_values, encoding, is_sorted }
        }
        Page::DataPage {
            buf,
            num_values,
            encoding: encoding @ Encoding::PLAIN,
            def_level_encoding,
            rep_level_encoding,
            statistics,
        } => Page::DataPage {
            buf: with_end(&buf),
            num_values,
            encoding,
            def_level_encoding,
            rep_level_encoding,
            statistics,
        },
        Page::DataPageV2 {
            buf,
            num_values,
            encoding: encoding @ Encoding::PLAIN,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed,
            statistics,
        } => Page::DataPageV2 {
            buf: with_end(&buf),
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed,
            statistics,
        },
        other => other,
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.held.all(), Ordering::Relaxed);
    }
}

/// A size, which is at least nothing.
fn size(reader: &mut Reader<'_>) -> std::result::Result<u64, Broken> {
    u64::try_from(reader.integer()?).map_err(|_| Broken::Malformed)
}
