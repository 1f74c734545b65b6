//! Where a program finds its data: the kinds of it in a space of a branch, a transaction or a snapshot.

use crate::access::{Access, Space};
use crate::error::StoreError;
use crate::event::Events;
use crate::json::Documents;
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

    /// The key-value pairs of the default space.
    fn kv(&self) -> Kv<'_, Self> {
        default_space(self).kv()
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
}
