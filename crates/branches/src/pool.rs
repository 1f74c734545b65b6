//! The prepared pool: what is hot, what is cold, who waits, and what has to go.
//!
//! Everything here is plain data under one lock that is held for a map lookup at a time; making and deleting
//! branches is the maintenance thread's work ([`crate::maintenance`]).

use crate::{
    branch::Branch,
    generation::Generation,
    model::{Policy, PoolSize},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::oneshot;

/// One pool serves one policy of one source: the policy is fixed when a branch's server starts.
pub(crate) type PoolKey = (String, Policy);

/// A create that waits for a branch.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) ticket: u64,
    pub(crate) hand_over: oneshot::Sender<Arc<Branch>>,
}

/// One pool.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) hot: VecDeque<Arc<Branch>>,
    pub(crate) waiters: VecDeque<Waiter>,
}

/// A clone that is not started.
#[derive(Debug)]
pub(crate) struct ColdClone {
    pub(crate) generation: Arc<Generation>,
    pub(crate) volume: String,
}

/// All pools of a home directory.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) generations: BTreeMap<String, Arc<Generation>>,
    pub(crate) sizes: BTreeMap<String, PoolSize>,
    pub(crate) pools: HashMap<PoolKey, Pool>,
    pub(crate) cold: HashMap<String, Vec<ColdClone>>,
    /// Branches whose server must be ended and whose volume deleted; `true`: their socket is still in use.
    pub(crate) doomed: VecDeque<(Arc<Branch>, bool)>,
    /// How many doomed branches are being deleted right now.
    pub(crate) reaping: usize,
    /// Clones that nobody will start.
    pub(crate) doomed_clones: VecDeque<ColdClone>,
    /// Sources whose pool could not be filled, with the reason; cleared by success or a change of the source.
    pub(crate) broken: HashMap<String, String>,
    /// How often writes were lost: a branch that was made before the last time has to go.
    pub(crate) losses: u64,
}

/// What a pool lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deficit {
    pub(crate) key: PoolKey,
    /// Hot branches to make, those that creates wait for included.
    pub(crate) hot: u32,
    /// How many creates wait.
    pub(crate) waiting: u32,
}

impl Pools {
    /// Takes a hot branch of the source's current generation.
    pub(crate) fn take(&mut self, source: &str, policy: Policy) -> Option<Arc<Branch>> {
        self.pools.get_mut(&(source.to_owned(), policy))?.hot.pop_front()
    }

    /// Queues a create.
    pub(crate) fn wait(
        &mut self,
        source: &str,
        policy: Policy,
        ticket: u64,
    ) -> oneshot::Receiver<Arc<Branch>> {
        let (hand_over, receive) = oneshot::channel();
        let pool = self.pools.entry((source.to_owned(), policy)).or_default();
        pool.waiters.push_back(Waiter { ticket, hand_over });
        receive
    }

    /// A create stops waiting.
    pub(crate) fn leave(&mut self, source: &str, policy: Policy, ticket: u64) {
        if let Some(pool) = self.pools.get_mut(&(source.to_owned(), policy)) {
            pool.waiters.retain(|waiter| waiter.ticket != ticket);
        }
    }

    /// Whether a branch may be given out: of the current generation and settings, and made since writes were last lost.
    pub(crate) fn is_current(&self, branch: &Branch) -> bool {
        let current = self.generations.get(&branch.generation.source);
        branch.losses == self.losses
            && current.is_some_and(|generation| Arc::ptr_eq(generation, &branch.generation))
    }

    /// Gives a hot branch to the create that waits longest, else to the pool. A branch of a generation or of
    /// settings that are no longer current is doomed instead.
    pub(crate) fn offer(&mut self, mut branch: Arc<Branch>) {
        if !self.is_current(&branch) {
            self.doomed.push_back((branch, false));
            return;
        }
        let key = (branch.generation.source.clone(), branch.policy);
        let target = self.target(&key.0, key.1);
        let pool = self.pools.entry(key).or_default();
        while let Some(waiter) = pool.waiters.pop_front() {
            match waiter.hand_over.send(branch) {
                Ok(()) => return,
                // The caller went away in this very moment.
                Err(returned) => branch = returned,
            }
        }
        if pool.hot.len() < target {
            pool.hot.push_back(branch);
        } else {
            // The pool was made smaller while this branch was made.
            self.doomed.push_back((branch, false));
        }
    }

    /// Makes `generation` the one that new branches of its source are made of; what is ready of the earlier one
    /// has to go.
    pub(crate) fn replace_generation(&mut self, generation: Arc<Generation>, size: PoolSize) {
        let source = generation.source.clone();
        self.sizes.insert(source.clone(), size);
        self.broken.remove(&source);
        self.generations.insert(source.clone(), generation);
        self.drain(&source);
    }

    /// Dooms everything that is ready of a source.
    pub(crate) fn drain(&mut self, source: &str) {
        for (key, pool) in &mut self.pools {
            if key.0 == source {
                self.doomed.extend(pool.hot.drain(..).map(|branch| (branch, false)));
            }
        }
        self.doomed_clones.extend(self.cold.remove(source).unwrap_or_default());
    }

    /// How many branches of a pool should be hot.
    pub(crate) fn target(&self, source: &str, policy: Policy) -> usize {
        self.sizes.get(source).and_then(|size| size.hot.get(&policy).copied()).unwrap_or(0) as usize
    }

    /// What is missing, pools with waiting creates first.
    pub(crate) fn deficits(&self) -> Vec<Deficit> {
        let mut found = Vec::new();
        for source in self.generations.keys() {
            for policy in Policy::ALL {
                let key = (source.clone(), policy);
                let pool = self.pools.get(&key);
                let waiting = pool.map_or(0, |pool| pool.waiters.len());
                if waiting == 0 && self.broken.contains_key(source) {
                    continue;
                }
                let target = self.target(source, policy);
                let hot = (target + waiting).saturating_sub(pool.map_or(0, |pool| pool.hot.len()));
                if hot > 0 {
                    found.push(Deficit { key, hot: to_u32(hot), waiting: to_u32(waiting) });
                }
            }
        }
        found.sort_by_key(|deficit| std::cmp::Reverse(deficit.waiting));
        found
    }

    /// Pools that hold more than they should, down to their target: what is over is doomed.
    pub(crate) fn trim(&mut self) {
        for (key, pool) in &mut self.pools {
            let size = self.sizes.get(&key.0);
            let target = size.and_then(|size| size.hot.get(&key.1).copied()).unwrap_or(0) as usize;
            while pool.hot.len() > target {
                self.doomed.extend(pool.hot.pop_back().map(|branch| (branch, false)));
            }
        }
        for (source, clones) in &mut self.cold {
            let target = self.sizes.get(source).map_or(0, |size| size.cold) as usize;
            self.doomed_clones.extend(clones.drain(target.min(clones.len())..));
        }
    }

    /// Clones that are missing at the cold level, by source.
    pub(crate) fn cold_deficit(&self) -> Vec<(Arc<Generation>, u32)> {
        self.generations
            .values()
            .filter(|generation| !self.broken.contains_key(&generation.source))
            .filter_map(|generation| {
                let have = self.cold.get(&generation.source).map_or(0, Vec::len);
                let missing = (self.sizes.get(&generation.source).map_or(0, |size| size.cold) as usize)
                    .saturating_sub(have);
                (missing > 0).then(|| (Arc::clone(generation), to_u32(missing)))
            })
            .collect()
    }

    /// Takes a cold clone of exactly this generation.
    pub(crate) fn take_cold(&mut self, generation: &Arc<Generation>) -> Option<String> {
        let clones = self.cold.get_mut(&generation.source)?;
        let index = clones.iter().position(|clone| Arc::ptr_eq(&clone.generation, generation))?;
        Some(clones.swap_remove(index).volume)
    }

    /// Whether nothing is missing and nothing has to go.
    pub(crate) fn settled(&self) -> bool {
        self.doomed.is_empty()
            && self.reaping == 0
            && self.doomed_clones.is_empty()
            && self.deficits().is_empty()
            && self.cold_deficit().is_empty()
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
