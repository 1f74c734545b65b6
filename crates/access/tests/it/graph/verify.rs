//! What digests cannot show: a file that is whole, and whose sections do not agree.

use std::ops::ControlFlow;
use std::path::Path;

use duramen_access::c1z::ReadOptions;
use duramen_access::convert::{Conversion, Format};
use duramen_access::graph::{
    Asset, Entitlement, Grant, GrantScope, GraphError, GraphPack, GraphStore, Resource, ResourceId,
    ResourceType, SyncKind, Timestamp,
};
use duramen_pack::container::{Kind, Pack, PackWriter, SectionOptions};
use duramen_pack::PackError;

use super::grant;

/// A graph with something in every section; `extra` rows more of everything.
fn sample(path: &Path, extra: usize) {
    let mut store = GraphStore::open(path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let names: Vec<String> = (0..5 + extra).map(|number| format!("n{number}")).collect();
    let types: Vec<_> =
        names.iter().map(|id| ResourceType { id: id.clone(), ..ResourceType::default() }).collect();
    store.put_resource_types(&types).unwrap();
    let resource = |name: &String| Resource {
        id: ResourceId::new("app", name),
        parent: Some(ResourceId::new("org", "acme")),
        ..Resource::default()
    };
    store.put_resources(&names.iter().map(resource).collect::<Vec<_>>()).unwrap();
    let entitlement = |name: &String| Entitlement {
        id: format!("app:{name}:member"),
        resource: ResourceId::new("app", name),
        ..Entitlement::default()
    };
    store.put_entitlements(&names.iter().map(entitlement).collect::<Vec<_>>()).unwrap();
    let asset = |name: &String| Asset { id: name.clone(), data: vec![1; 9], ..Asset::default() };
    store.put_assets(&names.iter().map(asset).collect::<Vec<_>>()).unwrap();
    let mut grants: Vec<Grant> = Vec::new();
    for name in &names {
        for user in &names {
            let mut row = grant("app", name, "member", user);
            row.discovered_at = Some(Timestamp { seconds: grants.len() as i64, nanos: 5 });
            if name == user {
                row.id = format!("stated {name}");
                row.sources = vec![("x".to_owned(), true)];
                // A second grant of the same edge.
                grants.push(Grant { id: format!("stated {name} again"), ..row.clone() });
            }
            grants.push(row);
        }
    }
    store.put_grants(&grants).unwrap();
    store.end_sync().unwrap();
}

/// Writes a pack anew, with right digests, and each block as `change` makes it: its key, its count, its content.
fn forge(
    from: &Pack,
    to: &Path,
    manifest: &[u8],
    mut change: impl FnMut(&str, &mut Vec<u8>, &mut u32, &mut Vec<u8>),
) -> Result<(), PackError> {
    let mut writer = PackWriter::create(to, Kind::Graph)?;
    for info in from.sections() {
        writer.begin_section(&info.name, SectionOptions::default())?;
        let section = from.section(&info.name)?.unwrap();
        for block in 0..section.blocks() {
            let (mut key, mut records) = (section.first_key(block).to_vec(), section.records(block));
            let mut raw = Vec::new();
            section.read(block, &mut raw)?;
            change(&info.name, &mut key, &mut records, &mut raw);
            writer.block(&key, records, &raw)?;
        }
    }
    writer.finish(manifest).map(|_| ())
}

/// What `verify` says is wrong, of a file whose digests are right.
#[track_caller]
fn wrong(path: &Path) -> String {
    let graph = GraphPack::open(path).unwrap();
    graph.pack().verify(&mut |_, _| {}).unwrap();
    match graph.verify(&mut |_, _| {}) {
        Err(GraphError::Pack(PackError::Damaged { what, from, to, .. })) => {
            assert!(from < to && to <= graph.pack().size(), "{from}..{to}: {what}");
            what
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sound_graph_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    sample(&path, 0);
    let mut last = (0, 1);
    let verified = GraphPack::open(&path)
        .unwrap()
        .verify(&mut |done, all| {
            assert!(last.0 <= done && done <= all);
            last = (done, all);
        })
        .unwrap();
    assert_eq!(verified.sections, 12);
    assert_eq!(last.0, last.1);
}

/// Each section of a graph in the place of the same section of another: every digest is right, and nothing else is.
#[test]
fn a_section_of_another_graph_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other, mixed) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("mixed"));
    for (extra, more) in [(0, 1), (1, 0)] {
        for path in [&one, &other] {
            let _ = std::fs::remove_file(path);
        }
        sample(&one, extra);
        sample(&other, more);
        let (from, foreign) = (Pack::open(&one).unwrap(), Pack::open(&other).unwrap());
        let manifest = from.manifest().unwrap();
        for (section, expected) in [
            ("resource-types", "resource types, and its manifest says"),
            ("resources", "children"),
            ("children", "children"),
            ("entitlements", "entitlement"),
            ("entitlement-ids", "entitlement"),
            ("assets", "assets, and its manifest says"),
            ("grant-entitlements", "entitlement"),
            ("grant-principals", "principal"),
            ("grants", "principal"),
            ("grant-entitlement-ids", "entitlement"),
            ("by-principal", "principal"),
            ("grant-ids", "id"),
        ] {
            let name = format!("0/{section}");
            forge(&from, &mixed, &manifest, |found, key, records, raw| {
                if found == name {
                    let section = foreign.section(found).unwrap().unwrap();
                    (*key, *records) = (section.first_key(0).to_vec(), section.records(0));
                    section.read(0, raw).unwrap();
                }
            })
            .unwrap();
            if section == "grant-principals" && more > extra {
                // One name more, which no grant refers to: so is that of somebody whose last grant was deleted.
                GraphPack::open(&mixed).unwrap().verify(&mut |_, _| {}).unwrap();
                continue;
            }
            let what = wrong(&mixed);
            assert!(what.contains(expected), "{section}, {extra} more: {what}");
        }
        // And the manifest alone.
        forge(&from, &mixed, &foreign.manifest().unwrap(), |_, _, _, _| {}).unwrap();
        assert!(wrong(&mixed).contains("its manifest says"));
    }
}

#[test]
fn sections_that_are_missing_or_nobodys_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (path, forged) = (dir.path().join("a"), dir.path().join("forged"));
    sample(&path, 0);
    let pack = Pack::open(&path).unwrap();
    let manifest = pack.manifest().unwrap();
    let mut writer = PackWriter::create(&forged, Kind::Graph).unwrap();
    writer.begin_section("0/grants", SectionOptions::default()).unwrap();
    writer.finish(&manifest).unwrap();
    assert!(wrong(&forged).contains("is not there"));
    let mut writer = PackWriter::create(&forged, Kind::Graph).unwrap();
    for info in pack.sections() {
        for name in [info.name.clone(), info.name.replace("0/", "1/")] {
            writer.begin_section(&name, SectionOptions::default()).unwrap();
            let section = pack.section(&info.name).unwrap().unwrap();
            let mut raw = Vec::new();
            section.read(0, &mut raw).unwrap();
            writer.block(section.first_key(0), section.records(0), &raw).unwrap();
        }
    }
    writer.finish(&manifest).unwrap();
    assert!(wrong(&forged).contains("belongs to no sync"));
}

/// Everything that can be asked of a file.
fn ask(path: &Path) -> Result<(), GraphError> {
    let graph = GraphPack::open(path)?;
    let verified = graph.verify(&mut |_, _| {});
    let view = graph.view(None)?;
    let go_on = || ControlFlow::Continue(());
    let mut ids = Vec::new();
    let read = view.for_each_grant(GrantScope::All, &mut |row| {
        ids.push((row.id, row.principal.id, row.entitlement.id));
        go_on()
    });
    for (id, principal, entitlement) in ids.iter().take(5) {
        let _ = view.grant(id);
        let _ = view.for_each_grant(GrantScope::Principal(principal), &mut |_| go_on());
        let _ = view.for_each_grant(GrantScope::Entitlement(entitlement), &mut |_| go_on());
        let _ = view.entitlement(entitlement);
    }
    let _ = view.for_each_resource_type(&mut |_| go_on());
    let _ = view.for_each_resource(&mut |_| go_on());
    let _ = view.for_each_entitlement(&mut |_| go_on());
    let _ = view.for_each_asset(&mut |_| go_on());
    // A sound file can be read.
    assert!(verified.is_err() || read.is_ok(), "{read:?}");
    // And written anew, or refused: in a folder of its own, for it is put in its place.
    let mut store = GraphStore::open(path)?;
    if let Some(id) = store.syncs().first().map(|sync| sync.id.clone()) {
        store.open_sync(&id)?;
        store.put_grants([&grant("app", "n1", "member", "new")])?;
        store.delete_grants(&["stated n2"])?;
        store.view(None)?.for_each_grant(GrantScope::All, &mut |_| go_on())?;
        store.end_sync()?;
    }
    Ok(())
}

/// P-11: forged bytes with right digests are read as what they say or refused: no panic, no memory that is not there.
#[test]
fn forged_bytes_with_right_digests_do_no_harm() {
    let seed = duramen_base::entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut random = duramen_base::entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let (path, forged) = (dir.path().join("a"), dir.path().join("forged"));
    sample(&path, 0);
    let pack = Pack::open(&path).unwrap();
    let manifest = pack.manifest().unwrap();
    let mut spoil = |bytes: &mut Vec<u8>| {
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len().max(1));
            match random.u8(..5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), random.u8(..)),
                2 => bytes.extend_from_slice(&[0xff; 9]),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = if random.bool() { random.u8(..) } else { *byte ^ (1 << random.u8(..8)) };
                    }
                }
            }
        }
    };
    let names: Vec<String> = pack.sections().iter().map(|info| info.name.clone()).collect();
    for round in 0..40 {
        for name in names.iter().map(String::as_str).chain(["manifest"]) {
            let _ = std::fs::remove_file(dir.path().join("forged.journal"));
            let mut manifest = manifest.to_vec();
            if name == "manifest" {
                spoil(&mut manifest);
            }
            let made = forge(&pack, &forged, &manifest, |found, key, records, raw| {
                if found == name {
                    match round % 8 {
                        0 => *records = u32::MAX - 1,
                        1 => spoil(key),
                        _ => spoil(raw),
                    }
                }
            });
            made.unwrap();
            let _ = ask(&forged);
        }
    }
}

/// G-10: an index that was forged under right digests is refused by `verify`, and by whoever reads the file whole.
#[test]
fn a_forged_index_with_right_digests_is_refused() {
    let mut random = duramen_base::entropy::rng(29);
    let dir = tempfile::tempdir().unwrap();
    let (path, forged) = (dir.path().join("a"), dir.path().join("forged"));
    sample(&path, 0);
    let pack = Pack::open(&path).unwrap();
    let manifest = pack.manifest().unwrap();
    let indexes =
        ["children", "entitlement-ids", "grant-entitlement-ids", "by-principal", "grant-ids", "grants"];
    let mut count = 0;
    for round in 0..300 {
        let wanted = format!("0/{}", indexes[round % indexes.len()]);
        let mut changed = false;
        let made = forge(&pack, &forged, &manifest, |name, _, records, raw| {
            if name != wanted {
                return;
            }
            let before = (raw.clone(), *records);
            // The last byte of a block of edges is the end of its payloads, which are as long as they say.
            let at = random.usize(..raw.len());
            match random.u8(..3) {
                0 => raw[at] ^= 1 << random.u8(..8),
                1 => drop(raw.remove(at)),
                _ => *records = records.saturating_sub(1),
            }
            changed |= before != (raw.clone(), *records);
        });
        made.unwrap();
        if !changed || wanted == "0/grants" && is_only_another_time(&pack, &forged) {
            continue;
        }
        let verified = GraphPack::open(&forged).and_then(|graph| graph.verify(&mut |_, _| {}).map(drop));
        assert!(verified.is_err(), "round {round}: {wanted} was taken");
        let to = dir.path().join("converted.c1z");
        let (from, read) = (forged.clone(), ReadOptions::default());
        let converted = Conversion { from, to: to.clone(), format: Format::C1z3, sync: None, read }.run();
        assert!(converted.is_err() && !to.exists(), "round {round}: {wanted} was converted");
        count += 1;
    }
    assert!(count > 200, "{count}");
}

/// Whether a file has the edges of another, and says something else of them that no index repeats.
fn is_only_another_time(pack: &Pack, forged: &Path) -> bool {
    let edges = |graph: GraphPack| {
        let mut edges = Vec::new();
        let read = graph.view(None)?.for_each_grant(GrantScope::All, &mut |row| {
            edges.push((row.id, row.entitlement, row.principal));
            ControlFlow::Continue(())
        });
        read.map(|()| edges)
    };
    let before = GraphPack::from_pack(pack.clone()).and_then(edges).unwrap();
    GraphPack::open(forged).and_then(edges).is_ok_and(|after| after == before)
}
