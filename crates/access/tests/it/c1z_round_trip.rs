//! What is put into a `.c1z` file comes out of it, and what does not fit is reported.

use crate::c1z_support::*;
use duramen_access::c1z::*;
use duramen_access::graph::*;

#[test]
fn the_same_random_graph_comes_out_of_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..12 {
        let graph = Graph::random(seed, [0, 1, 7, 300, 3000][seed as usize % 5]);
        let (v1, v3) = (dir.path().join("1.c1z"), dir.path().join("3.c1z"));
        assert_eq!(write_v1(&graph, &v1), [], "seed {seed}");
        assert_eq!(write_v3(&graph, &v3), [], "seed {seed}");
        assert_eq!(read_v1(&v1).unwrap(), graph, "seed {seed}");
        assert_eq!(read_v3(&v3).unwrap(), graph, "seed {seed}");
        assert_eq!(
            (Version::detect(&v1).unwrap(), Version::detect(&v3).unwrap()),
            (Version::V1, Version::V3)
        );
    }
}

#[test]
fn the_last_of_several_rows_with_one_id_counts_in_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut twice, mut last) = (Graph::random(1, 50), Graph::random(1, 50));
    for row in &mut last.resources {
        row.display_name.push_str(" again");
        row.parent = None;
    }
    for row in &mut last.grants {
        row.annotations.clear();
        row.needs_expansion = false;
    }
    for row in &mut last.assets {
        row.data = b"another".to_vec();
    }
    twice.resources.extend(last.resources.clone());
    twice.grants.extend(last.grants.clone());
    twice.assets.extend(last.assets.clone());
    let (v1, v3) = (dir.path().join("1.c1z"), dir.path().join("3.c1z"));
    write_v1(&twice, &v1);
    write_v3(&twice, &v3);
    assert_eq!(read_v1(&v1).unwrap(), last);
    assert_eq!(read_v3(&v3).unwrap(), last);
}

#[test]
fn what_version_3_cannot_hold_is_told_with_how_often_and_an_example() {
    let dir = tempfile::tempdir().unwrap();
    let mut graph = Graph::random(2, 5);
    graph.resource_types[0].traits.push(Trait::Unknown(99));
    graph.resources[0].baton_resource = true;
    graph.entitlements[0].purpose = Purpose::Unknown(17);
    graph.entitlements[1].embedded_grantable_to = vec![vec![10, 1, b'x', 18, 1, b'y']];
    for grant in &mut graph.grants[..3] {
        grant.embedded_principal = Some(vec![26, 1, b'n']);
        grant.extra.connector = vec![0xa0, 6, 1];
    }
    let losses = write_v3(&graph, &dir.path().join("3.c1z"));
    let reported = |row: &str, what: &str| {
        losses.iter().find(|loss| loss.row == row && loss.what == what).map(|loss| loss.rows)
    };
    assert_eq!(reported("resource type", "traits with a number that has no name"), Some(1));
    assert_eq!(reported("resource", "baton_resource"), Some(1));
    assert_eq!(reported("entitlement", "purpose with a number that has no name"), Some(1));
    assert_eq!(reported("entitlement", "grantable_to beyond ids"), Some(1));
    assert_eq!(reported("grant", "principal beyond its ids"), Some(3));
    assert_eq!(reported("grant", "unknown fields of connector messages"), Some(3));
    assert_eq!(losses.len(), 6, "{losses:?}");
    // Version 1 holds all of it but the fields of the other family.
    let v1 = dir.path().join("1.c1z");
    graph.grants[0].extra.storage = vec![0x52, 1, b's'];
    let losses = write_v1(&graph, &v1);
    assert_eq!(losses.len(), 1, "{losses:?}");
    graph.grants[0].extra.storage.clear();
    // What is embedded says the ids too, for readers; without them nothing else would.
    let back = read_v1(&v1).unwrap();
    assert_eq!(back.resource_types, graph.resource_types);
    assert_eq!(back.resources, graph.resources);
    assert_eq!(back.grants[4], graph.grants[4]);
}

#[test]
fn unknown_fields_survive_the_version_that_they_belong_to() {
    let dir = tempfile::tempdir().unwrap();
    let mut graph = Graph::random(3, 5);
    let unknown = vec![0xa0, 6, 1, 0xaa, 6, 2, b'h', b'i'];
    graph.resources[0].extra.connector = unknown.clone();
    graph.grants[0].extra.connector = unknown.clone();
    let v1 = dir.path().join("1.c1z");
    assert_eq!(write_v1(&graph, &v1), []);
    assert_eq!(read_v1(&v1).unwrap(), graph);
    let mut graph = Graph::random(3, 5);
    graph.resources[0].extra.storage = unknown.clone();
    graph.grants[0].extra.storage = unknown.clone();
    graph.sync.extra.storage = unknown;
    let v3 = dir.path().join("3.c1z");
    assert_eq!(write_v3(&graph, &v3), []);
    assert_eq!(read_v3(&v3).unwrap(), graph);
}

#[test]
fn version_1_holds_many_syncs_and_version_3_refuses_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.c1z");
    let mut writer = C1z1Writer::create(&path, &WriteOptions::default()).unwrap();
    let mut graphs: Vec<Graph> = (0..3).map(|seed| Graph::random(seed, 20)).collect();
    for (graph, number) in graphs.iter_mut().zip(0..) {
        graph.sync.id = format!("2aGyRUbxAdE4MTzLqMxgsT1HNj{number}");
        graph.sync.started_at = Timestamp { seconds: 1_000 + number, nanos: 0 };
        graph.put(&mut writer).unwrap();
    }
    writer.finish().unwrap();
    let file = C1z1::open(&path, &ReadOptions::default()).unwrap();
    let syncs = file.syncs().unwrap();
    assert_eq!(syncs, graphs.iter().map(|graph| graph.sync.clone()).collect::<Vec<_>>());
    for (sync, graph) in syncs.iter().zip(&graphs) {
        let copy = dir.path().join("3.c1z");
        let mut sink = C1z3Writer::create(&copy, &WriteOptions::default()).unwrap();
        let copied = duramen_access::convert::copy(&file, &mut sink, std::slice::from_ref(sync)).unwrap();
        assert_eq!(copied.grants, graph.grants.len() as u64);
        let error = sink.begin_sync(sync).unwrap_err();
        assert!(error.to_string().contains("holds one sync"), "{error}");
        sink.finish().unwrap();
        assert_eq!(read_v3(&copy).unwrap(), *graph);
    }
    let missing = file.for_each_asset("another", &mut |_| std::ops::ControlFlow::Continue(()));
    assert!(matches!(missing, Err(C1zError::NoSuchSync { .. })));
}

#[test]
fn grants_of_one_edge_become_one_in_version_3_and_that_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("3.c1z");
    let mut graph = Graph::random(4, 3);
    let mut second = graph.grants[0].clone();
    second.id = "second".to_owned();
    graph.grants.push(second);
    let losses = write_v3(&graph, &path);
    assert_eq!((losses.len(), losses[0].rows, losses[0].example.as_str()), (1, 1, "second"));
    assert_eq!(read_v3(&path).unwrap().grants.len(), 3);
    // An id that moves to another edge cannot be taken back.
    let mut moved = graph.grants[1].clone();
    moved.principal.id.resource = "somebody else".to_owned();
    graph.grants.push(moved);
    let mut writer = C1z3Writer::create(&dir.path().join("other.c1z"), &WriteOptions::default()).unwrap();
    assert!(matches!(graph.put(&mut writer), Err(C1zError::Row { row: "grant", .. })));
}

#[test]
fn rows_that_fill_several_tables_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("3.c1z");
    let count = write_many(&path);
    let file = C1z3::open(&path, &ReadOptions::default()).unwrap();
    let mut found = std::collections::HashSet::new();
    file.for_each_grant(SYNC, &mut |row| {
        assert_eq!(row.id, format!("{}:user:{}", row.entitlement.id, row.principal.id.resource));
        assert!(found.insert(row.id), "a grant comes twice");
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(found.len(), count);
    // Blocks are compressed in their tables, so the files of the directory are not long either.
    let (stored, raw) = file.sizes();
    assert!(stored < raw && raw < 16 * count as u64, "{stored} of {raw} bytes");
}

#[test]
fn the_same_rows_in_any_order_give_the_same_version_3_file() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (dir.path().join("one.c1z"), dir.path().join("other.c1z"));
    let mut graph = Graph::random(6, 2_000);
    write_v3(&graph, &one);
    let mut random = fastrand::Rng::with_seed(6);
    random.shuffle(&mut graph.resources);
    random.shuffle(&mut graph.entitlements);
    random.shuffle(&mut graph.grants);
    write_v3(&graph, &other);
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap());
}
