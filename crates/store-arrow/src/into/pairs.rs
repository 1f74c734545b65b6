//! Pairs, one of each row.

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_array::RecordBatch;
use arrow_schema::DataType;
use duramen_store::kv::Key;
use duramen_store::{Scope, Space, Value};

use super::cells::Cells;
use super::error::{LoadError, Refusal};
use super::{Commit, Loaded, Nulls};

/// How rows become pairs. Keys are text or bytes, or of `UInt64`, whose keys lie in the order of the numbers. Rows of one key replace
/// each other, the last one stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsIn {
    /// The column of keys.
    pub key: String,
    /// The column of values.
    pub value: String,
    /// The column in which [`Misfits::Rest`](crate::Misfits::Rest) put values that did not fit: where it is not null, it is the
    /// value.
    pub rest: Option<String>,
    /// How nulls inside of values are taken.
    pub nulls: Nulls,
    /// How much one commit has.
    pub commit: Commit,
}

impl Default for PairsIn {
    fn default() -> PairsIn {
        PairsIn {
            key: "key".to_owned(),
            value: "value".to_owned(),
            rest: None,
            nulls: Nulls::LeaveOut,
            commit: Commit::default(),
        }
    }
}

/// A column by its name.
pub(super) fn column<'a>(batch: &'a RecordBatch, name: &str, nulls: Nulls) -> Result<Cells<'a>, Refusal> {
    let schema = batch.schema_ref();
    let Some((at, field)) = schema.column_with_name(name) else {
        let known = schema.fields().iter().map(|field| field.name().clone()).collect();
        return Err(Refusal::NoColumn { column: name.to_owned(), known });
    };
    Cells::new(batch.column(at), field, nulls)
}

/// Loads a pair of each row. What is committed stays if a later row is refused.
///
/// ```
/// use duramen_store::{Scope, Store};
/// use duramen_store_arrow::{load_pairs, Batches, PairOptions, PairsIn, Table};
///
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.kv().put_many([("a", 1), ("b", 2)])?;
/// let batches = Batches::open(&main, "default", &Table::Pairs(PairOptions::default()))?;
/// load_pairs(&main.space("copy")?, batches, &PairsIn::default())?;
/// assert_eq!(main.space("copy")?.kv().get("b")?, Some(2.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When a batch cannot be read, a column or a value is not taken, or the store takes no more.
pub fn load_pairs<S: Scope, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    space: &Space<'_, S>,
    batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    options: &PairsIn,
) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    let done = all(space, batches, options, &mut loaded);
    done.map_err(|refusal| LoadError { loaded, refusal })?;
    Ok(loaded)
}

fn all<S: Scope, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    space: &Space<'_, S>,
    batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    options: &PairsIn,
    loaded: &mut Loaded,
) -> Result<(), Refusal> {
    let (mut waiting, mut bytes, mut rows): (Vec<(Key, Value)>, usize, u64) = Default::default();
    let commit = |waiting: &mut Vec<(Key, Value)>, loaded: &mut Loaded| -> Result<(), Refusal> {
        if !waiting.is_empty() {
            space.kv().put_many(waiting.iter().map(|(key, value)| (key, value)))?;
            loaded.rows += waiting.len() as u64;
            loaded.commits += 1;
            waiting.clear();
        }
        Ok(())
    };
    for batch in batches {
        let batch = batch.map_err(|error| Refusal::Batches(error.into()))?;
        let keys = Keys::new(&batch, &options.key)?;
        let values = column(&batch, &options.value, options.nulls)?;
        let rest = options.rest.as_deref().map(|name| column(&batch, name, options.nulls)).transpose()?;
        for row in 0..batch.num_rows() {
            rows += 1;
            let wrong = |name: &str| {
                let column = name.to_owned();
                move |problem| Refusal::Cell { column, row: rows, problem }
            };
            let key = keys.key(row).map_err(wrong(&options.key))?;
            let value = match rest.as_ref().filter(|rest| !rest.is_null(row)) {
                Some(rest) => rest.value(row).map_err(wrong(rest.name()))?,
                None => values.value(row).map_err(wrong(&options.value))?,
            };
            bytes += key.len() + size_of(&value);
            waiting.push((key, value));
            if options.commit.is_full(waiting.len(), bytes) {
                commit(&mut waiting, loaded)?;
                bytes = 0;
            }
        }
    }
    commit(&mut waiting, loaded)
}

fn size_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(elements) => elements.iter().map(size_of).sum::<usize>() + 4,
        Value::Object(members) => {
            members.iter().map(|(name, member)| name.len() + size_of(member)).sum::<usize>() + 4
        }
        _ => 8,
    }
}

/// The column of keys.
enum Keys<'a> {
    Named(Cells<'a>),
    Numbers(Cells<'a>, &'a arrow_array::UInt64Array),
}

impl<'a> Keys<'a> {
    fn new(batch: &'a RecordBatch, name: &str) -> Result<Keys<'a>, Refusal> {
        let cells = column(batch, name, Nulls::LeaveOut)?;
        match cells.data_type() {
            DataType::UInt64 => {
                let numbers = batch.column_by_name(name).map(|array| array.as_primitive::<UInt64Type>());
                match numbers {
                    Some(numbers) => Ok(Keys::Numbers(cells, numbers)),
                    None => Ok(Keys::Named(cells)),
                }
            }
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Ok(Keys::Named(cells)),
            found => Err(Refusal::Type {
                column: name.to_owned(),
                found: Box::new(found.clone()),
                wanted: "text, bytes or UInt64, for it is to be the key",
            }),
        }
    }

    fn key(&self, row: usize) -> Result<Key, String> {
        let key = match self {
            Keys::Named(cells) => {
                cells.text(row).map(str::as_bytes).or_else(|| cells.bytes(row)).map(Key::new)
            }
            Keys::Numbers(cells, numbers) => (!cells.is_null(row)).then(|| Key::new(numbers.value(row))),
        };
        key.ok_or_else(|| "is null, and each row needs a key".to_owned())
    }
}
