//! The branch in a pack is shown as that of a store, and a file that is damaged, another or none is told as such.

use duramen_api::attachments::{store::EntryKind, AttachmentKind};
use duramen_attachments::{
    error::ReadError,
    shelf::Shelf,
    store::{self, EntriesAsked},
};
use duramen_pack::branch::{export, BranchPack, ExportOptions};
use duramen_store::{Scope, Store};
use std::{fs, path::Path};

fn pack_with(path: &Path, key: &str, base: Option<&Path>) {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for number in 0..3000_u64 {
        main.kv().put(number, "x".repeat(30)).unwrap();
    }
    main.kv().put(key, "<b>").unwrap();
    let base = base.map(|base| BranchPack::open(base).unwrap());
    let options = ExportOptions { base, ..ExportOptions::default() };
    export(&main, path, options, &mut |_, _| {}).unwrap();
}

fn has(shelf: &Shelf, path: &Path, key: &str) -> Result<bool, ReadError> {
    let store = shelf.store(AttachmentKind::Pack, path.to_str().unwrap())?;
    let asked = EntriesAsked {
        branch: None,
        kind: EntryKind::Kv,
        space: None,
        collection: None,
        prefix: key,
        cursor: None,
        limit: 10,
    };
    Ok(!store::entries(&store, &asked)?.entries.is_empty())
}

#[test]
fn the_branch_of_a_pack_is_shown_and_one_in_its_place_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("main.dpack");
    pack_with(&path, "old", None);
    let shelf = Shelf::new();
    assert!(has(&shelf, &path, "old").unwrap() && !has(&shelf, &path, "new").unwrap());
    let view = shelf.pack(path.to_str().unwrap()).unwrap();
    assert_eq!(view.branch.unwrap().name, "main");
    assert!(view.graph.is_none() && view.file_bytes > 1000);
    pack_with(&path, "new", None);
    assert!(has(&shelf, &path, "new").unwrap() && !has(&shelf, &path, "old").unwrap());
    assert_eq!(shelf.open(), 1);
    let refused = shelf.graph(path.to_str().unwrap()).err().unwrap();
    assert_eq!(refused.code(), "other_content");
    fs::remove_file(&path).unwrap();
    assert_eq!(has(&shelf, &path, "new").err().unwrap().code(), "attachment_gone");
}

#[test]
fn what_is_cut_or_turned_is_told_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("main.dpack");
    pack_with(&path, "a", None);
    let bytes = fs::read(&path).unwrap();
    let mut refusals = 0;
    let mut damaged: Vec<Vec<u8>> =
        [0, 1, 3, 100, bytes.len() / 2, bytes.len() - 1].iter().map(|at| bytes[..*at].to_vec()).collect();
    for at in (0..bytes.len()).step_by(bytes.len() / 150) {
        let mut turned = bytes.clone();
        turned[at] ^= 0xff;
        damaged.push(turned);
    }
    for bytes in damaged {
        fs::write(&path, bytes).unwrap();
        if let Err(error) = has(&Shelf::new(), &path, "a") {
            refusals += 1;
            assert_eq!(error.code(), "damaged", "{error}");
        }
    }
    assert!(refusals > 10, "{refusals}");
    fs::write(&path, "C1Z").unwrap();
    assert_eq!(has(&Shelf::new(), &path, "a").err().unwrap().code(), "damaged");
}

/// To open a pipe waits for somebody who writes to it.
#[test]
fn what_is_no_file_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [pipe.as_path(), dir.path(), Path::new("/dev/zero")] {
        assert_eq!(has(&Shelf::new(), path, "a").err().unwrap().code(), "attachment_gone", "{path:?}");
    }
}
