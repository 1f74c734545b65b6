//! From file to file: what is refused is refused before anything is written, and what fails leaves nothing.

use std::path::{Path, PathBuf};

use crate::graph::grant;
use duramen_access::convert::{Conversion, ConvertError, Converted, FileError, Format};
use duramen_access::graph::{GraphPack, GraphStore, SyncKind};
use duramen_pack::container::Pack;

/// A pack of full syncs that have ended, with one grant each. Returns their ids.
fn write(path: &Path, syncs: usize) -> Vec<String> {
    let mut store = GraphStore::open(path).unwrap();
    let ids = (0..syncs).map(|number| {
        let id = store.start_sync(SyncKind::Full, None).unwrap();
        store.put_grants([&grant("app", "github", "admin", &format!("user-{number}"))]).unwrap();
        store.end_sync().unwrap();
        id
    });
    let ids = ids.collect();
    store.close().unwrap();
    ids
}

fn convert(from: &Path, to: &Path, format: Format, sync: Option<&str>) -> Result<Converted, ConvertError> {
    let sync = sync.map(str::to_owned);
    Conversion { from: from.to_owned(), to: to.to_owned(), format, sync, decoded_bytes_max: None }.run()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// It would be all that is left of the source, without what its format cannot hold.
#[test]
fn a_source_is_never_replaced_by_its_conversion() {
    let dir = tempfile::tempdir().unwrap();
    let (pack, file, link) =
        (dir.path().join("a.dpack"), dir.path().join("a.c1z"), dir.path().join("link.c1z"));
    write(&pack, 1);
    convert(&pack, &file, Format::C1z3, None).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let before = std::fs::read(&file).unwrap();
    for (from, to) in [(&file, &file), (&file, &link), (&link, &file)] {
        let refused = convert(from, to, Format::C1z1, None);
        assert!(matches!(refused, Err(ConvertError::SameFile { .. })), "{refused:?}");
    }
    assert!(std::fs::read(&file).unwrap() == before);
}

#[test]
fn a_pack_or_a_journal_that_is_there_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.dpack"), dir.path().join("b.dpack"));
    write(&from, 1);
    for (taken, content) in [("b.dpack", &b""[..]), ("b.dpack.journal", b"somebody's")] {
        let taken = dir.path().join(taken);
        std::fs::write(&taken, content).unwrap();
        let refused = convert(&from, &to, Format::Pack, None);
        assert!(matches!(&refused, Err(ConvertError::Exists { file }) if *file == taken), "{refused:?}");
        assert_eq!(std::fs::read(&taken).unwrap(), content);
        std::fs::remove_file(&taken).unwrap();
    }
}

/// Digests of blocks are looked at when a block is read, which is after the new file was begun.
#[test]
fn a_conversion_that_fails_on_its_way_leaves_no_part_behind() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("a.dpack");
    write(&from, 1);
    let grants = Pack::open(&from).unwrap().section("0/grants").unwrap().unwrap().range(0);
    let mut bytes = std::fs::read(&from).unwrap();
    bytes[grants.start as usize] ^= 1;
    std::fs::write(&from, bytes).unwrap();
    for (name, format) in [("b.dpack", Format::Pack), ("b.c1z", Format::C1z1), ("b.c1z", Format::C1z3)] {
        let failed = convert(&from, &dir.path().join(name), format, None);
        assert!(matches!(failed, Err(ConvertError::Read(FileError::Graph(_)))), "{failed:?}");
        assert_eq!(names(dir.path()), std::slice::from_ref(&from), "{format:?}");
    }
}

#[test]
fn where_one_sync_fits_the_latest_full_one_is_copied_and_the_others_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, back) = (dir.path().join("a.dpack"), dir.path().join("b.c1z"), dir.path().join("c.dpack"));
    let ids = write(&from, 3);
    let latest = GraphPack::open(&from).unwrap().default_sync().unwrap().id.clone();
    let converted = convert(&from, &to, Format::of_name(&to).unwrap(), None).unwrap();
    assert_eq!((converted.copied.syncs, converted.copied.grants), (1, 1));
    assert_eq!(converted.file_bytes, std::fs::metadata(&to).unwrap().len());
    assert_eq!(converted.losses.last().map(|loss| (loss.row, loss.rows)), Some(("sync", 2)));
    convert(&to, &back, Format::Pack, None).unwrap();
    assert_eq!(GraphPack::open(&back).unwrap().default_sync().unwrap().id, latest);
    let named = convert(&from, &to, Format::C1z3, Some(&ids[0])).unwrap();
    assert_eq!(named.copied.syncs, 1);
    let refused = convert(&from, &to, Format::C1z1, Some("none"));
    assert!(matches!(&refused, Err(ConvertError::NoSuchSync { known, .. }) if *known == ids), "{refused:?}");
}

/// Version 1 holds a file without a sync, which is neither a pack nor a version 3 file.
#[test]
fn a_file_without_a_sync_becomes_no_pack_and_no_version_3() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("none.c1z");
    let options = duramen_access::c1z::WriteOptions::default();
    duramen_access::c1z::C1z1Writer::create(&from, &options).unwrap().finish().unwrap();
    let to = dir.path().join("to");
    assert!(matches!(convert(&from, &to, Format::Pack, None), Err(ConvertError::NoSync { .. })));
    assert!(matches!(convert(&from, &to, Format::C1z3, None), Err(ConvertError::NeedsSync { .. })));
    assert_eq!(names(dir.path()), [from]);
}
