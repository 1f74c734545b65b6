//! What transactions see of each other: nothing that their level forbids, whatever runs beside them.
//!
//! Threads run random transactions over lists, logs, registers, and ranges of them, on a real store, with forks that are
//! merged back. What each read and wrote is given to a [checker](checker), which is itself held against histories that are
//! known to be wrong. `DURAMEN_SEED` chooses what is done; threads meet as they will.

mod checker;
mod work;

use std::collections::BTreeSet;

use duramen_base::entropy;
use duramen_store::limits::READS_MAX;
use duramen_store::{Branch, Options, Scope, Store, StoreError, Transaction};

use checker::{check, Anomaly, Op, Txn};
use work::{run_threads, Level};

/// A history in which each transaction begins before the one before it has ended.
fn at_once(all: &[(bool, Vec<Op>)]) -> Vec<Txn> {
    let end = 1000;
    let txn =
        |(committed, ops): &(bool, Vec<Op>)| Txn { begin: 1, end, committed: *committed, ops: ops.clone() };
    all.iter().map(txn).collect()
}

fn append(key: &str, element: u64) -> Op {
    Op::Append { key: key.to_owned(), element }
}

fn list(key: &str, found: &[u64]) -> Op {
    Op::List { key: key.to_owned(), found: found.to_vec() }
}

fn write(key: &str, value: u64) -> Op {
    Op::Write { key: key.to_owned(), value }
}

fn register(key: &str, found: Option<(u64, u64)>) -> Op {
    Op::Register { key: key.to_owned(), found }
}

fn finds(history: &[(bool, Vec<Op>)], anomaly: Anomaly) {
    let found = check(&at_once(history));
    assert!(found.contains_key(&anomaly), "{anomaly:?} is not found in {history:?}, but {found:?}");
}

#[test]
fn the_checker_finds_each_anomaly() {
    let (yes, no) = (true, false);
    finds(&[(yes, vec![list("x", &[7])])], Anomaly::Garbage);
    finds(&[(yes, vec![append("x", 1)]), (yes, vec![list("x", &[1, 1])])], Anomaly::Duplicate);
    finds(&[(yes, vec![append("x", 1), list("x", &[])])], Anomaly::Internal);
    let twice = [(yes, vec![append("x", 1)]), (yes, vec![list("x", &[]), list("x", &[1])])];
    finds(&twice, Anomaly::Internal);
    let forked = [
        (yes, vec![append("x", 1)]),
        (yes, vec![append("x", 2)]),
        (yes, vec![list("x", &[1, 2])]),
        (yes, vec![list("x", &[2])]),
    ];
    finds(&forked, Anomaly::Incompatible);
    let two_values = [
        (yes, vec![write("r", 1)]),
        (yes, vec![write("r", 2)]),
        (yes, vec![register("r", Some((1, 9)))]),
        (yes, vec![register("r", Some((2, 9)))]),
    ];
    finds(&two_values, Anomaly::Incompatible);
    finds(&[(no, vec![append("x", 1)]), (yes, vec![list("x", &[1])])], Anomaly::G1a);
    finds(&[(no, vec![write("r", 1)]), (yes, vec![register("r", Some((1, 4)))])], Anomaly::G1a);
    let between = [(yes, vec![append("x", 1), append("x", 2)]), (yes, vec![list("x", &[1])])];
    finds(&between, Anomaly::G1b);
    let between = [(yes, vec![write("r", 1), write("r", 2)]), (yes, vec![register("r", Some((1, 5)))])];
    finds(&between, Anomaly::G1b);
    let writes_cross = [
        (yes, vec![append("x", 1), append("y", 1)]),
        (yes, vec![append("x", 2), append("y", 2)]),
        (yes, vec![list("x", &[1, 2]), list("y", &[2, 1])]),
    ];
    finds(&writes_cross, Anomaly::G0);
    let reads_cross =
        [(yes, vec![append("x", 1), list("y", &[1])]), (yes, vec![append("y", 1), list("x", &[1])])];
    finds(&reads_cross, Anomaly::G1c);
    // Both read the list without the other's element, and both wrote it: an update would be lost.
    let lost = [
        (yes, vec![list("x", &[]), append("x", 1)]),
        (yes, vec![list("x", &[]), append("x", 2)]),
        (yes, vec![list("x", &[1, 2])]),
    ];
    finds(&lost, Anomaly::GSingle);
    let read_skew = [
        (yes, vec![append("x", 1), append("y", 1)]),
        (yes, vec![list("x", &[]), list("y", &[1])]),
        (yes, vec![list("x", &[1])]),
    ];
    finds(&read_skew, Anomaly::GSingle);
    let registers_skew = [
        (yes, vec![write("r", 1), write("s", 2)]),
        (yes, vec![register("r", None), register("s", Some((2, 5)))]),
        (yes, vec![register("r", Some((1, 4)))]),
    ];
    finds(&registers_skew, Anomaly::GSingle);
    // Two see two writes in another order each.
    let long_fork = [
        (yes, vec![append("x", 1)]),
        (yes, vec![append("y", 1)]),
        (yes, vec![list("x", &[1]), list("y", &[])]),
        (yes, vec![list("x", &[]), list("y", &[1])]),
    ];
    finds(&long_fork, Anomaly::GSingle);
    let write_skew = [
        (yes, vec![list("x", &[]), append("y", 1)]),
        (yes, vec![list("y", &[]), append("x", 1)]),
        (yes, vec![list("x", &[1]), list("y", &[1])]),
    ];
    finds(&write_skew, Anomaly::G2);
    assert_eq!(check(&at_once(&write_skew)).len(), 1, "and nothing that snapshot isolation forbids");
}

#[test]
fn the_checker_knows_what_came_before_in_time() {
    let at = |begin, end, ops: Vec<Op>| Txn { begin, end, committed: true, ops };
    let stale =
        [at(1, 2, vec![append("x", 1)]), at(3, 4, vec![list("x", &[])]), at(5, 6, vec![list("x", &[1])])];
    assert!(check(&stale).contains_key(&Anomaly::GSingle));
    let lost = [at(1, 2, vec![append("x", 1)]), at(3, 4, vec![list("x", &[])])];
    assert!(check(&lost).contains_key(&Anomaly::Lost));
    let back = [
        at(1, 2, vec![write("r", 1)]),
        at(3, 4, vec![write("r", 2)]),
        at(5, 6, vec![register("r", Some((2, 7)))]),
        at(7, 8, vec![register("r", Some((1, 6)))]),
    ];
    assert!(check(&back).contains_key(&Anomaly::GSingle));
    let right = [
        at(1, 4, vec![list("x", &[]), append("x", 1), list("x", &[1])]),
        at(2, 3, vec![list("x", &[])]),
        at(5, 6, vec![list("x", &[1]), write("r", 1), register("r", Some((1, 0)))]),
        at(7, 8, vec![register("r", Some((1, 3)))]),
    ];
    assert_eq!(check(&right), Default::default());
}

/// Counts who is there.
type Reader = fn(&Transaction) -> Result<u64, StoreError>;

fn skew(
    branch: &Branch,
    begin: impl Fn(&Branch) -> Result<Transaction, StoreError>,
    read: impl Fn(&Transaction) -> Result<u64, StoreError>,
) -> [Result<u64, StoreError>; 2] {
    let both = ["on/a", "on/b"].map(|key| (key, begin(branch).unwrap()));
    for (key, tx) in &both {
        assert_eq!(read(tx).unwrap(), 0);
        tx.kv().put(key, 1).unwrap();
    }
    both.map(|(_, tx)| tx.commit())
}

/// Each reads that nobody is there, and comes.
#[test]
fn write_skew_is_there_at_one_level_and_not_at_the_other() {
    let ways: [Reader; 5] = [
        |tx| Ok(u64::from(tx.kv().exists("on/a")?) + u64::from(tx.kv().exists("on/b")?)),
        |tx| tx.kv().count("on/"),
        |tx| Ok(tx.kv().range("on/".."on0", 10)?.len() as u64),
        |tx| Ok(tx.kv().list("on/", None, 10)?.items.len() as u64),
        |tx| Ok(tx.spaces()?.len() as u64),
    ];
    for read in ways {
        let main = Store::memory().branch("main").unwrap();
        assert!(skew(&main, Branch::begin, read).iter().all(Result::is_ok));
        let main = Store::memory().branch("main").unwrap();
        let [first, second] = skew(&main, Branch::begin_serialisable, read);
        first.unwrap();
        assert!(matches!(second, Err(StoreError::TransactionConflict { .. })), "{second:?}");
        assert_eq!(main.kv().count("on/").unwrap(), 1);
    }
}

/// What a scan did not come to, what nobody else changed, and what was only read, stands in nobody's way.
#[test]
fn a_serialisable_transaction_depends_on_no_more_than_it_read() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many((0..100).map(|n| (format!("key {n:02}"), n))).unwrap();
    let first_three = |tx: &Transaction| {
        let mut count = 0;
        tx.kv().scan(.., |_, _| {
            count += 1;
            if count < 3 {
                std::ops::ControlFlow::Continue(())
            } else {
                std::ops::ControlFlow::Break(())
            }
        })
    };
    for (other, conflicts) in [("key 50", false), ("key 03", false), ("key 02", true), ("key 005", true)] {
        let tx = main.begin_serialisable().unwrap();
        first_three(&tx).unwrap();
        tx.kv().put("mine", 1).unwrap();
        main.kv().put(other, 7).unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{other}");
    }
    // Who writes nothing was there at its beginning.
    let tx = main.begin_serialisable().unwrap();
    tx.kv().get("key 01").unwrap();
    main.kv().put("key 01", 8).unwrap();
    tx.commit().unwrap();
    // What comes back with another version is not what was read; a reset brings back cells as others.
    let fork = store.fork("main", "side").unwrap();
    fork.state().init("cell", 1).unwrap();
    let tx = fork.begin_serialisable().unwrap();
    assert_eq!(tx.state().list("", None, 10).unwrap().items.len(), 1);
    tx.kv().put("mine", 2).unwrap();
    store.reset_branch("side").unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::TransactionConflict { .. })));
}

#[test]
fn what_a_serialisable_transaction_reads_is_bounded() {
    let main = Store::memory().branch("main").unwrap();
    let tx = main.begin_serialisable().unwrap();
    for n in 0..READS_MAX {
        tx.kv().get(format!("{n}")).unwrap();
    }
    // What was read already costs nothing more.
    tx.kv().get("0").unwrap();
    assert!(matches!(tx.kv().get("one more"), Err(StoreError::TooManyReads { reads: READS_MAX, .. })));
    assert!(matches!(tx.kv().count("a"), Err(StoreError::TooManyReads { .. })));
    let tx = main.begin_serialisable().unwrap();
    let long = "x".repeat(8000);
    let refused = (0..).find(|n| tx.kv().get(format!("{n:04}{long}")).is_err());
    assert!((2000..2200).contains(&refused.unwrap()), "{refused:?}");
    let tx = main.begin().unwrap();
    for n in 0..=READS_MAX {
        tx.kv().get(format!("{n}")).unwrap();
    }
}

/// Runs rounds at a level, and returns all that was found.
fn rounds(level: Level, count: u64) -> BTreeSet<Anomaly> {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let (mut all, mut commits, mut aborts) = (BTreeSet::new(), 0, 0);
    for round in 0..count {
        let folder = tempfile::tempdir().unwrap();
        let store = if round % 2 == 0 {
            Store::memory()
        } else {
            let options =
                Options { memory_bytes: 1 << 16, checkpoint_log_bytes: 1 << 16, ..Options::default() };
            Store::open(folder.path(), options).unwrap()
        };
        let history = run_threads(&store, level, seed.wrapping_add(round));
        commits += history.iter().filter(|txn| txn.committed).count();
        aborts += history.iter().filter(|txn| !txn.committed).count();
        let found = check(&history);
        for (anomaly, example) in &found {
            let is_allowed = level == Level::Snapshot && !anomaly.is_below_snapshot();
            assert!(is_allowed, "{level:?}, round {round}: {anomaly:?}, {example}\n{found:?}");
        }
        all.extend(found.into_keys());
    }
    println!("{level:?}: {count} rounds, {commits} commits, {aborts} others, found {all:?}");
    assert!(commits > 100 * count as usize && aborts > 10 * count as usize);
    all
}

fn soak(rounds: u64) -> u64 {
    let more = std::env::var("DURAMEN_SOAK_ROUNDS").ok();
    more.map_or(rounds, |text| text.parse().expect("DURAMEN_SOAK_ROUNDS is a number"))
}

#[test]
fn transactions_are_isolated_as_snapshots() {
    let found = rounds(Level::Snapshot, soak(12));
    assert!(found.contains(&Anomaly::G2), "without write skew, the load would show nothing");
}

#[test]
fn serialisable_transactions_are_as_if_one_came_after_the_other() {
    assert_eq!(rounds(Level::Serialisable, soak(12)), BTreeSet::new());
}
