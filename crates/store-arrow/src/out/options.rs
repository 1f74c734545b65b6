//! Which rows are read, into which columns, and how many at a time.

use arrow_schema::{Field, SchemaRef};

/// The most bytes that a batch may be asked to have: offsets into its texts have 31 bits.
pub const BATCH_BYTES_MAX: usize = 1 << 30;
/// The most columns of a table of documents, those in structs and lists counted singly, the keys and what does not fit among them.
/// No more are read from a file, either.
pub const COLUMNS_MAX: usize = 4096;

/// How large a batch gets. It has one row at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most rows of a batch.
    pub rows_max: usize,
    /// A batch ends behind the row with which its keys and values have so many bytes, [`BATCH_BYTES_MAX`] at most. A row may have
    /// 16 MiB by itself.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { rows_max: 8192, bytes_max: 16 << 20 }
    }
}

impl Limits {
    pub(crate) fn is_full(self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows_max.max(1) || bytes >= self.bytes_max.min(BATCH_BYTES_MAX)
    }
}

/// What becomes of a value that does not fit the column of its field, or whose field has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Misfits {
    /// The batch fails, with the name of the row and of the field.
    #[default]
    Refuse,
    /// It stands in one more column of this name, as JSON text, and is null in its own. Of a document, that is an object of the
    /// fields that do not fit, or the document itself if it is no object; of a pair, it is the value.
    Rest(String),
}

impl Misfits {
    pub(crate) fn column(&self) -> Option<&str> {
        match self {
            Misfits::Refuse => None,
            Misfits::Rest(name) => Some(name),
        }
    }
}

/// How documents become a table: a column of their keys, and one for each field at the top.
///
/// A nested object is a `Struct`, an array a `List`. Numbers that are integers here and floats there are `Float64`, as long as
/// no integer is beyond 2^53. What is of several kinds otherwise is JSON text, and so is what is deeper than five levels, an
/// object with more than 256 members, a field with which the table would have more than [`COLUMNS_MAX`] columns, or a field that
/// has only nulls and what is empty. A field that is not there is null.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentOptions {
    /// Only documents whose keys begin so.
    pub prefix: String,
    /// The name of the column of keys.
    pub key_column: String,
    /// The columns of the fields, all of which may be null whatever it says. Without one, it is what the sample shows.
    pub schema: Option<SchemaRef>,
    /// How many documents are looked at for the schema; [`usize::MAX`] is all of them.
    pub sample_rows: usize,
    /// What becomes of a value that does not fit.
    pub misfits: Misfits,
    /// How large a batch gets.
    pub limits: Limits,
}

impl Default for DocumentOptions {
    fn default() -> DocumentOptions {
        DocumentOptions {
            prefix: String::new(),
            key_column: "key".to_owned(),
            schema: None,
            sample_rows: 1000,
            misfits: Misfits::Refuse,
            limits: Limits::default(),
        }
    }
}

/// What the keys of pairs are in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PairKeys {
    /// `Utf8` if all keys of the sample are UTF-8, else `Binary`.
    #[default]
    AsSampled,
    /// `Utf8`.
    Text,
    /// `Binary`.
    Bytes,
}

/// How pairs become a table: `key` and `value`. An array or an object is what its JSON would be in a document.
#[derive(Clone, Debug, PartialEq)]
pub struct PairOptions {
    /// Only pairs whose keys begin so.
    pub prefix: Vec<u8>,
    /// What the keys are.
    pub keys: PairKeys,
    /// The type of the values; the name of the field does not count. Without one, it is what the sample shows.
    pub value: Option<Field>,
    /// How many pairs are looked at for the schema; [`usize::MAX`] is all of them.
    pub sample_rows: usize,
    /// What becomes of a value that does not fit.
    pub misfits: Misfits,
    /// How large a batch gets.
    pub limits: Limits,
}

impl Default for PairOptions {
    fn default() -> PairOptions {
        PairOptions {
            prefix: Vec::new(),
            keys: PairKeys::AsSampled,
            value: None,
            sample_rows: 1000,
            misfits: Misfits::Refuse,
            limits: Limits::default(),
        }
    }
}

/// How a log becomes a table: `seq` (`UInt64`), `type` (`Utf8`), `at` (`Timestamp` in UTC with milliseconds) and `payload` (JSON
/// text).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventOptions {
    /// The number of the first event.
    pub from: u64,
    /// Only events of this type. The others are read, too.
    pub event_type: Option<String>,
    /// How large a batch gets.
    pub limits: Limits,
}

/// How a collection becomes a table: `key` (`Utf8`), `vector` (`FixedSizeList` of `Float32`) and `metadata` (JSON text, null if there
/// is none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorOptions {
    /// The collection.
    pub collection: String,
    /// Only vectors whose keys begin so.
    pub prefix: String,
    /// How large a batch gets.
    pub limits: Limits,
}

impl VectorOptions {
    /// All vectors of a collection.
    pub fn new(collection: impl Into<String>) -> VectorOptions {
        VectorOptions { collection: collection.into(), prefix: String::new(), limits: Limits::default() }
    }
}
