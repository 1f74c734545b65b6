//! The one thread of a store: checkpoints, eviction, freeing memory, branches and pairs whose time is up.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use duramen_base::clock;
use duramen_tree::Tree;

use crate::branches::BranchOp;
use crate::engine::Engine;
use crate::error::StoreError;

/// How long the thread sleeps when nobody wakes it.
const NAP: Duration = Duration::from_millis(50);

/// How often it looks for branches and pairs whose time is up, in naps.
const EXPIRY_NAPS: u32 = 10;

/// Where memory is short, so much of the budget is made free. Without it, whoever writes meanwhile would have used up what was made
/// free before anybody looked, and each look would end in a checkpoint.
const SPARE_PART: usize = 8;

/// Leaves that one slice of eviction looks at, under the branch's lock.
const EVICT_LOOKS: usize = 256;

pub(crate) fn start(engine: &Arc<Engine>) -> Result<JoinHandle<()>, StoreError> {
    let weak = Arc::downgrade(engine);
    let builder = std::thread::Builder::new().name("store".into());
    builder.spawn(move || run(&weak)).map_err(StoreError::io("start a thread for", "the store"))
}

fn run(weak: &Weak<Engine>) {
    let mut naps = 0_u32;
    loop {
        let Some(engine) = weak.upgrade() else { return };
        let Some(asked) = engine.requests().wait(NAP) else { return };
        drop(asked.trash);
        let excess = engine.forest().excess() > 0;
        if asked.checkpoint {
            checkpoint_or_warn(&engine);
        }
        let mut in_vain = false;
        if excess || asked.room.is_some() {
            let freed = make_room(&engine, asked.room.unwrap_or_default());
            in_vain = freed == 0 && engine.forest().excess() > 0;
        }
        engine.requests().note_room(in_vain);
        naps = naps.wrapping_add(1);
        if naps.is_multiple_of(EXPIRY_NAPS) {
            expire(&engine);
            delete_gone(&engine);
            if engine.check_writable().is_ok() && !engine.is_far_behind() {
                engine.keep_histories();
            }
        }
    }
}

fn checkpoint_or_warn(engine: &Engine) {
    if engine.check_writable().is_ok() {
        if let Err(error) = engine.try_checkpoint() {
            log::error!("a checkpoint failed: {error}");
        }
    }
}

/// Forgets nodes until so much of the memory budget is free, or what is usual, after a checkpoint if what is there is not stored yet.
/// Returns how many bytes it let go of.
fn make_room(engine: &Engine, asked: usize) -> usize {
    let spare = asked.max(engine.forest().budget() / SPARE_PART);
    // What is usual is only there to be used up; of what is asked for, a little may be missing.
    let enough = asked.saturating_sub(engine.room());
    let mut freed = 0;
    for round in 0..3 {
        // The first pass clears the marks of what was read, the second takes what was not read since.
        freed += evict_pass(engine, spare);
        if engine.forest().excess_with(enough) == 0 {
            break;
        }
        if round == 1 {
            checkpoint_or_warn(engine);
        }
    }
    freed
}

fn evict_pass(engine: &Engine, spare: usize) -> usize {
    let mut freed = 0;
    let branches: Vec<_> = engine.registry().iter().cloned().collect();
    for tree in branches.iter().flat_map(|branch| branch.open_trees()) {
        freed += evict_tree(engine, &tree, spare);
    }
    // A node that only snapshots hold may be on its way to the store while somebody makes a checkpoint.
    if let Some(_guard) = engine.try_lock_checkpoints() {
        for tree in engine.held().all() {
            freed += evict_tree(engine, &tree, spare);
        }
    }
    freed
}

fn evict_tree(engine: &Engine, tree: &Tree, spare: usize) -> usize {
    let (mut from, mut freed) = (Vec::new(), 0);
    while engine.forest().excess_with(spare) > 0 {
        let (bytes, next) = tree.evict(engine.forest(), &from, EVICT_LOOKS);
        freed += bytes;
        match next {
            Some(next) if next > from => from = next,
            _ => break,
        }
    }
    freed
}

/// Deletes the pairs whose time has passed, and chunks of blobs that were deleted, or never put.
fn delete_gone(engine: &Engine) {
    // Whoever is far behind waits for this thread.
    if engine.check_writable().is_err() || engine.is_far_behind() {
        return;
    }
    let now = clock::steady_unix_ms();
    let branches: Vec<_> = {
        let registry = engine.registry();
        registry.iter().filter(|branch| branch.is_due(now)).cloned().collect()
    };
    for branch in branches {
        // One that was deleted meanwhile has none.
        let deleted = engine.delete_gone(&branch).and_then(|_| engine.delete_marked(&branch));
        if let Err(error) = deleted {
            log::debug!("what is over stays for now: branch {}, {error}", branch.name());
        }
    }
}

fn expire(engine: &Engine) {
    // Whoever is far behind waits for this thread.
    if engine.check_writable().is_err() || engine.is_far_behind() {
        return;
    }
    let now = clock::steady_unix_ms();
    let branches: Vec<_> = engine.registry().iter().cloned().collect();
    for branch in branches.into_iter().filter(|branch| branch.has_expired(now)) {
        if engine.is_far_behind() {
            return;
        }
        let deleted = engine.change_branches_by_clock(|registry| {
            // It may have been deleted, or given more time, since it was looked at.
            let state = registry.find(branch.id()).filter(|state| state.has_expired(now));
            Ok(state.map(|state| BranchOp::Delete { id: state.id() }))
        });
        match deleted {
            Ok(false) => {}
            Ok(true) => log::info!("a branch came to the end of its time: branch {}", branch.name()),
            Err(error) => log::warn!("an expired branch stays: branch {}, {error}", branch.name()),
        }
    }
}
