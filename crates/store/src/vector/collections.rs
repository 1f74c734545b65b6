//! The vector collections of a space.
//!
//! `prefix, 1, name` is what is known of a collection: `format u8 (1), metric u8, dimension u16`. `prefix, 2, name, 0,
//! key` is a row of it.

use duramen_base::suggest::closest;
use std::ops::ControlFlow;

use duramen_tree::KeyRange;
use serde::Serialize;
use serde_json::Value;

use super::codes::Coding;
use super::exact;
use super::metric::Metric;
use super::row::{check_dimension, check_vector, decode_row, encode_row, parse_metadata, Row, VectorError};
use super::search::Query;
use crate::access::{Access, Edit, Space, View};
use crate::error::StoreError;
use crate::filter::Filter;
use crate::json::{JsonError, MAX_DOCUMENT_DEPTH};
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::{count_keys, end_of, list_keys, Page};
use crate::names::{check_key, check_label};

/// The longest metadata of a vector, in bytes of JSON text.
pub const METADATA_BYTES_MAX: usize = 1 << 20;

const META: u8 = 1;
const ROWS: u8 = 2;
const FORMAT: u8 = 1;
/// Collections that are looked at for one whose name was probably meant.
const HINTS_MAX: usize = 10_000;

/// What is known of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectionInfo {
    /// Its name.
    pub name: String,
    /// Dimensions of each vector.
    pub dimension: usize,
    /// How vectors are compared.
    pub metric: Metric,
    /// The number of vectors.
    pub count: u64,
}

/// A stored vector.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The vector, as it was put.
    pub vector: Vec<f32>,
    /// What was put with it.
    pub metadata: Option<Value>,
}

/// A result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Match {
    /// The key of the vector.
    pub key: String,
    /// How well it matches; higher is better. See [`Metric`].
    pub score: f64,
    /// How far it is; lower is better. See [`Metric::distance`].
    pub distance: f64,
    /// What was put with it.
    pub metadata: Option<Value>,
}

/// What a search asks for beside the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchOptions {
    /// Only vectors whose metadata fulfil this are found. The empty filter, the default, takes all.
    pub filter: Filter,
}

/// The vector collections of a space.
///
/// ```
/// use duramen_store::vector::{Metric, SearchOptions};
/// use duramen_store::{Scope, Store};
/// use serde_json::json;
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.vectors().create("docs", 2, Metric::Cosine)?;
/// let docs = main.vectors().collection("docs");
/// docs.upsert("north", &[0.0, 1.0], Some(&json!({"lang": "en"})))?;
/// docs.upsert("east", &[1.0, 0.0], None)?;
///
/// // A fork has all of it at once, and its own from then on.
/// let fork = store.fork("main", "draft")?;
/// fork.vectors().collection("docs").delete("east")?;
/// let nearest = docs.search(&[0.9, 0.1], 1, &SearchOptions::default())?;
/// assert_eq!(nearest[0].key, "east");
/// let nearest = fork.vectors().collection("docs").search(&[0.9, 0.1], 1, &SearchOptions::default())?;
/// assert_eq!(nearest[0].key, "north");
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Vectors<'s, S> {
    space: Space<'s, S>,
}

/// How the vectors of a collection are.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Meta {
    metric: Metric,
    dimension: usize,
}

impl Meta {
    fn encode(self) -> [u8; 4] {
        let metric = match self.metric {
            Metric::Cosine => 0,
            Metric::Dot => 1,
            Metric::Euclidean => 2,
        };
        let [low, high] = (self.dimension as u16).to_le_bytes();
        [FORMAT, metric, low, high]
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("what is known of a collection cannot be read".into());
        let (format, rest) = bytes.split_first().ok_or_else(damaged)?;
        if *format > FORMAT {
            let (found, known) = (u64::from(*format), u64::from(FORMAT));
            return Err(StoreError::FromTheFuture { what: "a collection", found, known });
        }
        let &[metric, low, high] = rest else { return Err(damaged()) };
        let metric = match metric {
            0 => Metric::Cosine,
            1 => Metric::Dot,
            2 => Metric::Euclidean,
            _ => return Err(damaged()),
        };
        Ok(Self { metric, dimension: usize::from(u16::from_le_bytes([low, high])) })
    }
}

fn meta_key(space: &str, name: &str) -> KeyBuf {
    keys::key(Primitive::Vector, space, &[&[META], name.as_bytes()].concat())
}

/// What the keys of a collection's rows begin with, in the space.
fn row_label(name: &str) -> String {
    format!("{}{name}\0", char::from(ROWS))
}

fn names<V: View + ?Sized>(view: &V, space: &str, limit: usize) -> Result<Vec<String>, StoreError> {
    let start = meta_key(space, "");
    let mut names = Vec::new();
    view.scan(&KeyRange::new(&start, Some(&end_of(&start))), &mut |key, _, _| {
        if names.len() >= limit {
            return ControlFlow::Break(());
        }
        names.push(String::from_utf8(key[start.len()..].to_vec()));
        ControlFlow::Continue(())
    })?;
    let names = names.into_iter().collect::<Result<_, _>>();
    names.map_err(|_| StoreError::Damaged("the name of a collection is not text".into()))
}

fn find_meta<V: View + ?Sized>(view: &V, space: &str, name: &str) -> Result<Option<Meta>, StoreError> {
    check_label("collection", name)?;
    let mut meta = None;
    view.get(&meta_key(space, name), &mut |_, bytes| meta = Some(Meta::decode(bytes)))?;
    meta.transpose()
}

/// The collection that an entry belongs to, by its key in the space.
pub(crate) fn collection_of(rest: &[u8]) -> Option<&str> {
    let (kind, rest) = rest.split_first()?;
    let name = match *kind {
        META => rest,
        ROWS => &rest[..rest.iter().position(|byte| *byte == 0)?],
        _ => return None,
    };
    std::str::from_utf8(name).ok()
}

/// All keys of the tree that a collection has: from each first one to its end.
pub(crate) fn ranges_of(space: &str, name: &str) -> [(KeyBuf, KeyBuf); 2] {
    let meta = meta_key(space, name);
    let mut behind = meta.clone();
    behind.push(0);
    let rows = keys::key(Primitive::Vector, space, row_label(name).as_bytes());
    let end = KeyBuf::from_slice(&end_of(&rows));
    [(meta, behind), (rows, end)]
}

/// The dimensions and the metric of a collection as people read them; none if it is not there.
pub(crate) fn shape(view: &dyn View, space: &str, name: &str) -> Result<Option<Value>, StoreError> {
    let meta = find_meta(view, space, name)?;
    Ok(meta.map(|meta| serde_json::json!({ "dimension": meta.dimension, "metric": meta.metric })))
}

fn meta_of<V: View + ?Sized>(view: &V, space: &str, name: &str) -> Result<Meta, StoreError> {
    match find_meta(view, space, name)? {
        Some(meta) => Ok(meta),
        None => {
            let hint =
                closest(name, names(view, space, HINTS_MAX)?.iter().map(String::as_str)).map(str::to_owned);
            Err(StoreError::CollectionNotFound { name: name.to_owned(), space: space.to_owned(), hint })
        }
    }
}

/// The key of a row in the space.
pub(crate) fn row_key(name: &str, key: &str) -> Vec<u8> {
    [row_label(name).as_bytes(), key.as_bytes()].concat()
}

/// Refuses a row that its collection, as it is now, would not take. `rest` is its key in the space. The commit depends on the
/// collection.
pub(crate) fn check_fits(
    edit: &mut dyn Edit,
    space: &str,
    rest: &[u8],
    bytes: &[u8],
) -> Result<(), StoreError> {
    let no_row = || VectorError::Damaged { what: "its key is not that of a row" };
    let name = collection_of(rest).filter(|_| rest.first() == Some(&ROWS)).ok_or_else(no_row)?;
    let key = std::str::from_utf8(&rest[name.len() + 2..]).map_err(|_| no_row())?;
    check_key(key)?;
    let meta = meta_of(edit, space, name)?;
    edit.depend(&meta_key(space, name));
    let row = decode_row(bytes)?;
    check_vector(meta.dimension, &row.to_vec())?;
    row.metadata()?;
    Ok(())
}

fn delete_rows(edit: &mut dyn Edit, space: &str, name: &str) -> Result<(), StoreError> {
    let start = keys::key(Primitive::Vector, space, row_label(name).as_bytes());
    let mut rows = Vec::new();
    edit.scan(&KeyRange::new(&start, Some(&end_of(&start))), &mut |key, _, _| {
        rows.push(KeyBuf::from_slice(key));
        ControlFlow::Continue(())
    })?;
    rows.iter().try_for_each(|key| edit.delete(key))
}

impl<'s, S: Access> Vectors<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    /// Makes a collection of vectors of `dimension` numbers, 1 to 8192. Returns whether it was made now: one that is
    /// there already, with the same dimension and metric, stays as it is.
    ///
    /// # Errors
    /// [`StoreError::CollectionExists`] when it is there with another dimension or metric; when the name or the
    /// dimension is not allowed.
    pub fn create(&self, name: &str, dimension: usize, metric: Metric) -> Result<bool, StoreError> {
        check_dimension(dimension)?;
        let meta = Meta { metric, dimension };
        let space = self.space.name();
        let (made, _) = self.space.scope().write(|edit| match find_meta(edit, space, name)? {
            None => {
                // A transaction that dropped one of that name has not deleted what others put meanwhile.
                delete_rows(edit, space, name)?;
                edit.put(&meta_key(space, name), &mut |out| out.extend_from_slice(&meta.encode()))?;
                Ok(true)
            }
            Some(there) if there == meta => Ok(false),
            Some(Meta { metric, dimension }) => {
                let (name, metric) = (name.to_owned(), metric.to_string());
                Err(StoreError::CollectionExists { name, dimension, metric })
            }
        })?;
        Ok(made)
    }

    /// Drops a collection with all its vectors, in one commit. Returns whether it was there.
    ///
    /// It costs a deletion of every vector: time, and log, in proportion to their number, while other writers wait. To
    /// be rid of a large experiment, delete the branch that it is on.
    ///
    /// # Errors
    /// When the name is not allowed, or nothing can be written.
    pub fn drop(&self, name: &str) -> Result<bool, StoreError> {
        let space = self.space.name();
        let (existed, _) = self.space.scope().write(|edit| {
            if find_meta(edit, space, name)?.is_none() {
                return Ok(false);
            }
            delete_rows(edit, space, name)?;
            edit.delete(&meta_key(space, name))?;
            Ok(true)
        })?;
        Ok(existed)
    }

    /// The names of the collections, in order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        self.list_within(usize::MAX)
    }

    /// As [`list`](Self::list), the first `limit` of them.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_within(&self, limit: usize) -> Result<Vec<String>, StoreError> {
        self.space.scope().read(|view| names(view, self.space.name(), limit))
    }

    /// What is known of a collection. The vectors are counted for it, without a look at them.
    ///
    /// # Errors
    /// [`StoreError::CollectionNotFound`], with the name that was probably meant.
    pub fn info(&self, name: &str) -> Result<CollectionInfo, StoreError> {
        let collection = self.collection(name);
        let Meta { metric, dimension } = collection.meta()?;
        let count = count_keys(&self.space, Primitive::Vector, row_label(name))?;
        Ok(CollectionInfo { name: name.to_owned(), dimension, metric, count })
    }

    /// A handle on a collection. Nothing is read: whether the collection exists shows when the handle is used.
    pub fn collection(&self, name: &str) -> Collection<'s, S> {
        Collection { space: self.space, name: name.to_owned() }
    }
}

/// A handle on a collection of vectors.
///
/// Its operations fail with [`StoreError::CollectionNotFound`] while there is no such collection.
#[derive(Debug, Clone)]
pub struct Collection<'s, S> {
    space: Space<'s, S>,
    name: String,
}

impl<S: Access> Collection<'_, S> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn meta_in<V: View + ?Sized>(&self, view: &V) -> Result<Meta, StoreError> {
        meta_of(view, self.space.name(), &self.name)
    }

    fn meta(&self) -> Result<Meta, StoreError> {
        self.space.scope().peek(|view| self.meta_in(view))
    }

    fn prefix(&self) -> KeyBuf {
        keys::key(Primitive::Vector, self.space.name(), row_label(&self.name).as_bytes())
    }

    fn key(&self, key: &str) -> Result<KeyBuf, StoreError> {
        check_key(key)?;
        let mut at = self.prefix();
        at.extend_from_slice(key.as_bytes());
        Ok(at)
    }

    /// Puts a vector under a key, with metadata for filters, replacing one that is there. Returns the version of the
    /// write.
    ///
    /// # Errors
    /// [`StoreError::Vector`] when a number is not finite or the dimension is another than the collection's; when key
    /// or metadata break a limit (1 MiB of text, 100 levels).
    pub fn upsert(
        &self,
        key: &str,
        vector: &[f32],
        metadata: Option<&Value>,
    ) -> Result<S::Written, StoreError> {
        self.upsert_many([(key, vector, metadata)])
    }

    /// Puts several vectors in one commit, the last one of those under one key.
    ///
    /// ```
    /// use duramen_store::vector::Metric;
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.vectors().create("points", 2, Metric::Euclidean)?;
    /// let points = main.vectors().collection("points");
    /// points.upsert_many([("a", [0.0, 0.0], None), ("b", [3.0, 4.0], None)])?;
    /// assert_eq!(points.count()?, 2);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`upsert`](Self::upsert): then none is put.
    pub fn upsert_many<'m, K: AsRef<str>, V: AsRef<[f32]>>(
        &self,
        rows: impl IntoIterator<Item = (K, V, Option<&'m Value>)>,
    ) -> Result<S::Written, StoreError> {
        let rows = rows.into_iter().map(|(key, vector, metadata)| {
            let vector = vector.as_ref();
            let row = encode_row(vector.len(), vector, checked(metadata)?)?;
            let (head, actual) = (2 + 4 * vector.len(), vector.len());
            if row.len() - head > METADATA_BYTES_MAX {
                let len = row.len() - head;
                return Err(StoreError::TooLarge { what: "vector's metadata", len, max: METADATA_BYTES_MAX });
            }
            Ok((self.key(key.as_ref())?, row, actual))
        });
        let rows = rows.collect::<Result<Vec<_>, StoreError>>()?;
        let ((), written) = self.space.scope().write(|edit: &mut dyn Edit| {
            let expected = self.meta_in(edit)?.dimension;
            if let Some((.., actual)) = rows.iter().find(|(.., actual)| *actual != expected) {
                return Err(VectorError::DimensionMismatch { expected, actual: *actual }.into());
            }
            // Somebody else may drop the collection before a transaction commits, and make another of its name.
            edit.depend(&meta_key(self.space.name(), &self.name));
            rows.iter().try_for_each(|(key, row, _)| edit.put(key, &mut |out| out.extend_from_slice(row)))
        })?;
        Ok(written)
    }

    /// The vector under a key.
    ///
    /// # Errors
    /// When there is no such collection, the key is not allowed, or the store cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| {
            self.meta_in(view)?;
            let mut found = None;
            view.get(&at, &mut |_, bytes| {
                let record = decode_row(bytes)
                    .and_then(|row| Ok(Record { vector: row.to_vec(), metadata: row.metadata()? }));
                found = Some(record);
            })?;
            Ok(found.transpose()?)
        })
    }

    /// Whether there is a vector under a key.
    ///
    /// # Errors
    /// When there is no such collection, the key is not allowed, or the store cannot be read.
    pub fn exists(&self, key: &str) -> Result<bool, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| {
            self.meta_in(view)?;
            view.get(&at, &mut |_, _| {})
        })
    }

    /// Deletes the vector under a key. Returns whether it was there; if not, nothing is written.
    ///
    /// # Errors
    /// When there is no such collection, the key is not allowed, or nothing can be written.
    pub fn delete(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.delete_many([key])? == 1)
    }

    /// Deletes several vectors in one commit. Returns how many of them were there.
    ///
    /// # Errors
    /// When there is no such collection, a key is not allowed, or nothing can be written: then none is deleted.
    pub fn delete_many<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64, StoreError> {
        let keys = keys.into_iter().map(|key| self.key(key.as_ref()));
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        let (deleted, _) = self.space.scope().write(|edit| {
            self.meta_in(edit)?;
            let mut deleted = 0;
            for key in &keys {
                if edit.get(key, &mut |_, _| {})? {
                    edit.delete(key)?;
                    deleted += 1;
                }
            }
            Ok(deleted)
        })?;
        Ok(deleted)
    }

    /// The keys that begin with `prefix`, after the key `after` if there is one, at most `limit`.
    ///
    /// # Errors
    /// When there is no such collection, or the store cannot be read.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page<String>, StoreError> {
        self.meta()?;
        let label = row_label(&self.name);
        let after = after.map(|after| format!("{label}{after}"));
        let page =
            list_keys(&self.space, Primitive::Vector, &format!("{label}{prefix}"), after.as_deref(), limit)?;
        let strip = |mut key: String| {
            key.drain(..label.len());
            key
        };
        Ok(Page { items: page.items.into_iter().map(strip).collect(), next: page.next.map(strip) })
    }

    /// Shows the vectors whose keys begin with `prefix`, after the key `after` if there is one, in their order, as of one
    /// moment: the key, and the row where it lies.
    ///
    /// ```
    /// use duramen_store::vector::Metric;
    /// use duramen_store::{Scope, Store};
    /// use std::ops::ControlFlow;
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// main.vectors().create("points", 2, Metric::Euclidean)?;
    /// let points = main.vectors().collection("points");
    /// points.upsert_many([("a", [0.0, 0.0], None), ("b", [3.0, 4.0], None)])?;
    /// points.scan("", Some("a"), |key, row| {
    ///     assert_eq!((key, row.to_vec()), ("b", vec![3.0, 4.0]));
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such collection, the store cannot be read, or a row is damaged.
    pub fn scan(
        &self,
        prefix: &str,
        after: Option<&str>,
        mut show: impl FnMut(&str, Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let root = self.prefix();
        let mut start = root.clone();
        start.extend_from_slice(prefix.as_bytes());
        let end = end_of(&start);
        if let Some(after) = after {
            let mut behind = root.clone();
            behind.extend_from_slice(after.as_bytes());
            behind.push(0);
            start = start.max(behind);
        }
        let mut failed = None;
        self.space.scope().read(|view| {
            self.meta_in(view)?;
            if start[..] >= end[..] {
                return Ok(());
            }
            view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, row| {
                let key = std::str::from_utf8(&key[root.len()..]);
                match (key, decode_row(row)) {
                    (Ok(key), Ok(row)) => return show(key, row),
                    (Err(_), _) => failed = Some(StoreError::Damaged("a key is not text".into())),
                    (_, Err(error)) => failed = Some(error.into()),
                }
                ControlFlow::Break(())
            })
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The number of vectors.
    ///
    /// # Errors
    /// When there is no such collection, or the store cannot be read.
    pub fn count(&self) -> Result<u64, StoreError> {
        self.meta()?;
        count_keys(&self.space, Primitive::Vector, row_label(&self.name))
    }

    /// The `k` vectors that match `query` best, best first; fewer if there are fewer. Equal scores come in the order of
    /// keys.
    ///
    /// The result is exact, the same as if every score were computed. For that, one byte of each number is read, and
    /// the vector itself only of the few that could be among the best. Those bytes are made at the first search, and
    /// after a write for what it changed: one byte a number twice, beside the vectors, in memory.
    ///
    /// ```
    /// use duramen_store::vector::{Metric, SearchOptions};
    /// use duramen_store::{Scope, Store};
    /// use serde_json::json;
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.vectors().create("docs", 2, Metric::Dot)?;
    /// let docs = main.vectors().collection("docs");
    /// docs.upsert("old", &[2.0, 0.0], Some(&json!({"year": 1999})))?;
    /// docs.upsert("new", &[1.0, 0.0], Some(&json!({"year": 2021})))?;
    /// let options = SearchOptions { filter: "year >= 2020".parse().unwrap() };
    /// let found = docs.search(&[1.0, 1.0], 10, &options)?;
    /// assert_eq!((found.len(), found[0].key.as_str(), found[0].score), (1, "new", 1.0));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Vector`] when `k` is 0, a number is not finite, or the dimension is another than the collection's.
    pub fn search(&self, query: &[f32], k: usize, options: &SearchOptions) -> Result<Vec<Match>, StoreError> {
        let prefix = self.prefix();
        let end = end_of(&prefix);
        self.space.scope().read(|view| {
            let Meta { metric, dimension } = self.meta_in(view)?;
            check_vector(dimension, query)?;
            let query = Query::new(metric, query, k)?;
            let coding = Coding { range: KeyRange::new(&prefix, Some(&end)), metric, dimension };
            // A collection that the reader itself made has no rows but its own: what is in the leaves was dropped.
            let at = meta_key(self.space.name(), &self.name);
            let mut is_own = false;
            view.written(&KeyRange::new(&at, Some(&[&at[..], &[0]].concat())), &mut |_, _| is_own = true)?;
            let found = exact::search(view, &coding, &query, &options.filter, is_own)?;
            let matches = found.into_iter().map(|found| {
                let key = String::from_utf8(found.key[prefix.len()..].to_vec());
                Ok(Match {
                    key: key.map_err(|_| StoreError::Damaged("a key is not text".into()))?,
                    score: found.score,
                    distance: found.distance,
                    metadata: found.metadata.as_deref().map(parse_metadata).transpose()?,
                })
            });
            matches.collect()
        })
    }
}

/// Refuses metadata that could not be read back.
fn checked(metadata: Option<&Value>) -> Result<Option<&Value>, StoreError> {
    fn check(value: &Value, depth: usize) -> Result<(), JsonError> {
        if depth > MAX_DOCUMENT_DEPTH {
            return Err(JsonError::TooDeep { max: MAX_DOCUMENT_DEPTH });
        }
        match value {
            Value::Array(elements) => elements.iter().try_for_each(|element| check(element, depth + 1)),
            Value::Object(members) => members.values().try_for_each(|member| check(member, depth + 1)),
            _ => Ok(()),
        }
    }
    metadata.map_or(Ok(()), |metadata| check(metadata, 0))?;
    Ok(metadata)
}
