//! Version 1 files around databases that no writer makes.

use std::path::{Path, PathBuf};

use duramen_access::c1z::*;
use duramen_access::graph::*;
use rusqlite::Connection;

use crate::c1z_support::*;

/// A version 1 file of a database that statements made.
fn file(dir: &Path, statements: &str) -> PathBuf {
    let (path, database) = (dir.join("1.c1z"), dir.join("database"));
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch(statements).unwrap();
    drop(connection);
    let frame = zstd::bulk::compress(&std::fs::read(&database).unwrap(), 1).unwrap();
    std::fs::write(&path, [b"C1ZF\0".as_slice(), &frame].concat()).unwrap();
    std::fs::remove_file(database).unwrap();
    path
}

/// The table of syncs, with one in it.
const SYNCS: &str =
    "CREATE TABLE v1_sync_runs (id integer primary key, sync_id text, started_at text, ended_at text, \
    sync_token text, sync_type text); INSERT INTO v1_sync_runs VALUES (1, '2aGyRUbxAdE4MTzLqMxgsT1HNjq', \
    '2026-01-02 03:04:05', NULL, '', 'full');";

fn refused(statements: &str) -> C1zError {
    let dir = tempfile::tempdir().unwrap();
    read_v1(&file(dir.path(), &format!("{SYNCS}{statements}"))).unwrap_err()
}

#[test]
fn a_database_with_the_least_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let graph = read_v1(&file(dir.path(), SYNCS)).unwrap();
    assert_eq!((graph.sync.id.as_str(), graph.grants.len()), (SYNC, 0));
    for size in [512, 65_536] {
        let graph = read_v1(&file(dir.path(), &format!("PRAGMA page_size = {size}; {SYNCS}"))).unwrap();
        assert_eq!(graph.sync.id, SYNC, "pages of {size} bytes");
    }
    // One whose writer kept a log beside it, which is empty when the database is packed.
    let graph = read_v1(&file(dir.path(), &format!("PRAGMA journal_mode = WAL; {SYNCS}"))).unwrap();
    assert_eq!(graph.sync.id, SYNC);
}

#[test]
fn a_frame_that_holds_no_database_or_another_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.c1z");
    for content in [b"no database at all".repeat(100), b"SQLite format 3\0".repeat(300)] {
        let frame = zstd::bulk::compress(&content, 1).unwrap();
        std::fs::write(&path, [b"C1ZF\0".as_slice(), &frame].concat()).unwrap();
        assert!(matches!(read_v1(&path), Err(C1zError::Sqlite { .. } | C1zError::Damaged { .. })));
    }
    let error = read_v1(&file(dir.path(), "CREATE TABLE notes (text)")).unwrap_err();
    assert!(matches!(error, C1zError::Unsupported { .. }), "{error}");
}

#[test]
fn columns_that_hold_something_else_are_named() {
    let grants = |columns: &str, values: &str| {
        format!(
            "CREATE TABLE v1_grants (id integer primary key, sync_id text, {columns}); \
            INSERT INTO v1_grants VALUES (1, '{SYNC}', {values});"
        )
    };
    for (statements, column) in [
        (grants("data blob", "NULL"), "column data of v1_grants"),
        (grants("other blob", "NULL"), "column data of v1_grants"),
        (grants("data blob", "7"), "column data of v1_grants"),
        (grants("data blob", "x'0a'"), "column data of v1_grants"),
        (grants("data blob", "x'1a02ff00'"), "column data of v1_grants"),
        (grants("data blob, discovered_at", "x'1a0161', 'yesterday'"), "column discovered_at"),
        (grants("data blob, discovered_at", "x'1a0161', 7"), "column discovered_at"),
        (grants("data blob, entitlement_id text", "x'1a0161', CAST(x'ff' AS text)"), "column entitlement_id"),
        (grants("data blob, expansion blob", "x'1a0161', x'0a'"), "column expansion"),
        (
            grants("data blob, expansion blob, needs_expansion", "x'1a0161', x'0a0161', 'yes'"),
            "needs_expansion",
        ),
        ("UPDATE v1_sync_runs SET sync_type = x'ff';".to_owned(), "column sync_type of v1_sync_runs"),
        ("UPDATE v1_sync_runs SET started_at = 'soon';".to_owned(), "column started_at of v1_sync_runs"),
    ] {
        match refused(&statements) {
            C1zError::Damaged { part, .. } => assert!(part.contains(column), "{part}, not {column}"),
            error => panic!("{column}: {error}"),
        }
    }
}

/// Zeros shrink to nothing: one value may have as much as a limit says, and no more.
#[test]
fn a_value_that_is_too_long_is_refused() {
    let assets = |column: &str| {
        format!(
            "CREATE TABLE v1_assets (id integer primary key, sync_id text, external_id text, content_type text, \
                {column}); INSERT INTO v1_assets (sync_id, external_id) VALUES ('{SYNC}', 'icon');"
        )
    };
    let long = assets("data blob") + "UPDATE v1_assets SET data = zeroblob(257 << 20);";
    let error = refused(&long);
    assert!(matches!(error, C1zError::Sqlite { .. }) && error.to_string().contains("too big"), "{error}");
    // What a schema computes is not a column of the format.
    let error = refused(&assets("data AS (zeroblob(900000000))"));
    assert!(error.to_string().contains("column data of v1_assets: nothing"), "{error}");
}

#[test]
fn a_table_that_refers_to_a_page_that_is_not_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let forged = format!(
        "{SYNCS} CREATE TABLE v1_assets (id integer primary key, sync_id text, data blob); \
            PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 77 WHERE name = 'v1_assets';"
    );
    let error = read_v1(&file(dir.path(), &forged)).unwrap_err();
    assert!(matches!(error, C1zError::Sqlite { .. } | C1zError::Damaged { .. }), "{error}");
}

/// What the format can hold once goes once, and is reported.
#[test]
fn rows_that_are_one_in_version_1_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.c1z");
    let mut writer = C1z1Writer::create(&path, &WriteOptions::default()).unwrap();
    let time = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    let sync = Sync { id: SYNC.to_owned(), started_at: time, ..Sync::default() };
    writer.begin_sync(&sync).unwrap();
    let discovered_at = Some(time);
    for (kind, resource) in [("a", "b:c"), ("a:b", "c"), ("a:b", "c"), ("a", "b")] {
        let id = ResourceId::new(kind, resource);
        writer.put_resource(&Resource { id, discovered_at, ..Resource::default() }).unwrap();
    }
    for resource in ["one", "two", "two"] {
        let resource = ResourceId::new("app", resource);
        let row = Entitlement { id: "e".to_owned(), resource, discovered_at, ..Entitlement::default() };
        writer.put_entitlement(&row).unwrap();
    }
    let expandable = Any {
        type_url: "type.googleapis.com/c1.connector.v2.GrantExpandable".to_owned(),
        value: b"\x0a\x01e".to_vec(),
    };
    let expansion = Expansion { entitlement_ids: vec!["f".to_owned()], ..Expansion::default() };
    let blank = Expansion { entitlement_ids: vec![" ".to_owned()], ..Expansion::default() };
    for (id, annotations, expansion) in [
        ("both", vec![expandable.clone()], Some(expansion.clone())),
        ("annotation", vec![expandable.clone()], None),
        ("blank", vec![], Some(blank)),
    ] {
        let id = id.to_owned();
        let row = Grant { id, annotations, expansion, discovered_at, ..Grant::default() };
        writer.put_grant(&GrantRef::from(&row)).unwrap();
    }
    let mut reported: Vec<_> =
        writer.losses().iter().map(|loss| (loss.row, loss.rows, loss.example.as_str())).collect();
    reported.sort_unstable();
    let wanted =
        [("entitlement", 1, "e"), ("grant", 1, "annotation"), ("grant", 1, "blank"), ("resource", 1, "c")];
    assert_eq!(reported, wanted);
    writer.end_sync().unwrap();
    assert!(
        matches!(writer.begin_sync(&sync), Err(C1zError::Row { row: "sync", .. })),
        "the same sync again"
    );
    writer.finish().unwrap();
    let graph = read_v1(&path).unwrap();
    let resources: Vec<_> = graph.resources.iter().map(|row| row.id.clone()).collect();
    assert_eq!(resources, [ResourceId::new("a", "b"), ResourceId::new("a:b", "c")]);
    assert_eq!(graph.entitlements.len(), 1);
    assert_eq!(graph.entitlements[0].resource.resource, "two");
    let [annotation, blank, both] = graph.grants.as_slice() else { panic!("{:?}", graph.grants) };
    assert_eq!(
        (both.annotations.as_slice(), both.expansion.as_ref()),
        ([expandable].as_slice(), Some(&expansion))
    );
    assert!(annotation.annotations.is_empty() && annotation.needs_expansion);
    assert_eq!(annotation.expansion.as_ref().unwrap().entitlement_ids, ["e"]);
    assert_eq!(blank.expansion, None);
}
