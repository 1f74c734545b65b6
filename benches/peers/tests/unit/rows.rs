use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, RwLock};
use std::time::Duration;

use super::ALL;
use crate::bench::Bench;
use crate::data::{Data, Key};
use crate::engine::{Done, Engine, Kind, Level, Row, Snapshot, Tally};

const ROWS: usize = 1_000;
const SEED: u64 = 20_200_117;

/// What is wrong with an engine.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Every 97th put is not stored.
    LosesPuts,
    /// The last put is gone after the store was opened anew.
    ForgetsLastPut,
    /// A read gives the value of another row.
    WrongValue,
    /// The last row of a load is missing.
    ShortLoad,
    /// The last byte of every scanned value is cut.
    CutsScans,
    /// Two rows of a scan are exchanged.
    ExchangesRows,
    /// A snapshot sees later puts.
    LiveSnapshot,
}

type Rows = BTreeMap<Key, Vec<u8>>;

/// Stores by folder, so that they outlive their handles.
static STORES: LazyLock<Mutex<HashMap<PathBuf, Arc<Store>>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Store {
    rows: RwLock<Rows>,
    puts: Mutex<Vec<Key>>,
}

/// An engine in memory with a fault.
struct Fake {
    store: Arc<Store>,
    fault: Fault,
}

enum View<'a> {
    Copy(Rows),
    Live(&'a Fake),
}

impl Fake {
    fn open(dir: &Path, fault: Fault) -> Done<Box<dyn Engine>> {
        let mut stores = STORES.lock().unwrap();
        if std::fs::read_dir(dir).unwrap().next().is_none() {
            std::fs::write(dir.join("made"), "").unwrap();
            stores.insert(dir.to_owned(), Arc::default());
        }
        let store = stores[dir].clone();
        if fault == Fault::ForgetsLastPut {
            if let Some(key) = store.puts.lock().unwrap().pop() {
                store.rows.write().unwrap().remove(&key);
            }
        }
        Ok(Box::new(Fake { store, fault }))
    }

    fn kind(fault: Fault) -> Kind {
        let open: fn(&Path, Level) -> Done<Box<dyn Engine>> = match fault {
            Fault::None => |dir, _| Fake::open(dir, Fault::None),
            Fault::LosesPuts => |dir, _| Fake::open(dir, Fault::LosesPuts),
            Fault::ForgetsLastPut => |dir, _| Fake::open(dir, Fault::ForgetsLastPut),
            Fault::WrongValue => |dir, _| Fake::open(dir, Fault::WrongValue),
            Fault::ShortLoad => |dir, _| Fake::open(dir, Fault::ShortLoad),
            Fault::CutsScans => |dir, _| Fake::open(dir, Fault::CutsScans),
            Fault::ExchangesRows => |dir, _| Fake::open(dir, Fault::ExchangesRows),
            Fault::LiveSnapshot => |dir, _| Fake::open(dir, Fault::LiveSnapshot),
        };
        Kind { name: "fake", configured: "", open, has: |_| true }
    }
}

impl Engine for Fake {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        let mut stored = self.store.rows.write().unwrap();
        stored.extend(rows.map(|(key, value)| (*key, value.to_vec())));
        if self.fault == Fault::ShortLoad {
            stored.pop_last();
        }
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        let mut puts = self.store.puts.lock().unwrap();
        puts.push(*key);
        if self.fault != Fault::LosesPuts || !puts.len().is_multiple_of(97) {
            self.store.rows.write().unwrap().insert(*key, value.to_vec());
        }
        Ok(())
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        let rows = self.store.rows.read().unwrap();
        let found = match self.fault {
            Fault::WrongValue => rows.range(*key..).nth(1).map(|(_, value)| value),
            _ => rows.get(key),
        };
        into.clear();
        into.extend(found.into_iter().flatten());
        Ok(found.is_some())
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        self.range(&[0; 16], usize::MAX, tally)
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        let rows = self.store.rows.read().unwrap();
        let mut found: Vec<(&Key, &[u8])> =
            rows.range(*start..).take(limit).map(|(key, value)| (key, value.as_slice())).collect();
        match self.fault {
            Fault::ExchangesRows if found.len() > 1 => found.swap(0, 1),
            Fault::CutsScans => found.iter_mut().for_each(|(_, value)| *value = &value[1..]),
            _ => {}
        }
        found.into_iter().for_each(|(key, value)| tally.row(key, value));
        Ok(())
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        Ok(Box::new(match self.fault {
            Fault::LiveSnapshot => View::Live(self),
            _ => View::Copy(self.store.rows.read().unwrap().clone()),
        }))
    }

    fn close(self: Box<Self>) -> Done<()> {
        Ok(())
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        match self {
            Self::Live(fake) => fake.get(key, into),
            Self::Copy(rows) => {
                into.clear();
                into.extend(rows.get(key).into_iter().flatten());
                Ok(rows.contains_key(key))
            }
        }
    }
}

/// The names of the rows that notice the fault.
fn failed_rows(fault: Fault) -> Vec<&'static str> {
    let folder = tempfile::tempdir().unwrap();
    let cap = Duration::from_millis(20);
    let bench = Bench::new(Data::new(SEED, ROWS), folder.path().to_owned(), cap, false, SEED);
    ALL.iter().filter(|row| row.run(&bench, Fake::kind(fault), 0).is_err()).map(|row| row.name).collect()
}

#[test]
fn a_sound_engine_passes_every_row() {
    assert_eq!(failed_rows(Fault::None), [""; 0], "seed {SEED}");
}

#[test]
fn puts_that_are_lost_are_noticed() {
    let rows = failed_rows(Fault::LosesPuts);
    for row in ["put_memory", "put_buffered", "put_buffered_snapshots"] {
        assert!(rows.contains(&row), "{row} in {rows:?}, seed {SEED}");
    }
}

#[test]
fn puts_that_a_new_open_forgets_are_noticed() {
    let rows = failed_rows(Fault::ForgetsLastPut);
    for row in ["put_buffered", "put_buffered_snapshots", "put_strict_1", "put_strict_8", "put_strict_32"] {
        assert!(rows.contains(&row), "{row} in {rows:?}, seed {SEED}");
    }
}

#[test]
fn a_wrong_value_is_noticed_by_every_row_that_reads_single_rows() {
    let rows = failed_rows(Fault::WrongValue);
    for row in ["open", "get", "put_strict_1", "put_strict_8", "put_strict_32"] {
        assert!(rows.contains(&row), "{row} in {rows:?}, seed {SEED}");
    }
}

#[test]
fn a_load_or_a_scan_that_is_not_whole_is_noticed() {
    for fault in [Fault::ShortLoad, Fault::CutsScans, Fault::ExchangesRows] {
        let rows = failed_rows(fault);
        for row in ["bulk_load", "scan", "range100"] {
            assert!(rows.contains(&row), "{row} in {rows:?}, seed {SEED}");
        }
    }
}

#[test]
fn a_snapshot_that_changes_is_noticed() {
    assert_eq!(failed_rows(Fault::LiveSnapshot), ["put_buffered_snapshots"], "seed {SEED}");
}

#[test]
fn names_of_rows_and_metrics_are_unique() {
    let mut names: Vec<&str> = ALL.iter().map(|row| row.name).collect();
    let mut metrics: Vec<&str> = ALL.iter().flat_map(|row| row.metrics).map(|metric| metric.name).collect();
    for names in [&mut names, &mut metrics] {
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
