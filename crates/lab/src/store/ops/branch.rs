//! Branches: create, switch, fork, delete, diff, merge.

use std::collections::BTreeSet;

use duramen_store::{MergeOptions, Part, Scope, StoreError};

use crate::store::data::Key;
use crate::store::level::VALUE_BYTES;
use crate::store::slice::Slice;

/// Pairs that a fork has changed before it is compared or merged.
const CHANGED: usize = 1_000;

/// The most comparisons or merges in a slice.
const HEAVY_MOST: u64 = 200;

/// Branches that are there while one switches among them.
const SWITCHED: usize = 8;

pub(crate) fn create(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let store = slice.level.store().clone();
    slice.begin()?;
    while slice.more() {
        let name = slice.level.fresh_name();
        let made = slice.time_alone(|| store.create_branch(&name))?;
        let empty = made.kv().count("")? == 0;
        slice.expect(empty, || "a new branch is not empty".to_owned());
        store.delete_branch(&name)?;
    }
    Ok(())
}

pub(crate) fn switch(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let store = slice.level.store().clone();
    let names: Vec<String> = (0..SWITCHED).map(|number| format!("switched-{number}")).collect();
    if slice.level.lacks("switched") {
        for name in &names {
            slice.level.aside().fork(name)?;
        }
    }
    let mut wrong = 0_u64;
    let mut at = 0;
    slice.begin()?;
    while slice.more() {
        at = (at + 1) % SWITCHED;
        let branch = slice.time(|| store.branch(&names[at]))?;
        wrong += u64::from(branch.name() != names[at]);
    }
    slice.end();
    slice.expect(wrong == 0, || format!("{wrong} switches led to another branch"));
    Ok(())
}

pub(crate) fn fork(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (store, main, aside) = (slice.level.store().clone(), slice.level.main(), slice.level.aside());
    let key = Key::from_number(slice.level.sizes.rows / 2);
    let there = main.kv().get(key.as_str())?;
    let mut wrong = 0_u64;
    slice.begin()?;
    while slice.more() {
        // What is shared must not have been copied by an earlier fork: the branch is written in between.
        aside.state().set("forked", slice.sample.ops as i64)?;
        let name = slice.level.fresh_name();
        let forked = slice.time_alone(|| main.fork(&name))?;
        wrong += u64::from(forked.kv().get(key.as_str())? != there);
        store.delete_branch(&name)?;
    }
    slice.expect(wrong == 0, || format!("{wrong} forks lack what their parent has"));
    Ok(())
}

pub(crate) fn delete(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (store, aside) = (slice.level.store().clone(), slice.level.aside());
    let mut wrong = 0_u64;
    slice.begin()?;
    while slice.more() {
        let name = slice.level.fresh_name();
        // A fork with a page of its own, so that there is something to give back.
        let forked = aside.fork(&name)?;
        forked.kv().put("own", 1)?;
        slice.time_alone(|| store.delete_branch(&name))?;
        wrong += u64::from(store.branch(&name).is_ok());
    }
    slice.expect(wrong == 0, || format!("{wrong} branches are there after they were deleted"));
    Ok(())
}

/// A fork of the main branch with a thousand pairs put at random places, and how many of them are different keys.
fn changed_fork(slice: &mut Slice<'_>) -> Result<(String, u64), StoreError> {
    let (mut rng, pool, aside) = (slice.level.rng(), slice.level.pool.clone(), slice.level.aside());
    let rows = slice.level.sizes.rows;
    let name = slice.level.fresh_name();
    let fork = aside.fork(&name)?;
    let rows: BTreeSet<u64> = std::iter::repeat_with(|| rng.u64(0..rows)).take(CHANGED).collect();
    for row in &rows {
        let key = Key::from_number(*row);
        let there = fork.kv().get(key.as_str())?;
        // Of a million values now and then the one that is there would be drawn, which is no change.
        let value = loop {
            let value = pool.value(&mut rng, VALUE_BYTES);
            if there.as_ref().and_then(|there| there.as_bytes()) != Some(value) {
                break value;
            }
        };
        fork.kv().put(key.as_str(), value)?;
    }
    Ok((name, rows.len() as u64))
}

pub(crate) fn diff(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let store = slice.level.store().clone();
    let (name, changed) = changed_fork(slice)?;
    slice.most = slice.most.min(HEAVY_MOST);
    let mut wrong = 0_u64;
    slice.begin()?;
    while slice.more() {
        let diff = slice.time(|| store.diff("main", &name, &Part::default(), usize::MAX))?;
        wrong += u64::from(diff.modified != changed || diff.entries.len() as u64 != changed);
    }
    slice.end();
    slice.expect(wrong == 0, || format!("{wrong} diffs did not show {changed} changes"));
    store.delete_branch(&name)
}

pub(crate) fn merge(slice: &mut Slice<'_>) -> Result<(), StoreError> {
    let (store, main) = (slice.level.store().clone(), slice.level.main());
    slice.most = slice.most.min(HEAVY_MOST);
    let mut wrong = 0_u64;
    slice.begin()?;
    while slice.more() {
        let (name, changed) = changed_fork(slice)?;
        // What was changed is durable before: the merge waits for nothing but itself.
        store.sync()?;
        let report = slice.time_alone(|| store.merge(&name, "main", MergeOptions::default()))?;
        let differs = store.diff("main", &name, &Part::default(), 1)?.entries.len();
        wrong += u64::from(report.written != changed || differs != 0);
        store.delete_branch(&name)?;
    }
    let count = main.kv().count("k")?;
    let rows = slice.level.sizes.rows;
    slice.expect(wrong == 0 && count == rows, || format!("{wrong} merges did not write what was changed"));
    Ok(())
}
