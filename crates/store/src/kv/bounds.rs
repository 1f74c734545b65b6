//! Ranges of keys.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::end_of;
use super::key::AsKey;
use crate::keys::KeyBuf;

/// A range of keys: `..`, `"a".."b"`, `1_u64..`, a pair of [`Bound`]s, or a [`Prefix`].
pub trait KeyBounds {
    /// The first key that is in the range, and the first one after it, as keys of the tree: each begins with `root`, with
    /// which all keys of the space begin.
    #[doc(hidden)]
    fn within(&self, root: &[u8]) -> (KeyBuf, KeyBuf);
}

/// All keys that begin with something.
///
/// ```
/// use duramen_store::kv::Prefix;
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.kv().put_many([("tree/birch", 1), ("tree/oak", 2), ("trout", 3)])?;
/// assert_eq!(main.kv().range(Prefix("tree/"), 10)?.len(), 2);
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<K>(pub K);

/// The key of the tree, or the one right after it: that is the key with a zero byte, as no key is between the two.
fn at<K: AsKey>(root: &[u8], key: &K, after: bool) -> KeyBuf {
    let mut at = KeyBuf::from_slice(root);
    at.extend_from_slice(key.as_key().as_ref());
    if after {
        at.push(0);
    }
    at
}

fn between<K: AsKey>(root: &[u8], range: &impl RangeBounds<K>) -> (KeyBuf, KeyBuf) {
    let start = match range.start_bound() {
        Bound::Included(key) => at(root, key, false),
        Bound::Excluded(key) => at(root, key, true),
        Bound::Unbounded => KeyBuf::from_slice(root),
    };
    let end = match range.end_bound() {
        Bound::Included(key) => at(root, key, true),
        Bound::Excluded(key) => at(root, key, false),
        Bound::Unbounded => KeyBuf::from_vec(end_of(root)),
    };
    (start, end)
}

impl KeyBounds for RangeFull {
    fn within(&self, root: &[u8]) -> (KeyBuf, KeyBuf) {
        (KeyBuf::from_slice(root), KeyBuf::from_vec(end_of(root)))
    }
}

impl<K: AsKey> KeyBounds for Prefix<K> {
    fn within(&self, root: &[u8]) -> (KeyBuf, KeyBuf) {
        let start = at(root, &self.0, false);
        let end = KeyBuf::from_vec(end_of(&start));
        (start, end)
    }
}

macro_rules! ranges {
    ($($kind:ty),*) => {$(
        impl<K: AsKey> KeyBounds for $kind {
            fn within(&self, root: &[u8]) -> (KeyBuf, KeyBuf) {
                between(root, self)
            }
        }
    )*};
}

ranges!(Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>));
