//! Who has what, and why: told in whole, by pages, and within a bound, whatever a file holds.

use duramen_access::{
    c1z::{C1z1Writer, C1z3Writer, WriteOptions},
    file::GraphFile,
    graph::*,
};
use duramen_attachments::{
    error::{ReadError, Remedy},
    graph::{AccessAsked, Graph, WhyAsked},
    shelf::Shelf,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{202e}";

fn right(kind: &str, name: &str, what: &str) -> Entitlement {
    Entitlement {
        id: format!("{kind}:{name}:{what}"),
        resource: ResourceId::new(kind, name),
        display_name: format!("{what} of {name}"),
        ..Entitlement::default()
    }
}

fn grant(of: &Entitlement, kind: &str, name: &str) -> Grant {
    let mut grant = Grant { id: format!("{}:{kind}:{name}", of.id), ..Grant::default() };
    grant.entitlement = EntitlementRef { resource: of.resource.clone(), id: of.id.clone() };
    grant.principal.id = ResourceId::new(kind, name);
    grant
}

/// Whoever holds the first holds the second, too.
fn leads(from: &Entitlement, to: &Entitlement) -> Grant {
    let ResourceId { resource_type, resource } = &from.resource;
    let mut grant = grant(to, resource_type, resource);
    grant.expansion = Some(Expansion { entitlement_ids: vec![from.id.clone()], ..Expansion::default() });
    grant
}

fn write(path: &Path, rights: &[Entitlement], grants: &[Grant], people: &[&str]) {
    let mut store = GraphStore::open(path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let types =
        ["user", "group", "app"].map(|id| ResourceType { id: id.to_owned(), ..ResourceType::default() });
    store.put_resource_types(&types).unwrap();
    let mut resources: Vec<Resource> =
        rights.iter().map(|right| Resource { id: right.resource.clone(), ..Resource::default() }).collect();
    resources.extend(people.iter().map(|name| Resource {
        id: ResourceId::new("user", *name),
        display_name: format!("{name} {HOSTILE}"),
        ..Resource::default()
    }));
    resources.dedup_by(|a, b| a.id == b.id);
    store.put_resources(&resources).unwrap();
    store.put_entitlements(rights).unwrap();
    store.put_grants(grants).unwrap();
    store.end_sync().unwrap();
}

/// ada is in a team, the team is in the staff, and the staff administers an application, which bob does by himself.
fn company(path: &Path) {
    let (team, staff) = (right("group", "team", "member"), right("group", "staff", "member"));
    let (admin, reader) = (right("app", "shop", "admin"), right("app", "shop", HOSTILE));
    let grants = [
        grant(&team, "user", "ada"),
        leads(&team, &staff),
        leads(&staff, &admin),
        grant(&admin, "user", "bob"),
        grant(&reader, "user", "bob"),
    ];
    write(path, &[team, staff, admin, reader], &grants, &["ada", "bob", "eve"]);
}

fn asked<'a>(resource_type: &'a str) -> AccessAsked<'a> {
    AccessAsked { resource_type: Some(resource_type), limit: 100, ..AccessAsked::default() }
}

#[test]
fn who_has_what_and_why_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.dpack");
    company(&path);
    let graph = Graph::open(&path).unwrap();
    let view = graph.view();
    assert_eq!((view.entitlements, view.grants, view.circles), (4, 5, 0));
    let held = |page: &AccessAsked<'_>| {
        let page = graph.access(page).unwrap();
        assert_eq!(page.next, None);
        page.grants
            .into_iter()
            .map(|grant| (grant.principal.resource, grant.entitlement, grant.direct))
            .collect::<Vec<_>>()
    };
    let of_ada = held(&AccessAsked { principal: Some("ada"), ..asked("user") });
    assert!(of_ada.contains(&("ada".to_owned(), "app:shop:admin".to_owned(), false)), "{of_ada:?}");
    assert_eq!(of_ada.len(), 3);
    let of_shop = held(&AccessAsked { resource: Some("shop"), ..asked("app") });
    assert_eq!(of_shop.iter().filter(|(who, _, _)| who == "bob").count(), 2, "{of_shop:?}");
    assert_eq!(held(&AccessAsked { principal: Some("eve"), ..asked("user") }), []);
    let of_admin =
        held(&AccessAsked { entitlement: Some("app:shop:admin"), limit: 100, ..AccessAsked::default() });
    assert!(of_admin.iter().any(|(who, _, direct)| who == "bob" && *direct), "{of_admin:?}");

    let why = WhyAsked { resource_type: "user", principal: "ada", entitlement: "app:shop:admin" };
    let found = graph.why(&why).unwrap();
    assert_eq!((found.all, found.paths.len()), (Some(1), 1));
    let path = &found.paths[0];
    assert_eq!(
        (path.start.entitlement.as_str(), path.start.name.as_str()),
        ("group:team:member", "member of team")
    );
    let steps: Vec<_> =
        path.steps.iter().map(|step| (step.place.entitlement.as_str(), step.by.resource.as_str())).collect();
    assert_eq!(steps, [("group:staff:member", "team"), ("app:shop:admin", "staff")]);
    assert_eq!(path.steps[1].place.resource.as_ref().unwrap().resource, "shop");

    let found = graph.search("ADA", 10);
    assert_eq!((found.entities.len(), found.truncated), (1, false));
    assert!(found.entities[0].holds && found.entities[0].name.starts_with("ada <img src=x"));
    assert!(!found.entities[0].name.contains('\u{202e}'));
    assert_eq!(graph.search("onerror", 2).entities.len(), 2);
    assert!(graph.search("onerror", 2).truncated);
    assert!(graph.search("nobody at all", 10).entities.is_empty());
}

#[test]
fn pages_have_each_grant_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.dpack");
    let rights: Vec<_> = (0..7).map(|number| right("app", "shop", &format!("r{number}"))).collect();
    let grants: Vec<_> = rights
        .iter()
        .flat_map(|right| (0..30).map(move |who| grant(right, "user", &format!("u{who:02}"))))
        .collect();
    write(&path, &rights, &grants, &[]);
    let graph = Graph::open(&path).unwrap();
    for (page, count) in [
        (AccessAsked { resource: Some("shop"), ..asked("app") }, 210),
        (AccessAsked { principal: Some("u07"), ..asked("user") }, 7),
        (AccessAsked { entitlement: Some("app:shop:r3"), ..asked("") }, 30),
    ] {
        for limit in [1, 4, 30, 1000] {
            let (mut found, mut cursor): (Vec<String>, Option<String>) = Default::default();
            loop {
                let page = graph.access(&AccessAsked { cursor: cursor.as_deref(), limit, ..page }).unwrap();
                assert!(page.grants.len() <= limit);
                found.extend(page.grants.into_iter().map(|grant| grant.grant));
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            let all = found.len();
            found.sort();
            found.dedup();
            assert_eq!((all, found.len()), (count, count), "{limit}");
        }
    }
}

#[test]
fn what_is_not_there_or_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.dpack");
    company(&path);
    let graph = Graph::open(&path).unwrap();
    let refused = |page: &AccessAsked<'_>| graph.access(page).err().unwrap();
    for page in [
        AccessAsked { principal: Some("nobody"), ..asked("user") },
        AccessAsked { principal: Some("ada"), ..asked("app") },
        AccessAsked { resource: Some("none"), ..asked("app") },
        AccessAsked { entitlement: Some("none"), limit: 1, ..AccessAsked::default() },
    ] {
        assert_eq!(refused(&page).remedy(), Remedy::AskForAnother, "{page:?}");
    }
    for page in [
        AccessAsked { limit: 1, ..AccessAsked::default() },
        AccessAsked { principal: Some("ada"), limit: 1, ..AccessAsked::default() },
        AccessAsked { principal: Some("ada"), entitlement: Some("x"), ..asked("user") },
        AccessAsked { principal: Some("ada"), cursor: Some("x"), ..asked("user") },
    ] {
        assert!(matches!(refused(&page), ReadError::Invalid(_)), "{page:?}");
    }
    let why = WhyAsked { resource_type: "user", principal: "eve", entitlement: "app:shop:admin" };
    assert_eq!(graph.why(&why).err().unwrap().code(), "not_there");
}

/// Few grants from which more follows than a machine holds.
#[test]
fn an_answer_that_would_take_all_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.dpack");
    const COUNT: usize = 6000;
    let names = |what: &str| -> Vec<Entitlement> {
        (0..COUNT).map(|number| right("group", &format!("{what}{number}"), "member")).collect()
    };
    let (begin, one, two) = (right("group", "begin", "member"), names("one"), names("two"));
    let circle = |all: &[Entitlement]| -> Vec<Grant> {
        (0..COUNT).map(|at| leads(&all[at], &all[(at + 1) % COUNT])).collect()
    };
    let mut grants = vec![grant(&begin, "user", "ada"), leads(&begin, &one[0]), leads(&one[0], &two[0])];
    grants.extend(circle(&one));
    grants.extend(circle(&two));
    let rights = [&[begin][..], &one, &two].concat();
    write(&path, &rights, &grants, &["ada"]);
    let graph = Graph::open(&path).unwrap();
    assert_eq!(graph.view().circles, 2);
    let why = WhyAsked { resource_type: "user", principal: "ada", entitlement: &two[7].id };
    assert_eq!(graph.why(&why).err().unwrap().code(), "too_much_to_follow");
    let what = AccessAsked { principal: Some("ada"), ..asked("user") };
    // The first pages of it, perhaps; but an end.
    let _ = graph.access(&what);
    let who = AccessAsked { entitlement: Some(&two[7].id), ..asked("") };
    assert!(matches!(graph.access(&who), Err(ReadError::OverBudget(_))));
}

fn copy<T: GraphSink>(source: &GraphFile, sync: &Sync, sink: &mut T) -> Result<(), T::Error> {
    use std::ops::ControlFlow::Continue;
    sink.begin_sync(sync)?;
    let mut rows = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    source
        .for_each_resource_type(&sync.id, &mut |row| {
            rows.0.push(row);
            Continue(())
        })
        .unwrap();
    source
        .for_each_resource(&sync.id, &mut |row| {
            rows.1.push(row);
            Continue(())
        })
        .unwrap();
    source
        .for_each_entitlement(&sync.id, &mut |row| {
            rows.2.push(row);
            Continue(())
        })
        .unwrap();
    source
        .for_each_grant(&sync.id, &mut |row| {
            rows.3.push(row);
            Continue(())
        })
        .unwrap();
    rows.0.iter().try_for_each(|row| sink.put_resource_type(row))?;
    rows.1.iter().try_for_each(|row| sink.put_resource(row))?;
    rows.2.iter().try_for_each(|row| sink.put_entitlement(row))?;
    rows.3.iter().try_for_each(|row| sink.put_grant(&GrantRef::from(row)))?;
    sink.end_sync()
}

#[test]
fn files_of_each_version_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let pack = dir.path().join("access.dpack");
    company(&pack);
    let source = GraphFile::open(&pack, &Default::default()).unwrap();
    let sync = source.sync(None).unwrap();
    let (one, three) = (dir.path().join("1.c1z"), dir.path().join("3.c1z"));
    let mut writer = C1z1Writer::create(&one, &WriteOptions::default()).unwrap();
    copy(&source, &sync, &mut writer).unwrap();
    writer.finish().unwrap();
    let mut writer = C1z3Writer::create(&three, &WriteOptions::default()).unwrap();
    copy(&source, &sync, &mut writer).unwrap();
    writer.finish().unwrap();
    let shelf = Shelf::new();
    for path in [&pack, &one, &three] {
        let graph = shelf.graph(path.to_str().unwrap()).unwrap();
        let why = WhyAsked { resource_type: "user", principal: "ada", entitlement: "app:shop:admin" };
        assert_eq!(graph.why(&why).unwrap().paths[0].steps.len(), 2, "{path:?}");
        let view = shelf.pack(path.to_str().unwrap()).unwrap();
        assert_eq!(view.graph.unwrap().grants, 5);
    }
    let refused =
        shelf.store(duramen_api::attachments::AttachmentKind::Pack, one.to_str().unwrap()).err().unwrap();
    assert_eq!(refused.code(), "other_content");
}

/// What the journeys of the console look at. With `DURAMEN_WRITE_FIXTURES` it is made anew.
#[test]
fn the_graph_of_the_consoles_journeys_is_that_of_these_tests() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/tests/access.c1z");
    if std::env::var_os("DURAMEN_WRITE_FIXTURES").is_some() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("access.dpack");
        company(&pack);
        let source = GraphFile::open(&pack, &Default::default()).unwrap();
        let mut writer = C1z1Writer::create(&fixture, &WriteOptions::default()).unwrap();
        copy(&source, &source.sync(None).unwrap(), &mut writer).unwrap();
        writer.finish().unwrap();
    }
    let graph = Graph::open(&fixture).unwrap();
    assert_eq!((graph.view().entitlements, graph.view().grants), (4, 5));
    assert!(graph.search("ada", 10).entities[0].name.contains("<img src=x"));
}

#[test]
fn files_of_the_ecosystem_and_damaged_ones_end_nothing() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../access/tests/fixtures");
    let mut found = Vec::new();
    collect(&fixtures, &mut found);
    assert!(found.len() > 5, "{found:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged");
    let mut shown = 0;
    for file in found {
        let bytes = fs::read(&file).unwrap();
        if bytes.len() > 1 << 20 {
            continue;
        }
        if let Ok(graph) = Graph::open(&file) {
            shown += 1;
            let _ = graph.search("a", 10);
        }
        for at in (0..bytes.len()).step_by((bytes.len() / 12).max(1)) {
            let mut turned = bytes.clone();
            turned[at] ^= 0x55;
            for damaged in [&bytes[..at], &turned] {
                fs::write(&path, damaged).unwrap();
                let _ = Shelf::new().pack(path.to_str().unwrap());
            }
        }
    }
    assert!(shown > 3, "{shown}");
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "c1z" || end == "dpack") {
            found.push(path);
        }
    }
}
