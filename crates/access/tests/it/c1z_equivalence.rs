//! The same graph says the same from a pack and from both versions of `.c1z`.

use crate::c1z_support::*;
use duramen_access::c1z::*;
use duramen_access::convert::copy;
use duramen_access::graph::*;

#[test]
fn a_graph_that_goes_through_all_formats_stays_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 40..46 {
        let graph = Graph::random(seed, 500);
        let path = |name: &str| dir.path().join(format!("{seed}{name}"));
        let (v1, v3, dpack, back) = (path("1.c1z"), path("3.c1z"), path(".dpack"), path("back.c1z"));
        assert_eq!(write_v1(&graph, &v1), [], "seed {seed}");

        let source = C1z1::open(&v1, &ReadOptions::default()).unwrap();
        let mut sink = GraphStore::open(&dpack).unwrap();
        copy(&source, &mut sink, &source.syncs().unwrap()).unwrap();
        assert_eq!(sink.losses(), []);
        sink.close().unwrap();
        let pack = GraphPack::open(&dpack).unwrap();
        assert_eq!(Graph::read(&pack).unwrap(), graph, "seed {seed}");

        let mut sink = C1z3Writer::create(&v3, &WriteOptions::default()).unwrap();
        copy(&pack, &mut sink, &GraphSource::syncs(&pack).unwrap()).unwrap();
        assert_eq!(sink.losses(), []);
        sink.finish().unwrap();
        assert_eq!(read_v3(&v3).unwrap(), graph, "seed {seed}");

        let source = C1z3::open(&v3, &ReadOptions::default()).unwrap();
        let mut sink = C1z1Writer::create(&back, &WriteOptions::default()).unwrap();
        copy(&source, &mut sink, &source.syncs().unwrap()).unwrap();
        assert_eq!(sink.losses(), []);
        sink.finish().unwrap();
        assert_eq!(read_v1(&back).unwrap(), graph, "seed {seed}");
    }
}

/// Files that an earlier version wrote are read for ever: the same graph as a pack and as both versions of `.c1z`, of
/// which version 3 was written with logs first and with tables later. They were written by running this test with
/// `DURAMEN_WRITE_FIXTURES=1`, which writes what is missing; those that are there are never written again. Logs are no
/// longer written.
#[test]
fn a_graph_that_was_written_once_is_read_for_ever() {
    let kept =
        |name: &str| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1").join(name);
    let is_wanted = |name: &str| std::env::var_os("DURAMEN_WRITE_FIXTURES").is_some() && !kept(name).exists();
    if is_wanted("graph.1.c1z") {
        assert_eq!(write_v1(&Graph::random(7, 300), &kept("graph.1.c1z")), []);
    }
    let source = C1z1::open(&kept("graph.1.c1z"), &ReadOptions::default()).unwrap();
    if is_wanted("graph.dpack") {
        let mut pack = GraphStore::open(kept("graph.dpack")).unwrap();
        copy(&source, &mut pack, &source.syncs().unwrap()).unwrap();
        pack.close().unwrap();
    }
    if is_wanted("graph.3t.c1z") {
        let mut v3 = C1z3Writer::create(&kept("graph.3t.c1z"), &WriteOptions::default()).unwrap();
        copy(&source, &mut v3, &source.syncs().unwrap()).unwrap();
        v3.finish().unwrap();
    }
    let graph = Graph::read(&GraphPack::open(kept("graph.dpack")).unwrap()).unwrap();
    assert_eq!(read_v1(&kept("graph.1.c1z")).unwrap(), graph);
    assert_eq!(read_v3(&kept("graph.3.c1z")).unwrap(), graph);
    assert_eq!(read_v3(&kept("graph.3t.c1z")).unwrap(), graph);
    let pack = GraphPack::open(kept("graph.dpack")).unwrap();
    let counted = pack.stats(&pack.default_sync().unwrap().id).unwrap();
    assert!(counted.grants > 50 && counted.resources > 10, "{counted:?}");
}
