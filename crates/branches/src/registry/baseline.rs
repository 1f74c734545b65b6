//! A branch of the pool to compare another one with.

use super::Registry;
use crate::{branch::Branch, generation::Generation};
use std::sync::Arc;

/// A pool that would have fewer branches left gives none away.
const LEFT_MIN: usize = 1;

impl Registry {
    /// Takes a branch of the same snapshot that nobody waits for, out of the pool that has most. It is not given back.
    pub(crate) fn take_baseline(&self, generation: &Generation) -> Option<Arc<Branch>> {
        let mut state = self.state();
        let losses = state.pools.losses;
        let pools = state.pools.pools.values_mut().filter(|pool| pool.waiters.is_empty());
        let pool = pools
            .filter(|pool| pool.hot.len() > LEFT_MIN)
            .filter(|pool| {
                pool.hot.back().is_some_and(|branch| {
                    branch.generation.snapshot == generation.snapshot
                        && branch.losses == losses
                        && branch.is_fit() == Some(true)
                })
            })
            .max_by_key(|pool| pool.hot.len())?;
        pool.hot.pop_back()
    }
}
