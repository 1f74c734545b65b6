//! The prepared pool: what is hot, what is cold, who waits, and what has to go.
//!
//! Everything here is plain data under one lock that is held for a map lookup at a time; making and deleting
//! branches is the maintenance thread's work ([`crate::maintenance`]).

use super::Wanted;
use crate::{
    branch::{Branch, SocketDir},
    generation::Generation,
    model::{Policy, PoolSize},
    spare::{Packets, Parameters},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::oneshot;

/// One pool serves one policy of one source: the policy is fixed when a branch's server starts.
pub(crate) type PoolKey = (String, Policy);

/// A create that waits for a branch.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    /// The id of the holder's token; `None` on the daemon's own socket.
    pub(super) holder: Option<String>,
    pub(super) hand_over: oneshot::Sender<Arc<Branch>>,
}

/// One pool.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) hot: VecDeque<Arc<Branch>>,
    pub(super) waiters: VecDeque<Waiter>,
    /// When holders whose creates wait were served last, counted in branches. Empty when nobody waits.
    served: HashMap<Option<String>, u64>,
}

impl Pool {
    /// Takes the create that is next: of the holder that was served longest ago, the one that waits longest. So one who asks
    /// for a thousand branches does not keep one who asks for one waiting behind them all.
    fn next_waiter(&mut self) -> Option<Waiter> {
        let Pool { waiters, served, .. } = self;
        let when = |waiter: &Waiter| served.get(&waiter.holder).copied().unwrap_or(0);
        // The first of those that are equal is the one that waits longest.
        let next = (0..waiters.len()).min_by_key(|index| when(&waiters[*index]))?;
        let waiter = waiters.remove(next)?;
        if self.waiters.is_empty() {
            self.served.clear();
        } else {
            let now = self.served.values().max().copied().unwrap_or(0) + 1;
            self.served.insert(waiter.holder.clone(), now);
        }
        Some(waiter)
    }
}

/// A clone that is not started.
#[derive(Debug)]
pub(crate) struct ColdClone {
    pub(super) generation: Arc<Generation>,
    pub(crate) volume: String,
}

/// A branch that is not handed out any more, and waits for its deletion.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) branch: Arc<Branch>,
    pub(crate) socket: SocketDir,
}

impl Retired {
    /// A branch of which nothing stays.
    pub(crate) fn whole(branch: Arc<Branch>) -> Retired {
        Retired { branch, socket: SocketDir::Remove }
    }
}

/// All pools of a home directory.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) generations: BTreeMap<String, Arc<Generation>>,
    pub(super) sizes: BTreeMap<String, PoolSize>,
    pub(super) pools: HashMap<PoolKey, Pool>,
    pub(super) cold: HashMap<String, Vec<ColdClone>>,
    /// Branches whose server must be ended and whose volume deleted.
    pub(super) retired: VecDeque<Retired>,
    /// How many retired branches are being deleted right now.
    pub(super) reaping: usize,
    /// Clones that nobody will start.
    pub(super) retired_clones: VecDeque<ColdClone>,
    /// Volumes of snapshots that have ended.
    pub(super) retired_volumes: VecDeque<String>,
    /// Sources whose pool could not be filled, with the reason; cleared by success or a change of the source.
    pub(super) broken: HashMap<String, String>,
    /// The same of pools of one role each: what keeps it out keeps nobody else from the source.
    pub(super) broken_roles: HashMap<PoolKey, String>,
    /// How often writes were lost: a branch that was made before the last time has to go.
    pub(super) losses: u64,
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
    /// Takes a hot branch of the source's current generation. One whose server ended while it waited, or is held by a
    /// signal, is retired.
    pub(super) fn take(&mut self, source: &str, policy: Policy) -> Option<Arc<Branch>> {
        let pool = self.pools.get_mut(&(source.to_owned(), policy))?;
        while let Some(branch) = pool.hot.pop_front() {
            if branch.is_fit() != Some(false) {
                return Some(branch);
            }
            self.retired.push_back(Retired::whole(branch));
        }
        None
    }

    /// Retires every hot branch whose server has ended, or is held by a signal.
    pub(super) fn retire_unfit(&mut self) {
        for pool in self.pools.values_mut() {
            let (unfit, hot): (VecDeque<_>, _) =
                pool.hot.drain(..).partition(|branch| branch.is_fit() == Some(false));
            pool.hot = hot;
            self.retired.extend(unfit.into_iter().map(Retired::whole));
        }
    }

    /// Queues a create.
    pub(super) fn wait(
        &mut self,
        source: &str,
        wanted: &Wanted,
        ticket: u64,
    ) -> oneshot::Receiver<Arc<Branch>> {
        let (hand_over, receive) = oneshot::channel();
        let pool = self.pools.entry((source.to_owned(), wanted.policy)).or_default();
        let holder = wanted.holder.as_ref().map(|holder| holder.id.clone());
        pool.waiters.push_back(Waiter { ticket, holder, hand_over });
        receive
    }

    /// A create stops waiting.
    pub(super) fn leave(&mut self, source: &str, policy: Policy, ticket: u64) {
        if let Some(pool) = self.pools.get_mut(&(source.to_owned(), policy)) {
            pool.waiters.retain(|waiter| waiter.ticket != ticket);
        }
    }

    /// Whether a branch may be given out: of the current generation and settings, and made since writes were last lost.
    pub(super) fn is_current(&self, branch: &Branch) -> bool {
        let current = self.generations.get(&branch.generation.source);
        branch.losses == self.losses
            && current.is_some_and(|generation| Arc::ptr_eq(generation, &branch.generation))
    }

    /// Gives a hot branch to the create that is next, else to the pool. A branch of a generation or of
    /// settings that are no longer current is retired instead.
    pub(super) fn offer(&mut self, mut branch: Arc<Branch>) {
        if !self.is_current(&branch) {
            self.retired.push_back(Retired::whole(branch));
            return;
        }
        let key = (branch.generation.source.clone(), branch.policy);
        let target = self.target(&key.0, key.1);
        let pool = self.pools.entry(key).or_default();
        while let Some(waiter) = pool.next_waiter() {
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
            self.retired.push_back(Retired::whole(branch));
        }
    }

    /// Makes `generation` the one that new branches of its source are made of; what is ready of the earlier one
    /// has to go.
    pub(super) fn replace_generation(&mut self, generation: Arc<Generation>, size: PoolSize) {
        let source = generation.source.clone();
        self.sizes.insert(source.clone(), size);
        self.forget_failures_of(&source);
        self.generations.insert(source.clone(), generation);
        self.drain(&source);
    }

    /// Retires everything that is ready of a source.
    pub(super) fn drain(&mut self, source: &str) {
        for (key, pool) in &mut self.pools {
            if key.0 == source {
                self.retired.extend(pool.hot.drain(..).map(Retired::whole));
            }
        }
        self.retired_clones.extend(self.cold.remove(source).unwrap_or_default());
    }

    /// Lets every create that waits for a source fail now: their channels close.
    pub(super) fn fail_waiters(&mut self, source: &str) {
        for (key, pool) in &mut self.pools {
            if key.0 == source {
                pool.waiters.clear();
            }
        }
    }

    /// Forgets a source, and retires what is ready of it.
    pub(super) fn remove_source(&mut self, source: &str) {
        self.generations.remove(source);
        self.sizes.remove(source);
        self.forget_failures_of(source);
        self.fail_waiters(source);
        self.drain(source);
    }

    /// Has the pools of a source tried again.
    pub(super) fn forget_failures_of(&mut self, source: &str) {
        self.broken.remove(source);
        self.broken_roles.retain(|key, _| key.0 != source);
    }

    /// Why a pool cannot be filled.
    pub(super) fn why_broken(&self, source: &str, policy: Policy) -> Option<&String> {
        self.broken.get(source).or_else(|| self.broken_roles.get(&(source.to_owned(), policy)))
    }

    /// The policies of a source's pools. A role that a refresh did not find any more has none.
    pub(super) fn policies(&self, source: &str) -> BTreeSet<Policy> {
        let sized = self.sizes.get(source).into_iter().flat_map(|size| size.hot.keys());
        let asked_for = self.pools.keys().filter(|key| key.0 == source).map(|key| &key.1);
        let mut policies: BTreeSet<Policy> =
            Policy::ALL.iter().chain(sized).chain(asked_for).copied().collect();
        let generation = self.generations.get(source);
        policies.retain(|policy| generation.is_some_and(|generation| generation.admits(*policy).is_ok()));
        policies
    }

    /// The same for the creates that wait for one pool.
    pub(super) fn fail_waiters_of(&mut self, key: &PoolKey) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.waiters.clear();
        }
    }

    /// The generations of the branches that are ready.
    pub(super) fn ready(&self) -> impl Iterator<Item = &Generation> {
        self.pools.values().flat_map(|pool| &pool.hot).map(|branch| &*branch.generation)
    }

    /// How many branches of a pool should be hot.
    pub(super) fn target(&self, source: &str, policy: Policy) -> usize {
        self.sizes.get(source).and_then(|size| size.hot.get(&policy).copied()).unwrap_or(0) as usize
    }

    /// Takes branches that have no process ready for their first client, with what it will come with; of each pool half at
    /// most, or the only one.
    pub(super) fn take_without_spare(
        &mut self,
        packets: &Packets,
        most: usize,
    ) -> Vec<(Arc<Branch>, Parameters)> {
        packets.keep(|key| self.generations.contains_key(&key.0));
        let mut taken = Vec::new();
        for (key, pool) in &mut self.pools {
            let Some(parameters) = packets.of(key) else { continue };
            for _ in 0..pool.hot.len().div_ceil(2).min(most - taken.len()) {
                // The last one is the last to be given out.
                let index = pool.hot.iter().rposition(|branch| branch.spare.wants(&parameters));
                let Some(branch) = index.and_then(|index| pool.hot.remove(index)) else { break };
                taken.push((branch, parameters.clone()));
            }
        }
        taken
    }

    /// What is missing, pools with waiting creates first.
    pub(super) fn deficits(&self) -> Vec<Deficit> {
        let mut found = Vec::new();
        for source in self.generations.keys() {
            for policy in self.policies(source) {
                let key = (source.clone(), policy);
                let pool = self.pools.get(&key);
                let waiting = pool.map_or(0, |pool| pool.waiters.len());
                if waiting == 0 && self.why_broken(source, policy).is_some() {
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

    /// Pools that hold more than they should, down to their target: what is over is retired.
    pub(super) fn trim(&mut self) {
        for (key, pool) in &mut self.pools {
            let size = self.sizes.get(&key.0);
            let target = size.and_then(|size| size.hot.get(&key.1).copied()).unwrap_or(0) as usize;
            while pool.hot.len() > target {
                self.retired.extend(pool.hot.pop_back().map(Retired::whole));
            }
        }
        for (source, clones) in &mut self.cold {
            let target = self.sizes.get(source).map_or(0, |size| size.cold) as usize;
            self.retired_clones.extend(clones.drain(target.min(clones.len())..));
        }
    }

    /// Clones that are missing at the cold level, by source.
    pub(super) fn cold_deficit(&self) -> Vec<(Arc<Generation>, u32)> {
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
    pub(super) fn take_cold(&mut self, generation: &Arc<Generation>) -> Option<String> {
        let clones = self.cold.get_mut(&generation.source)?;
        let index = clones.iter().position(|clone| Arc::ptr_eq(&clone.generation, generation))?;
        Some(clones.swap_remove(index).volume)
    }

    /// Whether nothing is missing and nothing has to go.
    pub(super) fn settled(&self) -> bool {
        self.retired.is_empty()
            && self.reaping == 0
            && self.retired_clones.is_empty()
            && self.retired_volumes.is_empty()
            && self.deficits().is_empty()
            && self.cold_deficit().is_empty()
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
