//! Key-value pairs.

mod bounds;
mod iter;
mod key;
mod ttl;

use std::ops::{Bound, ControlFlow};

use duramen_tree::KeyRange;

use crate::access::{Access, Space, View};
use crate::error::StoreError;
use crate::expiry;
use crate::index::{explain, find, Found, Plan, Query, RawRow};
use crate::keys::{self, KeyBuf, Primitive};
use crate::names::check_key_bytes;
use crate::value::{check_encoded, Encode, Value, ValueRef};

pub use bounds::{KeyBounds, Prefix};
pub use iter::Iter;
pub(crate) use key::display;
pub use key::{AsKey, Key};

/// A key with its value.
pub type Pair = (Key, Value);

/// A page of a listing, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on the page, in order.
    pub items: Vec<T>,
    /// Give it as `after` to get the next page; none when this is the last.
    pub next: Option<T>,
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
///
/// // Keys are bytes, and numbers lie in their order.
/// kv.put_many([(10_u64, "ten"), (9, "nine")])?;
/// let numbers = kv.iter(0_u64..)?.map(|pair| Ok(pair?.0.to_u64())).take(2);
/// assert_eq!(numbers.collect::<Result<Vec<_>, duramen_store::StoreError>>()?, [Some(9), Some(10)]);
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

    fn key(&self, key: &(impl AsKey + ?Sized)) -> Result<KeyBuf, StoreError> {
        let key = key.as_key();
        check_key_bytes(key.as_ref())?;
        Ok(keys::key(Primitive::Kv, self.space.name(), key.as_ref()))
    }

    /// Puts a value under a key, replacing one that is there. Returns the version of the write.
    ///
    /// # Errors
    /// When key or value break a limit, or nothing can be written.
    pub fn put(&self, key: impl AsKey, value: impl Encode) -> Result<S::Written, StoreError> {
        let at = self.key(&key)?;
        check_encoded(&value)?;
        let ((), written) = self.space.scope().write(|edit| edit.put(&at, &mut |out| value.encode(out)))?;
        Ok(written)
    }

    /// Puts several values in one commit.
    ///
    /// # Errors
    /// When a key or value breaks a limit: then none is put.
    pub fn put_many<K: AsKey, V: Encode>(
        &self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<S::Written, StoreError> {
        let pairs = pairs.into_iter().map(|(key, value)| {
            check_encoded(&value)?;
            Ok((self.key(&key)?, value))
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
    pub fn get(&self, key: impl AsKey) -> Result<Option<Value>, StoreError> {
        Ok(self.get_versioned(key)?.map(|(value, _)| value))
    }

    /// The value of a key, and the version of the commit that wrote it.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn get_versioned(&self, key: impl AsKey) -> Result<Option<(Value, u64)>, StoreError> {
        let at = self.key(&key)?;
        self.space.scope().peek(|view| {
            let mut found = None;
            view.get(&at, &mut |version, bytes| {
                found = expiry::live(view, bytes).map(|value| (Value::decode(value), version));
            })?;
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
    pub fn get_bytes(&self, key: impl AsKey, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let at = self.key(&key)?;
        self.space.scope().peek(|view| {
            let mut copied = Ok(false);
            view.get(&at, &mut |_, bytes| {
                let Some(value) = expiry::live(view, bytes) else { return };
                into.clear();
                copied = match ValueRef::decode(value) {
                    Ok(ValueRef::Bytes(bytes)) => {
                        into.extend_from_slice(bytes);
                        Ok(true)
                    }
                    Ok(ValueRef::Str(text)) => {
                        into.extend_from_slice(text.as_bytes());
                        Ok(true)
                    }
                    Ok(_) => Err(StoreError::WrongType {
                        what: format!("the value of {:?}", Key::new(&key)),
                        reason: "it is neither bytes nor a string; read it with get".to_owned(),
                    }),
                    Err(error) => Err(error.into()),
                };
            })?;
            copied
        })
    }

    /// The values of several keys as of one moment.
    ///
    /// # Errors
    /// When a key is not allowed, or the store cannot be read.
    pub fn get_many<K: AsKey>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>, StoreError> {
        let keys = keys.into_iter().map(|key| self.key(&key));
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        self.space.scope().read(|view| {
            keys.iter()
                .map(|key| {
                    let mut found = None;
                    view.get(key, &mut |_, bytes| found = expiry::live(view, bytes).map(Value::decode))?;
                    Ok(found.transpose()?)
                })
                .collect()
        })
    }

    /// Whether there is such a key.
    ///
    /// # Errors
    /// When the key is not allowed, or the store cannot be read.
    pub fn exists(&self, key: impl AsKey) -> Result<bool, StoreError> {
        let at = self.key(&key)?;
        self.space.scope().peek(|view| is_there(view, &at))
    }

    /// Adds to the integer under a key, in one commit, and returns the sum. A key that is not there counts as 0; one with a time to
    /// live keeps it. Where branches add
    /// to one counter, [`Decision::Add`](crate::Decision::Add) has a merge add what each of them added.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// assert_eq!(main.kv().add("visits", 3)?, 3);
    /// assert_eq!(main.kv().add("visits", -1)?, 2);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::WrongType`] for a value of another kind; when the sum does not fit in 64 bits, the key is not allowed, or nothing
    /// can be written.
    pub fn add(&self, key: impl AsKey, by: i64) -> Result<i64, StoreError> {
        let at = self.key(&key)?;
        let (sum, _) = self.space.scope().write(|edit| {
            let (mut found, mut end) = (None, None);
            edit.get(&at, &mut |_, bytes| {
                found = expiry::live(edit, bytes).map(Value::decode);
                end = expiry::split(bytes).0.filter(|_| found.is_some());
            })?;
            let before = match found.transpose()? {
                None => 0,
                Some(Value::Int(before)) => before,
                Some(other) => {
                    let reason = format!("expected an int, found {}", other.kind());
                    return Err(StoreError::WrongType { what: keys::display(&at), reason });
                }
            };
            let sum = before.checked_add(by).ok_or_else(|| StoreError::InvalidInput {
                what: "an addition",
                reason: format!("the sum of {before} and {by} does not fit in 64 bits"),
            })?;
            edit.put(&at, &mut |out| {
                expiry::begin(end, out);
                sum.encode(out);
            })?;
            Ok(sum)
        })?;
        Ok(sum)
    }

    /// Deletes a key. Returns whether it was there; if not, nothing is written.
    ///
    /// # Errors
    /// When the key is not allowed, or nothing can be written.
    pub fn delete(&self, key: impl AsKey) -> Result<bool, StoreError> {
        Ok(self.delete_many([key])? == 1)
    }

    /// Deletes several keys in one commit. Returns how many of them were there.
    ///
    /// # Errors
    /// When a key is not allowed, or nothing can be written: then none is deleted.
    pub fn delete_many<K: AsKey>(&self, keys: impl IntoIterator<Item = K>) -> Result<u64, StoreError> {
        let keys = keys.into_iter().map(|key| self.key(&key));
        let keys = keys.collect::<Result<Vec<_>, StoreError>>()?;
        let (deleted, _) = self.space.scope().write(|edit| {
            let mut deleted = 0;
            for key in &keys {
                if is_there(edit, key)? {
                    edit.delete(key)?;
                    deleted += 1;
                }
            }
            Ok(deleted)
        })?;
        Ok(deleted)
    }

    /// Deletes the pairs of a range of keys in one commit. Returns how many there were. Its cost is that of deleting each of
    /// them.
    ///
    /// # Errors
    /// When the store cannot be read, there are more than one commit may have, or nothing can be written: then none is
    /// deleted.
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<u64, StoreError> {
        let (start, end) = range.within(&keys::prefix(Primitive::Kv, self.space.name()));
        let range = KeyRange::new(&start, Some(&end));
        let (deleted, _) = self.space.scope().write(|edit| {
            let mut found = Vec::new();
            edit.scan(&range, &mut |key, _, bytes| {
                found.extend(expiry::live(edit, bytes).map(|_| KeyBuf::from_slice(key)));
                ControlFlow::Continue(())
            })?;
            found.iter().try_for_each(|key| edit.delete(key))?;
            Ok(found.len() as u64)
        })?;
        Ok(deleted)
    }

    /// Shows the pairs of a range of keys in order, without an allocation for each, until `row` breaks off.
    ///
    /// # Errors
    /// When the store cannot be read or a value is damaged.
    pub fn scan(
        &self,
        range: impl KeyBounds,
        mut row: impl FnMut(&[u8], ValueRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let prefix = keys::prefix(Primitive::Kv, self.space.name());
        let (start, end) = range.within(&prefix);
        let range = KeyRange::new(&start, Some(&end));
        let mut failed = None;
        self.space.scope().read(|view| {
            view.scan(&range, &mut |key, _, bytes| {
                let Some(value) = expiry::live(view, bytes) else { return ControlFlow::Continue(()) };
                match ValueRef::decode(value) {
                    Ok(value) => row(&key[prefix.len()..], value),
                    Err(error) => {
                        failed = Some(error.into());
                        ControlFlow::Break(())
                    }
                }
            })
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// The pairs of a range of keys one by one, from either end, as of one moment.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.kv().put_many([("a", 1), ("b", 2), ("c", 3)])?;
    /// let (last, value) = main.kv().iter(.."c")?.next_back().expect("there are two")?;
    /// assert_eq!((last.as_text(), value.as_i64()), (Some("b"), Some(2)));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the branch was deleted, or cannot be read.
    pub fn iter(&self, range: impl KeyBounds) -> Result<Iter<'s, S>, StoreError> {
        let prefix = keys::prefix(Primitive::Kv, self.space.name());
        let held = self.space.scope().moment()?;
        Ok(Iter::new(self.space, held, prefix.len(), range.within(&prefix)))
    }

    /// The pairs of a range of keys, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read or a value is damaged.
    pub fn range(&self, range: impl KeyBounds, limit: usize) -> Result<Vec<Pair>, StoreError> {
        let mut pairs = Vec::new();
        let mut failed = None;
        if limit == 0 {
            return Ok(pairs);
        }
        self.scan(range, |key, value| {
            match value.to_value() {
                Ok(value) => pairs.push((Key::new(key), value)),
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

    /// The pairs that fulfil a query, at most `limit`: through an index where one helps, or else by a look at each. The
    /// fields of a value are those of its JSON, and `$` is the value itself.
    ///
    /// ```
    /// use duramen_store::index::{Index, Query};
    /// use duramen_store::{Primitive, Scope, Store};
    /// # let store = Store::memory();
    /// # let main = store.branch("main")?;
    /// main.indexes().create("by-value", &Index::new(Primitive::Kv, ["$"]))?;
    /// main.kv().put_many([("oak", 30), ("yew", 12), ("ash", 25)])?;
    /// let tall = Query::new("$ > 20".parse().expect("a filter")).order(["$"]);
    /// let found = main.kv().find(&tall, 1)?;
    /// assert_eq!((found.rows[0].0.as_text(), found.examined), (Some("ash"), 2));
    /// let next = found.next.expect("there is one more");
    /// assert_eq!(main.kv().find(&tall.after(next), 1)?.rows[0].0, "oak");
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the store cannot be read, or a value or an index is damaged.
    pub fn find(&self, query: &Query, limit: usize) -> Result<Found<Pair>, StoreError> {
        let space = self.space.name();
        let found = self.space.scope().read(|view| find(view, Primitive::Kv, space, query, limit))?;
        found.try_map(|(key, value): RawRow| Ok((Key::new(key), Value::decode(expiry::value(&value))?)))
    }

    /// How a query would be done.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn explain(&self, query: &Query) -> Result<Plan, StoreError> {
        let space = self.space.name();
        self.space.scope().read(|view| explain(view, Primitive::Kv, space, query))
    }

    /// The keys that begin with `prefix`, after the key `after` if there is one, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(
        &self,
        prefix: impl AsKey,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Page<Key>, StoreError> {
        let root = keys::prefix(Primitive::Kv, self.space.name());
        let (mut start, end) = Prefix(prefix).within(&root);
        if let Some(after) = after {
            let (first, _) = (Bound::Excluded(after), Bound::Unbounded).within(&root);
            start = start.max(first);
        }
        let mut page = Page { items: Vec::new(), next: None };
        self.space.scope().read(|view| {
            view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, bytes| {
                if expiry::live(view, bytes).is_none() {
                    return ControlFlow::Continue(());
                }
                if page.items.len() == limit {
                    page.next = page.items.last().cloned();
                    return ControlFlow::Break(());
                }
                page.items.push(Key::new(&key[root.len()..]));
                ControlFlow::Continue(())
            })
        })?;
        Ok(page)
    }

    /// The number of keys that begin with `prefix`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self, prefix: impl AsKey) -> Result<u64, StoreError> {
        count_keys(&self.space, Primitive::Kv, prefix.as_key())
    }
}

/// Whether there is a pair, by its key in the tree.
fn is_there<V: View + ?Sized>(view: &V, key: &[u8]) -> Result<bool, StoreError> {
    let mut is_live = false;
    view.get(key, &mut |_, bytes| is_live = expiry::live(view, bytes).is_some())?;
    Ok(is_live)
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
    prefix: impl AsRef<[u8]>,
) -> Result<u64, StoreError> {
    let mut start = keys::prefix(primitive, space.name());
    start.extend_from_slice(prefix.as_ref());
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
        if primitive == Primitive::Kv {
            count = count.saturating_sub(expiry::count_gone(view, &start, &end)?);
        }
        Ok(count)
    })
}
