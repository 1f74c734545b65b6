//! Several grants of one edge, made into the one that a version 3 file holds.
//!
//! The rule is that of the ecosystem's own conversion from version 1: whatever their order was, the same grant comes out,
//! and nothing that one of them says is lost but its id. So it makes no difference whether a graph went through a pack.

use crate::graph::{Expansion, Grant};

/// One grant that says what all say. Its id, its time and whatever has no rule are of the one that was seen first; of
/// several, of the one with the least id. None of none.
pub(crate) fn folded(mut grants: Vec<Grant>) -> Option<Grant> {
    grants.sort_by(|a, b| {
        let order = |grant: &Grant| (grant.discovered_at.is_none(), grant.discovered_at);
        order(a).cmp(&order(b)).then_with(|| a.id.cmp(&b.id))
    });
    let mut grants = grants.into_iter();
    let mut one = grants.next()?;
    for other in grants {
        one.needs_expansion |= other.needs_expansion;
        if one.annotations.is_empty() || other.annotations.is_empty() {
            one.annotations.extend(other.annotations);
        } else {
            one.annotations.extend(other.annotations);
            one.annotations.sort();
            one.annotations.dedup();
        }
        for (id, is_direct) in other.sources {
            match one.sources.binary_search_by(|(known, _)| known.cmp(&id)) {
                Ok(at) => one.sources[at].1 |= is_direct,
                Err(at) => one.sources.insert(at, (id, is_direct)),
            }
        }
        one.expansion = match (one.expansion, other.expansion) {
            (Some(one), Some(other)) => Some(Expansion {
                entitlement_ids: union(one.entitlement_ids, other.entitlement_ids),
                resource_type_ids: union(one.resource_type_ids, other.resource_type_ids),
                shallow: one.shallow && other.shallow,
            }),
            (one, other) => one.or(other),
        };
    }
    Some(one)
}

fn union(mut one: Vec<String>, other: Vec<String>) -> Vec<String> {
    one.extend(other);
    one.retain(|id| !id.is_empty());
    one.sort();
    one.dedup();
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Any, Timestamp};

    fn grant(id: &str, seconds: Option<i64>) -> Grant {
        Grant {
            id: id.to_owned(),
            discovered_at: seconds.map(|seconds| Timestamp { seconds, nanos: 0 }),
            annotations: vec![Any { type_url: id.to_owned(), value: Vec::new() }],
            sources: vec![("a".to_owned(), id == "x"), (format!("of {id}"), false)],
            expansion: Some(Expansion {
                entitlement_ids: vec![id.to_owned(), "e".to_owned()],
                shallow: id != "x",
                resource_type_ids: vec!["user".to_owned()],
            }),
            needs_expansion: id == "y",
            ..Grant::default()
        }
    }

    #[test]
    fn what_comes_out_does_not_depend_on_the_order() {
        let all = [grant("z", Some(1)), grant("x", Some(2)), grant("y", None), grant("w", Some(1))];
        let mut seen = Vec::new();
        for turn in 0..4 {
            let mut turned = all.to_vec();
            turned.rotate_left(turn);
            if turn % 2 == 1 {
                turned.reverse();
            }
            seen.push(folded(turned).unwrap());
        }
        let one = seen[0].clone();
        assert!(seen.iter().all(|each| *each == one));
        assert_eq!((one.id.as_str(), one.discovered_at.map(|time| time.seconds)), ("w", Some(1)));
        assert!(one.needs_expansion);
        assert_eq!(one.sources.len(), 5);
        assert_eq!(one.sources[0], ("a".to_owned(), true));
        assert_eq!(one.annotations.len(), 4);
        let expansion = one.expansion.unwrap();
        assert_eq!((expansion.entitlement_ids.len(), expansion.shallow), (5, false));
        assert!(folded(Vec::new()).is_none());
    }
}
