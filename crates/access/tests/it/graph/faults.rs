//! G-8: what is cut, flipped, padded or of another kind is refused or cut off, and never read as something else.

use std::path::Path;

use duramen_access::graph::{GrantScope, GraphError, GraphPack, GraphStore, SyncKind};
use duramen_pack::container::{Kind, PackWriter};
use duramen_pack::PackError;

use super::{grant, paged};

fn small(path: &Path) -> Vec<u8> {
    let mut store = GraphStore::open(path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store
        .put_grants((0..20).map(|user| grant("app", "x", "e", &user.to_string())).collect::<Vec<_>>().iter())
        .unwrap();
    store.end_sync().unwrap();
    store.close().unwrap();
    std::fs::read(path).unwrap()
}

fn read_all(path: &Path) -> Result<usize, GraphError> {
    let view = GraphPack::open(path)?.view(None)?;
    let mut rows = 0;
    view.for_each_grant(GrantScope::All, &mut |_| {
        rows += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(rows)
}

#[test]
fn a_graph_that_is_cut_or_padded_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let whole = small(&path);
    for len in 0..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert!(read_all(&path).is_err(), "cut at {len}");
        assert!(GraphStore::open(&path).is_err(), "cut at {len}: it is not begun anew");
    }
    std::fs::write(&path, [whole.as_slice(), b"junk"].concat()).unwrap();
    assert!(matches!(read_all(&path), Err(GraphError::Pack(PackError::TrailingBytes { .. }))));
}

#[test]
fn a_flipped_bit_never_changes_what_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let whole = small(&path);
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        std::fs::write(&path, &flipped).unwrap();
        // Sections that a query does not need are not looked at: then all rows are there.
        assert!(read_all(&path).is_err() || read_all(&path).is_ok_and(|rows| rows == 20), "byte {at}");
        assert!(
            GraphPack::open(&path).and_then(|graph| Ok(graph.pack().verify(&mut |_, _| ())?)).is_err(),
            "byte {at}"
        );
    }
}

#[test]
fn a_journal_that_is_cut_or_flipped_anywhere_loses_whole_batches_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let journal = dir.path().join("graph.dpack.journal");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    for number in 0..4 {
        let rows: Vec<_> = (0..5).map(|user| grant("app", "x", "e", &format!("{number}-{user}"))).collect();
        store.put_grants(&rows).unwrap();
    }
    store.close().unwrap();
    let whole = std::fs::read(&journal).unwrap();
    let rows_of = |bytes: &[u8]| -> Result<usize, GraphError> {
        std::fs::write(&journal, bytes).unwrap();
        let mut store = GraphStore::open(&path)?;
        match store.current_sync() {
            None => Ok(0),
            Some(_) => Ok(paged(&store.view(None)?, GrantScope::All, 0).len()),
        }
    };
    let mut last = 0;
    for len in 0..=whole.len() {
        let rows = rows_of(&whole[..len]).unwrap();
        assert!(rows % 5 == 0 && rows >= last, "{rows} rows of a journal cut at {len}");
        last = rows;
    }
    assert_eq!(last, 20);
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        if let Ok(rows) = rows_of(&flipped) {
            assert!(rows % 5 == 0 && rows < 20, "{rows} rows of a journal flipped at {at}");
        }
    }
}

#[test]
fn a_journal_of_another_graph_is_not_applied() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one.dpack"), dir.path().join("other.dpack"));
    small(&one);
    small(&other);
    let mut store = GraphStore::open(&one).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("app", "x", "e", "new")]).unwrap();
    store.close().unwrap();
    std::fs::rename(dir.path().join("one.dpack.journal"), dir.path().join("other.dpack.journal")).unwrap();
    assert!(matches!(GraphStore::open(&other), Err(GraphError::ForeignJournal { .. })));
}

/// Its bytes are somebody's, however few they are: a file that merely has the name of a journal is not emptied.
#[test]
fn a_file_that_is_no_journal_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let journal = dir.path().join("graph.dpack.journal");
    small(&path);
    let before = std::fs::read(&path).unwrap();
    let zeros_and_text = [&[0; 64][..], b"text"].concat();
    for content in [b"x", &b"my notes"[..], b"DGJOURN2", &[0, 0, 7], &[b'a'; 200], &zeros_and_text] {
        std::fs::write(&journal, content).unwrap();
        let error = GraphStore::open(&path).unwrap_err();
        assert!(matches!(&error, GraphError::NotAJournal { path } if *path == journal), "{error}");
        assert_eq!(std::fs::read(&journal).unwrap(), content);
    }
    // What a crash leaves of a header that was never made durable is nobody's.
    for torn in [&b""[..], b"D", b"DGJOURN1", b"DGJOURN1 and a part", &[0; 5], &[0; 5000]] {
        std::fs::write(&journal, torn).unwrap();
        GraphStore::open(&path).unwrap().close().unwrap();
        assert!(!journal.exists(), "{torn:?}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_pack_of_another_kind_is_no_graph() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("branch.dpack");
    PackWriter::create(&path, Kind::Branch).unwrap().finish(b"").unwrap();
    assert!(matches!(GraphPack::open(&path), Err(GraphError::Pack(PackError::WrongKind { .. }))));
}

#[test]
fn a_second_writer_is_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let store = GraphStore::open(&path).unwrap();
    assert!(matches!(GraphStore::open(&path), Err(GraphError::Locked { .. })));
    store.close().unwrap();
    GraphStore::open(&path).unwrap();
}
