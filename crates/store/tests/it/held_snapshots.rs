//! Snapshots that are held while all is written anew, in memory that has not room for them.

use duramen_base::entropy;
use duramen_store::{Options, Scope, Store, Value};

const KEYS: u64 = 6000;

fn options() -> Options {
    Options { memory_bytes: 8 << 20, checkpoint_log_bytes: 16 << 20, ..Options::default() }
}

fn value(round: u64, key: u64) -> Value {
    let mut bytes = vec![0; 900];
    bytes[..8].copy_from_slice(&round.to_le_bytes());
    bytes[8..16].copy_from_slice(&key.to_le_bytes());
    entropy::rng(round * KEYS + key).fill(&mut bytes[16..]);
    Value::Bytes(bytes)
}

/// What snapshots hold is ten times what may be in memory. Writes go on, each snapshot shows its moment, and all of it
/// goes with them.
#[test]
fn they_do_not_stop_writes_and_can_be_read_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    let mut snapshots = Vec::new();
    for round in 0..24 {
        main.kv().put_many((0..KEYS).map(|key| (format!("{key:05}"), value(round, key)))).unwrap();
        snapshots.push(main.snapshot().unwrap());
    }
    let most = 8 << 20;
    let resident = || store.counters().resident_bytes;
    for _ in 0..100 {
        if resident() <= most * 3 / 2 {
            break;
        }
        main.kv().put("turn", 1).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(resident() <= most * 3 / 2, "{} bytes in memory, of {most}", resident());
    let mut rng = entropy::rng(7);
    for (round, snapshot) in (0_u64..).zip(&snapshots) {
        for _ in 0..300 {
            let key = rng.u64(0..KEYS);
            let found = snapshot.kv().get(format!("{key:05}")).unwrap();
            assert_eq!(found, Some(value(round, key)), "round {round}, key {key}");
        }
        assert_eq!(snapshot.kv().count("").unwrap(), KEYS);
    }
    drop(snapshots);
    store.compact().unwrap();
    store.compact().unwrap();
    let bytes = store.info().node_bytes;
    assert!(bytes < KEYS * 1000 * 3 / 2, "{bytes} bytes of nodes for {KEYS} keys");
    // What a power cut leaves of snapshots goes at the next opening and checkpoint.
    let snapshot = main.snapshot().unwrap();
    for round in 30..40 {
        main.kv().put_many((0..KEYS).map(|key| (format!("{key:05}"), value(round, key)))).unwrap();
    }
    drop(snapshot);
    store.close().unwrap();
    drop((main, store));
    let store = Store::open(dir.path(), options()).unwrap();
    store.compact().unwrap();
    let main = store.branch("main").unwrap();
    for key in (0..KEYS).step_by(97) {
        assert_eq!(main.kv().get(format!("{key:05}")).unwrap(), Some(value(39, key)));
    }
    assert!(store.info().node_bytes < KEYS * 1000 * 3 / 2, "{:?}", store.info());
}

/// The version of a snapshot is that of its moment: what was written to its branch up to it is there, and nothing else.
#[test]
fn their_version_is_that_of_their_moment() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    let first = main.kv().put("a", 1).unwrap();
    let snapshot = main.snapshot().unwrap();
    assert_eq!(snapshot.version(), first);
    let side = store.fork("main", "side").unwrap();
    let second = side.kv().put("a", 2).unwrap();
    assert_eq!((snapshot.version(), side.snapshot().unwrap().version()), (first, second));
    store.reset_branch("side").unwrap();
    assert!(side.snapshot().unwrap().version() > second, "a reset is a version of its own");
    let before = main.snapshot().unwrap();
    main.bulk_load("default", (0..100).map(|key| (format!("{key:03}"), key))).unwrap();
    assert!(main.snapshot().unwrap().version() > before.version(), "and so is a load");
    assert_eq!(before.kv().count("").unwrap(), 1);

    // Beside a writer: each snapshot has exactly the writes up to its version.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3000 {
                main.transact(|tx| {
                    let last = tx.kv().get("n")?.map_or(0, |n| n.as_i64().unwrap());
                    tx.kv().put("n", last + 1)
                })
                .unwrap();
            }
        });
        scope.spawn(|| {
            for n in 0..3000 {
                side.kv().put("elsewhere", n).unwrap();
            }
        });
        let mut last = None;
        loop {
            let snapshot = main.snapshot().unwrap();
            let (version, n) =
                (snapshot.version(), snapshot.kv().get("n").unwrap().map_or(0, |n| n.as_i64().unwrap()));
            let entry = snapshot.kv().get_versioned("n").unwrap();
            assert!(entry.is_none_or(|(_, written)| written <= version));
            if let Some((before, then)) = last {
                assert!(version >= before && n >= then && (version > before || n == then), "{version} {n}");
            }
            last = Some((version, n));
            if n == 3000 {
                break;
            }
        }
    });
    let last = main.snapshot().unwrap().version();
    drop((snapshot, before, main, side));
    store.close().unwrap();
    drop(store);
    let store = Store::open(dir.path(), options()).unwrap();
    assert!(store.branch("main").unwrap().snapshot().unwrap().version() >= last);
}

/// A transaction's own snapshot has nothing copied that nobody else holds.
#[test]
fn a_transaction_copies_nothing_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { memory_bytes: 64 << 20, ..options() }).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put_many((0..KEYS).map(|key| (format!("{key:05}"), value(0, key)))).unwrap();
    store.compact().unwrap();
    let before = store.counters().node_copies;
    for round in 1..=10 {
        main.transact(|transaction| {
            let kv = transaction.kv();
            (0..20).try_for_each(|key| kv.put(format!("{:05}", key * 300), value(round, key)).map(drop))
        })
        .unwrap();
    }
    assert_eq!(store.counters().node_copies, before);
    let snapshot = main.snapshot().unwrap();
    main.transact(|transaction| transaction.kv().put("00300", 1).map(drop)).unwrap();
    assert!(store.counters().node_copies > before);
    assert_eq!(snapshot.kv().get("00300").unwrap(), Some(value(10, 1)));
}

/// Branches that are forks of much, each written a little, do not stop writes, though each holds inner nodes of its own.
#[test]
fn many_forks_do_not_stop_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { memory_bytes: 2 << 20, ..options() }).unwrap();
    let main = store.branch("main").unwrap();
    main.bulk_load("default", (0..KEYS * 4).map(|key| (format!("{key:05}"), value(0, key)))).unwrap();
    let mut rng = entropy::rng(5);
    for fork in 0..60 {
        let fork = main.fork(&format!("fork-{fork}")).unwrap();
        for round in 1..=100 {
            let key = rng.u64(0..KEYS * 4);
            fork.kv().put(format!("{key:05}"), value(round, key)).unwrap();
        }
    }
    assert_eq!(main.kv().get("00042").unwrap(), Some(value(0, 42)));
}
