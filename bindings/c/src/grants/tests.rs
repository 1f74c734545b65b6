//! Grants in memory against a map, which is slow and right.

use std::collections::BTreeMap;

use super::*;
use crate::records::EntitlementKey;

type Edge = [String; 5];

/// All grants, as they are walked through: edge, id and details.
fn walked(grants: &mut Grants) -> Vec<(Edge, String)> {
    let mut rows = Vec::new();
    grants.walk(
        &EntitlementKey::before("", ""),
        None,
        |_| true,
        |grants, row| {
            let mut room = String::new();
            let flat = grants.flat(row, &mut room);
            let edge =
                [flat.resource_type, flat.resource, flat.entitlement, flat.principal_type, flat.principal]
                    .map(str::to_owned);
            rows.push((edge, flat.id.to_owned()));
            true
        },
    );
    rows
}

fn flat<'a>(edge: &'a Edge, id: &'a str) -> Flat<'a> {
    let [resource_type, resource, entitlement, principal_type, principal] = edge;
    Flat { id, entitlement, resource_type, resource, principal_type, principal, ..Flat::default() }
}

/// Small numbers that are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn any_puts_and_deletions_leave_what_a_map_has() {
    for seed in 0..30 {
        let mut numbers = Numbers(seed);
        let mut grants = Grants::default();
        let mut map: BTreeMap<Edge, String> = BTreeMap::new();
        for _ in 0..600 {
            let resource = format!("r{}", numbers.below(3));
            let entitlement = match numbers.below(3) {
                0 => format!("app:{resource}:admin"),
                1 => format!("of {resource}"),
                _ => format!("app:{resource}:x:y"),
            };
            let principal = [["user", "ada"], ["user", "bob"], ["us:er", "ada"], ["group", "x:y"]]
                [numbers.below(4) as usize];
            let edge =
                ["app".to_owned(), resource, entitlement, principal[0].to_owned(), principal[1].to_owned()];
            let made = format!("{}:{}:{}", edge[2], edge[3], edge[4]);
            let id = if numbers.below(3) == 0 { format!("grant {}", numbers.below(9)) } else { made };
            match numbers.below(5) {
                0 => {
                    grants.delete_edge(&flat(&edge, ""));
                    map.remove(&edge);
                }
                1 => {
                    grants.delete_id(&id);
                    map.retain(|_, known| *known != id);
                }
                _ => {
                    grants.put(&flat(&edge, &id), None, Put::Replace).unwrap();
                    map.retain(|_, known| *known != id);
                    map.insert(edge, id);
                }
            }
            assert_eq!(grants.len(), map.len());
        }
        let rows = walked(&mut grants);
        let mut sorted = rows.clone();
        sorted.sort_by_key(|(edge, _)| {
            (EntitlementKey::new(&edge[0], &edge[1], &edge[2]), edge[3].clone(), edge[4].clone())
        });
        assert_eq!(rows, sorted, "seed {seed}");
        assert_eq!(rows.iter().cloned().collect::<BTreeMap<_, _>>(), map, "seed {seed}");
        let mut counted = 0;
        for (edge, id) in &rows {
            let mut room = String::new();
            let found = grants.find_id(id).map(|row| grants.flat(row, &mut room).entitlement.to_owned());
            assert_eq!(found.as_deref(), Some(edge[2].as_str()), "{id}");
            let of = grants.of_principal(&edge[3], &edge[4]);
            assert!(of.is_sorted(), "{of:?}");
            counted += of.len();
        }
        let expected: usize = rows
            .iter()
            .map(|(edge, _)| rows.iter().filter(|(other, _)| other[3..] == edge[3..]).count())
            .sum();
        assert_eq!(counted, expected);
    }
}

#[test]
fn what_an_expander_puts_keeps_what_was_known_of_the_expansion() {
    let edge = ["app", "github", "role", "group", "staff"].map(str::to_owned);
    let expansion = duramen_access::graph::Expansion {
        entitlement_ids: vec!["group:staff:member".to_owned()],
        ..Default::default()
    };
    let message = |row: &Grant| {
        let mut out = Vec::new();
        messages::put_grant_details(&mut out, row);
        out
    };
    let expands = message(&Grant { expansion: Some(expansion.clone()), ..Grant::default() });
    let sources = message(&Grant { sources: vec![("other".to_owned(), true)], ..Grant::default() });
    let seen = Timestamp { seconds: 7, nanos: 0 };
    let mut grants = Grants::default();
    grants.put(&Flat { details: &expands, ..flat(&edge, "one") }, Some(seen), Put::Replace).unwrap();
    grants.put(&Flat { details: &sources, ..flat(&edge, "two") }, None, Put::KeepExpansion).unwrap();
    grants
        .each(|row| {
            let rest = row.rest.unwrap();
            assert_eq!((row.id, row.discovered_at), ("two", Some(seen)));
            assert_eq!((rest.expansion.as_ref(), rest.needs_expansion), (Some(&expansion), true));
            assert_eq!(rest.sources, [("other".to_owned(), true)]);
            Ok(())
        })
        .unwrap();
    // A new one does not expand, whatever it says.
    let other = ["app", "github", "role", "group", "team"].map(str::to_owned);
    grants.put(&Flat { details: &expands, ..flat(&other, "new") }, None, Put::KeepExpansion).unwrap();
    let row = grants.find_id("new").unwrap();
    assert!(!grants.needs_expansion(row));
    assert!(grants.put(&Flat { details: b"\xff", ..flat(&other, "bad") }, None, Put::Replace).is_err());
    assert!(grants.put(&flat(&other, ""), None, Put::Replace).is_err());
}
