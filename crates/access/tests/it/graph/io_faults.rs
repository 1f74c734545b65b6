//! G-7: a disk that fails takes nothing that was acknowledged, and adds nothing that was not.

use std::path::Path;
use std::process::Command;

use duramen_access::graph::{Grant, GrantScope, GraphError, GraphPack, GraphStore, SyncKind};

use super::{grant, paged};

/// Names the folder to the child, and makes it one.
const FOLDER: &str = "DURAMEN_TEST_GRAPH_FULL";
const BATCH: usize = 7;

fn batch(number: usize) -> Vec<Grant> {
    (0..BATCH).map(|part| grant("app", "github", &format!("e{part}"), &format!("u{number:06}"))).collect()
}

#[track_caller]
fn poisoned<T: std::fmt::Debug>(result: Result<T, GraphError>) {
    assert!(matches!(result, Err(GraphError::Poisoned)), "{result:?}");
}

/// Nothing is taken any more, in whatever form it comes.
fn is_poisoned(mut store: GraphStore) {
    for _ in 0..2 {
        poisoned(store.put_grants(&batch(999_999)));
        poisoned(store.delete_grants(&["x"]));
        poisoned(store.checkpoint("x"));
        poisoned(store.start_sync(SyncKind::Full, None));
        poisoned(store.end_sync());
        poisoned(store.abandon());
        poisoned(store.cleanup(1));
        poisoned(store.view(None).map(|_| ()));
    }
    poisoned(store.close());
}

/// The child's part: the system lets its files grow to a length and no further. It does nothing when the test is run by
/// itself.
#[test]
fn child_without_room() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let path = Path::new(&folder).join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    for number in 0.. {
        match store.put_grants(&batch(number)) {
            Ok(_) => println!("done {number}"),
            Err(error) => {
                // The last write was cut short: a part of the batch lies in the journal.
                assert!(matches!(error, GraphError::Io { doing: "write the journal", .. }), "{error}");
                break;
            }
        }
    }
    is_poisoned(store);
    println!("refused as it should be");
}

/// The child's part: the journal has room, the file that it goes into has not.
#[test]
fn child_that_cannot_end() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let path = Path::new(&folder).join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants(&batch(0)).unwrap();
    println!("done 0");
    let failed = store.end_sync();
    assert!(matches!(failed, Err(GraphError::Pack(_))), "{failed:?}");
    is_poisoned(store);
    println!("refused as it should be");
}

/// Runs a child whose files have at most so many bytes; says how many batches it was told are there.
fn run(child: &str, folder: &Path, blocks: u32) -> usize {
    // Beyond the limit there is an error instead of a signal, which the child ignores.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture", "--test-threads", "1"])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("refused as it should be"), "{blocks} blocks: {printed}{errors}");
    printed.lines().filter(|line| line.contains("done ")).count()
}

/// The store has so many batches, takes more, and can be ended.
fn goes_on(folder: &Path, batches: usize) {
    let path = folder.join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let found = paged(&store.view(None).unwrap(), GrantScope::All, 0);
    let mut expected: Vec<Grant> = (0..batches).flat_map(batch).collect();
    let edge = |grant: &Grant| (grant.entitlement.clone(), grant.principal.clone());
    expected.sort_by_key(edge);
    assert!(found == expected, "{} grants instead of {}", found.len(), expected.len());
    store.put_grants(&batch(batches)).unwrap();
    store.end_sync().unwrap();
    store.close().unwrap();
    let graph = GraphPack::open(&path).unwrap();
    graph.verify(&mut |_, _| {}).unwrap();
    assert_eq!(paged(&graph.view(None).unwrap(), GrantScope::All, 0).len(), (batches + 1) * BATCH);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "only the file is left");
}

#[test]
fn a_journal_without_room_keeps_what_was_acknowledged_and_no_more() {
    for blocks in [2, 3, 8, 21, 64] {
        let dir = tempfile::tempdir().unwrap();
        let done = run("graph::io_faults::child_without_room", dir.path(), blocks);
        assert!(done > 0, "{blocks} blocks: nothing was put");
        let store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
        assert!(store.cut_off_bytes() > 0, "{blocks} blocks: no write was cut short");
        drop(store);
        goes_on(dir.path(), done);
    }
}

#[test]
fn a_file_without_room_leaves_the_sync_to_be_ended_later() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run("graph::io_faults::child_that_cannot_end", dir.path(), 2), 1);
    goes_on(dir.path(), 1);
}

/// What cannot be made durable is not promised: a folder that is not where it was cannot be synced.
#[test]
fn a_journal_that_cannot_be_made_durable_takes_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (here, away) = (dir.path().join("here"), dir.path().join("away"));
    std::fs::create_dir(&here).unwrap();
    let mut store = GraphStore::open(here.join("graph.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants(&batch(0)).unwrap();
    store.checkpoint("before").unwrap();
    store.put_grants(&batch(1)).unwrap();
    std::fs::rename(&here, &away).unwrap();
    let failed = store.checkpoint("after");
    assert!(matches!(failed, Err(GraphError::Io { doing: "make durable the folder", .. })), "{failed:?}");
    // Once is enough: it is not tried again, even if it would go well now.
    std::fs::rename(&away, &here).unwrap();
    is_poisoned(store);
    goes_on(&here, 2);
}

/// Nothing is lost of a sync that could not be put in its place, nor of the one that was there.
#[test]
fn a_sync_whose_place_is_taken_is_there_still() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let first = store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants(&batch(0)).unwrap();
    store.end_sync().unwrap();
    let second = store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants(&batch(1)).unwrap();
    // A folder of the file's name cannot be replaced.
    let aside = dir.path().join("aside");
    std::fs::rename(&path, &aside).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(store.end_sync().is_err());
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    drop(store);
    let mut store = GraphStore::open(&path).unwrap();
    assert_eq!(store.current_sync().map(|sync| sync.id.clone()), Some(second));
    assert_eq!(paged(&store.view(None).unwrap(), GrantScope::All, 0).len(), BATCH);
    assert_eq!(paged(&store.view(Some(&first)).unwrap(), GrantScope::All, 0).len(), BATCH);
    store.end_sync().unwrap();
    GraphPack::open(&path).unwrap().verify(&mut |_, _| {}).unwrap();
}
