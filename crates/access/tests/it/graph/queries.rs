//! G-5: page tokens stay good while rows come and go, and belong to one query.

use duramen_access::graph::{
    EntitlementRef, GrantScope, GraphError, GraphPack, GraphStore, PageRequest, ResourceId, SyncKind,
};

use super::{grant, paged};

fn users(store: &mut GraphStore, users: impl Iterator<Item = usize>) {
    let rows: Vec<_> = users.map(|user| grant("app", "x", "e", &format!("{user:06}"))).collect();
    store.put_grants(&rows).unwrap();
}

#[test]
fn a_page_of_none_or_too_many_rows_has_ten_thousand() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    users(&mut store, 0..20_001);
    store.end_sync().unwrap();
    let view = GraphPack::open(&path).unwrap().view(None).unwrap();
    for size in [0, 10_000, 10_001, usize::MAX] {
        assert_eq!(view.grants(GrantScope::All, PageRequest { size, token: None }).unwrap().len(), 10_000);
    }
    for size in [0, 1_234, 10_000] {
        let rows = paged(&view, GrantScope::All, size);
        assert_eq!(rows.len(), 20_001);
        assert!(rows.windows(2).all(|pair| pair[0].id < pair[1].id));
    }
    let exact = view.grants(GrantScope::All, PageRequest { size: 10_000, token: None }).unwrap();
    let second =
        view.grants(GrantScope::All, PageRequest { size: 10_000, token: exact.next_token() }).unwrap();
    let third =
        view.grants(GrantScope::All, PageRequest { size: 10_000, token: second.next_token() }).unwrap();
    assert_eq!((third.len(), third.next_token()), (1, None));
}

#[test]
fn a_token_goes_on_after_rows_came_and_went_and_the_file_was_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    let id = store.start_sync(SyncKind::Full, None).unwrap();
    users(&mut store, (0..100).map(|user| user * 2));
    let view = store.view(None).unwrap();
    let first = view.grants(GrantScope::All, PageRequest { size: 10, token: None }).unwrap();
    let token = first.next_token().unwrap().to_owned();
    assert_eq!(first.get(9).unwrap().principal(), "000018");
    store.end_sync().unwrap();
    store.open_sync(&id).unwrap();
    // The last row of the page goes, and others come on both sides of it.
    store.delete_grants(&["app:x:e:user:000018"]).unwrap();
    users(&mut store, [17, 19, 21].into_iter());
    let next = |store: &mut GraphStore| {
        let page =
            store.view(None).unwrap().grants(GrantScope::All, PageRequest { size: 4, token: Some(&token) });
        page.unwrap().iter().map(|row| row.principal().to_owned()).collect::<Vec<_>>()
    };
    let expected = ["000019", "000020", "000021", "000022"];
    assert_eq!(next(&mut store), expected);
    store.end_sync().unwrap();
    assert_eq!(next(&mut store), expected);
}

#[test]
fn a_token_of_another_query_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = GraphStore::open(dir.path().join("graph.dpack")).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    users(&mut store, 0..10);
    let view = store.view(None).unwrap();
    let page = view.grants(GrantScope::All, PageRequest { size: 3, token: None }).unwrap();
    let token = page.next_token();
    let user = ResourceId::new("user", "000001");
    for scope in
        [GrantScope::Principal(&user), GrantScope::ResourceType("app"), GrantScope::Entitlement("app:x:e")]
    {
        let asked = view.grants(scope, PageRequest { size: 3, token });
        assert!(matches!(asked, Err(GraphError::InvalidPageToken)), "{scope:?}");
    }
    for token in ["", "x", "!!!", "AAAA"] {
        let asked = view.grants(GrantScope::All, PageRequest { size: 3, token: Some(token) });
        assert!(matches!(asked, Err(GraphError::InvalidPageToken)), "{token:?}");
    }
    let many = vec![EntitlementRef::default(); 129];
    let asked = view.grants(GrantScope::Entitlements(&many), PageRequest::default());
    assert!(matches!(asked, Err(GraphError::TooManyEntitlements { count: 129, limit: 128 })));
}
