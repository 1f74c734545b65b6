//! Where a program finds its data: the kinds of it in a space of a branch, a transaction or a snapshot.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use crate::access::{Access, Space};
use crate::blob::Blobs;
use crate::branch::Branch;
use crate::conflict::Conflicts;
use crate::error::StoreError;
use crate::event::Events;
use crate::index::Indexes;
use crate::json::Documents;
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::Kv;
use crate::names::{check_space, DEFAULT_SPACE};
use crate::state::Cells;
use crate::vector::Vectors;

/// Where primitives work: a [`Branch`](crate::Branch), whose every operation is a commit of its own, a
/// [`Transaction`](crate::Transaction), which commits all of them together, or a [`Snapshot`](crate::Snapshot), which
/// only reads.
pub trait Scope: Access {
    /// A space by its name. Spaces need not be made.
    ///
    /// # Errors
    /// When the name is not allowed: a-z, 0-9, `_` and `-`, beginning with a letter, at most 64 bytes.
    fn space<'s>(&'s self, name: &'s str) -> Result<Space<'s, Self>, StoreError> {
        check_space(name)?;
        Ok(Space::new(self, name))
    }

    /// The spaces that have anything in them, by name. It costs a look for each kind of data in each space.
    ///
    /// ```
    /// use duramen_store::{Primitive, Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.space("tenant-7")?.kv().put("colour", "green")?;
    /// let spaces = main.spaces()?;
    /// assert_eq!((spaces[0].name.as_str(), &spaces[0].kinds[..]), ("tenant-7", &[Primitive::Kv][..]));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When the branch was deleted, or cannot be read.
    fn spaces(&self) -> Result<Vec<SpaceInfo>, StoreError> {
        self.spaces_within(usize::MAX)
    }

    /// As [`spaces`](Self::spaces), of each kind of data the first `limit` spaces.
    ///
    /// # Errors
    /// As [`spaces`](Self::spaces).
    fn spaces_within(&self, limit: usize) -> Result<Vec<SpaceInfo>, StoreError> {
        let mut found: BTreeMap<String, Vec<Primitive>> = BTreeMap::new();
        self.read(|view| {
            for primitive in Primitive::ALL {
                let (mut start, end) = (vec![primitive as u8], [primitive as u8 + 1]);
                let mut left = limit;
                while left > 0 {
                    let mut next = None;
                    view.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
                        next = keys::split(key).map(|(_, space, _)| space.to_owned());
                        ControlFlow::Break(())
                    })?;
                    let Some(space) = next else { break };
                    start = past(&keys::prefix(primitive, &space));
                    found.entry(space).or_default().push(primitive);
                    left -= 1;
                }
            }
            Ok(())
        })?;
        Ok(found.into_iter().map(|(name, kinds)| SpaceInfo { name, kinds }).collect())
    }

    /// The key-value pairs of the default space.
    fn kv(&self) -> Kv<'_, Self> {
        default_space(self).kv()
    }

    /// The blobs of the default space.
    fn blobs(&self) -> Blobs<'_, Self> {
        default_space(self).blobs()
    }

    /// The state cells of the default space.
    fn state(&self) -> Cells<'_, Self> {
        default_space(self).state()
    }

    /// The event log of the default space.
    fn events(&self) -> Events<'_, Self> {
        default_space(self).events()
    }

    /// The JSON documents of the default space.
    fn json(&self) -> Documents<'_, Self> {
        default_space(self).json()
    }

    /// The vector collections of the default space.
    fn vectors(&self) -> Vectors<'_, Self> {
        default_space(self).vectors()
    }

    /// The indexes of the default space.
    fn indexes(&self) -> Indexes<'_, Self> {
        default_space(self).indexes()
    }

    /// The conflicts that merges have kept, in all spaces.
    fn conflicts(&self) -> Conflicts<'_, Self> {
        Conflicts::new(self)
    }
}

impl Branch {
    /// Deletes everything in a space in one commit, and so the space. Returns how many entries that were: events count twice, because
    /// they are indexed by type, and collections have one of their own. Its cost is that of deleting each.
    ///
    /// # Errors
    /// When the name is not allowed, there are more entries than one commit may have, or nothing can be written: then
    /// nothing is deleted.
    pub fn drop_space(&self, name: &str) -> Result<u64, StoreError> {
        check_space(name)?;
        // A commit of its own: a transaction may also append to a log, which nobody does who shortens it.
        let (deleted, _) = self.write(|edit| {
            let mut keys = Vec::new();
            for primitive in Primitive::ALL {
                let start = keys::prefix(primitive, name);
                let end = past(&start);
                edit.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
                    keys.push(KeyBuf::from_slice(key));
                    ControlFlow::Continue(())
                })?;
            }
            let deleted = keys.len() as u64;
            // The conflicts of its rows go with it.
            for primitive in Primitive::ALL {
                let start = keys::conflict(&keys::prefix(primitive, name));
                let end = past(&start);
                edit.scan(&KeyRange::new(&start, Some(&end)), &mut |key, _, _| {
                    keys.push(KeyBuf::from_slice(key));
                    ControlFlow::Continue(())
                })?;
            }
            keys.iter().try_for_each(|key| edit.delete(key))?;
            Ok(deleted)
        })?;
        Ok(deleted)
    }
}

/// A space, and the kinds of data in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SpaceInfo {
    /// Its name.
    pub name: String,
    /// What it has.
    pub kinds: Vec<Primitive>,
}

/// Behind all keys that begin with the prefix of a space, which ends with a NUL.
fn past(prefix: &[u8]) -> Vec<u8> {
    let mut past = prefix.to_vec();
    past.pop();
    past.push(1);
    past
}

impl<S: Access> Scope for S {}

fn default_space<S: Access>(scope: &S) -> Space<'_, S> {
    Space::new(scope, DEFAULT_SPACE)
}

impl<'s, S: Access> Space<'s, S> {
    /// Its key-value pairs.
    pub fn kv(&self) -> Kv<'s, S> {
        Kv::new(*self)
    }

    /// Its blobs.
    pub fn blobs(&self) -> Blobs<'s, S> {
        Blobs::new(*self)
    }

    /// Its state cells.
    pub fn state(&self) -> Cells<'s, S> {
        Cells::new(*self)
    }

    /// Its event log.
    pub fn events(&self) -> Events<'s, S> {
        Events::new(*self)
    }

    /// Its JSON documents.
    pub fn json(&self) -> Documents<'s, S> {
        Documents::new(*self)
    }

    /// Its vector collections.
    pub fn vectors(&self) -> Vectors<'s, S> {
        Vectors::new(*self)
    }

    /// Its indexes, on pairs and documents.
    pub fn indexes(&self) -> Indexes<'s, S> {
        Indexes::new(*self)
    }
}
