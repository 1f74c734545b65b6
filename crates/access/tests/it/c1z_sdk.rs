//! Files that the SDK of the ecosystem wrote, in each way that it has, are read row for row as its own reader reads them.
//!
//! The program that made them, and the rows that the SDK found in them, stands beside the files.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};

use crate::c1z_support::*;
use duramen_access::c1z::*;
use duramen_access::graph::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pair(id: &ResourceId) -> Value {
    json!([id.resource_type, id.resource])
}

fn time(time: Timestamp) -> Value {
    json!([time.seconds, time.nanos])
}

fn annotations(all: &[Any]) -> Value {
    all.iter().map(|one| json!([one.type_url, hex(&one.value)])).collect()
}

/// Where the files are: `make peers-c1z` has new ones.
fn folder() -> PathBuf {
    std::env::var_os("DURAMEN_C1Z_FILES").map_or_else(|| fixture("sdk/files"), PathBuf::from)
}

/// The files, by name.
fn files() -> Vec<(String, PathBuf)> {
    let folder = folder();
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".c1z")?.to_owned()))
        .collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), folder.join(format!("{name}.c1z")))).collect()
}

/// The lines that the SDK wrote for a file, but the last, which is about what lies under the rows.
fn expected(name: &str) -> Vec<Value> {
    expected_in(&folder().join(format!("{name}.jsonl.zst")))
}

fn expected_in(path: &Path) -> Vec<Value> {
    let lines = std::fs::read(path).unwrap();
    let lines = String::from_utf8(zstd::decode_all(lines.as_slice()).unwrap()).unwrap();
    let mut lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.pop().unwrap()["kind"], "under");
    sorted(lines)
}

fn sorted(mut lines: Vec<Value>) -> Vec<Value> {
    lines.sort_by_key(Value::to_string);
    lines
}

/// All rows of a graph, as the SDK's lines say them.
fn lines(graph: &Graph) -> Vec<Value> {
    let mut lines = Vec::new();
    let sync = &graph.sync;
    if sync.ended_at.is_some() {
        lines.push(json!({"kind": "sync", "id": sync.id, "type": sync.kind.name(), "ended": true}));
    }
    lines.extend(graph.resource_types.iter().map(|row| {
        let traits: Value =
            row.traits.iter().map(|one| json!(format!("TRAIT_{}", one.name().unwrap()))).collect();
        json!({"kind": "resource_type", "id": row.id, "display_name": row.display_name,
            "description": row.description, "traits": traits, "annotations": annotations(&row.annotations),
            "sourced_externally": row.sourced_externally})
    }));
    lines.extend(graph.resources.iter().map(|row| {
        json!({"kind": "resource", "id": pair(&row.id), "parent": row.parent.as_ref().map(pair),
            "display_name": row.display_name, "description": row.description,
            "annotations": annotations(&row.annotations), "created_at": row.created_at.map(time),
            "icon": row.icon.clone().unwrap_or_default(), "profile": row.profile.is_some()})
    }));
    lines.extend(graph.entitlements.iter().map(|row| {
        json!({"kind": "entitlement", "id": row.id, "resource": pair(&row.resource),
            "display_name": row.display_name, "description": row.description, "slug": row.slug,
            "purpose": format!("PURPOSE_VALUE_{}", row.purpose.name().unwrap()),
            "grantable_to": row.grantable_to, "annotations": annotations(&row.annotations)})
    }));
    lines.extend(graph.grants.iter().map(|row| {
        let expansion = row.expansion.as_ref().map(|it| {
            json!({"entitlement_ids": it.entitlement_ids, "shallow": it.shallow,
                "resource_type_ids": it.resource_type_ids})
        });
        let mut sources = row.sources.clone();
        sources.sort();
        json!({"kind": "grant", "id": row.id, "entitlement": row.entitlement.id,
            "resource": pair(&row.entitlement.resource), "principal": pair(&row.principal.id),
            "parent": row.principal.parent.as_ref().map(pair), "annotations": annotations(&row.annotations),
            "sources": sources, "expansion": expansion, "needs_expansion": row.needs_expansion,
            "discovered_at": row.discovered_at.map(time)})
    }));
    lines.extend(graph.assets.iter().map(|row| {
        json!({"kind": "asset", "id": row.id, "content_type": row.content_type, "data": hex(&row.data)})
    }));
    sorted(lines)
}

#[test]
fn files_of_each_kind_that_the_sdk_writes_are_read_as_it_reads_them() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for (name, path) in files() {
        let options = ReadOptions { check_sha256: true, check_rows: true, ..ReadOptions::default() };
        let file = match C1z3::open(&path, &options) {
            Ok(file) => file,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let graph = Graph::read(&file).unwrap();
        // Without checks, tables of indexes are not opened; nothing else differs.
        let unchecked = C1z3::open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(Graph::read(&unchecked).unwrap(), graph, "{name}");
        let found = lines(&graph);
        let expected = expected(&name);
        if found != expected {
            let missing = expected.iter().find(|line| !found.contains(line));
            let strange = found.iter().find(|line| !expected.contains(line));
            let counts = (found.len(), expected.len());
            wrong.push(format!("{name}: {counts:?} rows\n  missing {missing:?}\n  strange {strange:?}"));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{} of {} files\n{}", wrong.len(), seen, wrong.join("\n"));
    assert!(seen >= 28, "{seen} files");
}

/// A file of version 1, with what the SDK finds in it when it has converted it to version 3.
#[test]
fn a_version_1_file_that_the_sdk_writes_is_read_as_it_converts_it() {
    let path = fixture("sdk/v1/sqlite.c1z");
    let file = C1z1::open(&path, &ReadOptions::default()).unwrap();
    let graph = Graph::read(&file).unwrap();
    assert_eq!(graph.sync.kind, SyncKind::Full);
    let found = lines(&graph);
    let expected = expected_in(&fixture("sdk/v1/sqlite.jsonl.zst"));
    let missing: Vec<_> = expected.iter().filter(|line| !found.contains(line)).collect();
    let strange: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
    assert!(missing.is_empty() && strange.is_empty(), "missing {missing:#?}\nstrange {strange:#?}");
    assert!(graph.grants.iter().any(|grant| grant.expansion.is_some()) && graph.assets.len() == 1);
    // Its clock and its ids agree, in the zone in which it was written.
    assert_eq!(file.zone_offset().unwrap(), None);
    let left: Vec<_> = file.left_out().iter().map(|loss| (loss.row, loss.what.as_str())).collect();
    assert_eq!(left, [("sync", "statistics, which readers count anew")]);
}

/// Parts of a file that are found by its indexes are those that a walk over all rows finds.
#[test]
fn parts_found_by_the_indexes_of_a_file_are_those_of_a_walk() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.c1z");
    write_v3(&Graph::random(3, 40), &own);
    let mut asked = 0;
    for (name, path) in files().into_iter().chain([("own".to_owned(), own)]) {
        let file = C1z3::open(&path, &ReadOptions::default()).unwrap();
        let graph = Graph::read(&file).unwrap();
        let sync = graph.sync.id.as_str();
        let nobody = ResourceId::new("user", "nobody");
        let mut principals: Vec<&ResourceId> = graph.grants.iter().map(|row| &row.principal.id).collect();
        let mut entitlements: Vec<&EntitlementRef> =
            graph.grants.iter().map(|row| &row.entitlement).collect();
        principals.push(&nobody);
        principals.dedup();
        entitlements.dedup();
        let of: Vec<EntitlementRef> = entitlements.iter().copied().take(3).cloned().collect();
        let mut scopes =
            vec![GrantScope::All, GrantScope::Entitlement("none"), GrantScope::Entitlements(&of)];
        scopes.extend(principals.iter().map(|id| GrantScope::Principal(id)));
        for of in &entitlements {
            scopes.push(GrantScope::Entitlement(&of.id));
            scopes.push(GrantScope::Resource(&of.resource));
            scopes.push(GrantScope::ResourceType(&of.resource.resource_type));
        }
        for scope in scopes {
            // Each anew: nothing that an earlier question read helps.
            let file = C1z3::open(&path, &ReadOptions::default()).unwrap();
            let mut found = Vec::new();
            let asked_for = file.for_each_grant_of(sync, scope, &mut |row| {
                found.push(row.to_grant());
                ControlFlow::Continue(())
            });
            asked_for.unwrap_or_else(|error| panic!("{name}: {scope:?}: {error}"));
            let wanted = graph.grants.iter().filter(|row| scope.is_of(&GrantRef::from(*row)));
            let mut wanted: Vec<Grant> = wanted.cloned().collect();
            found.sort_by(|a, b| a.id.cmp(&b.id));
            wanted.sort_by(|a, b| a.id.cmp(&b.id));
            assert_eq!(found, wanted, "{name}: {scope:?}");
            asked += 1;
        }
        for parent in graph.resources.iter().map(|row| &row.id) {
            let scopes = [ResourceScope::Parent(parent), ResourceScope::ResourceType(&parent.resource_type)];
            for scope in scopes {
                let mut found = Vec::new();
                file.for_each_resource_of(sync, scope, &mut |row| {
                    found.push(row.id);
                    ControlFlow::Continue(())
                })
                .unwrap();
                let mut wanted: Vec<ResourceId> =
                    graph.resources.iter().filter(|row| scope.is_of(row)).map(|row| row.id.clone()).collect();
                found.sort();
                wanted.sort();
                assert_eq!(found, wanted, "{name}: {scope:?}");
            }
            assert_eq!(file.resource(sync, parent).unwrap().unwrap().id, *parent, "{name}");
        }
    }
    assert!(asked > 300, "{asked} questions");
}

/// The grants of a part behind one of them.
fn list(
    file: &C1z3,
    sync: &str,
    scope: GrantScope<'_>,
    after: Option<(&EntitlementRef, &ResourceId)>,
) -> Result<Vec<Grant>, C1zError> {
    let mut found = Vec::new();
    file.for_each_grant_after(sync, scope, after, &mut |row| {
        found.push(row.to_grant());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Who reads a part page by page reads what a walk over all of it gives, in the same order.
#[test]
fn a_part_goes_on_behind_any_of_its_grants() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.c1z");
    write_v3(&Graph::random(3, 40), &own);
    let (mut went_on, mut unsorted) = (0, 0);
    for (name, path) in files().into_iter().chain([("own".to_owned(), own)]) {
        let file = C1z3::open(&path, &ReadOptions::default()).unwrap();
        let graph = Graph::read(&file).unwrap();
        let sync = graph.sync.id.as_str();
        if !file.is_sorted() {
            assert!(
                list(&file, sync, GrantScope::All, None).unwrap_err().to_string().contains("no order"),
                "{name}"
            );
            unsorted += 1;
            continue;
        }
        let of = graph.grants.iter().take(4).map(|row| [row.entitlement.clone()]).collect::<Vec<_>>();
        let mut scopes = vec![GrantScope::All];
        for (row, of) in graph.grants.iter().zip(&of) {
            scopes.push(GrantScope::Entitlements(of));
            scopes.push(GrantScope::Resource(&row.entitlement.resource));
            scopes.push(GrantScope::ResourceType(&row.entitlement.resource.resource_type));
            scopes.push(GrantScope::Principal(&row.principal.id));
        }
        for scope in scopes {
            let mut all: Vec<Grant> = Vec::new();
            file.for_each_grant_of(sync, scope, &mut |row| {
                all.push(row.to_grant());
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(list(&file, sync, scope, None).unwrap(), all, "{name}: {scope:?}");
            for at in (0..all.len()).step_by(1 + all.len() / 8) {
                let behind = (&all[at].entitlement, &all[at].principal.id);
                assert_eq!(
                    list(&file, sync, scope, Some(behind)).unwrap(),
                    all[at + 1..],
                    "{name}: {scope:?} behind {at}"
                );
                went_on += 1;
            }
        }
        assert!(list(&file, sync, GrantScope::Entitlement("none"), None).is_err());
    }
    assert!(went_on > 300 && unsorted > 0, "{went_on} times, {unsorted} without order");
}
