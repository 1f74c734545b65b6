//! The JSON documents of a space: each is its text, under its key.

use std::borrow::Cow;
use std::ops::ControlFlow;

use duramen_tree::KeyRange;
use serde_json::Value;

use super::document::Json;
use super::error::JsonError;
use super::merge::merge_patch;
use super::path::{Path, PathError};
use super::text::{self, Splice};
use crate::access::{Access, Edit, Space};
use crate::error::StoreError;
use crate::index::{explain, find, Found, Plan, Query, RawRow};
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::{count_keys, end_of, list_keys, Page};
use crate::names::check_key;

/// What can be stored as JSON: a [`Json`], which is checked already, or a [`serde_json::Value`].
pub trait ToJson {
    /// It as JSON.
    ///
    /// # Errors
    /// When it breaks a limit of documents.
    fn to_json(&self) -> Result<Cow<'_, Json>, JsonError>;
}

impl ToJson for Json {
    fn to_json(&self) -> Result<Cow<'_, Json>, JsonError> {
        Ok(Cow::Borrowed(self))
    }
}

impl ToJson for Value {
    fn to_json(&self) -> Result<Cow<'_, Json>, JsonError> {
        Json::from_value(self).map(Cow::Owned)
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self) -> Result<Cow<'_, Json>, JsonError> {
        (**self).to_json()
    }
}

/// What names a place in a document: a [`Path`], or its text. Empty text and `$` are the whole document.
pub trait ToPath {
    /// It as a path.
    ///
    /// # Errors
    /// When the text is not a path.
    fn to_path(&self) -> Result<Cow<'_, Path>, PathError>;
}

impl ToPath for Path {
    fn to_path(&self) -> Result<Cow<'_, Path>, PathError> {
        Ok(Cow::Borrowed(self))
    }
}

impl ToPath for str {
    fn to_path(&self) -> Result<Cow<'_, Path>, PathError> {
        self.parse().map(Cow::Owned)
    }
}

impl ToPath for String {
    fn to_path(&self) -> Result<Cow<'_, Path>, PathError> {
        self.as_str().to_path()
    }
}

impl<T: ToPath + ?Sized> ToPath for &T {
    fn to_path(&self) -> Result<Cow<'_, Path>, PathError> {
        (**self).to_path()
    }
}

/// The JSON documents of a space.
///
/// A change at a path writes only itself to the log, not the document.
///
/// ```
/// use duramen_store::{Scope, Store};
/// use serde_json::json;
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let docs = main.json();
/// docs.set("oak", "", &json!({"rings": [1, 2], "soil": {"ph": 6.5}}))?;
/// docs.set("oak", "soil.ph", &json!(7))?;
/// docs.set("oak", "$.rings[2]", &json!(3))?;
/// assert_eq!(docs.get("oak", "rings")?.expect("set above").as_str(), "[1,2,3]");
///
/// docs.merge_patch("oak", &json!({"soil": null, "name": "Quercus"}))?;
/// assert_eq!(docs.get("oak", "$")?.expect("set above").as_str(), r#"{"rings":[1,2,3],"name":"Quercus"}"#);
/// assert!(docs.delete("oak", "rings[0]")?);
/// assert!(docs.delete("oak", "")?);
/// assert_eq!(docs.count("")?, 0);
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Documents<'s, S> {
    space: Space<'s, S>,
}

impl<'s, S: Access> Documents<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn key(&self, key: &str) -> Result<KeyBuf, StoreError> {
        check_key(key)?;
        Ok(keys::key(Primitive::Json, self.space.name(), key.as_bytes()))
    }

    /// Sets the value at a path, and makes the document if there is none.
    ///
    /// What is missing on the way is made: objects, or an array where index 0 follows. An index that equals the length
    /// of an array appends to it, and so does the key `-`.
    ///
    /// # Errors
    /// When key, path or value are not allowed; when the path leads through a value that has no such parts; when the
    /// document would break a limit: depth 100, arrays of a million elements, 16 MiB of text.
    pub fn set(&self, key: &str, path: impl ToPath, value: impl ToJson) -> Result<S::Written, StoreError> {
        let at = self.key(key)?;
        let path = path.to_path().map_err(JsonError::from)?;
        let value = value.to_json()?;
        let ((), written) = self.space.scope().write(|edit| set(edit, &at, &path, &value))?;
        Ok(written)
    }

    /// Sets several values in one commit, one after the other: each sees those before it.
    ///
    /// # Errors
    /// As [`set`](Self::set): then none is set.
    pub fn set_many<K: AsRef<str>, P: ToPath, V: ToJson>(
        &self,
        items: impl IntoIterator<Item = (K, P, V)>,
    ) -> Result<S::Written, StoreError> {
        let items: Vec<(K, P, V)> = items.into_iter().collect();
        let mut changes = Vec::with_capacity(items.len());
        for (key, path, value) in &items {
            let path = path.to_path().map_err(JsonError::from)?;
            changes.push((self.key(key.as_ref())?, path, value.to_json()?));
        }
        let ((), written) = self
            .space
            .scope()
            .write(|edit| changes.iter().try_for_each(|(at, path, value)| set(edit, at, path, value)))?;
        Ok(written)
    }

    /// The value at a path, or nothing if there is no such document or place.
    ///
    /// # Errors
    /// When key or path are not allowed, or the store cannot be read.
    pub fn get(&self, key: &str, path: impl ToPath) -> Result<Option<Json>, StoreError> {
        let at = self.key(key)?;
        let path = path.to_path().map_err(JsonError::from)?;
        self.space.scope().peek(|view| {
            let mut found = None;
            view.get(&at, &mut |_, text| found = Some(part(text, &path)))?;
            Ok(found.transpose()?.flatten())
        })
    }

    /// The values at several paths, as of one moment.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<str>, P: ToPath>(
        &self,
        items: impl IntoIterator<Item = (K, P)>,
    ) -> Result<Vec<Option<Json>>, StoreError> {
        let items: Vec<(K, P)> = items.into_iter().collect();
        let places = self.places(&items)?;
        self.space.scope().read(|view| {
            let mut values = Vec::with_capacity(places.len());
            for (at, path) in &places {
                let mut found = None;
                view.get(at, &mut |_, text| found = Some(part(text, path)))?;
                values.push(found.transpose()?.flatten());
            }
            Ok(values)
        })
    }

    /// Whether there is such a document.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn exists(&self, key: &str) -> Result<bool, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| view.get(&at, &mut |_, _| {}))
    }

    /// Takes the value at a path out of its document; at the root, deletes the document. Returns whether it was there;
    /// if not, nothing is written.
    ///
    /// # Errors
    /// When key or path are not allowed, or nothing can be written.
    pub fn delete(&self, key: &str, path: impl ToPath) -> Result<bool, StoreError> {
        Ok(self.delete_many([(key, path)])? == 1)
    }

    /// Deletes at several paths in one commit, one after the other: each sees those before it. Returns how many of
    /// them were there.
    ///
    /// # Errors
    /// As [`delete`](Self::delete): then none is deleted.
    pub fn delete_many<K: AsRef<str>, P: ToPath>(
        &self,
        items: impl IntoIterator<Item = (K, P)>,
    ) -> Result<u64, StoreError> {
        let items: Vec<(K, P)> = items.into_iter().collect();
        let places = self.places(&items)?;
        let (deleted, _) = self.space.scope().write(|edit| {
            let mut deleted = 0;
            for (at, path) in &places {
                deleted += u64::from(delete(edit, at, path)?);
            }
            Ok(deleted)
        })?;
        Ok(deleted)
    }

    /// Changes a document by a JSON Merge Patch (RFC 7396): members of objects are set, those that are null are
    /// deleted, everything else is replaced as a whole. Makes the document if there is none.
    ///
    /// # Errors
    /// When the key is not allowed, the document would break a limit, or nothing can be written.
    pub fn merge_patch(&self, key: &str, patch: &Value) -> Result<S::Written, StoreError> {
        let at = self.key(key)?;
        let ((), written) = self.space.scope().write(|edit| {
            let mut change = None;
            edit.get(&at, &mut |_, old| {
                change = Some(merge_patch(old, patch).map(|new| difference(old, &new)));
            })?;
            match change.transpose()? {
                Some(change) => apply(edit, &at, &change),
                None => {
                    let new = merge_patch(b"null", patch)?;
                    edit.put(&at, &mut |out| out.extend_from_slice(&new))
                }
            }
        })?;
        Ok(written)
    }

    /// The keys of the documents that begin with `prefix`, after the key `after` if there is one, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page<String>, StoreError> {
        list_keys(&self.space, Primitive::Json, prefix, after, limit)
    }

    /// Shows the documents whose keys begin with `prefix`, in their order, as of one moment: the key and the text.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// use std::ops::ControlFlow;
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// main.json().set_many([("a", "", serde_json::json!(1)), ("b", "", serde_json::json!(2))])?;
    /// let mut all = Vec::new();
    /// main.json().scan("", |key, text| {
    ///     all.push(format!("{key} {text}"));
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(all, ["a 1", "b 2"]);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read or a document is damaged.
    pub fn scan(
        &self,
        prefix: &str,
        show: impl FnMut(&str, &str) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.scan_after(prefix, None, show)
    }

    /// As [`scan`](Self::scan), and only those after the key `after` if there is one: to go on where another scan broke off.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn scan_after(
        &self,
        prefix: &str,
        after: Option<&str>,
        mut show: impl FnMut(&str, &str) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let root = keys::prefix(Primitive::Json, self.space.name());
        let mut start = [&root[..], prefix.as_bytes()].concat();
        let end = end_of(&start);
        if let Some(after) = after {
            start = start.max([&root[..], after.as_bytes(), &[0]].concat());
        }
        if start >= end {
            return Ok(());
        }
        let mut damage = None;
        self.space.scope().read(|view| {
            view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, text| match (
                std::str::from_utf8(&key[root.len()..]),
                std::str::from_utf8(text),
            ) {
                (Ok(key), Ok(text)) => show(key, text),
                _ => {
                    damage = Some(format!("{} cannot be read", keys::display(key)));
                    ControlFlow::Break(())
                }
            })
        })?;
        damage.map_or(Ok(()), |damage| Err(StoreError::Damaged(damage)))
    }

    /// The number of documents whose keys begin with `prefix`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, prefix: &str) -> Result<u64, StoreError> {
        count_keys(&self.space, Primitive::Json, prefix)
    }

    /// The documents that fulfil a query, at most `limit`: through an index where one helps, or else by a look at each.
    ///
    /// ```
    /// use duramen_store::index::Query;
    /// use duramen_store::{Scope, Store};
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// main.json().set("oak", "", &serde_json::json!({"height": 30}))?;
    /// main.json().set("yew", "", &serde_json::json!({"height": 12}))?;
    /// let found = main.json().find(&Query::new("height > 20".parse().expect("a filter")), 10)?;
    /// assert_eq!((found.rows[0].0.as_str(), found.examined), ("oak", 2));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read, or a document or an index is damaged.
    pub fn find(&self, query: &Query, limit: usize) -> Result<Found<(String, Json)>, StoreError> {
        let space = self.space.name();
        let found = self.space.scope().read(|view| find(view, Primitive::Json, space, query, limit))?;
        found.try_map(|(key, text): RawRow| {
            let key = String::from_utf8(key)
                .map_err(|_| StoreError::Damaged("the key of a document is not text".into()))?;
            Ok((key, Json::from_stored(text)?))
        })
    }

    /// How a query would be done.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn explain(&self, query: &Query) -> Result<Plan, StoreError> {
        let space = self.space.name();
        self.space.scope().read(|view| explain(view, Primitive::Json, space, query))
    }

    fn places<'i, K: AsRef<str>, P: ToPath>(
        &self,
        items: &'i [(K, P)],
    ) -> Result<Vec<(KeyBuf, Cow<'i, Path>)>, StoreError> {
        let mut places = Vec::with_capacity(items.len());
        for (key, path) in items {
            places.push((self.key(key.as_ref())?, path.to_path().map_err(JsonError::from)?));
        }
        Ok(places)
    }
}

fn part(text: &[u8], path: &Path) -> Result<Option<Json>, JsonError> {
    text::locate(text, path)?.map(|range| Json::from_stored(&text[range])).transpose()
}

fn set(edit: &mut dyn Edit, at: &[u8], path: &Path, value: &Json) -> Result<(), StoreError> {
    if path.is_root() {
        return edit.put(at, &mut |out| out.extend_from_slice(value.as_str().as_bytes()));
    }
    let mut change = None;
    edit.get(at, &mut |_, text| change = Some(text::set(Some(text), path, value)))?;
    match change.transpose()? {
        Some(change) => apply(edit, at, &change),
        None => {
            let new = text::set(None, path, value)?.insert;
            edit.put(at, &mut |out| out.extend_from_slice(&new))
        }
    }
}

fn delete(edit: &mut dyn Edit, at: &[u8], path: &Path) -> Result<bool, StoreError> {
    if path.is_root() {
        let existed = edit.get(at, &mut |_, _| {})?;
        if existed {
            edit.delete(at)?;
        }
        return Ok(existed);
    }
    let mut change = None;
    edit.get(at, &mut |_, text| change = Some(text::delete(text, path)))?;
    match change.transpose()?.flatten() {
        Some(change) => apply(edit, at, &change).map(|()| true),
        None => Ok(false),
    }
}

/// Documents are far below 4 GiB, so the offsets fit.
fn apply(edit: &mut dyn Edit, at: &[u8], change: &Splice) -> Result<(), StoreError> {
    edit.splice(at, change.at as u32, change.remove as u32, &change.insert)
}

/// The change that makes one text the other: all between what both begin and what both end with.
fn difference(old: &[u8], new: &[u8]) -> Splice {
    let same = |(a, b): &(&u8, &u8)| a == b;
    let at = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[at..], &new[at..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let insert = new_rest[..new_rest.len() - tail].to_vec();
    Splice { at, remove: old_rest.len() - tail, insert }
}
