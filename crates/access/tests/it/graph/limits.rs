//! What is at a limit is kept whole, and what is beyond it is refused before anything is written.

use duramen_access::graph::{
    Asset, GrantScope, GraphError, GraphPack, GraphStore, PageRequest, Resource, ResourceId, Sync, SyncKind,
    MAX_ID_BYTES, MAX_PAGE_ROWS, MAX_RECORD_BYTES,
};

use super::{grant, paged};

#[test]
fn ids_of_every_length_up_to_the_limit_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let name = |mark: &str, bytes: usize| mark.repeat(bytes / mark.len());
    let mut rows = Vec::new();
    for bytes in [1, 1023, 1024, 1025, MAX_ID_BYTES] {
        for mark in ["x", "\u{0}", "\u{1}", ":"] {
            let mut row = grant("app", &name(mark, bytes), "e", &name(mark, bytes));
            row.entitlement.id = name(mark, bytes);
            row.id = format!("{}:user:{}", row.entitlement.id, row.principal.id.resource);
            rows.push(row);
        }
        let mut row = grant("app", &name("\u{e9}", bytes), "e", &name("\u{1f600}", bytes));
        row.entitlement.id = "e".to_owned();
        row.id = format!("stated {}", name("\u{0}", bytes));
        rows.push(row);
    }
    store.put_grants(&rows).unwrap();
    store.end_sync().unwrap();
    let graph = GraphPack::open(&path).unwrap();
    graph.verify(&mut |_, _| {}).unwrap();
    let view = graph.view(None).unwrap();
    for row in &rows {
        assert_eq!(view.grant(&row.id).unwrap().as_ref(), Some(row));
        assert!(paged(&view, GrantScope::Principal(&row.principal.id), 1).contains(row));
        assert!(paged(&view, GrantScope::Resource(&row.entitlement.resource), 1).contains(row));
    }
}

/// A parent is a part of a key of the index of children: without a limit, the sync could never be ended.
#[test]
fn a_parent_beyond_the_limit_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let child = |bytes: usize| Resource {
        id: ResourceId::new("folder", "\u{0}".repeat(MAX_ID_BYTES)),
        parent: Some(ResourceId::new("\u{0}".repeat(bytes), "\u{1}".repeat(bytes))),
        ..Resource::default()
    };
    assert!(matches!(store.put_resources([&child(MAX_ID_BYTES + 1)]), Err(GraphError::TooLarge { .. })));
    store.put_resources([&child(MAX_ID_BYTES)]).unwrap();
    store.end_sync().unwrap();
    GraphPack::open(&path).unwrap().verify(&mut |_, _| {}).unwrap();
}

#[test]
fn a_token_or_a_sync_beyond_the_limit_is_refused_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    let token = "x".repeat(MAX_RECORD_BYTES + 1);
    let sync = Sync { id: "0ujtsYcgvSTl8PAuAdqWYSMnLOv".to_owned(), token: token.clone(), ..Sync::default() };
    assert!(matches!(store.begin(sync), Err(GraphError::TooLarge { .. })));
    store.start_sync(SyncKind::Full, None).unwrap();
    assert!(matches!(store.checkpoint(&token), Err(GraphError::TooLarge { .. })));
    store.put_grants([&grant("app", "x", "e", "ada")]).unwrap();
    // An id that no grant can have is deleted in vain.
    store.delete_grants(&[&token]).unwrap();
    store.checkpoint(&token[..1000]).unwrap();
    store.end_sync().unwrap();
}

#[test]
fn pages_have_as_many_rows_as_were_asked_for_up_to_the_most() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let rows: Vec<_> = (0..MAX_PAGE_ROWS + 1).map(|user| grant("app", "x", "e", &user.to_string())).collect();
    store.put_grants(&rows).unwrap();
    store.end_sync().unwrap();
    let view = store.view(None).unwrap();
    for (size, expected) in [
        (0, MAX_PAGE_ROWS),
        (1, 1),
        (MAX_PAGE_ROWS - 1, MAX_PAGE_ROWS - 1),
        (MAX_PAGE_ROWS, MAX_PAGE_ROWS),
        (MAX_PAGE_ROWS + 1, MAX_PAGE_ROWS),
        (usize::MAX, MAX_PAGE_ROWS),
    ] {
        let page = view.grants(GrantScope::All, PageRequest { size, token: None }).unwrap();
        assert_eq!(page.len(), expected, "{size}");
        let rest = PageRequest { size: 0, token: page.next_token() };
        assert_eq!(view.grants(GrantScope::All, rest).unwrap().len(), rows.len() - expected);
    }
}

/// Ten thousand rows of eight megabytes each would be more than any machine has.
#[test]
fn a_page_ends_when_it_has_64_mib() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let large = vec![7; 7 << 20];
    for number in 0..11 {
        let data = large.clone();
        store.put_assets([&Asset { id: number.to_string(), data, ..Asset::default() }]).unwrap();
        let mut row = grant("app", "x", "e", &number.to_string());
        row.embedded_principal = Some(large.clone());
        store.put_grants([&row]).unwrap();
    }
    // From memory, and from the file.
    for _ in 0..2 {
        let view = store.view(None).unwrap();
        let assets = view.assets(PageRequest::default()).unwrap();
        assert_eq!(assets.rows.len(), 10);
        let rest = view.assets(PageRequest { size: 0, token: assets.next.as_deref() }).unwrap();
        assert_eq!((rest.rows.len(), rest.next), (1, None));
        let page = view.grants(GrantScope::All, PageRequest::default()).unwrap();
        assert_eq!(page.len(), 10);
        let rest = view.grants(GrantScope::All, PageRequest { size: 0, token: page.next_token() }).unwrap();
        assert_eq!((rest.len(), rest.next_token()), (1, None));
        if store.current_sync().is_some() {
            store.end_sync().unwrap();
        }
    }
}
