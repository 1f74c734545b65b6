//! G-9: the life of a sync: several in one file, none destroys another, and what is read by default.

use duramen_access::graph::{
    diff, write_csv, write_diff, Change, CsvTable, Diff, DiffCounts, GrantScope, GraphError, GraphPack,
    GraphSink, GraphSource, GraphStore, ResourceId, Sync, SyncKind, Timestamp,
};

use super::{grant, paged};

#[test]
fn an_unfinished_sync_never_hides_or_destroys_a_finished_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let good = store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("app", "x", "e", "ada")]).unwrap();
    store.end_sync().unwrap();
    let failed = store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("app", "x", "e", "bob")]).unwrap();
    drop(store);
    assert_eq!(GraphPack::open(&path).unwrap().default_sync().unwrap().id, good);
    let mut store = GraphStore::open(&path).unwrap();
    assert_eq!(store.current_sync().unwrap().id, failed);
    assert_eq!(paged(&store.view(None).unwrap(), GrantScope::All, 0)[0].principal.id.resource, "bob");
    assert_eq!(paged(&store.view(Some(&good)).unwrap(), GrantScope::All, 0)[0].principal.id.resource, "ada");
    store.suspend().unwrap();
    let graph = GraphPack::open(&path).unwrap();
    assert_eq!(graph.syncs().len(), 2);
    assert_eq!(graph.default_sync().unwrap().id, good);
    store.open_sync(&failed).unwrap();
    store.put_grants([&grant("app", "x", "e", "eve")]).unwrap();
    store.abandon().unwrap();
    assert_eq!(paged(&store.view(Some(&failed)).unwrap(), GrantScope::All, 0).len(), 1);
}

#[test]
fn writes_without_an_open_sync_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    assert!(matches!(store.put_grants([&grant("a", "b", "c", "d")]), Err(GraphError::NoOpenSync)));
    assert!(matches!(store.checkpoint("x"), Err(GraphError::NoOpenSync)));
    assert!(matches!(store.end_sync(), Err(GraphError::NoOpenSync)));
    assert!(matches!(store.view(None), Err(GraphError::NothingToRead)));
    store.start_sync(SyncKind::Full, None).unwrap();
    store.end_sync().unwrap();
    assert!(matches!(store.put_grants([&grant("a", "b", "c", "d")]), Err(GraphError::NoOpenSync)));
}

#[test]
fn a_refused_grant_takes_its_batch_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("a", "b", "c", "kept")]).unwrap();
    let long = grant("a", "b", "c", &"x".repeat(5000));
    let batch = [grant("a", "b", "c", "not kept"), long];
    assert!(matches!(store.put_grants(&batch), Err(GraphError::TooLarge { .. })));
    let mut nameless = grant("a", "b", "c", "d");
    nameless.id.clear();
    assert!(matches!(store.put_grants([&nameless]), Err(GraphError::NoId { .. })));
    let kept = paged(&store.view(None).unwrap(), GrantScope::All, 0);
    assert_eq!(kept, [grant("a", "b", "c", "kept")]);
    store.put_grants([&grant("a", "b", "c", "after")]).unwrap();
    drop(store);
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    assert_eq!(paged(&store.view(None).unwrap(), GrantScope::All, 0).len(), 2);
}

#[test]
fn duplicates_are_counted_and_the_last_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let id = store.start_sync(SyncKind::Full, None).unwrap();
    let mut expanded = grant("a", "b", "c", "ada");
    expanded.needs_expansion = true;
    let mut moved = grant("a", "b", "other", "ada");
    moved.id.clone_from(&grant("a", "b", "c", "bob").id);
    store
        .put_grants([&grant("a", "b", "c", "ada"), &grant("a", "b", "c", "bob"), &expanded, &moved])
        .unwrap();
    store.end_sync().unwrap();
    let graph = GraphPack::open(&path).unwrap();
    assert_eq!(graph.stats(&id).unwrap().replaced, 2);
    assert_eq!(paged(&graph.view(None).unwrap(), GrantScope::All, 0), [expanded, moved]);
}

#[test]
fn a_sync_is_resumed_where_its_checkpoint_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let (id, started) = store.start_or_resume_sync(SyncKind::Partial, None).unwrap();
    assert!(started);
    store.checkpoint("{\"page\":3}").unwrap();
    store.suspend().unwrap();
    assert_eq!(store.resume_sync(None, Some(SyncKind::Full)).unwrap(), None);
    assert_eq!(store.start_or_resume_sync(SyncKind::Partial, None).unwrap(), (id.clone(), false));
    assert_eq!(store.current_sync().unwrap().token, "{\"page\":3}");
    assert!(store.resume_sync(Some("0ujtsYcgvSTl8PAuAdqWYSMnLOv"), None).is_err());
    store.end_sync().unwrap();
    assert_eq!(store.resume_sync(None, None).unwrap(), None, "what was ended is not resumed");
    let old = Sync { id: "0ujtsYcgvSTl8PAuAdqWYSMnLOv".into(), kind: SyncKind::Full, ..Sync::default() };
    store.begin(old.clone()).unwrap();
    store.suspend().unwrap();
    assert_eq!(
        store.resume_sync(None, None).unwrap(),
        None,
        "what is older than a week is not resumed unless named"
    );
    assert_eq!(store.resume_sync(Some(&old.id), None).unwrap(), Some(old.id));
}

#[test]
fn cleanup_keeps_the_latest_full_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let mut ids = Vec::new();
    for round in 0..4 {
        let sync = Sync {
            id: format!("0ujtsYcgvSTl8PAuAdqWYSMnL{round:02}"),
            started_at: Timestamp { seconds: round * 10, nanos: 0 },
            ended_at: Some(Timestamp { seconds: round * 10 + 5, nanos: 0 }),
            ..Sync::default()
        };
        store.begin_sync(&sync).unwrap();
        store.put_grants([&grant("app", "x", "e", &round.to_string())]).unwrap();
        GraphSink::end_sync(&mut store).unwrap();
        ids.push(sync.id);
    }
    assert_eq!(store.cleanup(2).unwrap(), ids[..2]);
    let graph = GraphPack::open(&path).unwrap();
    assert_eq!(graph.syncs().map(|sync| sync.id.clone()).collect::<Vec<_>>(), ids[2..]);
    assert_eq!(paged(&graph.view(None).unwrap(), GrantScope::All, 0), [grant("app", "x", "e", "3")]);
}

/// A sync that was begun first may end last: what stays depends on the end, what is older on the beginning.
#[test]
fn cleanup_drops_a_finished_sync_that_ran_within_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    let time = |seconds| Timestamp { seconds, nanos: 0 };
    for (name, kind, started, ended) in [
        ("00", SyncKind::Partial, -5, Some(1)),
        ("01", SyncKind::Full, 0, Some(100)),
        ("02", SyncKind::Full, 10, Some(20)),
        ("03", SyncKind::Partial, 10, None),
    ] {
        let sync = Sync {
            id: format!("0ujtsYcgvSTl8PAuAdqWYSMnL{name}"),
            kind,
            started_at: time(started),
            ended_at: ended.map(time),
            ..Sync::default()
        };
        store.begin_sync(&sync).unwrap();
        GraphSink::end_sync(&mut store).unwrap();
    }
    let dropped = store.cleanup(1).unwrap();
    assert_eq!(dropped, ["0ujtsYcgvSTl8PAuAdqWYSMnL00", "0ujtsYcgvSTl8PAuAdqWYSMnL02"]);
    assert_eq!(store.syncs().len(), 2);
    assert_eq!(store.cleanup(1).unwrap(), Vec::<String>::new());
}

#[test]
fn a_graph_that_cannot_be_opened_gets_no_journal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "no graph").unwrap();
    assert!(GraphStore::open(&path).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_a_killed_writer_left_of_its_runs_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    for (name, goes) in [
        (".graph.dpack.run-3", true),
        ("..graph.dpack.run-12.part", true),
        ("..graph.dpack.run-x.part", false),
        (".graph.dpack.run-3.bak", false),
        (".other.dpack.run-3", false),
    ] {
        std::fs::write(dir.path().join(name), "left").unwrap();
        drop(GraphStore::open(&path).unwrap());
        assert_eq!(dir.path().join(name).exists(), !goes, "{name}");
    }
}

/// What a principal lies in is something that a grant says, not what it is known by.
#[test]
fn a_grant_whose_principal_moved_is_a_change_and_not_two() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    let mut views = Vec::new();
    for parent in ["here", "there"] {
        store.start_sync(SyncKind::Full, None).unwrap();
        let mut moved = grant("app", "github", "admin", "ada");
        moved.principal.parent = Some(ResourceId::new("team", parent));
        let mut other = grant("app", "github", "admin", "ada");
        other.id = format!("another, since {parent}");
        store.put_grants([&moved, &other, &grant("app", "github", "admin", "bob")]).unwrap();
        let sync = store.end_sync().unwrap();
        views.push(store.view(Some(&sync.id)).unwrap());
    }
    let mut found = Vec::new();
    let counts = diff(&views[0], &views[1], |change| {
        found.push(match change {
            Diff::Grant(Change::Changed(row)) => {
                format!("~ {} in {:?}", row.id, row.principal.parent.unwrap().resource)
            }
            Diff::Grant(Change::Added(row)) => format!("+ {}", row.id),
            Diff::Grant(Change::Removed(row)) => format!("- {}", row.id),
            other => panic!("{other:?}"),
        });
        Ok(())
    });
    assert_eq!(
        found,
        ["+ another, since there", "~ app:github:admin:user:ada in \"there\"", "- another, since here"]
    );
    assert_eq!(counts.unwrap(), DiffCounts { added: 1, changed: 1, removed: 1 });
}

#[test]
fn a_diff_names_every_row_that_differs_and_can_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let older = store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants(["same", "gone", "other"].map(|user| grant("app", "x", "e", user)).iter()).unwrap();
    store.end_sync().unwrap();
    let newer = store.start_sync(SyncKind::Full, None).unwrap();
    let mut changed = grant("app", "x", "e", "other");
    changed.sources = vec![("app:x:e".into(), true)];
    store.put_grants([&grant("app", "x", "e", "same"), &changed, &grant("app", "x", "e", "new")]).unwrap();
    store.end_sync().unwrap();
    let (old, new) = (store.view(Some(&older)).unwrap(), store.view(Some(&newer)).unwrap());
    let mut seen = Vec::new();
    let counts = diff(&old, &new, |change| {
        seen.push(change);
        Ok(())
    });
    let counts = counts.unwrap();
    assert_eq!((counts.added, counts.changed, counts.removed), (1, 1, 1));
    assert!(seen.iter().all(|change| matches!(change, Diff::Grant(_))));
    let [upserts, deletions] = write_diff(&mut store, &older, &newer).unwrap();
    let rows = |store: &mut GraphStore, id: &str| paged(&store.view(Some(id)).unwrap(), GrantScope::All, 0);
    assert_eq!(rows(&mut store, &upserts), [grant("app", "x", "e", "new"), changed]);
    assert_eq!(rows(&mut store, &deletions), [grant("app", "x", "e", "gone")]);
    let syncs = store.syncs();
    let sync = |id: &str| syncs.iter().find(|sync| sync.id == id).unwrap();
    assert_eq!(sync(&upserts).linked.as_deref(), Some(deletions.as_str()));
    assert_eq!(sync(&deletions).linked.as_deref(), Some(upserts.as_str()));
    assert_eq!(sync(&upserts).kind, SyncKind::PartialUpserts);
}

#[test]
fn a_graph_is_copied_through_the_traits_and_exported() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("one.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants([&grant("app", "x, y", "e", "ada")]).unwrap();
    store.end_sync().unwrap();
    let one = GraphPack::open(dir.path().join("one.dpack")).unwrap();
    let mut copy = GraphStore::open(dir.path().join("two.dpack")).unwrap();
    for sync in GraphSource::syncs(&one).unwrap() {
        copy.begin_sync(&sync).unwrap();
        let mut put = Ok(());
        GraphSource::for_each_grant(&one, &sync.id, &mut |row| {
            put = copy.put_grant(&(&row).into());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        put.unwrap();
        GraphSink::end_sync(&mut copy).unwrap();
    }
    let two = GraphPack::open(dir.path().join("two.dpack")).unwrap();
    assert_eq!(GraphSource::syncs(&two).unwrap(), GraphSource::syncs(&one).unwrap());
    let view = two.view(None).unwrap();
    let mut text = Vec::new();
    assert_eq!(write_csv(&view, CsvTable::Grants, &mut text).unwrap(), 1);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().nth(1), Some("\"app:x, y:e:user:ada\",\"app:x, y:e\",app,\"x, y\",user,ada,"));
}
