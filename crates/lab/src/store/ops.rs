//! The operations of the suite, one file a primitive.

pub(crate) mod branch;
pub(crate) mod event;
pub(crate) mod json;
pub(crate) mod kv;
pub(crate) mod kv_special;
pub(crate) mod state;
pub(crate) mod transaction;
pub(crate) mod vector;

use duramen_store::{Durability, StoreError};

use super::slice::Slice;

/// What an operation does to the store, which decides what its cost may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads, or changes a handle only: it may neither append to the log nor sync it.
    Read,
    /// It is one commit: at the level strict, one sync.
    Write,
    /// It is more than one commit, or none: loading, opening, checkpoints, several threads.
    Other,
}

/// Operations whose costs should be of the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// Reads of one thing by its key.
    Reads,
    /// Writes of one thing by its key.
    Writes,
    /// Listings and ranges of about a hundred things.
    Listings,
    /// What happens to branches themselves.
    Branches,
    /// It has none.
    None,
}

/// What the figure of an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Its latency, in microseconds.
    Latency,
    /// The 99.9th percentile of the latencies, in microseconds.
    P999,
    /// A value of its own, in this unit.
    Value(&'static str),
}

/// An operation that is measured.
pub(crate) struct Operation {
    /// Its name, to which the level is added after a slash.
    pub name: &'static str,
    /// What it does to the store.
    pub kind: Kind,
    /// What it is compared with.
    pub siblings: Siblings,
    /// What its figure is.
    pub figure: Figure,
    /// At which level only; `None`: at every one.
    pub level: Option<Durability>,
    /// How many threads do it at once, if that is what is measured.
    pub threads: Option<u32>,
    pub(crate) run: fn(&mut Slice<'_>) -> Result<(), StoreError>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

type Run = fn(&mut Slice<'_>) -> Result<(), StoreError>;

const fn read(name: &'static str, siblings: Siblings, run: Run) -> Operation {
    Operation { name, kind: Kind::Read, siblings, figure: Figure::Latency, level: None, threads: None, run }
}

const fn write(name: &'static str, siblings: Siblings, run: Run) -> Operation {
    Operation { name, kind: Kind::Write, siblings, figure: Figure::Latency, level: None, threads: None, run }
}

const fn value(name: &'static str, kind: Kind, unit: &'static str, run: Run) -> Operation {
    Operation {
        name,
        kind,
        siblings: Siblings::None,
        figure: Figure::Value(unit),
        level: None,
        threads: None,
        run,
    }
}

/// Several threads that read. At one level: reads are the same at all of them.
const fn readers(name: &'static str, count: u32, run: Run) -> Operation {
    Operation { kind: Kind::Read, level: Some(Durability::Memory), ..threads(name, count, run) }
}

/// Several threads. How many stands after `@` in the name, and after the level in the measurement's name.
const fn threads(name: &'static str, threads: u32, run: Run) -> Operation {
    Operation {
        name,
        kind: Kind::Other,
        siblings: Siblings::None,
        figure: Figure::Latency,
        level: Some(Durability::Strict),
        threads: Some(threads),
        run,
    }
}

/// All operations, in the order in which they are run and shown.
pub(crate) static OPERATIONS: &[Operation] = &[
    write("kv.put.100B", Siblings::Writes, |slice| kv::put(slice, kv::Size::B100)),
    write("kv.put.128B", Siblings::Writes, |slice| kv::put(slice, kv::Size::B128)),
    write("kv.put.1KB", Siblings::Writes, |slice| kv::put(slice, kv::Size::KB1)),
    write("kv.put.8KB", Siblings::None, |slice| kv::put(slice, kv::Size::KB8)),
    read("kv.get.100B", Siblings::Reads, |slice| kv::get(slice, kv::Size::B100)),
    read("kv.get.128B", Siblings::Reads, |slice| kv::get(slice, kv::Size::B128)),
    read("kv.get.1KB", Siblings::Reads, |slice| kv::get(slice, kv::Size::KB1)),
    read("kv.get.8KB", Siblings::Reads, |slice| kv::get(slice, kv::Size::KB8)),
    read("kv.exists", Siblings::Reads, kv::exists),
    write("kv.put_many.100", Siblings::None, kv::put_many),
    read("kv.get_many.100", Siblings::None, kv::get_many),
    write("kv.delete", Siblings::Writes, kv::delete),
    read("kv.list_prefix", Siblings::Listings, kv::list_prefix),
    read("kv.range100", Siblings::Listings, kv::range100),
    value("kv.scan", Kind::Read, "rows/s", kv::scan),
    write("kv.put.100B+snapshots", Siblings::Writes, kv_special::put_with_snapshots),
    threads("kv.put.100B@1", 1, |slice| kv_special::put_by_threads(slice, 1)),
    threads("kv.put.100B@8", 8, |slice| kv_special::put_by_threads(slice, 8)),
    threads("kv.put.100B@32", 32, |slice| kv_special::put_by_threads(slice, 32)),
    readers("kv.get.100B@1", 1, |slice| kv_special::get_by_threads(slice, 1)),
    readers("kv.get.100B@2", 2, |slice| kv_special::get_by_threads(slice, 2)),
    readers("kv.get.100B@8", 8, |slice| kv_special::get_by_threads(slice, 8)),
    Operation {
        figure: Figure::P999,
        ..value("kv.put.p999_during_checkpoint", Kind::Other, "us", kv_special::put_during_checkpoint)
    },
    value("kv.bulk_load", Kind::Other, "s", kv_special::bulk_load),
    read("kv.get@depth1", Siblings::None, |slice| kv_special::get_at_depth(slice, 1)),
    read("kv.get@depth32", Siblings::None, |slice| kv_special::get_at_depth(slice, 32)),
    write("state.set", Siblings::Writes, state::set),
    write("state.init", Siblings::Writes, state::init),
    read("state.read", Siblings::Reads, state::read),
    write("state.cas", Siblings::Writes, state::cas),
    write("event.append", Siblings::Writes, event::append),
    write("event.append@1000", Siblings::None, |slice| event::append_after(slice, "log1k", 1_000)),
    write("event.append@10000", Siblings::None, |slice| event::append_after(slice, "log10k", 10_000)),
    write("event.append@100000", Siblings::None, |slice| event::append_after(slice, "log100k", 100_000)),
    read("event.read", Siblings::Reads, event::read),
    read("event.range100", Siblings::Listings, event::range),
    read("event.by_type", Siblings::None, event::by_type),
    write("json.set_root", Siblings::Writes, json::set_root),
    write("json.set_path", Siblings::Writes, json::set_path),
    write("json.delete_path", Siblings::Writes, json::delete_path),
    read("json.get", Siblings::Reads, |slice| json::get(slice, false)),
    read("json.get_root", Siblings::Reads, |slice| json::get(slice, true)),
    read("json.list", Siblings::Listings, json::list),
    write("transaction.10.snapshot", Siblings::None, |slice| {
        transaction::commit(slice, transaction::Isolation::Snapshot)
    }),
    write("transaction.10.serialisable", Siblings::None, |slice| {
        transaction::commit(slice, transaction::Isolation::Serialisable)
    }),
    write("vector.upsert", Siblings::Writes, vector::upsert),
    read("vector.get", Siblings::Reads, vector::get),
    read("vector.search.10k128", Siblings::None, |slice| vector::search(slice, vector::Searched::Small)),
    read("vector.search.100k128", Siblings::None, |slice| {
        vector::search(slice, vector::Searched::LargeInFork)
    }),
    write("branch.create", Siblings::Branches, branch::create),
    read("branch.switch", Siblings::Reads, branch::switch),
    write("branch.fork", Siblings::Branches, branch::fork),
    write("branch.delete", Siblings::Branches, branch::delete),
    read("branch.diff.1000of1M", Siblings::None, branch::diff),
    write("branch.merge.1000of1M", Siblings::None, branch::merge),
    // Last: what is in memory is gone then.
    value("open", Kind::Other, "ms", kv_special::open),
];

/// The operation of a measurement's name without its level; `event.append@1000` is found by its beginning.
#[must_use]
pub(crate) fn operation(name: &str) -> Option<&'static Operation> {
    let of = |name: &str| OPERATIONS.iter().find(|op| op.name == name);
    of(name).or_else(|| of(name.split_once('@')?.0))
}
