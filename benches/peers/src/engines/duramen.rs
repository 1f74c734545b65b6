//! Duramen's own store: a copy-on-write B+tree behind a commit log with group commit.

use std::ops::ControlFlow;
use std::path::Path;

use duramen_store::value::ValueRef;
use duramen_store::{Branch, Durability, Options, Scope, Store};

use crate::data::{Key, VALUE_BYTES};
use crate::engine::{Done, Engine, Failure, Kind, Level, Row, Snapshot, Tally};

pub(super) const KIND: Kind = Kind {
    name: super::OURS,
    configured: "memory, buffered, strict: the store's levels of those names; bulk: bulk_load",
    open,
    has: |_| true,
};

struct Duramen {
    store: Store,
    main: Branch,
}

struct View(duramen_store::Snapshot);

fn open(dir: &Path, level: Level) -> Done<Box<dyn Engine>> {
    let durability = match level {
        Level::Memory => Durability::Memory,
        Level::Buffered => Durability::Buffered,
        Level::Strict => Durability::Strict,
    };
    let options = Options { durability, memory_bytes: super::cache_bytes(), ..Options::default() };
    let store = Store::open(dir.join("store"), options).map_err(Failure::engine)?;
    let main = store.branch("main").map_err(Failure::engine)?;
    Ok(Box::new(Duramen { store, main }))
}

fn tally_row(tally: &mut Tally, key: &[u8], value: &ValueRef<'_>) -> bool {
    match value {
        ValueRef::Bytes(value) => tally.row(key, value),
        _ => return false,
    }
    true
}

impl Engine for Duramen {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        self.main.bulk_load("default", rows).map_err(Failure::engine)?;
        Ok(())
    }

    fn load_made(&self, rows: &mut dyn Iterator<Item = (Key, [u8; VALUE_BYTES])>) -> Done<()> {
        self.main
            .bulk_load("default", rows.map(|(key, value)| (key, value.to_vec())))
            .map_err(Failure::engine)?;
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        self.main.kv().put(key, value).map_err(Failure::engine)?;
        Ok(())
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        self.main.kv().get_bytes(key, into).map_err(Failure::engine)
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        let mut whole = true;
        let row = |key: &[u8], value: ValueRef<'_>| {
            whole &= tally_row(tally, key, &value);
            ControlFlow::Continue(())
        };
        self.main.kv().scan(.., row).map_err(Failure::engine)?;
        if whole {
            Ok(())
        } else {
            Err(Failure::Wrong("a value is not bytes".into()))
        }
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        let mut left = limit;
        if left == 0 {
            return Ok(());
        }
        let row = |key: &[u8], value: ValueRef<'_>| {
            tally_row(tally, key, &value);
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        self.main.kv().scan(start.., row).map_err(Failure::engine)
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        Ok(Box::new(View(self.main.snapshot().map_err(Failure::engine)?)))
    }

    fn close(self: Box<Self>) -> Done<()> {
        self.store.close().map_err(Failure::engine)
    }
}

impl Snapshot for View {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        self.0.kv().get_bytes(key, into).map_err(Failure::engine)
    }
}
