use std::collections::BTreeMap;

use super::*;
use crate::graph::Grant;

fn grant(id: &str, entitlement: (&str, &str, &str), principal: (&str, &str)) -> Grant {
    let mut grant = Grant { id: id.to_owned(), ..Grant::default() };
    grant.entitlement.resource.resource_type = entitlement.0.to_owned();
    grant.entitlement.resource.resource = entitlement.1.to_owned();
    grant.entitlement.id = entitlement.2.to_owned();
    grant.principal.id.resource_type = principal.0.to_owned();
    grant.principal.id.resource = principal.1.to_owned();
    grant
}

fn derived(entitlement: (&str, &str, &str), principal: (&str, &str)) -> Grant {
    let id = format!("{}:{}:{}", entitlement.2, principal.0, principal.1);
    grant(&id, entitlement, principal)
}

struct Taken {
    sorted: Sorted,
    values: Values,
    losses: Losses,
    folder: tempfile::TempDir,
}

fn sorted(all: &[Grant]) -> Result<Taken, C1zError> {
    let folder = tempfile::tempdir().unwrap();
    let (mut values, mut losses) = (Values::new(folder.path(), 500), Losses::default());
    let mut grants = Grants::default();
    for grant in all {
        grants.push(&GrantRef::from(grant), &mut values, &mut losses)?;
    }
    let sorted = grants.sorted(&mut values, &mut losses)?;
    Ok(Taken { sorted, values, losses, folder })
}

/// Keys of rows with their records, keys by principal, keys of those that need expansion.
type Everything = (Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn everything(taken: &Taken) -> Everything {
    let mut all = Everything::default();
    let (sorted, values) = (&taken.sorted, &taken.values);
    let index = |keys: &mut Vec<Vec<u8>>, key: &[u8]| {
        keys.push(key.to_vec());
        Ok(())
    };
    sorted.each_by_principal(|key| index(&mut all.1, key)).unwrap();
    sorted.each_needs_expansion(|key| index(&mut all.2, key)).unwrap();
    let mut row = |key: &[u8], value: &[u8]| {
        all.0.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    sorted.each(values, &mut row).unwrap();
    all
}

#[test]
fn grants_come_in_the_order_of_their_keys_with_the_records_that_were_put() {
    let mut random = duramen_base::entropy::rng(5);
    let odd = ["", "\0", "\u{1}", ":", "\u{fc}", "a", "aa", "b\0\u{1}"];
    let mut all = Vec::new();
    let mut expected = BTreeMap::new();
    let (mut by_principal, mut needing) = (BTreeMap::new(), BTreeMap::new());
    let mut losses = Losses::default();
    for number in 0..3_000 {
        let mut text = |count: usize| format!("{}{}", odd[random.usize(..8)], random.usize(..count));
        let (kind, resource, tail) = (text(2), text(2), text(3));
        let own = random.bool();
        let entitlement = if own { format!("{kind}:{resource}:{tail}") } else { tail };
        let mut text = |count: usize| format!("{}{}", odd[random.usize(..8)], random.usize(..count));
        let (principal_type, principal) = (text(2), text(20));
        let mut row =
            grant(&format!("id {number}"), (&kind, &resource, &entitlement), (&principal_type, &principal));
        if number % 10 == 9 {
            // The same edge as the one before, and another id.
            let last: &Grant = all.last().unwrap();
            (row.entitlement, row.principal) = (last.entitlement.clone(), last.principal.clone());
        }
        row.discovered_at = (number % 3 > 0).then_some(Timestamp { seconds: number % 7, nanos: 5 });
        row.needs_expansion = number % 5 == 0;
        let edge = Edge {
            resource_type: &row.entitlement.resource.resource_type,
            resource: &row.entitlement.resource.resource,
            entitlement: &row.entitlement.id,
            principal_type: &row.principal.id.resource_type,
            principal: &row.principal.id.resource,
        };
        let key = |family: &[u8], entitlement_first: bool| {
            let mut key = family.to_vec();
            if entitlement_first {
                edge.push_entitlement(&mut key);
            }
            edge.push_principal(&mut key);
            if !entitlement_first {
                edge.push_entitlement(&mut key);
            }
            key
        };
        let of_edge: &mut Vec<Grant> = expected.entry(key(&key::GRANTS, true)).or_default();
        of_edge.push(row.clone());
        by_principal.insert(key(&key::BY_PRINCIPAL, false), ());
        *needing.entry(key(&key::NEEDS_EXPANSION, true)).or_default() |= row.needs_expansion;
        all.push(row);
    }
    let mut others = 0;
    let expected = expected.into_iter().map(|(key, of_edge)| {
        others += of_edge.len() as u64 - 1;
        let mut value = Vec::new();
        storage::put_grant(&mut value, &GrantRef::from(&one_edge::folded(of_edge).unwrap()), &mut losses);
        (key, value)
    });
    let expected: Vec<_> = expected.collect();
    let taken = sorted(&all).unwrap();
    let (rows, by, needs) = everything(&taken);
    assert!(rows.len() < all.len() && rows == expected);
    assert_eq!(by, by_principal.into_keys().collect::<Vec<_>>());
    needing.retain(|_, needs: &mut bool| *needs);
    assert_eq!(needs, needing.into_keys().collect::<Vec<_>>());
    assert_eq!((taken.losses.all()[0].rows, others), (others, (all.len() - rows.len()) as u64));
    assert_eq!(std::fs::read_dir(taken.folder.path()).unwrap().count(), 0);
}

#[test]
fn a_record_that_is_put_together_is_the_one_that_would_have_been_written() {
    let mut plain = derived(("app", "github", "app:github:e"), ("user", "u"));
    plain.discovered_at = Some(Timestamp { seconds: 1_700_000_000, nanos: 3 });
    let taken = sorted(std::slice::from_ref(&plain)).unwrap();
    assert!(taken.sorted.grants.records.is_empty());
    let mut value = Vec::new();
    storage::put_grant(&mut value, &GrantRef::from(&plain), &mut Losses::default());
    assert_eq!(everything(&taken).0[0].1, value);
}

#[test]
fn an_id_that_stands_for_two_edges_is_refused_however_it_comes_about() {
    let first = ("app", "github", "a");
    let pairs = [
        // Stated, and both edges derived from other ids.
        (grant("same", first, ("user", "u")), grant("same", first, ("user", "v"))),
        // A stated id that is derived from another edge.
        (derived(first, ("user", "u")), grant("a:user:u", first, ("user", "v"))),
        // Edges that make the same id: by entitlements of two resources, by a colon in an entitlement or in a type.
        (derived(first, ("user", "u")), derived(("app", "gitlab", "a"), ("user", "u"))),
        (derived(first, ("b:user", "u")), derived(("app", "github", "a:b"), ("user", "u"))),
        (derived(first, ("user", "x:u")), derived(first, ("user:x", "u"))),
    ];
    for (one, other) in pairs {
        for pair in [[one.clone(), other.clone()], [other.clone(), one.clone()]] {
            let error = sorted(&pair).err().unwrap();
            let same = one.id == other.id;
            assert!(
                same && matches!(&error, C1zError::Row { row: "grant", id, .. } if *id == one.id),
                "{error}"
            );
        }
        assert!(sorted(&[one.clone(), one]).unwrap().losses.all().is_empty());
    }
}
