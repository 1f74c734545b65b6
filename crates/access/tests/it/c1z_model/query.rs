//! The queries of a pack, held against the model.

use std::collections::BTreeSet;

use duramen_access::graph::*;

use super::Model;

/// All rows of a query in pages of a size.
fn all<Row>(size: usize, mut page: impl FnMut(PageRequest<'_>) -> Page<Row>) -> Vec<Row> {
    let (mut rows, mut token) = (Vec::new(), None::<String>);
    loop {
        let found = page(PageRequest { size, token: token.as_deref() });
        rows.extend(found.rows);
        match found.next {
            Some(next) => token = Some(next),
            None => return rows,
        }
    }
}

fn grants(view: &SyncView, scope: GrantScope<'_>, size: usize) -> Vec<Grant> {
    let (mut rows, mut token) = (Vec::new(), None::<String>);
    loop {
        let page = view.grants(scope, PageRequest { size, token: token.as_deref() }).unwrap();
        rows.extend(page.to_grants().unwrap());
        match page.next_token() {
            Some(next) => token = Some(next.to_owned()),
            None => break,
        }
    }
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows
}

/// Every query, for everything that the rows name.
pub(crate) fn check(view: &SyncView, model: &Model, said: &str) {
    let matching = |keep: &dyn Fn(&Grant) -> bool| -> Vec<Grant> {
        model.grants.values().filter(|grant| keep(grant)).cloned().collect()
    };
    assert_eq!(grants(view, GrantScope::All, 7), matching(&|_| true), "{said}");
    let entitlements: BTreeSet<&EntitlementRef> = model.grants.values().map(|row| &row.entitlement).collect();
    for entitlement in &entitlements {
        let found = grants(view, GrantScope::Entitlement(&entitlement.id), 3);
        assert_eq!(found, matching(&|grant| grant.entitlement.id == entitlement.id), "{said}");
    }
    let some: Vec<EntitlementRef> =
        entitlements.into_iter().step_by(3).take(MAX_ENTITLEMENTS).cloned().collect();
    let found = grants(view, GrantScope::Entitlements(&some), 5);
    assert_eq!(found, matching(&|grant| some.contains(&grant.entitlement)), "{said}");
    let named: BTreeSet<&ResourceId> =
        model.grants.values().flat_map(|row| [&row.entitlement.resource, &row.principal.id]).collect();
    for id in &named {
        let found = grants(view, GrantScope::Principal(id), 2);
        assert_eq!(found, matching(&|grant| grant.principal.id == **id), "{said}");
        let found = grants(view, GrantScope::Resource(id), 2);
        assert_eq!(found, matching(&|grant| grant.entitlement.resource == **id), "{said}");
    }
    for kind in named.iter().map(|id| &id.resource_type).collect::<BTreeSet<_>>() {
        let found = grants(view, GrantScope::ResourceType(kind), 11);
        assert_eq!(found, matching(&|grant| grant.entitlement.resource.resource_type == *kind), "{said}");
    }
    for (id, grant) in &model.grants {
        assert_eq!(view.grant(id).unwrap().as_ref(), Some(grant), "{said}");
    }
    assert_eq!(view.grant("nobody's").unwrap(), None);
    check_records(view, model, said);
}

fn check_records(view: &SyncView, model: &Model, said: &str) {
    let types: Vec<ResourceType> = model.types.values().cloned().collect();
    assert_eq!(all(2, |page| view.resource_types(page).unwrap()), types, "{said}");
    for row in &types {
        assert_eq!(view.resource_type(&row.id).unwrap().as_ref(), Some(row), "{said}");
    }
    let resources: Vec<Resource> = model.resources.values().cloned().collect();
    assert_eq!(all(2, |page| view.resources(ResourceScope::All, page).unwrap()), resources, "{said}");
    let ids: Vec<ResourceId> = model.resources.keys().cloned().collect();
    assert_eq!(view.resources_by_ids(&ids).unwrap(), resources, "{said}");
    for parent in resources.iter().filter_map(|row| row.parent.as_ref()).collect::<BTreeSet<_>>() {
        let found = all(1, |page| view.resources(ResourceScope::Parent(parent), page).unwrap());
        let below = resources.iter().filter(|row| row.parent.as_ref() == Some(parent));
        assert_eq!(found, below.cloned().collect::<Vec<_>>(), "{said}");
    }
    for kind in ids.iter().map(|id| &id.resource_type).collect::<BTreeSet<_>>() {
        let found = all(3, |page| view.resources(ResourceScope::ResourceType(kind), page).unwrap());
        let of_type = resources.iter().filter(|row| row.id.resource_type == *kind);
        assert_eq!(found, of_type.cloned().collect::<Vec<_>>(), "{said}");
    }
    let entitlements: Vec<Entitlement> = model.entitlements.values().cloned().collect();
    assert_eq!(
        all(2, |page| view.entitlements(EntitlementScope::All, page).unwrap()),
        entitlements,
        "{said}"
    );
    for row in &entitlements {
        assert_eq!(view.entitlement(&row.id).unwrap().as_ref(), Some(row), "{said}");
        let found =
            all(1, |page| view.entitlements(EntitlementScope::Resource(&row.resource), page).unwrap());
        let of_resource = entitlements.iter().filter(|other| other.resource == row.resource);
        assert_eq!(found, of_resource.cloned().collect::<Vec<_>>(), "{said}");
    }
    let assets: Vec<Asset> = model.assets.values().cloned().collect();
    assert_eq!(all(1, |page| view.assets(page).unwrap()), assets, "{said}");
    for row in &assets {
        assert_eq!(view.asset(&row.id).unwrap().as_ref(), Some(row), "{said}");
    }
    let stats = view.stats().unwrap();
    let counted = [stats.resource_types, stats.resources, stats.entitlements, stats.grants, stats.assets];
    let known = [types.len(), resources.len(), entitlements.len(), model.grants.len(), assets.len()]
        .map(|rows| rows as u64);
    assert_eq!(counted, known, "{said}");
}
