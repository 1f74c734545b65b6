//! A store is followed while others write it, is never written, and one that is damaged, foreign or another is told as such.

use duramen_api::attachments::AttachmentKind;
use duramen_attachments::{error::ReadError, shelf::Shelf, store};
use duramen_store::{Keep, Options, Scope, Store};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

fn at(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn open(shelf: &Shelf, path: &Path) -> Result<Store, ReadError> {
    shelf.store(AttachmentKind::Store, at(path))
}

/// A store with a pair in it, closed.
fn store_with(path: &Path, key: &str) {
    let store = Store::open(path, Options::default()).unwrap();
    store.branch("main").unwrap().kv().put(key, 1).unwrap();
    store.close().unwrap();
}

/// Every file below a folder, with its length, the time of its last change and its number.
fn files(path: &Path, found: &mut BTreeMap<PathBuf, (u64, i64, i64, u64)>) {
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let about = entry.metadata().unwrap();
        found.insert(entry.path(), (about.len(), about.mtime(), about.mtime_nsec(), about.ino()));
        if about.is_dir() {
            files(&entry.path(), found);
        }
    }
}

#[test]
fn what_a_writer_acknowledged_is_shown_and_the_writer_is_not_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Store::open(dir.path(), Options::default()).unwrap();
    let main = writer.branch("main").unwrap();
    let shelf = Shelf::new();
    for round in 0..5_u64 {
        main.kv().put(round, "x").unwrap();
        let shown = open(&shelf, dir.path()).unwrap();
        assert!(shown.branch("main").unwrap().kv().exists(round).unwrap(), "{round}");
        if round == 2 {
            writer.checkpoint().unwrap();
            writer.fork("main", "try").unwrap();
        }
    }
    let branches = store::branches(&open(&shelf, dir.path()).unwrap()).unwrap();
    let names: Vec<_> =
        branches.branches.iter().map(|each| (each.name.as_str(), each.parent.as_deref())).collect();
    assert_eq!(names, [("main", None), ("try", Some("main"))]);
    assert_eq!(shelf.open(), 1);
    writer.close().unwrap();
}

#[test]
fn reading_changes_nothing_of_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    store_with(&path, "a");
    let mut before = BTreeMap::new();
    files(&path, &mut before);
    let shelf = Shelf::new();
    let shown = open(&shelf, &path).unwrap();
    store::branches(&shown).unwrap();
    store::contents(&shown, None).unwrap();
    store::history(&shown, None).unwrap();
    assert!(shown.branch("main").unwrap().kv().put("a", 2).is_err());
    drop(shown);
    assert!(!shelf.close_unused() || shelf.open() == 1);
    drop(shelf);
    let mut after = BTreeMap::new();
    files(&path, &mut after);
    assert_eq!(before, after);
}

#[test]
fn a_store_in_the_place_of_another_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (path, next) = (dir.path().join("store"), dir.path().join("next"));
    store_with(&path, "old");
    let shelf = Shelf::new();
    let has = |key: &str| open(&shelf, &path).unwrap().branch("main").unwrap().kv().exists(key).unwrap();
    assert!(has("old") && !has("new"));
    store_with(&next, "new");
    fs::rename(&path, dir.path().join("before")).unwrap();
    assert!(matches!(open(&shelf, &path), Err(ReadError::Gone { .. })));
    fs::rename(&next, &path).unwrap();
    assert!(has("new") && !has("old"));
    assert_eq!(shelf.open(), 1);
    // What lies in the directory is another, and the directory the same.
    store_with(&next, "third");
    for part in ["nodes", "log"] {
        fs::remove_dir_all(path.join(part)).unwrap();
        fs::rename(next.join(part), path.join(part)).unwrap();
    }
    assert!(has("third") && !has("new"));
}

#[test]
fn what_is_no_store_or_a_damaged_one_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new();
    let refused = |path: &Path| open(&shelf, path).err().unwrap();
    let (none, empty, foreign) =
        (dir.path().join("none"), dir.path().join("empty"), dir.path().join("foreign"));
    assert_eq!(refused(&none).code(), "attachment_gone");
    fs::create_dir(&empty).unwrap();
    assert_eq!(refused(&empty).code(), "attachment_gone");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "nothing was made in it");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("letters.txt"), "dear").unwrap();
    assert_eq!(refused(&foreign).code(), "not_a_store");
    assert_eq!(shelf.open(), 0);

    // Each file of a store cut, emptied and turned: an error or a store that can be read, and never more.
    let whole = dir.path().join("whole");
    // Short segments: each is read and written as often as it is damaged.
    let store = Store::open(&whole, Options { segment_bytes: 256 << 10, ..Options::default() }).unwrap();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put_many((0..2000_u64).map(|number| (number, "x".repeat(40)))).unwrap();
    for number in 0..20 {
        main.kv().put("often", number).unwrap();
    }
    store.checkpoint().unwrap();
    store.branch("main").unwrap().kv().put("later", 1).unwrap();
    store.close().unwrap();
    let mut all = BTreeMap::new();
    files(&whole, &mut all);
    let mut refusals = 0;
    for (file, _) in all.iter().filter(|(path, _)| path.is_file()) {
        let bytes = fs::read(file).unwrap();
        let mut turned = bytes.clone();
        for at in (0..turned.len()).step_by(997) {
            turned[at] ^= 0x5a;
        }
        for damaged in [&bytes[..bytes.len() / 2], &[], &turned] {
            fs::write(file, damaged).unwrap();
            let shelf = Shelf::new();
            let read = open(&shelf, &whole).and_then(|store| {
                store::branches(&store)?;
                store::contents(&store, None)?;
                store::history(&store, None)?;
                let asked = store::EntriesAsked {
                    branch: None,
                    kind: duramen_api::attachments::store::EntryKind::Kv,
                    space: None,
                    collection: None,
                    prefix: "",
                    cursor: None,
                    limit: 1000,
                };
                store::entries(&store, &asked)
            });
            if let Err(error) = read {
                refusals += 1;
                assert!(
                    ["damaged", "not_a_store", "attachment_gone", "other_format"].contains(&error.code()),
                    "{error}"
                );
            }
        }
        fs::write(file, &bytes).unwrap();
    }
    assert!(refusals > 0);
    assert!(open(&shelf, &whole).is_ok());
}

#[test]
fn a_log_that_is_too_long_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    store_with(&path, "a");
    // A file without blocks: its length alone is looked at.
    let file = fs::File::create(path.join("log").join("padding")).unwrap();
    file.set_len(duramen_attachments::limits::LOG_BYTES_MAX + 1).unwrap();
    let refused = open(&Shelf::new(), &path).err().unwrap();
    assert_eq!(refused.code(), "too_large_to_show");
    assert!(refused.to_string().contains("536870912"), "{refused}");
}

#[test]
fn what_is_retained_is_told_the_newest_first() {
    let store = Store::memory();
    store.keep_history("main", Some(Keep::each_commit().versions(50))).unwrap();
    let main = store.branch("main").unwrap();
    for number in 0..80_u64 {
        main.kv().put("a", number as i64).unwrap();
    }
    store.tag("main", "v1").unwrap();
    let history = store::history(&store, None).unwrap();
    assert_eq!(history.states[0].tags, ["v1"]);
    assert_eq!(history.keep.as_ref().unwrap().versions, Some(50));
    assert!(history.states.windows(2).all(|pair| pair[0].version > pair[1].version));
    assert_eq!(history.all, history.states.len() as u64);
    assert_eq!(store::history(&store, Some("none")).err().unwrap().code(), "unknown_branch");
}
