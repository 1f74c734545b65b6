//! G-4: what does not fit into memory goes through sorted runs, and comes out the same.

use duramen_access::graph::{Grant, GrantScope, GraphPack, GraphStore, ResourceId, StoreOptions, SyncKind};

use super::{grant, paged};

fn rows(stated: bool) -> Vec<Grant> {
    let mut random = duramen_base::entropy::rng(7);
    let one = |number: usize| {
        let mut row =
            grant("app", "x", &format!("e{}", random.u32(..50)), &format!("u{}", random.u32(..2000)));
        if stated && number.is_multiple_of(3) {
            row.id = format!("stated-{}", random.u32(..5000));
        }
        row.needs_expansion = number.is_multiple_of(100);
        row
    };
    (0..30_000).map(one).collect()
}

fn write(rows: &[Grant], memory_bytes: usize, path: &std::path::Path) -> Vec<Grant> {
    let mut store = GraphStore::open_with(path, StoreOptions { memory_bytes }).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    for batch in rows.chunks(997) {
        store.put_grants(batch).unwrap();
    }
    store.end_sync().unwrap();
    let graph = GraphPack::open(path).unwrap();
    let stats = graph.stats(&graph.default_sync().unwrap().id).unwrap().clone();
    assert_eq!(stats.grants + stats.replaced, rows.len() as u64, "every row was kept or gave way");
    let view = graph.view(None).unwrap();
    let all = paged(&view, GrantScope::All, 0);
    let mut held = 0;
    for user in 0..2000 {
        held += paged(&view, GrantScope::Principal(&ResourceId::new("user", format!("u{user}"))), 0).len();
    }
    assert_eq!(held, all.len(), "the index by principal has every grant once");
    all
}

#[test]
fn rows_that_went_through_runs_are_those_that_were_put() {
    for stated in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let rows = rows(stated);
        let in_memory = write(&rows, 256 << 20, &dir.path().join("memory.dpack"));
        let through_runs = write(&rows, 64 << 10, &dir.path().join("runs.dpack"));
        assert_eq!(in_memory.len(), through_runs.len());
        assert!(in_memory == through_runs);
    }
}
