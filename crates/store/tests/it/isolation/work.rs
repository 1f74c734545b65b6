//! Random transactions of several threads, and what they say of themselves.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use duramen_base::entropy;
use duramen_store::event::Direction;
use duramen_store::{Branch, Durability, MergeOptions, Scope, Store, StoreError, Transaction, Value};

use super::checker::{Op, Txn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Snapshot,
    Serialisable,
}

const TRANSACTIONS: usize = 60;
/// Lists that are pairs, event logs, and documents; and registers that are pairs and cells.
const LISTS: [&str; 8] =
    ["list/0", "list/1", "list/2", "list/3", "log/a", "log/b", "document/0", "document/1"];
const REGISTERS: [&str; 4] = ["pair/0", "pair/1", "cell/0", "cell/1"];

struct Shared<'s> {
    store: &'s Store,
    level: Level,
    clock: AtomicU64,
    next: AtomicU64,
    history: Mutex<Vec<Txn>>,
}

impl Shared<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// What nobody has written yet.
    fn fresh(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn begin(&self, branch: &Branch) -> Result<Transaction, StoreError> {
        match self.level {
            Level::Snapshot => branch.begin(),
            Level::Serialisable => branch.begin_serialisable(),
        }
    }

    fn note(&self, begin: u64, committed: bool, ops: Vec<Op>) {
        let txn = Txn { begin, end: self.now(), committed, ops };
        self.history.lock().unwrap().push(txn);
    }
}

/// Runs four to eight threads, and at the end one that reads all.
pub(crate) fn run_threads(store: &Store, level: Level, seed: u64) -> Vec<Txn> {
    let history = Mutex::new(Vec::new());
    let shared = Shared { store, level, clock: AtomicU64::new(1), next: AtomicU64::new(1), history };
    let mut rng = entropy::rng(seed);
    std::thread::scope(|scope| {
        for thread in 0..rng.usize(4..=8) {
            let (shared, mut rng) = (&shared, rng.fork());
            scope.spawn(move || {
                let levels = [Durability::Memory, Durability::Buffered, Durability::Strict];
                for number in 0..TRANSACTIONS {
                    let level = levels[rng.usize(..3)];
                    let branch = shared.store.branch("main").unwrap().with_durability(level);
                    match rng.u32(..20) {
                        0..=2 => alone(shared, &branch, &mut rng),
                        3 => by_fork(shared, &branch, &format!("fork-{thread}-{number}"), &mut rng),
                        4 => given_up(shared, &branch, &mut rng),
                        5 if thread == 0 => shared.store.checkpoint().unwrap(),
                        _ => transaction(shared, &branch, &mut rng),
                    }
                }
            });
        }
    });
    let begin = shared.now();
    let main = store.branch("main").unwrap();
    let ops = LISTS.iter().map(|key| read_list(&main, key)).collect::<Result<Vec<_>, _>>().unwrap();
    let registers = REGISTERS.iter().map(|key| read_register(&main, key));
    let ops = ops.into_iter().chain(registers.map(Result::unwrap)).collect();
    shared.note(begin, true, ops);
    shared.history.into_inner().unwrap()
}

fn numbers(value: Option<Value>) -> Vec<u64> {
    match value {
        None => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(|item| item.as_i64().unwrap() as u64).collect(),
        Some(other) => panic!("{other:?} is no list"),
    }
}

fn read_list<S: Scope>(scope: &S, key: &str) -> Result<Op, StoreError> {
    let found = match key.split_once('/').unwrap() {
        ("list", _) => numbers(scope.kv().get(key)?),
        ("log", space) => {
            let events = scope.space(space)?;
            let page = events.events().range(.., Direction::Forwards, None, usize::MAX)?;
            let number =
                |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["n"].as_u64().unwrap();
            page.events.iter().map(|event| number(event.payload.as_str())).collect()
        }
        _ => match scope.json().get(key, "items")? {
            Some(items) => serde_json::from_str(items.as_str()).unwrap(),
            None => Vec::new(),
        },
    };
    Ok(Op::List { key: key.to_owned(), found })
}

fn read_register<S: Scope>(scope: &S, key: &str) -> Result<Op, StoreError> {
    let found = if key.starts_with("pair") {
        scope.kv().get_versioned(key)?
    } else {
        scope.state().read(key)?.map(|cell| (cell.value, cell.version))
    };
    let found = found.map(|(value, version)| (value.as_i64().unwrap() as u64, version));
    Ok(Op::Register { key: key.to_owned(), found })
}

/// Appends to a list; what it reads for that it says, too.
fn append<S: Scope>(shared: &Shared<'_>, scope: &S, key: &str, ops: &mut Vec<Op>) -> Result<(), StoreError> {
    let element = shared.fresh();
    match key.split_once('/').unwrap() {
        // A log is appended to unseen.
        ("log", space) => {
            scope.space(space)?.events().append("e", serde_json::json!({ "n": element }))?;
        }
        (kind, _) => {
            let read = read_list(scope, key)?;
            let Op::List { found, .. } = &read else { unreachable!() };
            let mut items: Vec<i64> = found.iter().map(|item| *item as i64).collect();
            items.push(element as i64);
            ops.push(read);
            if kind == "list" {
                scope.kv().put(key, Value::Array(items.into_iter().map(Value::Int).collect()))?;
            } else if items.len() == 1 {
                scope.json().set(key, "", serde_json::json!({ "items": items }))?;
            } else {
                // In place: behind the last of them.
                scope.json().set(
                    key,
                    format!("items[{}]", items.len() - 1).as_str(),
                    serde_json::json!(element),
                )?;
            }
        }
    }
    ops.push(Op::Append { key: key.to_owned(), element });
    Ok(())
}

fn write<S: Scope>(shared: &Shared<'_>, scope: &S, key: &str) -> Result<Op, StoreError> {
    let value = shared.fresh();
    if key.starts_with("pair") {
        scope.kv().put(key, value as i64)?;
    } else {
        scope.state().set(key, value as i64)?;
    }
    Ok(Op::Write { key: key.to_owned(), value })
}

/// All lists that are pairs, by one scan: those that are not there as well.
fn scan<S: Scope>(scope: &S, ops: &mut Vec<Op>) -> Result<(), StoreError> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    scope.kv().scan("list/".."list0", |key, value| {
        found.insert(String::from_utf8(key.to_vec()).unwrap(), numbers(Some(value.to_value().unwrap())));
        ControlFlow::Continue(())
    })?;
    for key in LISTS.iter().filter(|key| key.starts_with("list/")) {
        ops.push(Op::List { key: (*key).to_owned(), found: found.remove(*key).unwrap_or_default() });
    }
    Ok(())
}

fn some<S: Scope>(shared: &Shared<'_>, scope: &S, rng: &mut fastrand::Rng) -> Result<Vec<Op>, StoreError> {
    let mut ops = Vec::new();
    for _ in 0..rng.usize(1..6) {
        let (list, register) = (LISTS[rng.usize(..LISTS.len())], REGISTERS[rng.usize(..REGISTERS.len())]);
        match rng.u32(..12) {
            0..=3 => ops.push(read_list(scope, list)?),
            4..=6 => append(shared, scope, list, &mut ops)?,
            7..=8 => ops.push(read_register(scope, register)?),
            9..=10 => ops.push(write(shared, scope, register)?),
            _ => scan(scope, &mut ops)?,
        }
        if rng.bool() {
            std::thread::yield_now();
        }
    }
    Ok(ops)
}

fn transaction(shared: &Shared<'_>, branch: &Branch, rng: &mut fastrand::Rng) {
    let begin = shared.now();
    let tx = shared.begin(branch).unwrap();
    let mut ops = some(shared, &tx, rng).unwrap();
    if rng.u32(..6) == 0 {
        // Taken back: as if another had done it and given it up.
        let before = tx.savepoint();
        let back = some(shared, &tx, rng).unwrap();
        tx.rollback_to(before).unwrap();
        let writes = back.into_iter().filter(|op| matches!(op, Op::Append { .. } | Op::Write { .. }));
        shared.note(begin, false, writes.collect());
        ops.extend(read_list(&tx, LISTS[rng.usize(..LISTS.len())]));
    }
    match tx.commit() {
        Ok(_) => shared.note(begin, true, ops),
        Err(StoreError::TransactionConflict { .. }) => shared.note(begin, false, ops),
        Err(error) => panic!("{error}"),
    }
}

fn given_up(shared: &Shared<'_>, branch: &Branch, rng: &mut fastrand::Rng) {
    let begin = shared.now();
    let tx = shared.begin(branch).unwrap();
    let ops = some(shared, &tx, rng).unwrap();
    drop(tx);
    shared.note(begin, false, ops);
}

/// One operation without a transaction.
fn alone(shared: &Shared<'_>, branch: &Branch, rng: &mut fastrand::Rng) {
    let begin = shared.now();
    let mut ops = Vec::new();
    let (list, register) = (LISTS[rng.usize(..LISTS.len())], REGISTERS[rng.usize(..REGISTERS.len())]);
    match rng.u32(..5) {
        0 => ops.push(read_list(branch, list).unwrap()),
        1 => ops.push(read_register(branch, register).unwrap()),
        2 => ops.push(write(shared, branch, register).unwrap()),
        3 => append(shared, branch, "log/a", &mut ops).unwrap(),
        _ => {
            // A cell that is still as it was read.
            let Op::Register { key, found } = read_register(branch, "cell/0").unwrap() else {
                unreachable!()
            };
            let value = shared.fresh();
            let done = branch.state().cas(&key, found.map(|(_, version)| version), value as i64);
            let committed = match done {
                Ok(_) => true,
                Err(StoreError::VersionConflict { .. }) => false,
                Err(error) => panic!("{error}"),
            };
            ops = vec![Op::Register { key: key.clone(), found }, Op::Write { key, value }];
            return shared.note(begin, committed, ops);
        }
    }
    shared.note(begin, true, ops);
}

/// A fork on which something is done, and which is merged: it sees what was there when it was forked, and is refused where
/// somebody else changed what it changed, as a transaction is. At the serialisable level, it reads no more than it writes.
fn by_fork(shared: &Shared<'_>, branch: &Branch, name: &str, rng: &mut fastrand::Rng) {
    let begin = shared.now();
    let fork = branch.fork(name).unwrap();
    let mut ops = Vec::new();
    let mut wrote = false;
    for key in LISTS.iter().filter(|key| key.starts_with("list/")) {
        if rng.u32(..4) == 0 {
            append(shared, &fork, key, &mut ops).unwrap();
            wrote = true;
        } else if shared.level == Level::Snapshot && rng.bool() {
            ops.push(read_list(&fork, key).unwrap());
        }
    }
    let merged = shared.store.merge(name, "main", MergeOptions::default());
    let committed = match merged {
        Ok(_) => true,
        Err(StoreError::MergeConflict { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    assert!(wrote || committed, "who changed nothing is in nobody's way");
    shared.store.delete_branch(name).unwrap();
    shared.note(begin, committed, ops);
}
