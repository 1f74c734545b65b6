//! What a store leaves behind when it is closed.

use std::path::Path;

use duramen_store::{Durability, Options, Scope, Store};

/// Names and lengths of the files of a folder.
fn files(path: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
        .collect();
    files.sort();
    files
}

/// The log's files are made in advance, 16 MiB each. A store that is closed needs none of them.
#[test]
fn a_closed_store_keeps_one_small_file_of_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for (round, is_dropped) in [false, true, false, true].into_iter().enumerate() {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        assert_eq!(main.kv().count("").unwrap(), rows);
        // Once without a write, once past a segment, and once with a segment that nothing is in yet.
        for n in 0..[9_000, 0, 30, 10][round] {
            main.kv().put(format!("{round}/{n}"), vec![7; 2000]).unwrap();
            rows += 1;
        }
        if round == 3 {
            store.checkpoint().unwrap();
        }
        drop(main);
        if !is_dropped {
            store.close().unwrap();
        }
        drop(store);
        let log = files(&dir.path().join("log"));
        assert_eq!(log.len(), 1, "round {round}: {log:?}");
        assert!(log[0].0.starts_with("log-") && log[0].1 <= 1 << 20, "round {round}: {log:?}");
    }
    // All of it is little more than its keys and values.
    let nodes: u64 = files(&dir.path().join("nodes")).iter().map(|(_, len)| len).sum();
    assert!(nodes < rows * 2050 + (1 << 20), "{nodes} bytes for {rows} rows");
}

/// Who writes on while the store is being closed is told, or heard.
#[test]
fn writers_go_on_until_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::Buffered, segment_bytes: 1 << 16, ..Options::default() };
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let acknowledged = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let main = store.branch("main").unwrap();
                scope.spawn(move || {
                    (0..).take_while(|n| main.kv().put(format!("{writer}/{n}"), vec![1; 900]).is_ok()).count()
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(30));
        store.close().unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    drop(store);
    let main = Store::open(dir.path(), options).unwrap().branch("main").unwrap();
    for (writer, count) in acknowledged.into_iter().enumerate() {
        let found = main.kv().count(format!("{writer}/")).unwrap();
        assert!(found >= count as u64, "writer {writer}: {found} of {count}");
    }
}
