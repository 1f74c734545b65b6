//! From file to file: what is refused is refused before anything is written, and what fails leaves nothing.

use std::path::{Path, PathBuf};

use crate::c1z_support::{with_database, Graph, SYNC};
use crate::graph::grant;
use duramen_access::c1z::{C1z1, C1z1Writer, C1z3, ReadOptions, WriteOptions};
use duramen_access::convert::{Conversion, ConvertError, Converted, Format};
use duramen_access::file::FileError;
use duramen_access::graph::{
    GrantRef, GraphPack, GraphSink, GraphSource as _, GraphStore, Sync, SyncKind, Timestamp,
};
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
    Conversion { from: from.to_owned(), to: to.to_owned(), format, sync, read: ReadOptions::default() }.run()
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

/// A conversion that was killed left it; the sync in it is in its source still, and nobody resumes it here.
#[test]
fn what_a_killed_conversion_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.dpack"), dir.path().join("b.dpack"));
    write(&from, 2);
    // One sync saved, the next one begun, and the process gone.
    let hidden = dir.path().join(".b.dpack.converting");
    let mut store = GraphStore::open(&hidden).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.end_sync().unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("app", "github", "admin", "nobody")]).unwrap();
    let refused = convert(&from, &to, Format::Pack, None);
    let locked = |error: &ConvertError| error.to_string().contains("is being written by another process");
    assert!(refused.as_ref().is_err_and(locked), "{refused:?}");
    store.close().unwrap();
    assert_eq!(convert(&from, &to, Format::Pack, None).unwrap().copied.grants, 2);
    assert_eq!(names(dir.path()), [from, to]);
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
    assert!(
        matches!(&refused, Err(ConvertError::File(FileError::NoSuchSync { known, .. })) if *known == ids),
        "{refused:?}"
    );
}

/// Version 1 holds a file without a sync, which is neither a pack nor a version 3 file.
#[test]
fn a_file_without_a_sync_becomes_no_pack_and_no_version_3() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("none.c1z");
    let options = duramen_access::c1z::WriteOptions::default();
    duramen_access::c1z::C1z1Writer::create(&from, &options).unwrap().finish().unwrap();
    let to = dir.path().join("to");
    for format in [Format::Pack, Format::C1z3] {
        let refused = convert(&from, &to, format, None);
        assert!(matches!(refused, Err(ConvertError::File(FileError::NoSync { .. }))), "{refused:?}");
    }
    assert_eq!(names(dir.path()), [from]);
}

/// An edge has one grant in version 3 and may have several elsewhere: which one comes out must not depend on the way.
#[test]
fn the_way_of_a_graph_makes_no_difference_to_the_grants_of_one_edge() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut rows = Vec::new();
    for (id, seconds, source) in [("z", 5, "a"), ("b", 3, "b"), ("c", 3, "c"), ("a", 9, "d")] {
        let mut row = grant("app", "github", "admin", "ada");
        row.id = id.to_owned();
        row.discovered_at = Some(Timestamp { seconds, nanos: 0 });
        row.sources = vec![(source.to_owned(), source == "d")];
        rows.push(row);
    }
    let sync =
        Sync { id: SYNC.to_owned(), ended_at: Some(Timestamp { seconds: 1, nanos: 0 }), ..Sync::default() };
    let mut sink = C1z1Writer::create(&at("a.c1z"), &WriteOptions::default()).unwrap();
    sink.begin_sync(&sync).unwrap();
    rows.iter().for_each(|row| sink.put_grant(&GrantRef::from(row)).unwrap());
    sink.end_sync().unwrap();
    sink.finish().unwrap();
    convert(&at("a.c1z"), &at("a.dpack"), Format::Pack, None).unwrap();
    let mut found = Vec::new();
    for from in ["a.c1z", "a.dpack"] {
        let converted = convert(&at(from), &at("b.c1z"), Format::C1z3, None).unwrap();
        let losses: Vec<_> =
            converted.losses.iter().map(|loss| (loss.row, loss.rows, loss.example.as_str())).collect();
        assert_eq!(losses, [("grant", 3, "a")]);
        found.push(Graph::read(&C1z3::open(&at("b.c1z"), &ReadOptions::default()).unwrap()).unwrap());
    }
    assert_eq!(found[0], found[1]);
    let [one] = &found[0].grants[..] else { panic!("{} grants", found[0].grants.len()) };
    let sources: Vec<_> = one.sources.iter().map(|(id, is_direct)| (id.as_str(), *is_direct)).collect();
    assert_eq!(
        (one.id.as_str(), sources),
        ("b", vec![("a", false), ("b", false), ("c", false), ("d", true)])
    );
}

#[test]
fn a_kind_of_sync_that_is_not_known_is_carried_or_refused_but_never_made_a_full_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (kind, number) in [("quarterly", None), ("7", Some("7"))] {
        let mut sync = Sync { id: SYNC.to_owned(), ended_at: Some(Timestamp::default()), ..Sync::default() };
        sync.set_kind(kind);
        let mut sink = C1z1Writer::create(&at("a.c1z"), &WriteOptions::default()).unwrap();
        sink.begin_sync(&sync).unwrap();
        sink.end_sync().unwrap();
        sink.finish().unwrap();
        let _ = std::fs::remove_file(at("a.dpack"));
        convert(&at("a.c1z"), &at("a.dpack"), Format::Pack, None).unwrap();
        convert(&at("a.dpack"), &at("b.c1z"), Format::C1z1, None).unwrap();
        assert_eq!(C1z1::open(&at("b.c1z"), &ReadOptions::default()).unwrap().syncs().unwrap(), [sync]);
        let third = convert(&at("a.dpack"), &at("c.c1z"), Format::C1z3, None);
        match number {
            None => assert!(third.unwrap_err().to_string().contains("\"quarterly\" has no number")),
            Some(number) => {
                third.unwrap();
                let syncs = C1z3::open(&at("c.c1z"), &ReadOptions::default()).unwrap().syncs().unwrap();
                assert_eq!((syncs[0].kind, syncs[0].kind_name()), (SyncKind::Unknown, number));
            }
        }
    }
}

/// The ecosystem's tools write local times, and no zone.
#[test]
fn times_of_another_zone_are_read_in_it_and_noticed_if_they_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut store = GraphStore::open(at("a.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("app", "github", "admin", "ada")]).unwrap();
    let sync = store.end_sync().unwrap();
    store.close().unwrap();
    let in_zone = |name: &str| ReadOptions {
        zone: Some(jiff::tz::TimeZone::get(name).unwrap()),
        ..ReadOptions::default()
    };
    let convert = |from: &str, to: &str, format, read| {
        Conversion { from: at(from), to: at(to), format, sync: None, read }.run().unwrap()
    };
    // Kolkata is five and a half hours ahead, all year round.
    convert("a.dpack", "a.c1z", Format::C1z1, in_zone("Asia/Kolkata"));
    let shifted = convert("a.c1z", "b.dpack", Format::Pack, ReadOptions::default());
    assert_eq!(
        shifted.zone_offset.map(|offset| (offset.seconds, offset.sync)),
        Some((19_800, sync.id.clone()))
    );
    assert_eq!(convert("a.c1z", "c.dpack", Format::Pack, in_zone("Asia/Kolkata")).zone_offset, None);
    let read = |name: &str| GraphPack::open(at(name)).unwrap().default_sync().unwrap().started_at;
    assert_eq!(read("c.dpack"), sync.started_at);
    assert_eq!(read("b.dpack").seconds, sync.started_at.seconds + 19_800);
}

#[test]
fn nothing_of_a_version_1_database_goes_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let sync = Sync { id: SYNC.to_owned(), ended_at: Some(Timestamp::default()), ..Sync::default() };
    let mut sink = C1z1Writer::create(&at("a.c1z"), &WriteOptions::default()).unwrap();
    sink.begin_sync(&sync).unwrap();
    sink.put_grant(&GrantRef::from(&grant("app", "github", "admin", "ada"))).unwrap();
    sink.end_sync().unwrap();
    sink.finish().unwrap();
    with_database(&at("a.c1z"), "
        UPDATE v1_sync_runs SET stats = '{}', ingest_invariant_mode = 'x', ingest_invariant_coverage = 'y';
        INSERT INTO v1_grants SELECT 2, resource_type_id, resource_id, entitlement_id, principal_resource_type_id,
            principal_resource_id, external_id, expansion, needs_expansion, data, 'another', discovered_at FROM v1_grants;
        ALTER TABLE v1_grants ADD COLUMN \"risk 'score\" integer;
        UPDATE v1_grants SET \"risk 'score\" = 7 WHERE id = 1;
        INSERT INTO v1_connector_sessions (sync_id, key, value) VALUES ('a', 'b', x'00'), ('a', 'c', x'00');
        CREATE TABLE \"v1 notes\" (text text); INSERT INTO \"v1 notes\" VALUES ('a');");
    let file = C1z1::open(&at("a.c1z"), &ReadOptions::default()).unwrap();
    let mut left: Vec<_> =
        file.left_out().iter().map(|loss| (loss.row, loss.what.as_str(), loss.rows)).collect();
    left.sort();
    assert_eq!(
        left,
        [
            ("grant", "rows of syncs that are not in the file", 1),
            ("grant", "the column \"risk 'score\"", 1),
            ("row", "rows of tables that are not known", 1),
            ("session", "values that connectors keep between steps", 2),
            ("sync", "marks of what its writer checked (ingest_invariant)", 1),
            ("sync", "statistics, which readers count anew", 1),
        ]
    );
    assert_eq!(Graph::read(&file).unwrap().grants.len(), 1);
}

/// As the ecosystem's tools take it.
#[test]
fn an_id_longer_than_connectors_may_send_goes_through_version_3() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.dpack"), dir.path().join("a.c1z"));
    let mut store = GraphStore::open(&from).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let long = grant("app", "github", &"\0".repeat(4000), &"u".repeat(4096));
    store.put_grants([&long]).unwrap();
    store.end_sync().unwrap();
    store.close().unwrap();
    convert(&from, &to, Format::C1z3, None).unwrap();
    let read = Graph::read(&C1z3::open(&to, &ReadOptions::default()).unwrap()).unwrap();
    assert_eq!(read.grants, [long]);
}
