//! Declaring indexes.
//!
//! `prefix of the indexes of the space, name` holds `format u8 (1)`, then the declaration as JSON.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

use duramen_base::suggest::closest;
use duramen_tree::KeyRange;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::encoding;
use crate::access::{Access, Space, View};
use crate::error::StoreError;
use crate::filter::{self, Filter};
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::end_of;
use crate::names::check_label;

/// Fields of an index, at most.
pub const INDEX_FIELDS_MAX: usize = 8;

/// The bytes that the values of a row take in an index, at most. A row with longer ones is refused, as it could not be found.
pub const INDEXED_BYTES_MAX: usize = 4096;

const FORMAT: u8 = 1;

/// What an index is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The kind of data: pairs or documents.
    pub on: Primitive,
    /// The fields, the first of which decides first. A field is named as in a [`Filter`]; `$` is the whole value.
    pub fields: Vec<String>,
    /// Whether no two rows may have the same values. Rows in which one is null or missing may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique: bool,
    /// Only rows that fulfil this are in it.
    #[serde(default, rename = "where", skip_serializing_if = "Filter::is_empty")]
    pub only: Filter,
}

impl Index {
    /// An index of all rows of a kind on fields.
    pub fn new<F: Into<String>>(on: Primitive, fields: impl IntoIterator<Item = F>) -> Self {
        let fields = fields.into_iter().map(Into::into).collect();
        Self { on, fields, unique: false, only: Filter::default() }
    }

    /// The same, of which no two rows may have the same values.
    #[must_use]
    pub fn unique(self) -> Self {
        Self { unique: true, ..self }
    }

    /// The same, with only the rows that fulfil a filter.
    #[must_use]
    pub fn only(self, only: Filter) -> Self {
        Self { only, ..self }
    }

    fn check(&self) -> Result<(), StoreError> {
        let refuse = |reason: String| Err(StoreError::InvalidInput { what: "an index", reason });
        if !matches!(self.on, Primitive::Kv | Primitive::Json) {
            return refuse(format!("{} cannot be indexed; pairs (kv) and documents (json) can", self.on));
        }
        if self.fields.is_empty() || self.fields.len() > INDEX_FIELDS_MAX {
            return refuse(format!("it has {} fields; name 1 to {INDEX_FIELDS_MAX}", self.fields.len()));
        }
        for (at, field) in self.fields.iter().enumerate() {
            check_label("field", field)?;
            if self.fields[..at].contains(field) {
                return refuse(format!("it has the field {field:?} twice"));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unique = if self.unique { "unique " } else { "" };
        write!(f, "{unique}{} ({})", self.on, self.fields.join(", "))?;
        if !self.only.is_empty() {
            write!(f, " where {}", self.only)?;
        }
        Ok(())
    }
}

/// An index with its name and space.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub(super) space: String,
    pub(super) name: String,
    pub(super) index: Index,
}

impl Declared {
    /// Reads a declaration.
    pub(super) fn decode(space: &str, name: &[u8], bytes: &[u8]) -> Result<Self, StoreError> {
        let shown = name.escape_ascii();
        let damaged =
            || StoreError::Damaged(format!("index \"{shown}\" of space {space:?} cannot be read; drop it"));
        let (format, text) = bytes.split_first().ok_or_else(damaged)?;
        if *format > FORMAT {
            let (found, known) = (u64::from(*format), u64::from(FORMAT));
            return Err(StoreError::FromTheFuture { what: "an index", found, known });
        }
        let name = String::from_utf8(name.to_vec()).map_err(|_| damaged())?;
        check_label("index", &name).map_err(|_| damaged())?;
        let index: Index = serde_json::from_slice(text).map_err(|_| damaged())?;
        index.check().map_err(|_| damaged())?;
        Ok(Self { space: space.to_owned(), name, index })
    }

    /// What the keys of its entries begin with.
    pub(super) fn entries(&self) -> KeyBuf {
        keys::entries(&self.space, self.name.as_bytes())
    }

    /// The key of the entry of a row; none if the row is not in the index. `rest` is the key of the row in its space.
    pub(super) fn entry(&self, rest: &[u8], value: &Value) -> Result<Option<Vec<u8>>, StoreError> {
        if !self.index.only.matches(value) {
            return Ok(None);
        }
        let mut key = self.entries().to_vec();
        let begin = key.len();
        for field in &self.index.fields {
            encoding::encode(filter::field(value, field), &mut key);
        }
        let len = key.len() - begin;
        if len > INDEXED_BYTES_MAX {
            let (row, name) = (keys::display(&keys::key(self.index.on, &self.space, rest)), &self.name);
            let reason = format!(
                "what index {name:?} is of takes {len} bytes in {row}, and {INDEXED_BYTES_MAX} are allowed; \
                 shorten it, or drop the index"
            );
            return Err(StoreError::InvalidInput { what: "a value", reason });
        }
        key.extend_from_slice(rest);
        Ok(Some(key))
    }

    /// Takes the key of an entry apart: how long it is with the values, and whether one of them is null or missing.
    pub(super) fn values_end(&self, entry: &[u8]) -> Result<(usize, bool), StoreError> {
        let damaged =
            || StoreError::Damaged(format!("index {:?} has an entry that cannot be read", self.name));
        let mut rest = entry.get(self.entries().len()..).ok_or_else(damaged)?;
        let mut is_open = false;
        for _ in &self.index.fields {
            let (next, is_nothing) = encoding::skip(rest).ok_or_else(damaged)?;
            rest = next;
            is_open |= is_nothing;
        }
        Ok((entry.len() - rest.len(), is_open))
    }
}

/// A place where an index is declared: its space and its name.
pub(super) type Place = (String, Vec<u8>);

/// The indexes of a space, or of all spaces, in the order of their names, and those that cannot be read.
#[derive(Default)]
pub(super) struct All {
    pub(super) indexes: Vec<Declared>,
    /// Where those of a space are among them.
    places: HashMap<String, Range<usize>>,
    pub(super) unreadable: Vec<(Place, StoreError)>,
}

impl All {
    pub(super) fn find(view: &dyn View, space: Option<&str>) -> Result<Self, StoreError> {
        let start = match space {
            Some(space) => keys::prefix(Primitive::Index, space),
            None => KeyBuf::from_slice(&[Primitive::Index as u8]),
        };
        let mut all = Self::default();
        view.scan(&KeyRange::new(&start, Some(&end_of(&start))), &mut |key, _, bytes| {
            if let Some((_, space, name)) = keys::split(key) {
                match Declared::decode(space, name, bytes) {
                    Ok(one) => {
                        let at = all.indexes.len();
                        all.places.entry(space.to_owned()).or_insert(at..at).end = at + 1;
                        all.indexes.push(one);
                    }
                    Err(error) => all.unreadable.push(((space.to_owned(), name.to_vec()), error)),
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// Those of a space.
    pub(super) fn of(&self, space: &str) -> &[Declared] {
        self.places.get(space).map_or(&[], |places| &self.indexes[places.clone()])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.unreadable.is_empty()
    }

    /// All of them, or why one cannot be read.
    pub(super) fn readable(self) -> Result<Vec<Declared>, StoreError> {
        match self.unreadable.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.indexes),
        }
    }
}

/// The indexes of a space.
///
/// ```
/// use duramen_store::index::Index;
/// use duramen_store::{Primitive, Scope, Store, StoreError};
/// use serde_json::json;
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.indexes().create("by-mail", &Index::new(Primitive::Json, ["mail"]).unique())?;
/// main.json().set("ann", "", &json!({"mail": "ann@example.org"}))?;
/// let twice = main.json().set("ben", "", &json!({"mail": "ann@example.org"}));
/// assert!(matches!(twice, Err(StoreError::NotUnique { .. })));
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Indexes<'s, S> {
    space: Space<'s, S>,
}

impl<'s, S: Access> Indexes<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn key(&self, name: &str) -> Result<KeyBuf, StoreError> {
        check_label("index", name)?;
        Ok(keys::key(Primitive::Index, self.space.name(), name.as_bytes()))
    }

    /// Declares an index, and fills it with the rows that are there, in one commit: its cost is that of an entry for each,
    /// while other writers wait. Returns whether it was made now: the same one under that name stays as it is.
    ///
    /// In a transaction it is of use once that is committed.
    ///
    /// # Errors
    /// [`StoreError::IndexExists`] when another one has the name; [`StoreError::NotUnique`] when it is to be unique and two
    /// rows have the same values; when the name, kind or fields are not allowed, or a row's values are too long.
    pub fn create(&self, name: &str, index: &Index) -> Result<bool, StoreError> {
        let key = self.key(name)?;
        index.check()?;
        let text = serde_json::to_vec(index)
            .map_err(|error| StoreError::InvalidInput { what: "an index", reason: error.to_string() })?;
        let (made, _) = self.space.scope().write(|edit| {
            let mut there = None;
            edit.get(&key, &mut |_, bytes| {
                there = Some(Declared::decode(self.space.name(), name.as_bytes(), bytes));
            })?;
            match there.transpose()? {
                Some(there) if there.index == *index => Ok(false),
                Some(there) => {
                    let (name, index) = (name.to_owned(), there.index.to_string());
                    Err(StoreError::IndexExists { name, index })
                }
                None => {
                    edit.put(&key, &mut |out| {
                        out.push(FORMAT);
                        out.extend_from_slice(&text);
                    })?;
                    Ok(true)
                }
            }
        })?;
        Ok(made)
    }

    /// Drops an index with all its entries, in one commit. Returns whether it was there.
    ///
    /// # Errors
    /// When the name is not allowed, or nothing can be written.
    pub fn drop(&self, name: &str) -> Result<bool, StoreError> {
        let key = self.key(name)?;
        let (was_there, _) = self.space.scope().write(|edit| {
            let was_there = edit.get(&key, &mut |_, _| {})?;
            if was_there {
                edit.delete(&key)?;
            }
            Ok(was_there)
        })?;
        Ok(was_there)
    }

    /// The indexes by name, in order.
    ///
    /// # Errors
    /// When the store cannot be read, or the declaration of one is damaged.
    pub fn list(&self) -> Result<Vec<(String, Index)>, StoreError> {
        let found = self.space.scope().read(|view| All::find(view, Some(self.space.name()))?.readable())?;
        Ok(found.into_iter().map(|one| (one.name, one.index)).collect())
    }

    /// The index of a name.
    ///
    /// # Errors
    /// [`StoreError::IndexNotFound`], with the name that was probably meant.
    pub fn get(&self, name: &str) -> Result<Index, StoreError> {
        check_label("index", name)?;
        let mut all = self.list()?;
        match all.iter().position(|(other, _)| other == name) {
            Some(at) => Ok(all.swap_remove(at).1),
            None => {
                let hint = closest(name, all.iter().map(|(name, _)| name.as_str())).map(str::to_owned);
                let space = self.space.name().to_owned();
                Err(StoreError::IndexNotFound { name: name.to_owned(), space, hint })
            }
        }
    }
}
