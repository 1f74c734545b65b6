//! What of its sources a node has branches made of for the fleet, and what it is being brought. The rest is withheld: a create by the name
//! of a source is never answered with a branch of another one that has the same name (FL-15).

use duramen_branches::{EngineError, Kind, LocalSource};
use duramen_fleet::{
    member::Fleet,
    record::{BringingRecord, CopyRecord, SourceRecord},
    view::SourceSeen,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

/// So many sources that are on their way, or do not come, are told of, and so much of why they do not.
const TOLD_MAX: usize = 64;
const PROBLEM_MAX: usize = 300;

/// What a node offers, and what it waits for.
#[derive(Debug, Default)]
pub(super) struct Offers {
    state: Mutex<State>,
    /// With what sources are compared.
    fleet: OnceLock<Weak<Fleet>>,
}

#[derive(Debug, Default)]
struct State {
    /// Sources that are not offered, and why; nothing before they were compared with the fleet's.
    withheld: Option<BTreeMap<String, String>>,
    /// Of which of them it was told that they are.
    told: BTreeSet<String>,
    /// What is on its way here, or does not come.
    bringing: BTreeMap<String, BringingRecord>,
}

impl Offers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares with the sources of that fleet.
    pub(super) fn join(&self, fleet: &Arc<Fleet>) {
        let _ = self.fleet.set(Arc::downgrade(fleet));
    }

    /// Whether nothing was compared yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.state().withheld.is_none()
    }

    /// Compares for the first time, if the fleet was seen: a daemon that was just started makes branches as soon as it is registered.
    pub(super) fn compare(&self, local: &[LocalSource]) {
        let Some(fleet) = self.fleet.get().and_then(Weak::upgrade).filter(|_| self.is_unknown()) else {
            return;
        };
        let found = {
            let view = fleet.view();
            view.age().map(|_| withheld(local, view.sources(), fleet.node()))
        };
        if let Some(found) = found {
            self.state().withheld.get_or_insert(found);
        }
    }

    /// Takes note of what is withheld. Tells of what was not until now.
    pub(super) fn withhold(&self, withheld: BTreeMap<String, String>) -> Vec<(String, String)> {
        let mut state = self.state();
        state.told.retain(|name| withheld.contains_key(name));
        let mut new = Vec::new();
        for (name, why) in &withheld {
            if state.told.insert(name.clone()) {
                new.push((name.clone(), why.clone()));
            }
        }
        state.withheld = Some(withheld);
        new
    }

    /// Why a source is withheld, if it is.
    pub(super) fn why(&self, source: &str) -> Option<String> {
        match &self.state().withheld {
            None => {
                Some("the sources of the fleet were not compared with this home's yet; try again".to_owned())
            }
            Some(withheld) => withheld.get(source).cloned(),
        }
    }

    /// Refuses a create of a source that is withheld.
    pub(super) fn check(&self, source: &str) -> Result<(), EngineError> {
        match self.why(source) {
            None => Ok(()),
            Some(why) => {
                let message = format!("this node makes no branches of {source} for the fleet: {why}");
                Err(EngineError::new(Kind::Unavailable, "source_withheld", message))
            }
        }
    }

    /// What other nodes are told: names of sources that are offered, what there is of each, and what is on its way.
    pub(super) fn told(&self, local: &[LocalSource]) -> (Vec<String>, Vec<CopyRecord>, Vec<BringingRecord>) {
        self.compare(local);
        let state = self.state();
        let is_offered = |source: &&LocalSource| {
            state.withheld.as_ref().is_some_and(|withheld| !withheld.contains_key(&source.name))
        };
        let copies = local.iter().map(|source| CopyRecord {
            source: source.name.clone(),
            id: source.fleet.as_ref().map(|of| of.id.clone()),
            generation: source.generation,
            digest: source.digest.clone(),
        });
        let offered = local.iter().filter(is_offered).map(|source| source.name.clone()).collect();
        (offered, copies.collect(), state.bringing.values().take(TOLD_MAX).cloned().collect())
    }

    /// Takes note of how far something is.
    pub(super) fn note(&self, record: BringingRecord) {
        // What other nodes say is in it, and a registration is to stay small.
        let problem = record.problem.map(|problem| problem.chars().take(PROBLEM_MAX).collect());
        let record = BringingRecord { problem, ..record };
        self.state().bringing.insert(record.source.clone(), record);
    }

    /// Nothing of that source is on its way any more.
    pub(super) fn end(&self, source: &str) {
        self.state().bringing.remove(source);
    }

    /// Forgets what is on its way of all sources but these.
    pub(super) fn keep_only(&self, is_kept: impl Fn(&str) -> bool) {
        self.state().bringing.retain(|source, _| is_kept(source));
    }
}

/// Which sources of a home are withheld, and why.
pub(super) fn withheld(
    local: &[LocalSource],
    defined: &BTreeMap<String, SourceSeen>,
    own: &str,
) -> BTreeMap<String, String> {
    let why = |source: &LocalSource| {
        let name = &source.name;
        if source.is_unread {
            return Some("its record here cannot be read".to_owned());
        }
        let record = match (defined.get(name), &source.fleet) {
            (None, None) => return None,
            // The keeper defines it again.
            (None, Some(of)) if of.is_kept_here => return None,
            (None, Some(_)) => {
                return Some(format!(
                "the fleet has no source of that name any more; end it here: duramen source remove {name}"
            ))
            }
            (Some(SourceSeen { record: None, .. }), _) => {
                return Some("this version cannot read its definition in etcd".to_owned())
            }
            (Some(SourceSeen { record: Some(record), .. }), _) => record,
        };
        match &source.fleet {
            Some(of) if of.id == record.id => {
                let current = record
                    .generation
                    .as_ref()
                    .is_none_or(|it| (it.number, &it.digest) == (source.generation, &source.digest));
                let has_place = of.is_kept_here || record.places.iter().any(|node| node == own);
                (!has_place && !current).then(|| {
                    format!("it has no place for it any more, and another generation than the current one; end it here: duramen source remove {name}")
                })
            }
            _ => Some(other(name, record)),
        }
    };
    local.iter().filter_map(|source| Some((source.name.clone(), why(source)?))).collect()
}

fn other(name: &str, record: &SourceRecord) -> String {
    format!(
        "the fleet has another source of that name, which {} keeps; branches of this one go on. End one of them: duramen source remove {name}",
        record.keeper
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_base::clock;
    use duramen_branches::InFleet;
    use duramen_fleet::record::GenerationRecord;

    fn local(id: Option<(&str, bool)>, generation: u32) -> LocalSource {
        LocalSource {
            name: "s".to_owned(),
            fleet: id.map(|(id, is_kept_here)| InFleet {
                id: id.to_owned(),
                keeper: "a".to_owned(),
                is_kept_here,
            }),
            origin: "script",
            generation,
            digest: "d".to_owned(),
            bytes: 0,
            manifest: String::new(),
            is_unread: false,
            settings: duramen_api::model::SourceSettings::default(),
        }
    }

    fn defined(generation: u32) -> BTreeMap<String, SourceSeen> {
        let record = SourceRecord {
            id: "s-1".to_owned(),
            keeper: "a".to_owned(),
            origin: "script".to_owned(),
            settings: serde_json::json!({}),
            replicas: 2,
            generation: Some(GenerationRecord {
                number: generation,
                digest: "d".to_owned(),
                bytes: 1,
                manifest: "m".to_owned(),
            }),
            places: vec!["a".to_owned(), "b".to_owned()],
            defined_at: clock::utc_now(),
        };
        BTreeMap::from([("s".to_owned(), SourceSeen { record: Some(record), revision: 7 })])
    }

    /// FL-15.
    #[test]
    fn what_is_not_the_fleets_source_of_that_name_is_withheld() {
        let none = BTreeMap::new();
        let is = |source: LocalSource, defined: &BTreeMap<String, SourceSeen>, own: &str| {
            !withheld(&[source], defined, own).is_empty()
        };
        assert!(!is(local(None, 1), &none, "a"), "a node's own");
        assert!(is(local(None, 1), &defined(1), "b"), "the fleet has another one");
        assert!(is(local(Some(("s-2", true)), 1), &defined(1), "a"), "the name was given to another one");
        assert!(!is(local(Some(("s-1", true)), 1), &none, "a"), "an empty etcd: its keeper defines it again");
        assert!(is(local(Some(("s-1", false)), 1), &none, "b"), "a copy of what was removed");
        assert!(
            !is(local(Some(("s-1", false)), 1), &defined(2), "b"),
            "an earlier generation, until the next has come"
        );
        assert!(is(local(Some(("s-1", false)), 1), &defined(2), "c"), "an earlier one without a place");
        assert!(!is(local(Some(("s-1", false)), 2), &defined(2), "c"), "the current one serves also without");
        let other = LocalSource { digest: "x".to_owned(), ..local(Some(("s-1", false)), 2) };
        assert!(is(other, &defined(2), "c"), "other contents of the same number (FL-17)");
        assert!(
            is(local(Some(("s-1", false)), 3), &defined(2), "c"),
            "its keeper was put back to an earlier day"
        );
        let damaged = LocalSource { is_unread: true, ..local(None, 0) };
        assert!(is(damaged, &none, "a"), "nothing is known of it");
        let unread = BTreeMap::from([("s".to_owned(), SourceSeen { record: None, revision: 1 })]);
        assert!(is(local(Some(("s-1", true)), 1), &unread, "a"));
        let offers = Offers::default();
        assert!(offers.check("s").is_err(), "before anything was compared");
        assert!(offers.told(&[local(None, 1)]).0.is_empty());
        assert!(offers.withhold(BTreeMap::new()).is_empty());
        assert!(offers.check("s").is_ok());
        assert_eq!(offers.told(&[local(None, 1)]).0, ["s"]);
    }
}
