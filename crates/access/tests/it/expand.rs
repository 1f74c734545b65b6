//! What follows from grants is what the ecosystem's own expander makes of them, and paths explain all of it.
//!
//! `sdk/expand.go` made the graphs and let the SDK expand them; `make peers-c1z` makes thousands of new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::Read as _;
use std::ops::ControlFlow;

use crate::c1z_support::*;
use duramen_access::expand::*;
use duramen_access::graph::*;
use serde_json::Value;

/// A sync in memory, without anything that does not matter here.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) entitlements: Vec<Entitlement>,
    pub(crate) grants: Vec<Grant>,
}

impl GraphSource for Memory {
    type Error = Infallible;

    fn syncs(&self) -> Result<Vec<Sync>, Infallible> {
        Ok(vec![Sync::default()])
    }
    fn for_each_resource_type(&self, _: &str, _: Visit<'_, ResourceType>) -> Result<(), Infallible> {
        Ok(())
    }
    fn for_each_resource(&self, _: &str, _: Visit<'_, Resource>) -> Result<(), Infallible> {
        Ok(())
    }
    fn for_each_entitlement(&self, _: &str, visit: Visit<'_, Entitlement>) -> Result<(), Infallible> {
        let _ = self.entitlements.iter().cloned().try_for_each(visit);
        Ok(())
    }
    fn for_each_grant(&self, _: &str, visit: Visit<'_, Grant>) -> Result<(), Infallible> {
        let _ = self.grants.iter().cloned().try_for_each(visit);
        Ok(())
    }
    fn for_each_asset(&self, _: &str, _: Visit<'_, Asset>) -> Result<(), Infallible> {
        Ok(())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn sources(value: &Value) -> Vec<(String, bool)> {
    let all = value.as_object().into_iter().flatten();
    let mut all: Vec<_> = all.map(|(id, direct)| (id.clone(), direct.as_bool().unwrap())).collect();
    all.sort();
    all
}

/// A grant: entitlement, principal's type and name, id, sources.
pub(crate) type Held = (String, String, String, String, Vec<(String, bool)>);

/// A graph of a line, and what the SDK's expander made of it.
pub(crate) fn parsed(line: &str) -> (Memory, Vec<Held>) {
    let line: Value = serde_json::from_str(line).unwrap();
    let rows = |name: &str| line[name].as_array().cloned().unwrap_or_default();
    let mut graph = Memory::default();
    for row in rows("entitlements") {
        let [kind, name, id] = <[String; 3]>::try_from(texts(&row)).unwrap();
        graph.entitlements.push(Entitlement {
            id,
            resource: ResourceId::new(kind, name),
            ..Entitlement::default()
        });
    }
    for row in rows("grants") {
        let [kind, name, id] = <[String; 3]>::try_from(texts(&row["entitlement"])).unwrap();
        let [principal_type, principal] = <[String; 2]>::try_from(texts(&row["principal"])).unwrap();
        let expansion = row.get("expand").map(|expand| Expansion {
            entitlement_ids: texts(&expand["entitlements"]),
            shallow: expand["shallow"].as_bool().unwrap_or_default(),
            resource_type_ids: texts(&expand["types"]),
        });
        graph.grants.push(Grant {
            id: text(&row["id"]),
            entitlement: EntitlementRef { resource: ResourceId::new(kind, name), id },
            principal: PrincipalRef { id: ResourceId::new(principal_type, principal), parent: None },
            sources: sources(&row["sources"]),
            needs_expansion: expansion.is_some(),
            expansion,
            ..Grant::default()
        });
    }
    let held = rows("expanded").into_iter().map(|row| {
        let [kind, name] = <[String; 2]>::try_from(texts(&row["principal"])).unwrap();
        (text(&row["entitlement"]), kind, name, text(&row["id"]), sources(&row["sources"]))
    });
    let mut held: Vec<Held> = held.collect();
    held.sort();
    (graph, held)
}

/// The lines of graphs: those of the file that is named, or those that are always there.
pub(crate) fn lines() -> Vec<String> {
    let path = std::env::var_os("DURAMEN_EXPANSIONS")
        .map_or_else(|| fixture("sdk/expansions.jsonl.zst"), Into::into);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(&path).unwrap();
    if path.extension().is_some_and(|ending| ending == "zst") {
        zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes).unwrap();
    } else {
        std::io::BufReader::new(file).read_to_end(&mut bytes).unwrap();
    }
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

fn held(grant: &EffectiveGrant<'_>) -> Held {
    let sources =
        grant.sources.iter().map(|source| (source.entitlement.to_owned(), source.is_direct)).collect();
    let principal = grant.principal;
    (
        grant.entitlement.id.to_owned(),
        principal.resource_type.to_owned(),
        principal.resource.to_owned(),
        grant.id.to_owned(),
        sources,
    )
}

fn gathered(visit: impl FnOnce(VisitGrant<'_>)) -> Vec<Held> {
    let mut all = Vec::new();
    visit(&mut |grant| {
        all.push(held(grant));
        ControlFlow::Continue(())
    });
    all.sort();
    all
}

/// E-1: the same grants with the same sources.
#[test]
fn what_follows_is_what_the_ecosystems_expander_makes_of_it() {
    let lines = lines();
    let mut derived = 0;
    for line in &lines {
        let (graph, expected) = parsed(line);
        let effective = Effective::load(&graph, "").unwrap();
        let found = gathered(|visit| effective.for_each(visit));
        assert_eq!(found, expected, "{line}");
        derived += found.len() - graph.grants.len();
        // What was expanded once stays as it is (E-2), also by way of a file.
        let again = Memory { entitlements: graph.entitlements.clone(), grants: expanded(&graph, &effective) };
        assert_eq!(
            gathered(|visit| Effective::load(&again, "").unwrap().for_each(visit)),
            expected,
            "{line}"
        );
    }
    assert!(lines.len() >= 300 && derived > lines.len(), "{} graphs, {derived} derived grants", lines.len());
}

/// The grants of a graph, and what follows from them, as rows.
fn expanded(graph: &Memory, effective: &Effective) -> Vec<Grant> {
    let mut rows = Vec::new();
    effective.for_each(&mut |grant| {
        let known = graph.grants.iter().find(|known| {
            known.id == grant.id
                && known.entitlement.id == grant.entitlement.id
                && known.principal.id.resource == grant.principal.resource
        });
        let mut row = known.cloned().unwrap_or_else(|| Grant {
            id: grant.id.to_owned(),
            entitlement: EntitlementRef {
                resource: ResourceId::new(grant.entitlement.resource_type, grant.entitlement.resource),
                id: grant.entitlement.id.to_owned(),
            },
            principal: PrincipalRef {
                id: ResourceId::new(grant.principal.resource_type, grant.principal.resource),
                parent: None,
            },
            ..Grant::default()
        });
        assert_eq!(known.is_none(), grant.origin == Origin::Derived);
        row.sources =
            grant.sources.iter().map(|source| (source.entitlement.to_owned(), source.is_direct)).collect();
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows
}

/// E-3: one question gives what the whole gives.
#[test]
fn who_and_what_are_parts_of_the_whole() {
    for line in lines().iter().take(400) {
        let (graph, _) = parsed(line);
        let effective = Effective::load(&graph, "").unwrap();
        let all = gathered(|visit| effective.for_each(visit));
        let mut by: (BTreeMap<String, Vec<Held>>, BTreeMap<_, Vec<Held>>) = Default::default();
        for each in all {
            by.0.entry(each.0.clone()).or_default().push(each.clone());
            by.1.entry((each.1.clone(), each.2.clone())).or_default().push(each);
        }
        for (entitlement, expected) in by.0 {
            assert!(effective.has_entitlement(&entitlement));
            assert_eq!(gathered(|visit| effective.who(&entitlement, visit)), expected, "{line}");
        }
        for ((kind, name), expected) in by.1 {
            let principal = ResourceId::new(kind, name);
            assert!(effective.has_principal(&principal));
            assert_eq!(gathered(|visit| effective.what(&principal, visit)), expected, "{line}");
        }
        let nobody = ResourceId::new("user", "nobody");
        assert!(
            gathered(|visit| effective.what(&nobody, visit)).is_empty() && !effective.has_principal(&nobody)
        );
        assert!(
            gathered(|visit| effective.who("nothing", visit)).is_empty()
                && !effective.has_entitlement("nothing")
        );
    }
}

/// E-4: a grant has at least one path, all paths are told once and in order, and each is one.
#[test]
fn every_grant_is_explained_by_paths_the_shortest_first() {
    let mut longest = 0;
    for line in lines().iter().take(400) {
        let (graph, expected) = parsed(line);
        let effective = Effective::load(&graph, "").unwrap();
        for (entitlement, kind, name, _, _) in &expected {
            let principal = ResourceId::new(kind, name);
            let why = effective.why(&principal, entitlement, 1000);
            assert!(why.all < 1000 && why.all == why.paths.len() as u64 && why.all > 0, "{line}");
            let lengths: Vec<usize> = why.paths.iter().map(|path| path.steps.len()).collect();
            assert!(lengths.is_sorted());
            longest = longest.max(lengths.last().copied().unwrap_or_default());
            let mut told = BTreeSet::new();
            for path in &why.paths {
                assert!(told.insert(format!("{path:?}")), "twice: {path:?}");
                let end = path.steps.last().map_or(&path.start, |step| &step.entitlement);
                assert_eq!(end, entitlement);
                let begins = graph.grants.iter().any(|grant| {
                    grant.id == path.grant
                        && grant.principal.id == principal
                        && grant.entitlement.id == path.start
                });
                assert!(begins, "{path:?} of {line}");
                for step in &path.steps {
                    let says = |grant: &&Grant| {
                        grant.id == step.grant && grant.principal.id == step.by && grant.expansion.is_some()
                    };
                    assert!(graph.grants.iter().any(|grant| says(&grant)), "{step:?} of {line}");
                }
            }
            let few = effective.why(&principal, entitlement, 1);
            assert_eq!((few.all, &few.paths[..]), (why.all, &why.paths[..1]));
        }
        assert_eq!(effective.why(&ResourceId::new("user", "nobody"), "nothing", 10), Why::default());
    }
    assert!(longest >= 3, "{longest} steps");
}

/// A ladder: at each level two groups are in both groups of the next, so that paths double.
#[test]
fn more_paths_than_can_be_counted_are_counted_and_the_shortest_are_told_at_once() {
    let mut graph = Memory::default();
    let entitlement = |level: usize, side: usize| Entitlement {
        id: format!("group:g{level}{side}:member"),
        resource: ResourceId::new("group", format!("g{level}{side}")),
        ..Entitlement::default()
    };
    let mut put = |of: &Entitlement, holder: ResourceId, from: Option<String>| {
        graph.grants.push(Grant {
            id: format!("{}:{}:{}", of.id, holder.resource_type, holder.resource),
            entitlement: EntitlementRef { resource: of.resource.clone(), id: of.id.clone() },
            principal: PrincipalRef { id: holder, parent: None },
            expansion: from.map(|id| Expansion { entitlement_ids: vec![id], ..Expansion::default() }),
            ..Grant::default()
        });
    };
    for level in 0..80 {
        for side in 0..2 {
            let here = entitlement(level, side);
            if level == 0 {
                put(&here, ResourceId::new("user", "ada"), None);
            } else {
                for below in [entitlement(level - 1, 0), entitlement(level - 1, 1)] {
                    put(&here, below.resource.clone(), Some(below.id));
                }
            }
        }
    }
    // A short way to the top.
    put(&entitlement(79, 0), ResourceId::new("group", "g31"), Some("group:g31:member".to_owned()));
    graph.entitlements = (0..80).flat_map(|level| [entitlement(level, 0), entitlement(level, 1)]).collect();
    let effective = Effective::load(&graph, "").unwrap();
    let why = effective.why(&ResourceId::new("user", "ada"), "group:g790:member", 20);
    assert_eq!((why.all, why.paths.len()), (u64::MAX, 20));
    let lengths: Vec<usize> = why.paths.iter().map(|path| path.steps.len()).collect();
    assert_eq!((lengths[..8].to_vec(), lengths[8]), (vec![4; 8], 79));
}

/// E-5: nothing that is left out goes without a word.
#[test]
fn an_expansion_that_leads_nowhere_is_told() {
    let resource = |name: &str| ResourceId::new("group", name);
    let entitlement =
        |name: &str| Entitlement { id: name.to_owned(), resource: resource(name), ..Entitlement::default() };
    let grant = |of: &str, holder: &str, from: &str| Grant {
        id: format!("{of}:group:{holder}"),
        entitlement: EntitlementRef { resource: resource(of), id: of.to_owned() },
        principal: PrincipalRef { id: resource(holder), parent: None },
        expansion: Some(Expansion {
            entitlement_ids: vec![from.to_owned(), String::new()],
            ..Expansion::default()
        }),
        ..Grant::default()
    };
    let graph = Memory {
        entitlements: vec![entitlement("a"), entitlement("b")],
        grants: vec![
            grant("a", "b", "gone"),
            grant("a", "c", "b"),
            grant("gone", "b", "b"),
            grant("a", "b2", "a"),
        ],
    };
    let effective = Effective::load(&graph, "").unwrap();
    let told: Vec<_> = effective
        .left_out()
        .iter()
        .map(|loss| (loss.what.as_str(), loss.rows, loss.example.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("an expansion of an entitlement that is not there", 1, "a:group:b"),
            ("an expansion of an entitlement of another resource than its principal", 2, "a:group:b2"),
            ("an expansion into an entitlement that is not there", 1, "gone:group:b"),
        ]
    );
    assert_eq!(gathered(|visit| effective.for_each(visit)).len(), 4);
}

/// Every grant that is visited, by entitlement, principal and id.
fn visited(visit: impl FnOnce(&mut dyn FnMut(&EffectiveGrant<'_>) -> ControlFlow<()>)) -> Vec<Grant> {
    let mut all = Vec::new();
    visit(&mut |grant| {
        let (of, holder) = (grant.entitlement, grant.principal);
        all.push(Grant {
            id: grant.id.to_owned(),
            entitlement: EntitlementRef {
                resource: ResourceId::new(of.resource_type, of.resource),
                id: of.id.to_owned(),
            },
            principal: PrincipalRef {
                id: ResourceId::new(holder.resource_type, holder.resource),
                parent: None,
            },
            sources: grant.sources.iter().map(|each| (each.entitlement.to_owned(), each.is_direct)).collect(),
            ..Grant::default()
        });
        ControlFlow::Continue(())
    });
    all
}

/// E-6: after changes to a graph that was expanded, expanding what the changes lead to gives what expanding all gives.
#[test]
fn expanding_only_what_changed_gives_what_expanding_all_does() {
    let (mut changes, mut left_alone) = (0, 0);
    for (number, line) in lines().into_iter().take(400).enumerate() {
        let (mut graph, _) = parsed(&line);
        let mut random = duramen_base::entropy::rng(number as u64);
        let key = |row: &Grant| (row.entitlement.clone(), row.principal.id.clone(), row.id.clone());
        let expansions: BTreeMap<_, _> =
            graph.grants.iter().map(|row| (key(row), row.expansion.clone())).collect();
        let first = Effective::load(&graph, "").unwrap();
        // As a tool leaves it: all that follows is recorded, and nothing is left to be expanded.
        graph.grants = visited(|visit| first.for_each(visit));
        for row in &mut graph.grants {
            row.expansion = expansions.get(&key(row)).cloned().flatten();
        }
        let again = Effective::load(&graph, "").unwrap();
        assert!(visited(|visit| again.for_each_pending(&[], visit)).is_empty(), "graph {number}");
        if graph.entitlements.is_empty() {
            continue;
        }
        let mut changed = Vec::new();
        for count in 0..random.usize(1..4) {
            let of = &graph.entitlements[random.usize(..graph.entitlements.len())];
            let mut row = Grant { id: format!("new {number} {count}"), ..Grant::default() };
            row.entitlement = EntitlementRef { resource: of.resource.clone(), id: of.id.clone() };
            if random.bool() {
                row.principal.id = ResourceId::new("user", format!("u{}", random.u8(..9)));
                changed.push(of.id.clone());
            } else {
                let source = &graph.entitlements[random.usize(..graph.entitlements.len())];
                row.principal.id = source.resource.clone();
                let entitlement_ids = vec![source.id.clone()];
                row.expansion =
                    Some(Expansion { entitlement_ids, shallow: random.bool(), ..Expansion::default() });
                row.needs_expansion = true;
            }
            // One grant for each edge, as in the files that are expanded.
            if graph.grants.iter().all(|known| {
                (&known.entitlement, &known.principal.id) != (&row.entitlement, &row.principal.id)
            }) {
                graph.grants.push(row);
                changes += 1;
            }
        }
        let effective = Effective::load(&graph, "").unwrap();
        let by_key = |rows: Vec<Grant>| -> BTreeMap<_, _> {
            rows.into_iter().map(|row| (key(&row), row.sources)).collect()
        };
        let all = by_key(visited(|visit| effective.for_each(visit)));
        let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
        let pending = by_key(visited(|visit| effective.for_each_pending(&changed, visit)));
        left_alone += all.len() - pending.len();
        let mut recorded = by_key(graph.grants.clone());
        recorded.extend(pending);
        assert_eq!(recorded, all, "graph {number}");
    }
    assert!(changes > 300 && left_alone > 1_000, "{changes} changes, {left_alone} grants left alone");
}
