//! The vector collections of a space.

use crate::scope::Space;

/// The vector collections of a space.
#[derive(Debug)]
pub struct Vectors<'s, S> {
    space: Space<'s, S>,
}

impl<'s, S> Vectors<'s, S> {
    pub(crate) fn new(space: Space<'s, S>) -> Self {
        Self { space }
    }
}
