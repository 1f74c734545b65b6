//! G-1 to G-6: whatever is put, deleted, checkpointed, ended, reopened and merged, every query answers as a map of all
//! rows would.

use std::collections::BTreeMap;
use std::path::Path;

use duramen_access::graph::{
    Any, Asset, Entitlement, EntitlementRef, EntitlementScope, Expansion, Extra, Grant, GrantScope,
    GraphPack, GraphStore, PageRequest, Resource, ResourceId, ResourceScope, ResourceType, StoreOptions,
    SyncKind, SyncView, Timestamp, Trait,
};

use super::paged;

const NAMES: [&str; 9] = ["a", "ab", "a:b", "b", "", "\u{0}", "\u{1}x", "user", "z\u{e9}"];

type EntitlementKey = (ResourceId, String);

/// All rows by their keys.
#[derive(Clone, Default)]
struct Model {
    types: BTreeMap<String, ResourceType>,
    resources: BTreeMap<ResourceId, Resource>,
    entitlements: BTreeMap<EntitlementKey, Entitlement>,
    grants: BTreeMap<String, Grant>,
    assets: BTreeMap<String, Asset>,
}

struct Random(fastrand::Rng);

impl Random {
    fn name(&mut self) -> String {
        NAMES[self.0.usize(..NAMES.len())].to_owned()
    }

    fn id(&mut self) -> String {
        let name = self.name();
        if name.is_empty() {
            "id".to_owned()
        } else {
            name
        }
    }

    fn resource_id(&mut self) -> ResourceId {
        ResourceId::new(self.name(), self.id())
    }

    fn time(&mut self) -> Option<Timestamp> {
        match self.0.u8(..4) {
            0 => None,
            1 => Some(Timestamp { seconds: self.0.i64(..), nanos: self.0.i32(..) }),
            _ => Some(Timestamp { seconds: 1_700_000_000 + self.0.i64(0..3), nanos: 0 }),
        }
    }

    fn annotations(&mut self) -> Vec<Any> {
        let count = self.0.usize(..3);
        (0..count)
            .map(|_| Any { type_url: self.name(), value: vec![self.0.u8(..); self.0.usize(..20)] })
            .collect()
    }

    fn extra(&mut self) -> Extra {
        Extra { connector: vec![1; self.0.usize(..3)], storage: vec![2; self.0.usize(..3)] }
    }

    fn grant(&mut self) -> Grant {
        let entitlement = EntitlementRef { resource: self.resource_id(), id: self.name() };
        let mut grant = Grant { entitlement, ..Grant::default() };
        grant.principal.id = ResourceId::new(self.name(), self.name());
        grant.discovered_at = self.time();
        grant.id = if self.0.u8(..4) == 0 {
            // One that ends with 00 sorts behind the one that it continues, whatever its edge.
            format!("id-{}{}", self.0.u8(..40), if self.0.u8(..4) == 0 { "\u{0}" } else { "" })
        } else {
            format!(
                "{}:{}:{}",
                grant.entitlement.id, grant.principal.id.resource_type, grant.principal.id.resource
            )
        };
        if self.0.u8(..6) == 0 {
            grant.principal.parent = Some(self.resource_id());
        }
        if self.0.u8(..5) == 0 {
            grant.annotations = self.annotations();
            grant.sources = vec![(self.id(), self.0.bool())];
            grant.needs_expansion = self.0.bool();
            grant.extra = self.extra();
            if self.0.bool() {
                let expansion =
                    Expansion { entitlement_ids: vec![self.id()], shallow: true, ..Expansion::default() };
                grant.expansion = Some(expansion);
                grant.embedded_principal = Some(vec![7; 3]);
            }
        }
        grant
    }

    fn resource(&mut self) -> Resource {
        Resource {
            id: self.resource_id(),
            parent: if self.0.bool() { Some(self.resource_id()) } else { None },
            display_name: self.name(),
            annotations: self.annotations(),
            profile: if self.0.bool() { Some(vec![3; 4]) } else { None },
            created_at: self.time(),
            discovered_at: self.time(),
            extra: self.extra(),
            ..Resource::default()
        }
    }

    fn entitlement(&mut self) -> Entitlement {
        Entitlement {
            id: self.id(),
            resource: self.resource_id(),
            slug: self.name(),
            grantable_to: vec![self.name()],
            annotations: self.annotations(),
            discovered_at: self.time(),
            ..Entitlement::default()
        }
    }
}

/// The order in which grants come: by entitlement, principal with its parent, id.
fn by_entitlement(grants: &mut [Grant]) {
    let parent = |grant: &Grant| grant.principal.parent.clone();
    grants.sort_by(|a, b| {
        let entitlement = a.entitlement.resource.cmp(&b.entitlement.resource);
        let entitlement = entitlement.then_with(|| a.entitlement.id.cmp(&b.entitlement.id));
        let principal = entitlement.then_with(|| a.principal.id.cmp(&b.principal.id));
        principal.then_with(|| parent(a).cmp(&parent(b))).then_with(|| a.id.cmp(&b.id))
    });
}

fn by_principal(grants: &mut [Grant]) {
    by_entitlement(grants);
    grants
        .sort_by(|a, b| (&a.principal.id, &a.principal.parent).cmp(&(&b.principal.id, &b.principal.parent)));
}

fn all<Row>(
    mut page: impl FnMut(PageRequest<'_>) -> duramen_access::graph::Page<Row>,
    size: usize,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = page(PageRequest { size, token: token.as_deref() });
        rows.extend(page.rows);
        match page.next {
            Some(next) => token = Some(next),
            None => return rows,
        }
    }
}

fn check(view: &SyncView, model: &Model, random: &mut Random) {
    let size = random.0.usize(1..30);
    let mut expected: Vec<Grant> = model.grants.values().cloned().collect();
    by_entitlement(&mut expected);
    assert_eq!(paged(view, GrantScope::All, size), expected);
    let streamed: Vec<Grant> = view.iter_grants(GrantScope::All).collect::<Result<_, _>>().unwrap();
    assert_eq!(streamed, expected);
    for _ in 0..6 {
        let resource = random.resource_id();
        let matching = |keep: &dyn Fn(&Grant) -> bool| -> Vec<Grant> {
            expected.iter().filter(|g| keep(g)).cloned().collect()
        };
        assert_eq!(
            paged(view, GrantScope::Resource(&resource), size),
            matching(&|grant| grant.entitlement.resource == resource)
        );
        let kind = random.name();
        assert_eq!(
            paged(view, GrantScope::ResourceType(&kind), size),
            matching(&|grant| grant.entitlement.resource.resource_type == kind)
        );
        let id = random.name();
        assert_eq!(
            paged(view, GrantScope::Entitlement(&id), size),
            matching(&|grant| grant.entitlement.id == id)
        );
        let several: Vec<EntitlementRef> = (0..random.0.usize(..4))
            .map(|_| EntitlementRef { resource: random.resource_id(), id: random.name() })
            .collect();
        assert_eq!(
            paged(view, GrantScope::Entitlements(&several), size),
            matching(&|grant| several.contains(&grant.entitlement))
        );
        let principal = ResourceId::new(random.name(), random.name());
        let mut held = matching(&|grant| grant.principal.id == principal);
        by_principal(&mut held);
        assert_eq!(paged(view, GrantScope::Principal(&principal), size), held);
        let id = random.grant().id;
        assert_eq!(view.grant(&id).unwrap(), model.grants.get(&id).cloned());
    }
    let types: Vec<ResourceType> = model.types.values().cloned().collect();
    assert_eq!(all(|page| view.resource_types(page).unwrap(), size), types);
    let resources: Vec<Resource> = model.resources.values().cloned().collect();
    assert_eq!(all(|page| view.resources(ResourceScope::All, page).unwrap(), size), resources);
    for _ in 0..3 {
        let parent = random.resource_id();
        let below: Vec<Resource> =
            resources.iter().filter(|row| row.parent.as_ref() == Some(&parent)).cloned().collect();
        assert_eq!(all(|page| view.resources(ResourceScope::Parent(&parent), page).unwrap(), size), below);
        let kind = random.name();
        let of_type: Vec<Resource> =
            resources.iter().filter(|row| row.id.resource_type == kind).cloned().collect();
        assert_eq!(
            all(|page| view.resources(ResourceScope::ResourceType(&kind), page).unwrap(), size),
            of_type
        );
        let id = random.resource_id();
        assert_eq!(view.resource(&id).unwrap(), model.resources.get(&id).cloned());
        let of_resource: Vec<Entitlement> =
            model.entitlements.values().filter(|row| row.resource == id).cloned().collect();
        assert_eq!(
            all(|page| view.entitlements(EntitlementScope::Resource(&id), page).unwrap(), size),
            of_resource
        );
        let id = random.id();
        let first = model.entitlements.values().find(|row| row.id == id).cloned();
        assert_eq!(view.entitlement(&id).unwrap(), first);
    }
    let entitlements: Vec<Entitlement> = model.entitlements.values().cloned().collect();
    assert_eq!(all(|page| view.entitlements(EntitlementScope::All, page).unwrap(), size), entitlements);
    let assets: Vec<Asset> = model.assets.values().cloned().collect();
    assert_eq!(all(|page| view.assets(page).unwrap(), size), assets);
}

fn change(store: &mut GraphStore, model: &mut Model, random: &mut Random) {
    match random.0.u8(..12) {
        0..=4 => {
            let count = random.0.usize(1..40);
            let grants: Vec<Grant> = (0..count).map(|_| random.grant()).collect();
            store.put_grants(&grants).unwrap();
            model.grants.extend(grants.into_iter().map(|grant| (grant.id.clone(), grant)));
        }
        5 => {
            let ids: Vec<String> = (0..5).map(|_| random.grant().id).collect();
            let some = model.grants.keys().nth(random.0.usize(..50)).cloned();
            let ids: Vec<&str> = ids.iter().chain(&some).map(String::as_str).collect();
            store.delete_grants(&ids).unwrap();
            ids.iter().for_each(|id| drop(model.grants.remove(*id)));
        }
        6 => {
            let rows: Vec<Resource> = (0..random.0.usize(1..6)).map(|_| random.resource()).collect();
            store.put_resources(&rows).unwrap();
            model.resources.extend(rows.into_iter().map(|row| (row.id.clone(), row)));
        }
        7 => {
            let rows: Vec<Entitlement> = (0..random.0.usize(1..6)).map(|_| random.entitlement()).collect();
            store.put_entitlements(&rows).unwrap();
            let keyed = rows.into_iter().map(|row| ((row.resource.clone(), row.id.clone()), row));
            model.entitlements.extend(keyed);
        }
        8 => {
            let traits = vec![Trait::User, Trait::Unknown(77)];
            let row =
                ResourceType { id: random.id(), traits, extra: random.extra(), ..ResourceType::default() };
            store.put_resource_types([&row]).unwrap();
            model.types.insert(row.id.clone(), row);
        }
        9 => {
            let data = vec![random.0.u8(..); random.0.usize(..500)];
            let row =
                Asset { id: random.id(), content_type: random.name(), data, discovered_at: random.time() };
            store.put_assets([&row]).unwrap();
            model.assets.insert(row.id.clone(), row);
        }
        10 => {
            let id = random.resource_id();
            store.delete_resource(&id).unwrap();
            model.resources.remove(&id);
        }
        _ => {
            let (resource, id) = (random.resource_id(), random.id());
            store.delete_entitlement(&resource, &id).unwrap();
            model.entitlements.remove(&(resource, id));
        }
    }
}

fn open(path: &Path) -> GraphStore {
    GraphStore::open_with(path, StoreOptions { memory_bytes: 64 << 10 }).unwrap()
}

fn run(seed: u64) {
    let mut random = Random(duramen_base::entropy::rng(seed));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let mut store = open(&path);
    let id = store.start_sync(SyncKind::Full, None).unwrap();
    let mut model = Model::default();
    let mut ended: Vec<(String, Model)> = Vec::new();
    for _ in 0..60 {
        for _ in 0..random.0.usize(1..8) {
            change(&mut store, &mut model, &mut random);
        }
        match random.0.u8(..8) {
            0 => store.checkpoint("here").unwrap(),
            1 => {
                // As if killed: nothing is closed.
                drop(store);
                store = open(&path);
                assert_eq!(store.cut_off_bytes(), 0);
            }
            2 => {
                store.close().unwrap();
                store = open(&path);
            }
            3 => {
                store.end_sync().unwrap();
                let graph = GraphPack::open(&path).unwrap();
                graph.verify(&mut |_, _| {}).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                check(&graph.view(Some(&id)).unwrap(), &model, &mut random);
                store.open_sync(&id).unwrap();
            }
            4 if ended.len() < 3 => {
                // Another sync comes between, and stays as it was.
                store.suspend().unwrap();
                let other = store.start_sync(SyncKind::Partial, Some(&id)).unwrap();
                let mut rows = Model::default();
                change(&mut store, &mut rows, &mut random);
                store.end_sync().unwrap();
                ended.push((other, rows));
                store.open_sync(&id).unwrap();
            }
            _ => {}
        }
        if random.0.u8(..3) == 0 {
            check(&store.view(None).unwrap(), &model, &mut random);
        }
    }
    let sync = store.end_sync().unwrap();
    let graph = GraphPack::open(&path).unwrap();
    graph.verify(&mut |_, _| {}).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    check(&graph.view(Some(&sync.id)).unwrap(), &model, &mut random);
    for (other, rows) in &ended {
        check(&graph.view(Some(other)).unwrap(), rows, &mut random);
    }
    let stats = graph.stats(&id).unwrap();
    assert_eq!(stats.grants, model.grants.len() as u64);
    assert_eq!(stats.resources, model.resources.len() as u64);
    let principals: std::collections::BTreeSet<_> =
        model.grants.values().map(|grant| &grant.principal).collect();
    assert_eq!(stats.principals, principals.len() as u64);
    let entitlements: std::collections::BTreeSet<_> =
        model.grants.values().map(|grant| &grant.entitlement).collect();
    assert_eq!(stats.granted_entitlements, entitlements.len() as u64);
    assert_eq!(stats.grants_by_type.values().sum::<u64>(), stats.grants);
    assert_eq!(stats.grants_by_principal_type.values().sum::<u64>(), stats.grants);
    drop(store);
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["graph.dpack"], "nothing is left beside the file");
}

#[test]
fn every_query_answers_as_a_map_would() {
    let seed = duramen_base::entropy::seed();
    println!("DURAMEN_SEED={seed}");
    for round in 0..6 {
        run(seed.wrapping_add(round));
    }
}
