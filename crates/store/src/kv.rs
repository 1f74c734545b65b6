//! Key-value pairs.

use std::ops::{Bound, ControlFlow, RangeBounds};

use duramen_tree::KeyRange;

use crate::access::{Access, Space};
use crate::error::StoreError;
use crate::keys::{self, Primitive};
use crate::names::check_key;
use crate::value::{check_encoded, Encode, Value, ValueRef};

/// A key with its value.
pub type Pair = (String, Value);

/// A page of a listing, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on the page, in order.
    pub items: Vec<T>,
    /// Give it as `after` to get the next page; none when this is the last.
    pub next: Option<String>,
}

/// The key-value pairs of a space.
///
/// ```
/// use duramen_store::{Scope, Store, Value};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// let kv = main.kv();
/// kv.put("tree/oak", "slow")?;
/// kv.put("tree/birch", "fast")?;
/// assert_eq!(kv.get("tree/oak")?, Some(Value::from("slow")));
/// assert_eq!(kv.list("tree/", None, 10)?.items, ["tree/birch", "tree/oak"]);
/// assert!(kv.delete("tree/oak")?);
/// assert_eq!(kv.count("")?, 1);
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Kv<'s, S> {
    space: Space<'s, S>,
}

impl<'s, S: Access> Kv<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }

    fn key(&self, key: &str) -> Result<keys::KeyBuf, StoreError> {
        check_key(key)?;
        Ok(keys::key(Primitive::Kv, self.space.name(), key.as_bytes()))
    }

    /// Puts a value under a key, replacing one that is there. Returns the version of the write.
    ///
    /// # Errors
    /// When key or value break a limit, or nothing can be written.
    pub fn put(&self, key: &str, value: impl Encode) -> Result<S::Written, StoreError> {
        let at = self.key(key)?;
        check_encoded(&value)?;
        let ((), written) = self.space.scope().write(|edit| edit.put(&at, &mut |out| value.encode(out)))?;
        Ok(written)
    }

    /// Puts several values in one commit.
    ///
    /// # Errors
    /// When a key or value breaks a limit: then none is put.
    pub fn put_many<K: AsRef<str>, V: Encode>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<S::Written, StoreError> {
        let pairs = pairs.into_iter().map(|(key, value)| {
            check_encoded(&value)?;
            Ok((self.key(key.as_ref())?, value))
        });
        let pairs = pairs.collect::<Result<Vec<_>, StoreError>>()?;
        let ((), written) = self.space.scope().write(|edit| {
            pairs.iter().try_for_each(|(key, value)| edit.put(key, &mut |out| value.encode(out)))
        })?;
        Ok(written)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn get(&self, key: &str) -> Result<Option<Value>, StoreError> {
        Ok(self.get_versioned(key)?.map(|(value, _)| value))
    }

    /// The value of a key, and the version of the commit that wrote it.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn get_versioned(&self, key: &str) -> Result<Option<(Value, u64)>, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| {
            let mut found = None;
            view.get(&at, &mut |version, bytes| found = Some((Value::decode(bytes), version)))?;
            Ok(match found {
                Some((value, version)) => Some((value?, version)),
                None => None,
            })
        })
    }

    /// Replaces the content of `into` with a value that is bytes or a string, for readers that want no allocation.
    /// Returns whether there is one.
    ///
    /// # Errors
    /// [`StoreError::WrongType`] for a value of another kind; when the key is not allowed, or the store cannot be read.
    pub fn get_bytes(&self, key: &str, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| {
            let mut copied = Ok(());
            let found = view.get(&at, &mut |_, bytes| {
                into.clear();
                copied = match ValueRef::decode(bytes) {
                    Ok(ValueRef::Bytes(bytes)) => {
                        into.extend_from_slice(bytes);
                        Ok(())
                    }
                    Ok(ValueRef::Str(text)) => {
                        into.extend_from_slice(text.as_bytes());
                        Ok(())
                    }
                    Ok(_) => Err(StoreError::WrongType {
                        what: format!("the value of {key:?}"),
                        reason: "it is neither bytes nor a string; read it with get".to_owned(),
                    }),
                    Err(error) => Err(error.into()),
                };
            })?;
            copied.map(|()| found)
        })
    }

    /// The values of several keys as of one moment.
    ///
    /// # Errors
    /// When a key is not allowed, or the store cannot be read.
    pub fn get_many<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let keys = keys.into_iter().map(|key| self.key(key.as_ref()));
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        self.space.scope().read(|view| {
            keys.iter()
                .map(|key| {
                    let mut found = None;
                    view.get(key, &mut |_, bytes| found = Some(Value::decode(bytes)))?;
                    Ok(found.transpose()?)
                })
                .collect()
        })
    }

    /// Whether there is such a key.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn exists(&self, key: &str) -> Result<bool, StoreError> {
        let at = self.key(key)?;
        self.space.scope().peek(|view| view.get(&at, &mut |_, _| {}))
    }

    /// Deletes a key. Returns whether it was there; if not, nothing is written.
    ///
    /// # Errors
    /// When the key is not allowed, or nothing can be written.
    pub fn delete(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.delete_many([key])? == 1)
    }

    /// Deletes several keys in one commit. Returns how many of them were there.
    ///
    /// # Errors
    /// When a key is not allowed, or nothing can be written: then none is deleted.
    pub fn delete_many<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64, StoreError> {
        let keys = keys.into_iter().map(|key| self.key(key.as_ref()));
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        let (deleted, _) = self.space.scope().write(|edit| {
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

    /// Shows the pairs of a range of keys in order, without an allocation for each, until `row` breaks off.
    ///
    /// # Errors
    /// When the store cannot be read or a value is damaged.
    pub fn scan<'k>(
        &self,
        range: impl RangeBounds<&'k str>,
        mut row: impl FnMut(&str, ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let prefix = keys::prefix(Primitive::Kv, self.space.name());
        let (start, end) = bounds(&prefix, range);
        let range = KeyRange::new(&start, Some(&end));
        let mut failed = None;
        self.space.scope().read(|view| {
            view.scan(&range, &mut |key, _, value| {
                let key = std::str::from_utf8(&key[prefix.len()..]);
                match (key, ValueRef::decode(value)) {
                    (Ok(key), Ok(value)) => row(key, value),
                    (Err(_), _) => {
                        failed = Some(StoreError::Damaged("a key is not text".into()));
                        ControlFlow::Break(())
                    }
                    (_, Err(error)) => {
                        failed = Some(error.into());
                        ControlFlow::Break(())
                    }
                }
            })
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The pairs of a range of keys, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read or a value is damaged.
    pub fn range<'k>(&self, range: impl RangeBounds<&'k str>, limit: usize) -> Result<Vec<Pair>, StoreError> {
        let mut pairs = Vec::new();
        let mut failed = None;
        if limit == 0 {
            return Ok(pairs);
        }
        self.scan(range, |key, value| {
            match value.to_value() {
                Ok(value) => pairs.push((key.to_owned(), value)),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            if pairs.len() < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        failed.map_or(Ok(pairs), |error| Err(error.into()))
    }

    /// The keys that begin with `prefix`, after the key `after` if there is one, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page<String>, StoreError> {
        list_keys(&self.space, Primitive::Kv, prefix, after, limit)
    }

    /// The number of keys that begin with `prefix`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, prefix: &str) -> Result<u64, StoreError> {
        count_keys(&self.space, Primitive::Kv, prefix)
    }
}

/// The range of the tree for a range of keys of a space.
fn bounds<'k>(prefix: &[u8], range: impl RangeBounds<&'k str>) -> (Vec<u8>, Vec<u8>) {
    // The next key after one is that key with a NUL, which no key has.
    let at = |key: &str, after: bool| [prefix, key.as_bytes(), &[0][..usize::from(after)]].concat();
    let start = match range.start_bound() {
        Bound::Included(key) => at(key, false),
        Bound::Excluded(key) => at(key, true),
        Bound::Unbounded => prefix.to_vec(),
    };
    let end = match range.end_bound() {
        Bound::Included(key) => at(key, true),
        Bound::Excluded(key) => at(key, false),
        Bound::Unbounded => end_of(prefix),
    };
    (start, end)
}

/// The first key after all that begin with a prefix of the tree, which always begins with a number below 255.
pub(crate) fn end_of(prefix: &[u8]) -> Vec<u8> {
    KeyRange::end_of_prefix(prefix).unwrap_or_else(|| vec![u8::MAX])
}

pub(crate) fn list_keys<S: Access>(
    space: &Space<'_, S>,
    primitive: Primitive,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<String>, StoreError> {
    let root = keys::prefix(primitive, space.name());
    let mut start = [&root[..], prefix.as_bytes()].concat();
    let end = end_of(&start);
    if let Some(after) = after {
        start = start.max([&root[..], after.as_bytes(), &[0]].concat());
    }
    let mut items: Vec<String> = Vec::new();
    let mut next = None;
    let mut damaged = false;
    space.scope().read(|view| {
        view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
            if items.len() == limit {
                next = items.last().cloned();
                return ControlFlow::Break(());
            }
            match std::str::from_utf8(&key[root.len()..]) {
                Ok(key) => items.push(key.to_owned()),
                Err(_) => damaged = true,
            }
            ControlFlow::Continue(())
        })
    })?;
    if damaged {
        return Err(StoreError::Damaged("a key is not text".into()));
    }
    Ok(Page { items, next })
}

pub(crate) fn count_keys<S: Access>(
    space: &Space<'_, S>,
    primitive: Primitive,
    prefix: &str,
) -> Result<u64, StoreError> {
    let mut start = keys::prefix(primitive, space.name());
    start.extend_from_slice(prefix.as_bytes());
    let end = end_of(&start);
    space.scope().read(|view| {
        let mut count = 0;
        let range = KeyRange::new(&start, Some(&end));
        view.leaves(&range, &mut |leaf| {
            count += leaf.len() as u64;
            ControlFlow::Continue(())
        })?;
        // What a transaction wrote itself is not in the leaves.
        let mut written = Vec::new();
        view.written(&range, &mut |key, value| written.push((key.to_vec(), value.is_some())))?;
        for (key, is_there) in written {
            let mut was_there = false;
            view.leaves(&KeyRange::new(&key, Some(&[&key[..], &[0]].concat())), &mut |leaf| {
                was_there |= !leaf.is_empty();
                ControlFlow::Continue(())
            })?;
            count = count + u64::from(is_there) - u64::from(was_there);
        }
        Ok(count)
    })
}
