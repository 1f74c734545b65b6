//! State cells: values with a counter of their own, for compare-and-swap.

use crate::error::StoreError;
use crate::keys::{self, Primitive};
use crate::kv::{count_keys, list_keys, Page};
use crate::names::check_key;
use crate::scope::{Edit, Scope, Space, View};
use crate::value::{check_encoded, Encode, Value};

/// A cell as it was read: its value, and its version for the next [`Cells::cas`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What it holds.
    pub value: Value,
    /// 1 after it was made, and one more with every write.
    pub version: u64,
}

/// The state cells of a space.
///
/// ```
/// use duramen_store::{Scope, Store, StoreError};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let cells = main.state();
/// assert_eq!(cells.init("leader", "alice")?, 1);
/// assert_eq!(cells.init("leader", "bob")?, 1); // it is there already, and stays as it is
/// assert_eq!(cells.cas("leader", Some(1), "bob")?, 2);
/// assert!(matches!(cells.cas("leader", Some(1), "carol"), Err(StoreError::VersionConflict { .. })));
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Debug)]
pub struct Cells<'s, S> {
    space: Space<'s, S>,
}

/// `version u64`, then the value.
fn encode_cell(version: u64, value: &impl Encode) -> impl FnMut(&mut Vec<u8>) + '_ {
    move |out| {
        out.extend_from_slice(&version.to_le_bytes());
        value.encode(out);
    }
}

fn version_of(bytes: &[u8]) -> Result<(u64, &[u8]), StoreError> {
    let (version, value) =
        bytes.split_first_chunk::<8>().ok_or_else(|| StoreError::Damaged("a cell is cut off".into()))?;
    Ok((u64::from_le_bytes(*version), value))
}

fn current<V: View + ?Sized>(view: &V, key: &[u8]) -> Result<Option<u64>, StoreError> {
    let mut version = None;
    view.get(key, &mut |_, bytes| version = Some(version_of(bytes).map(|(version, _)| version)))?;
    version.transpose()
}

impl<'s, S: Scope> Cells<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn key(&self, key: &str) -> Result<keys::KeyBuf, StoreError> {
        check_key(key)?;
        Ok(keys::key(Primitive::State, self.space.name(), key.as_bytes()))
    }

    fn write<R>(
        &self,
        key: &str,
        value: &impl Encode,
        decide: impl FnOnce(Option<u64>, &mut dyn FnMut(u64) -> Result<(), StoreError>) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let at = self.key(key)?;
        check_encoded(value)?;
        let (result, _) = self.space.scope().write(|edit: &mut dyn Edit| {
            let now = current(edit, &at)?;
            decide(now, &mut |version| edit.put(&at, &mut encode_cell(version, value)))
        })?;
        Ok(result)
    }

    /// Makes a cell if there is none. Returns its version: 1 if it was made now, and that of the one that is there
    /// otherwise, which stays as it is.
    ///
    /// # Errors
    /// When key or value break a limit, or nothing can be written.
    pub fn init(&self, key: &str, value: impl Encode) -> Result<u64, StoreError> {
        self.write(key, &value, |now, put| match now {
            Some(version) => Ok(version),
            None => put(1).map(|()| 1),
        })
    }

    /// Sets a cell, whatever it holds. Returns its new version.
    ///
    /// # Errors
    /// When key or value break a limit, or nothing can be written.
    pub fn set(&self, key: &str, value: impl Encode) -> Result<u64, StoreError> {
        self.write(key, &value, |now, put| {
            let version = now.unwrap_or(0) + 1;
            put(version).map(|()| version)
        })
    }

    /// Sets a cell if it has the version that is expected; none means that it must not exist. Returns its new version.
    ///
    /// # Errors
    /// [`StoreError::VersionConflict`] when it has another version: nothing is written.
    pub fn cas(&self, key: &str, expected: Option<u64>, value: impl Encode) -> Result<u64, StoreError> {
        self.write(key, &value, |actual, put| {
            if actual != expected {
                return Err(StoreError::VersionConflict { key: key.to_owned(), expected, actual });
            }
            let version = actual.unwrap_or(0) + 1;
            put(version).map(|()| version)
        })
    }

    /// What a cell holds, and its version.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn read(&self, key: &str) -> Result<Option<Cell>, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| {
            let mut found = None;
            view.get(&at, &mut |_, bytes| {
                found = Some(
                    version_of(bytes)
                        .and_then(|(version, value)| Ok(Cell { value: Value::decode(value)?, version })),
                );
            })?;
            found.transpose()
        })
    }

    /// Deletes a cell. Returns whether it was there.
    ///
    /// # Errors
    /// When the key is not allowed, or nothing can be written.
    pub fn delete(&self, key: &str) -> Result<bool, StoreError> {
        let at = self.key(key)?;
        let (existed, _) = self.space.scope().write(|edit| {
            let existed = edit.get(&at, &mut |_, _| {})?;
            if existed {
                edit.delete(&at)?;
            }
            Ok(existed)
        })?;
        Ok(existed)
    }

    /// The cells whose keys begin with `prefix`, after the key `after` if there is one, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page<String>, StoreError> {
        list_keys(&self.space, Primitive::State, prefix, after, limit)
    }

    /// The number of cells whose keys begin with `prefix`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, prefix: &str) -> Result<u64, StoreError> {
        count_keys(&self.space, Primitive::State, prefix)
    }
}

/// A cell as people read it.
pub(crate) fn shown_value(bytes: &[u8]) -> Option<serde_json::Value> {
    let (version, value) = version_of(bytes).ok()?;
    let value = Value::decode(value).ok()?.to_json().ok()?;
    Some(serde_json::json!({ "version": version, "value": value }))
}

/// The bytes of the cell that follows another.
pub(crate) fn encode_next(
    now: Option<&[u8]>,
    value: &serde_json::Value,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let version = now.map(version_of).transpose()?.map_or(0, |(version, _)| version) + 1;
    let value = Value::from_json(value)?;
    check_encoded(&value)?;
    encode_cell(version, &value)(out);
    Ok(())
}
