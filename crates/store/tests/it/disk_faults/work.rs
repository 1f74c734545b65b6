//! What the store does while its disk fails: steps, each of one commit or none, and what each must leave.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use duramen_base::entropy;
use duramen_store::event::Direction;
use duramen_store::filter::Filter;
use duramen_store::index::{Index, Query};
use duramen_store::vector::Metric;
use duramen_store::{
    Durability, Keep, MergeOptions, Moment, Options, Primitive, Scope, Snapshot, Store, StoreError, Strategy,
    Value,
};
use serde_json::json;

/// What is written under this key only asks whether anything can be written, and is no part of what a step leaves.
pub(crate) const PROBE: &str = "probe";

pub(crate) fn options() -> Options {
    Options {
        durability: Durability::Strict,
        checkpoint_log_bytes: 1 << 17,
        segment_bytes: 1 << 14,
        // So little that nodes are read again from the disk.
        memory_bytes: 1 << 15,
        sync_every: Duration::from_millis(5),
        ..Options::default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Keep,
    Index,
    Pairs(&'static str, u32),
    Work,
    Collection,
    Vectors,
    Fork,
    Merge,
    Reset,
    DeleteBranch,
    Tag(u32),
    Untag(u32),
    Revert(u32),
    Load,
    Trim,
    Sync,
    Checkpoint,
    Compact,
    Backup,
    Reopen,
    Reads,
}

/// All of them, in their order.
pub(crate) const STEPS: [Step; 39] = [
    Step::Pairs("main", 12),
    Step::Keep,
    Step::Work,
    Step::Index,
    Step::Work,
    Step::Checkpoint,
    Step::Tag(1),
    Step::Pairs("main", 9),
    Step::Fork,
    Step::Pairs("side", 7),
    Step::Collection,
    Step::Vectors,
    Step::Reads,
    Step::Backup,
    Step::Merge,
    Step::Checkpoint,
    Step::Load,
    Step::Work,
    Step::Tag(2),
    Step::Revert(1),
    Step::Reopen,
    Step::Reads,
    Step::Pairs("main", 14),
    Step::Reset,
    Step::Work,
    Step::Trim,
    Step::Pairs("side", 5),
    Step::Untag(2),
    Step::Sync,
    Step::Compact,
    Step::Backup,
    Step::DeleteBranch,
    Step::Pairs("main", 6),
    Step::Checkpoint,
    Step::Reads,
    Step::Collection,
    Step::Vectors,
    Step::Compact,
    Step::Reopen,
];

/// What a step needs that a store in memory has not.
fn is_of_files(step: Step) -> bool {
    matches!(step, Step::Checkpoint | Step::Compact | Step::Backup | Step::Reopen | Step::Sync | Step::Reads)
}

pub(crate) fn backup_of(store: &Path, number: usize) -> PathBuf {
    store.with_file_name(format!("backup-{number}"))
}

/// Does step `number`, which is its place in [`STEPS`]. [`Step::Reopen`] is for the caller.
pub(crate) fn take(store: &Store, number: usize, path: &Path) -> Result<(), StoreError> {
    let mut rng = entropy::rng(number as u64);
    match STEPS[number] {
        Step::Keep => store.keep_history("main", Some(Keep::each_commit().versions(6))),
        Step::Index => {
            let branch = store.branch("main")?;
            branch.indexes().create("by-n", &Index::new(Primitive::Json, ["n"])).map(drop)
        }
        Step::Pairs(branch, count) => {
            let pairs = (0..count).map(|_| {
                let len = if rng.u8(..) < 40 { rng.usize(3000..9000) } else { rng.usize(..300) };
                (format!("key {:03}", rng.u32(..60)), Value::Bytes(vec![rng.u8(..); len]))
            });
            store.branch(branch)?.kv().put_many(pairs).map(drop)
        }
        Step::Work => store.branch("main")?.transact(|tx| {
            let mut rng = rng.clone();
            for _ in 0..4 {
                tx.kv().delete(format!("key {:03}", rng.u32(..60)))?;
                let document = json!({ "n": rng.u32(..9), "text": "x".repeat(rng.usize(..900)) });
                tx.json().set(&format!("document {}", rng.u32(..20)), "", document)?;
            }
            tx.state().set("cell", number as i64)?;
            tx.events().append_batch((0..3).map(|n| ("made", json!({ "step": number, "n": n })))).map(drop)
        }),
        Step::Collection => store.branch("main")?.vectors().create("places", 4, Metric::Euclidean).map(drop),
        Step::Vectors => {
            let branch = store.branch("main")?;
            let rows: Vec<(String, Vec<f32>)> =
                (0..8).map(|n| (format!("row {n}"), (0..4).map(|_| rng.f32()).collect())).collect();
            let rows = rows.iter().map(|(key, vector)| (key, vector, None));
            branch.vectors().collection("places").upsert_many(rows).map(drop)
        }
        Step::Fork => store.fork("main", "side").map(drop),
        Step::Merge => {
            let options = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
            store.merge("side", "main", options).map(drop)
        }
        Step::Reset => store.reset_branch("side"),
        Step::DeleteBranch => store.delete_branch("side"),
        Step::Tag(tag) => store.tag("main", &format!("tag-{tag}")).map(drop),
        Step::Untag(tag) => store.delete_tag("main", &format!("tag-{tag}")),
        Step::Revert(tag) => store.branch("main")?.revert_to(&Moment::Tag(format!("tag-{tag}"))).map(drop),
        Step::Load => {
            let pairs = (0..40).map(|n| (format!("load {n:03}"), Value::Bytes(vec![7; 700])));
            store.branch("main")?.bulk_load("default", pairs).map(drop)
        }
        Step::Trim => {
            let branch = store.branch("main")?;
            branch.events().trim(branch.events().len()? - 2).map(drop)
        }
        Step::Sync => store.sync(),
        Step::Checkpoint => store.checkpoint(),
        Step::Compact => store.compact(),
        Step::Backup => {
            let to = backup_of(path, number);
            match Store::backup(path, &to, None, &mut |_, _| {}) {
                // Its last step may have failed behind the name.
                Err(StoreError::NotEmpty { .. }) if Store::is_in(&to)? => Ok(()),
                made => made.map(drop),
            }
        }
        Step::Reads => state(store).map(drop),
        Step::Reopen => Ok(()),
    }
}

/// What a store holds after so many steps, for each number of them.
pub(crate) fn expected() -> Vec<String> {
    let store = Store::memory();
    let mut states = vec![state(&store).unwrap()];
    for (number, step) in STEPS.into_iter().enumerate() {
        if !is_of_files(step) {
            take(&store, number, Path::new("nowhere")).unwrap_or_else(|error| panic!("{step:?}: {error}"));
        }
        states.push(state(&store).unwrap());
    }
    states
}

fn sum_of(value: &impl std::fmt::Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{value:?}").hash(&mut hasher);
    hasher.finish()
}

/// All that a program can see of a store, as text. What its indexes find is held against its rows.
pub(crate) fn state(store: &Store) -> Result<String, StoreError> {
    let mut text = String::new();
    let mut names: Vec<_> = store.branches(false)?.into_iter().map(|info| info.name).collect();
    names.sort_unstable();
    for name in names {
        let branch = store.branch(&name)?;
        writeln!(text, "branch {name}").unwrap();
        state_of(&branch.snapshot()?, &mut text)?;
        for state in branch.history()?.states {
            for tag in state.tags {
                writeln!(text, "tag {tag}").unwrap();
                state_of(&branch.at(&Moment::Tag(tag))?, &mut text)?;
            }
        }
    }
    Ok(text)
}

fn state_of(branch: &Snapshot, text: &mut String) -> Result<(), StoreError> {
    for (key, value) in branch.kv().range(.., usize::MAX)? {
        if key != PROBE {
            writeln!(text, "pair {key:?} {:x}", sum_of(&value)).unwrap();
        }
    }
    for key in branch.state().list("", None, usize::MAX)?.items {
        let cell = branch.state().read(&key)?;
        writeln!(text, "cell {key} {:?}", cell.map(|cell| cell.value)).unwrap();
    }
    let mut found = Vec::new();
    let wanted: Filter = "n > 4".parse().unwrap();
    for key in branch.json().list("", None, usize::MAX)?.items {
        let document = branch.json().get(&key, "")?.unwrap().to_value()?;
        writeln!(text, "document {key} {:x}", sum_of(&document)).unwrap();
        if wanted.matches(&document) {
            found.push(key);
        }
    }
    let mut indexed: Vec<_> =
        branch.json().find(&Query::new(wanted), usize::MAX)?.rows.into_iter().map(|(key, _)| key).collect();
    indexed.sort_unstable();
    assert_eq!(indexed, found, "what a query finds");
    let events = branch.events().range(.., Direction::Forwards, None, usize::MAX)?.events;
    assert_eq!(branch.events().verify()?.first_bad, None);
    for event in events {
        writeln!(text, "event {} {} {}", event.seq, event.event_type, event.payload.as_str()).unwrap();
    }
    for name in branch.vectors().list()? {
        let collection = branch.vectors().collection(&name);
        for key in collection.list("", None, usize::MAX)?.items {
            writeln!(text, "vector {name} {key} {:x}", sum_of(&collection.get(&key)?.unwrap().vector))
                .unwrap();
        }
    }
    Ok(())
}
