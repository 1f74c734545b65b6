//! Vectors, one of each row.

use arrow_array::cast::AsArray as _;
use arrow_array::types::Float32Type;
use arrow_array::{Array, Float32Array, RecordBatch};
use arrow_schema::DataType;
use duramen_store::{Scope, Space};
use serde_json::Value as Json;

use super::cells::Cells;
use super::documents::key_text;
use super::error::{LoadError, Refusal};
use super::pairs::column;
use super::{Commit, Loaded, Nulls};

/// How rows become vectors of a collection, which is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorsIn {
    /// The collection.
    pub collection: String,
    /// The column of keys: text, or integers.
    pub key: String,
    /// The column of vectors: `FixedSizeList`, `List` or `LargeList` of `Float32`.
    pub vector: String,
    /// The column of metadata, if there is one.
    pub metadata: Option<String>,
    /// How nulls inside of metadata are taken.
    pub nulls: Nulls,
    /// How much one commit has.
    pub commit: Commit,
}

impl VectorsIn {
    /// From the columns `key` and `vector` into a collection, without metadata.
    pub fn new(collection: impl Into<String>) -> VectorsIn {
        VectorsIn {
            collection: collection.into(),
            key: "key".to_owned(),
            vector: "vector".to_owned(),
            metadata: None,
            nulls: Nulls::LeaveOut,
            commit: Commit::default(),
        }
    }
}

/// A vector that is not committed yet.
type Waiting = (String, Vec<f32>, Option<Json>);

/// Loads a vector of each row. What is committed stays if a later row is refused.
///
/// ```
/// use duramen_store::vector::Metric;
/// use duramen_store::{Scope, Store};
/// use duramen_store_arrow::{load_vectors, Batches, Table, VectorOptions, VectorsIn};
///
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let copy = main.space("copy")?;
/// for vectors in [main.vectors(), copy.vectors()] {
///     vectors.create("points", 2, Metric::Euclidean)?;
/// }
/// main.vectors().collection("points").upsert("a", &[0.5, 1.0], None)?;
/// let batches = Batches::open(&main, "default", &Table::Vectors(VectorOptions::new("points")))?;
/// load_vectors(&copy, batches, &VectorsIn::new("points"))?;
/// assert_eq!(copy.vectors().collection("points").get("a")?.expect("it was loaded").vector, [0.5, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When a batch cannot be read, a column or a value is not taken, or the store takes no more.
pub fn load_vectors<S: Scope, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    space: &Space<'_, S>,
    batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    options: &VectorsIn,
) -> Result<Loaded, LoadError> {
    let mut loaded = Loaded::default();
    let done = all(space, batches, options, &mut loaded);
    done.map_err(|refusal| LoadError { loaded, refusal })?;
    Ok(loaded)
}

fn all<S: Scope, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    space: &Space<'_, S>,
    batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    options: &VectorsIn,
    loaded: &mut Loaded,
) -> Result<(), Refusal> {
    let collection = space.vectors().collection(&options.collection);
    let (mut waiting, mut bytes, mut rows): (Vec<Waiting>, usize, u64) = Default::default();
    let commit = |waiting: &mut Vec<Waiting>, loaded: &mut Loaded| -> Result<(), Refusal> {
        if !waiting.is_empty() {
            let items = waiting.iter().map(|(key, vector, metadata)| (key, vector, metadata.as_ref()));
            collection.upsert_many(items)?;
            loaded.rows += waiting.len() as u64;
            loaded.commits += 1;
            waiting.clear();
        }
        Ok(())
    };
    for batch in batches {
        let batch = batch.map_err(|error| Refusal::Batches(error.into()))?;
        let keys = column(&batch, &options.key, options.nulls)?;
        let vectors = Lists::new(&batch, &options.vector)?;
        let metadata =
            options.metadata.as_deref().map(|name| column(&batch, name, options.nulls)).transpose()?;
        for row in 0..batch.num_rows() {
            rows += 1;
            let wrong = |name: &str| {
                let column = name.to_owned();
                move |problem| Refusal::Cell { column, row: rows, problem }
            };
            let key = key_text(&keys, row).map_err(wrong(&options.key))?;
            let vector = vectors.vector(row).map_err(wrong(&options.vector))?;
            let mut text = Vec::new();
            let metadata = match metadata.as_ref().filter(|cells| !cells.is_null(row)) {
                None => None,
                Some(cells) => Some(json_of(cells, row, &mut text).map_err(wrong(cells.name()))?),
            };
            bytes += key.len() + 4 * vector.len() + text.len();
            waiting.push((key, vector, metadata));
            if options.commit.is_full(waiting.len(), bytes) {
                commit(&mut waiting, loaded)?;
                bytes = 0;
            }
        }
    }
    commit(&mut waiting, loaded)
}

fn json_of(cells: &Cells<'_>, row: usize, text: &mut Vec<u8>) -> Result<Json, String> {
    cells.json(row, text)?;
    serde_json::from_slice(text).map_err(|error| format!("is not JSON: {error}"))
}

/// Where the list of a row begins and ends among the values of all rows.
type Bounds<'a> = Box<dyn Fn(usize) -> (usize, usize) + 'a>;

/// The column of vectors.
struct Lists<'a> {
    array: &'a dyn Array,
    values: &'a Float32Array,
    bounds: Bounds<'a>,
}

impl<'a> Lists<'a> {
    fn new(batch: &'a RecordBatch, name: &str) -> Result<Lists<'a>, Refusal> {
        let schema = batch.schema_ref();
        let Some((at, field)) = schema.column_with_name(name) else {
            let known = schema.fields().iter().map(|field| field.name().clone()).collect();
            return Err(Refusal::NoColumn { column: name.to_owned(), known });
        };
        let array: &dyn Array = batch.column(at);
        let is_of_floats = match field.data_type() {
            DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
                *item.data_type() == DataType::Float32
            }
            _ => false,
        };
        if !is_of_floats {
            return Err(Refusal::Type {
                column: name.to_owned(),
                found: Box::new(field.data_type().clone()),
                wanted: "a list of Float32",
            });
        }
        let (values, bounds): (_, Bounds<'a>) = match field.data_type() {
            DataType::FixedSizeList(..) => {
                let lists = array.as_fixed_size_list();
                let length = lists.value_length() as usize;
                (lists.values(), Box::new(move |row| (row * length, (row + 1) * length)))
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                let ends = lists.value_offsets();
                (lists.values(), Box::new(move |row| (ends[row] as usize, ends[row + 1] as usize)))
            }
            _ => {
                let lists = array.as_list::<i32>();
                let ends = lists.value_offsets();
                (lists.values(), Box::new(move |row| (ends[row] as usize, ends[row + 1] as usize)))
            }
        };
        Ok(Lists { array, values: values.as_primitive::<Float32Type>(), bounds })
    }

    fn vector(&self, row: usize) -> Result<Vec<f32>, String> {
        if self.array.is_null(row) {
            return Err("is null, and each row needs a vector".to_owned());
        }
        let (start, end) = (self.bounds)(row);
        if self.values.null_count() > 0 && (start..end).any(|at| self.values.is_null(at)) {
            return Err("has a null in its vector".to_owned());
        }
        Ok(self.values.values()[start..end].to_vec())
    }
}
