//! State cells: values with a version, for compare-and-swap.
//!
//! The version of a cell is that of the commit that wrote it, or that of the branch's last reset if this came later. So
//! in one branch, no version of a cell is ever reused, and none goes back, whatever happens to the branch (S14). What
//! lies before the value is the count of its writes: it was the version once, and is what distinguishes changes of equal values
//! in a merge.

use crate::access::{Access, Edit, Space, View};
use crate::error::StoreError;
use crate::keys::{self, Primitive};
use crate::kv::{count_keys, list_keys, Page};
use crate::names::check_key;
use crate::value::{check_encoded, Encode, Value};

/// A cell as it was read: its value, and its version for the next [`Cells::cas`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// What it holds.
    pub value: Value,
    /// The version of the write that made it what it is, or of the branch's last reset if that came later: in one
    /// branch, none is reused. 0 in a transaction that wrote the cell itself: it is known after the commit.
    pub version: u64,
}

/// The state cells of a space.
///
/// ```
/// use duramen_store::{Scope, Store, StoreError};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let cells = main.state();
/// let made = cells.init("leader", "alice")?;
/// assert_eq!(cells.init("leader", "bob")?, made); // it is there already, and stays as it is
/// assert!(cells.cas("leader", Some(made), "bob")? > made);
/// assert!(matches!(cells.cas("leader", Some(made), "carol"), Err(StoreError::VersionConflict { .. })));
/// # Ok::<(), StoreError>(())
/// ```
#[derive(Debug)]
pub struct Cells<'s, S> {
    space: Space<'s, S>,
}

/// `writes u64`, then the value.
fn encode_cell(writes: u64, value: &impl Encode) -> impl FnMut(&mut Vec<u8>) + '_ {
    move |out| {
        out.extend_from_slice(&writes.to_le_bytes());
        value.encode(out);
    }
}

fn writes_of(bytes: &[u8]) -> Result<(u64, &[u8]), StoreError> {
    let (writes, value) =
        bytes.split_first_chunk::<8>().ok_or_else(|| StoreError::Damaged("a cell is cut off".into()))?;
    Ok((u64::from_le_bytes(*writes), value))
}

/// The version of a cell, of that of its entry.
fn version_of<V: View + ?Sized>(view: &V, entry: u64) -> u64 {
    // What a transaction wrote itself has none yet.
    if entry == 0 {
        return 0;
    }
    entry.max(view.floor())
}

/// The version of a cell and how often it was written, if it is there.
fn current<V: View + ?Sized>(view: &V, key: &[u8]) -> Result<Option<(u64, u64)>, StoreError> {
    let mut found = None;
    view.get(key, &mut |entry, bytes| {
        found = Some(writes_of(bytes).map(|(writes, _)| (version_of(view, entry), writes)));
    })?;
    found.transpose()
}

impl<'s, S: Access> Cells<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn key(&self, key: &str) -> Result<keys::KeyBuf, StoreError> {
        check_key(key)?;
        Ok(keys::key(Primitive::State, self.space.name(), key.as_bytes()))
    }

    /// Writes a cell unless `keep` says that it stays as it is, by its version.
    fn write(
        &self,
        key: &str,
        value: &impl Encode,
        keep: impl FnOnce(Option<u64>) -> Result<bool, StoreError>,
    ) -> Result<S::Written, StoreError> {
        let at = self.key(key)?;
        check_encoded(value)?;
        let (kept, written) = self.space.scope().write(|edit: &mut dyn Edit| {
            let now = current(edit, &at)?;
            let version = now.map(|(version, _)| version);
            if keep(version)? {
                return Ok(version);
            }
            let writes = now.map_or(0, |(_, writes)| writes).saturating_add(1);
            edit.put(&at, &mut encode_cell(writes, value))?;
            Ok(None)
        })?;
        Ok(kept.map_or(written, S::written))
    }

    /// Makes a cell if there is none. Returns its version: that of this write if it was made now, and that of the one
    /// that is there otherwise, which stays as it is. In a transaction, versions are known after the commit.
    ///
    /// # Errors
    /// When key or value break a limit, or nothing can be written.
    pub fn init(&self, key: &str, value: impl Encode) -> Result<S::Written, StoreError> {
        self.write(key, &value, |now| Ok(now.is_some()))
    }

    /// Sets a cell, whatever it holds. Returns its new version.
    ///
    /// # Errors
    /// When key or value break a limit, or nothing can be written.
    pub fn set(&self, key: &str, value: impl Encode) -> Result<S::Written, StoreError> {
        self.write(key, &value, |_| Ok(false))
    }

    /// Sets a cell if it has the version that is expected; none means that it must not exist. Returns its new version.
    ///
    /// # Errors
    /// [`StoreError::VersionConflict`] when it has another version: nothing is written.
    pub fn cas(
        &self,
        key: &str,
        expected: Option<u64>,
        value: impl Encode,
    ) -> Result<S::Written, StoreError> {
        self.write(key, &value, |actual| match actual == expected {
            true => Ok(false),
            false => Err(StoreError::VersionConflict { key: key.to_owned(), expected, actual }),
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
            view.get(&at, &mut |entry, bytes| {
                let version = version_of(view, entry);
                found = Some(
                    writes_of(bytes)
                        .and_then(|(_, value)| Ok(Cell { value: Value::decode(value)?, version })),
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

/// Whether bytes are those of a cell.
pub(crate) fn is_cell(bytes: &[u8]) -> bool {
    writes_of(bytes).is_ok_and(|(_, value)| Value::decode(value).is_ok())
}

/// A cell as people read it.
pub(crate) fn display_value(bytes: &[u8]) -> Option<serde_json::Value> {
    let (writes, value) = writes_of(bytes).ok()?;
    let value = Value::decode(value).ok()?.to_json().ok()?;
    Some(serde_json::json!({ "writes": writes, "value": value }))
}

/// The bytes of the cell that follows another.
pub(crate) fn encode_next(
    now: Option<&[u8]>,
    value: &serde_json::Value,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let writes = now.map(writes_of).transpose()?.map_or(0, |(writes, _)| writes).saturating_add(1);
    let value = Value::from_json(value)?;
    check_encoded(&value)?;
    encode_cell(writes, &value)(out);
    Ok(())
}
