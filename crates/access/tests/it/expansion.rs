//! What follows from grants, written into files of every format: the same as is found when it is asked for, and of what changed
//! since only that.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use crate::c1z_support::*;
use crate::expand::{lines, parsed};
use duramen_access::c1z::ReadOptions;
use duramen_access::convert::{ConvertError, Format};
use duramen_access::expand::Effective;
use duramen_access::expansion::{Expanded, Expansion, ExpansionError, Scope};
use duramen_access::file::{FileError, GraphFile};
use duramen_access::graph::*;

/// What makes a grant the same one.
type Key = (EntitlementRef, ResourceId, String);

fn key(row: &Grant) -> Key {
    (row.entitlement.clone(), row.principal.id.clone(), row.id.clone())
}

fn open(path: &Path) -> GraphFile {
    GraphFile::open(path, &ReadOptions { check_rows: true, ..ReadOptions::default() }).unwrap()
}

fn write(graph: &Graph, format: Format, path: &Path) {
    let _ = std::fs::remove_file(path);
    match format {
        Format::C1z1 => drop(write_v1(graph, path)),
        Format::C1z3 => drop(write_v3(graph, path)),
        Format::Pack => {
            let mut store = GraphStore::open(path).unwrap();
            graph.put(&mut store).unwrap();
            store.close().unwrap();
        }
    }
}

fn expand(path: &Path, scope: Scope) -> Result<Expanded, ExpansionError> {
    Expansion { file: path.to_owned(), sync: None, scope, read: ReadOptions::default() }.run()
}

/// Sources of all grants, recorded and derived.
fn effective(file: &GraphFile) -> BTreeMap<Key, Vec<(String, bool)>> {
    let effective = Effective::load(file, &file.sync(None).unwrap().id).unwrap();
    let mut all = BTreeMap::new();
    effective.for_each(&mut |grant| {
        let (of, holder) = (grant.entitlement, grant.principal);
        let entitlement =
            EntitlementRef { resource: ResourceId::new(of.resource_type, of.resource), id: of.id.to_owned() };
        let principal = ResourceId::new(holder.resource_type, holder.resource);
        let sources =
            grant.sources.iter().map(|each| (each.entitlement.to_owned(), each.is_direct)).collect();
        all.insert((entitlement, principal, grant.id.to_owned()), sources);
        ControlFlow::Continue(())
    });
    all
}

fn recorded(graph: &Graph) -> BTreeMap<Key, Vec<(String, bool)>> {
    graph.grants.iter().map(|row| (key(row), row.sources.clone())).collect()
}

/// A grant that a graph has not got yet: of a user, or of a group that expands. Names the entitlement of the former.
fn change(graph: &mut Graph, random: &mut fastrand::Rng, number: usize) -> Option<String> {
    let of = &graph.entitlements[random.usize(..graph.entitlements.len())];
    let entitlement = EntitlementRef { resource: of.resource.clone(), id: of.id.clone() };
    let mut row = Grant { id: format!("new {number}"), entitlement, ..Grant::default() };
    let plain = random.bool();
    if plain {
        row.principal.id = ResourceId::new("user", format!("u{}", random.u8(..9)));
    } else {
        let source = &graph.entitlements[random.usize(..graph.entitlements.len())];
        row.principal.id = source.resource.clone();
        let entitlement_ids = vec![source.id.clone()];
        row.expansion = Some(duramen_access::graph::Expansion {
            entitlement_ids,
            shallow: random.bool(),
            resource_type_ids: Vec::new(),
        });
        row.needs_expansion = true;
    }
    let same_edge =
        |known: &&Grant| (&known.entitlement, &known.principal.id) == (&row.entitlement, &row.principal.id);
    let is_free = !graph.grants.iter().any(|known| same_edge(&known));
    let changed = (plain && is_free).then(|| of.id.clone());
    if is_free {
        graph.grants.push(row);
    }
    changed
}

#[test]
fn what_is_written_is_what_follows_and_after_changes_only_what_changed_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let (mut written, mut derived, mut later) = (0, 0, 0);
    let lines = lines();
    for (number, line) in lines.iter().take(240).enumerate() {
        let format = [Format::Pack, Format::C1z1, Format::C1z3][number % 3];
        let (memory, _) = parsed(line);
        let mut graph =
            Graph { entitlements: memory.entitlements, grants: memory.grants, ..Graph::default() };
        graph.sync = Sync {
            id: SYNC.to_owned(),
            kind: SyncKind::Full,
            ended_at: Some(Timestamp::default()),
            ..Sync::default()
        };
        for row in &mut graph.grants {
            row.needs_expansion = row.expansion.is_some();
        }
        let at = |name: &str| dir.path().join(format!("{name}.{}", format.name()));
        write(&graph, format, &at("a"));
        let (before, expected) = (Graph::read(&open(&at("a"))).unwrap(), effective(&open(&at("a"))));
        let done = match expand(&at("a"), Scope::Marked(Vec::new())) {
            Err(ExpansionError::SameId { .. }) => continue,
            done => done.unwrap(),
        };
        let mut after = Graph::read(&open(&at("a"))).unwrap();
        assert_eq!(recorded(&after), expected, "graph {number}: {done:?}");
        assert_eq!(after.grants.len() - before.grants.len(), done.derived as usize);
        assert_eq!(after.sync, before.sync);
        assert!(after.grants.iter().all(|row| !row.needs_expansion));
        derived += done.derived;
        written += usize::from(done.is_written);

        // Once more there is nothing to do, and nothing is written.
        let bytes = std::fs::read(at("a")).unwrap();
        for scope in [Scope::All, Scope::Marked(Vec::new())] {
            let again = expand(&at("a"), scope).unwrap();
            assert_eq!((again.derived, again.updated, again.unmarked, again.is_written), (0, 0, 0, false));
        }
        assert_eq!(std::fs::read(at("a")).unwrap(), bytes);

        if after.entitlements.is_empty() {
            continue;
        }
        let mut random = fastrand::Rng::with_seed(number as u64);
        let changed: Vec<String> =
            (0..random.usize(1..4)).filter_map(|each| change(&mut after, &mut random, each)).collect();
        write(&after, format, &at("a"));
        write(&after, format, &at("b"));
        let expected = effective(&open(&at("a")));
        let (marked, all) = (expand(&at("a"), Scope::Marked(changed)), expand(&at("b"), Scope::All));
        let (Ok(marked), Ok(all)) = (&marked, &all) else {
            assert_eq!(marked.is_err(), all.is_err(), "{marked:?} {all:?}");
            continue;
        };
        let [found, full] = ["a", "b"].map(|name| Graph::read(&open(&at(name))).unwrap());
        assert_eq!(
            (marked.derived, marked.updated, marked.unmarked),
            (all.derived, all.updated, all.unmarked)
        );
        assert_eq!(found.grants, full.grants, "graph {number}");
        assert_eq!(recorded(&found), expected, "graph {number}");
        later += marked.derived + marked.updated;
    }
    assert!(
        written > 100 && derived > 500 && later > 100,
        "{written} files, {derived} derived, then {later}"
    );
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|each| each.unwrap().file_name()).collect();
    assert_eq!(left.len(), 6, "only the files are left: {left:?}");
}

#[test]
fn other_rows_and_other_syncs_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    for format in [Format::Pack, Format::C1z1, Format::C1z3] {
        let mut graph = Graph::random(71, 300);
        graph.sync.kind = SyncKind::Full;
        graph.sync.ended_at = Some(Timestamp { seconds: 1_700_000_000, nanos: 0 });
        // The members of one entitlement hold another, too.
        let (from, to) = (graph.entitlements[0].clone(), graph.entitlements[1].clone());
        graph.grants.push(Grant {
            id: "of a group".to_owned(),
            entitlement: EntitlementRef { resource: to.resource.clone(), id: to.id.clone() },
            principal: PrincipalRef { id: from.resource.clone(), parent: None },
            expansion: Some(duramen_access::graph::Expansion {
                entitlement_ids: vec![from.id],
                ..Default::default()
            }),
            needs_expansion: true,
            ..Grant::default()
        });
        let path = dir.path().join(format.name());
        write(&graph, format, &path);
        let before = Graph::read(&open(&path)).unwrap();
        let done = expand(&path, Scope::All).unwrap();
        assert!(done.derived > 5 && done.losses.is_empty(), "{done:?}");
        let mut after = Graph::read(&open(&path)).unwrap();
        let immutable =
            |row: &Grant| row.annotations.iter().any(|any| any.type_url.ends_with("GrantImmutable"));
        assert_eq!(after.grants.iter().filter(|row| immutable(row)).count() as u64, done.derived);
        after.grants.retain(|row| !immutable(row));
        let unmarked = |graph: &Graph| {
            let mut graph = graph.clone();
            graph.grants.iter_mut().for_each(|row| {
                row.needs_expansion = false;
                row.sources.clear();
            });
            graph
        };
        assert_eq!(unmarked(&after), unmarked(&before), "{format:?}");
    }
}

#[test]
fn a_pack_in_which_a_sync_goes_on_and_an_id_that_is_taken_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut graph) = (dir.path().join("a.dpack"), Graph::default());
    graph.sync = Sync { id: SYNC.to_owned(), ended_at: Some(Timestamp::default()), ..Sync::default() };
    let of = |kind: &str| EntitlementRef { resource: ResourceId::new(kind, "x"), id: format!("{kind}:x") };
    let grant = |id: &str, of: EntitlementRef, holder: (&str, &str)| Grant {
        id: id.to_owned(),
        entitlement: of,
        principal: PrincipalRef { id: ResourceId::new(holder.0, holder.1), parent: None },
        ..Grant::default()
    };
    graph.entitlements = ["group", "app"]
        .map(|kind| Entitlement { id: of(kind).id, resource: of(kind).resource, ..Entitlement::default() })
        .to_vec();
    let mut of_group = grant("1", of("app"), ("group", "x"));
    of_group.expansion = Some(duramen_access::graph::Expansion {
        entitlement_ids: vec![of("group").id],
        ..Default::default()
    });
    graph.grants = vec![
        of_group,
        grant("2", of("group"), ("user", "ada")),
        grant("app:x:user:ada", of("group"), ("user", "eve")),
    ];
    write(&graph, Format::Pack, &path);
    let bytes = std::fs::read(&path).unwrap();
    let error = expand(&path, Scope::All).unwrap_err();
    assert!(matches!(&error, ExpansionError::SameId { id, .. } if id == "app:x:user:ada"), "{error}");

    let mut store = GraphStore::open(&path).unwrap();
    let error = expand(&path, Scope::All).unwrap_err();
    assert!(error.to_string().contains("written by another"), "{error}");
    let goes_on = store.start_sync(SyncKind::Full, None).unwrap();
    store.close().unwrap();
    let error = expand(&path, Scope::All).unwrap_err();
    assert!(
        matches!(&error, ExpansionError::Convert(ConvertError::GoesOn { sync, .. }) if *sync == goes_on),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let none: Result<GraphFile, FileError> =
        GraphFile::open(&dir.path().join("none"), &ReadOptions::default());
    assert!(none.is_err() && expand(&dir.path().join("none"), Scope::All).is_err());
}
