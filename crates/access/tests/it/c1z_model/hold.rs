//! What is left of rows in a format, and what has to be reported.

use std::collections::{BTreeMap, BTreeSet};

use duramen_access::graph::*;

use super::{Model, Row};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Pack,
    Version1,
    Version3,
}

/// The first column of the table of the design page, and how the writers call the loss.
pub(crate) const TABLE: [(&str, &[&str]); 14] = [
    ("several syncs", &[]),
    ("several grants of one edge", &[EDGE]),
    ("several resources whose type and id make one text, joined by `:`", &[JOINED]),
    ("several entitlements of one id on several resources", &[SHARED_ID]),
    (
        "entitlement or principal beyond their ids in a grant",
        &["entitlement beyond its ids", "principal beyond its ids"],
    ),
    (
        "resource beyond its id in an entitlement; `grantable_to` beyond ids",
        &["resource beyond its id", "grantable_to beyond ids"],
    ),
    (
        "traits and purposes with a number that has no name",
        &["traits with a number that has no name", "purpose with a number that has no name"],
    ),
    ("`baton_resource`; an icon without an id", &["baton_resource", "icon without an id"]),
    ("that a sync was compacted", &["that it was compacted"]),
    ("no time of discovery, or one that no calendar has", &[NO_TIME, BAD_TIME]),
    ("a need of expansion without an expansion", &["that it needs expansion, without one"]),
    (
        "an expansion that names no entitlement; one among the annotations",
        &[
            "an expansion that names no entitlement",
            "an annotation that says an expansion beside none (it is read as the expansion)",
        ],
    ),
    ("a kind of sync that is not known here", &[]),
    ("unknown fields", &[OF_CONNECTORS, OF_RECORDS]),
];

const EDGE: &str = "all ids but one of several grants of one edge";
const JOINED: &str = "all but the last of several resources whose type and id make one text";
const SHARED_ID: &str = "all but the last of several entitlements of one id";
const NO_TIME: &str = "that no time of discovery is known (the beginning of the sync is written)";
const BAD_TIME: &str = "a time that no calendar has (the beginning of the sync is written)";
const OF_CONNECTORS: &str = "unknown fields of connector messages";
const OF_RECORDS: &str = "unknown fields of stored records";

/// A kind of loss: the kind of row, and what it lost.
type Kind = (&'static str, &'static str);

/// What a format holds of rows.
pub(crate) struct Held {
    pub(crate) sync: Sync,
    pub(crate) model: Model,
    /// The ids of the rows that lost something, as often as they were put.
    reported: BTreeMap<Kind, Vec<String>>,
    /// The same of rows that were not put again: a row that is replaced may be counted or not.
    certain: BTreeMap<Kind, Vec<String>>,
}

impl Held {
    pub(crate) fn new(holds: Holds, sync: &Sync, rows: &[Row]) -> Held {
        let new = || Held {
            sync: sync.clone(),
            model: Model::default(),
            reported: BTreeMap::new(),
            certain: BTreeMap::new(),
        };
        let (mut held, mut last) = (new(), new());
        held.limit_sync(holds);
        last.limit_sync(holds);
        let mut joined = BTreeMap::new();
        for row in rows {
            let row = held.limited(holds, row);
            if let (Holds::Version1, Row::Resource(row)) = (holds, &row) {
                let text = format!("{}:{}", row.id.resource_type, row.id.resource);
                if let Some(before) = joined.insert(text, row.id.clone()).filter(|before| *before != row.id) {
                    held.model.resources.remove(&before);
                    held.report("resource", JOINED, &row.id.resource);
                }
            }
            held.model.put(row);
        }
        if holds == Holds::Version3 {
            held.fold_edges();
        }
        let mut seen = BTreeSet::new();
        for row in rows.iter().rev() {
            if seen.insert(key(holds, row)) {
                last.limited(holds, row);
            }
        }
        held.certain = last.reported;
        for kind in [("grant", EDGE), ("resource", JOINED)] {
            if let Some(lost) = held.reported.get(&kind) {
                held.certain.insert(kind, lost[..1].to_vec());
            }
        }
        held
    }

    /// Makes one grant of those of each edge: of the one that was seen first, with what all of them say.
    fn fold_edges(&mut self) {
        let mut edges: BTreeMap<_, Vec<Grant>> = BTreeMap::new();
        for grant in std::mem::take(&mut self.model.grants).into_values() {
            edges.entry((grant.entitlement.clone(), grant.principal.id.clone())).or_default().push(grant);
        }
        for of_edge in edges.into_values() {
            let time = |grant: &&Grant| {
                (grant.discovered_at.map_or((1, None), |time| (0, Some(time))), grant.id.clone())
            };
            let mut one = of_edge.iter().min_by_key(time).unwrap().clone();
            if of_edge.len() > 1 {
                one.needs_expansion = of_edge.iter().any(|grant| grant.needs_expansion);
                let mut sources: BTreeMap<String, bool> = BTreeMap::new();
                of_edge.iter().flat_map(|grant| &grant.sources).for_each(|(id, is_direct)| {
                    *sources.entry(id.clone()).or_default() |= is_direct;
                });
                one.sources = sources.into_iter().collect();
                let saying: Vec<&Grant> =
                    of_edge.iter().filter(|grant| !grant.annotations.is_empty()).collect();
                one.annotations = saying.iter().flat_map(|grant| grant.annotations.clone()).collect();
                if saying.len() > 1 {
                    one.annotations.sort();
                    one.annotations.dedup();
                }
                let all: Vec<&Expansion> =
                    of_edge.iter().filter_map(|grant| grant.expansion.as_ref()).collect();
                one.expansion = match all[..] {
                    [] => None,
                    [only] => Some(only.clone()),
                    _ => {
                        let union = |ids: &dyn Fn(&Expansion) -> Vec<String>| -> Vec<String> {
                            let set: BTreeSet<String> = all.iter().flat_map(|each| ids(each)).collect();
                            set.into_iter().filter(|id| !id.is_empty()).collect()
                        };
                        Some(Expansion {
                            entitlement_ids: union(&|each| each.entitlement_ids.clone()),
                            resource_type_ids: union(&|each| each.resource_type_ids.clone()),
                            shallow: all.iter().all(|each| each.shallow),
                        })
                    }
                };
                for lost in of_edge.iter().filter(|grant| grant.id != one.id) {
                    self.report("grant", EDGE, &lost.id);
                }
            }
            self.model.grants.insert(one.id.clone(), one);
        }
    }

    fn report(&mut self, row: &'static str, what: &'static str, id: &str) {
        self.reported.entry((row, what)).or_default().push(id.to_owned());
    }

    fn limit_sync(&mut self, holds: Holds) {
        let (id, records) = (self.sync.id.clone(), !self.sync.extra.storage.is_empty());
        if holds == Holds::Version1 {
            if std::mem::take(&mut self.sync.compacted) {
                self.report("sync", "that it was compacted", &id);
            }
            if records {
                self.sync.extra.storage.clear();
                self.report("sync", OF_RECORDS, &id);
            }
        }
    }

    /// What a format holds of a row by itself.
    fn limited(&mut self, holds: Holds, row: &Row) -> Row {
        let mut row = row.clone();
        match &mut row {
            Row::Type(row) => {
                self.limit("resource type", &row.id, holds, &mut row.discovered_at, &mut row.extra);
                for each in &mut row.traits {
                    if holds == Holds::Version3 && matches!(each, Trait::Unknown(_)) {
                        *each = Trait::Unspecified;
                        self.report("resource type", "traits with a number that has no name", &row.id);
                    }
                }
            }
            Row::Resource(row) => {
                let id = row.id.resource.clone();
                self.limit("resource", &id, holds, &mut row.discovered_at, &mut row.extra);
                if holds == Holds::Version3 {
                    if std::mem::take(&mut row.baton_resource) {
                        self.report("resource", "baton_resource", &id);
                    }
                    if row.icon.take_if(|icon| icon.is_empty()).is_some() {
                        self.report("resource", "icon without an id", &id);
                    }
                }
            }
            Row::Entitlement(row) => {
                self.limit("entitlement", &row.id, holds, &mut row.discovered_at, &mut row.extra);
                if holds == Holds::Version3 {
                    if matches!(row.purpose, Purpose::Unknown(_)) {
                        row.purpose = Purpose::Unspecified;
                        self.report("entitlement", "purpose with a number that has no name", &row.id);
                    }
                    if row.embedded_resource.take().is_some() {
                        self.report("entitlement", "resource beyond its id", &row.id);
                    }
                    if !std::mem::take(&mut row.embedded_grantable_to).is_empty() {
                        self.report("entitlement", "grantable_to beyond ids", &row.id);
                    }
                }
            }
            Row::Grant(row) => {
                self.limit("grant", &row.id, holds, &mut row.discovered_at, &mut row.extra);
                if holds == Holds::Version1 && row.needs_expansion && row.expansion.is_none() {
                    row.needs_expansion = false;
                    self.report("grant", "that it needs expansion, without one", &row.id);
                }
                if holds == Holds::Version3 {
                    if row.embedded_entitlement.take().is_some() {
                        self.report("grant", "entitlement beyond its ids", &row.id);
                    }
                    if row.embedded_principal.take().is_some() {
                        self.report("grant", "principal beyond its ids", &row.id);
                    }
                }
            }
            Row::Asset(row) => {
                let mut none = Extra::default();
                self.limit("asset", &row.id, holds, &mut row.discovered_at, &mut none);
            }
        }
        row
    }

    /// What all kinds of rows have.
    fn limit(
        &mut self,
        row: &'static str,
        id: &str,
        holds: Holds,
        discovered: &mut Option<Timestamp>,
        extra: &mut Extra,
    ) {
        if holds == Holds::Version1 {
            let calendar = -62_167_219_200..=253_402_207_200;
            let has_text = |time: &Timestamp| {
                calendar.contains(&time.seconds) && (0..1_000_000_000).contains(&time.nanos)
            };
            if !discovered.as_ref().is_some_and(has_text) {
                let what = if discovered.is_some() { BAD_TIME } else { NO_TIME };
                *discovered = Some(self.sync.started_at);
                self.report(row, what, id);
            }
            if !std::mem::take(&mut extra.storage).is_empty() {
                self.report(row, OF_RECORDS, id);
            }
        }
        if holds == Holds::Version3 && !std::mem::take(&mut extra.connector).is_empty() {
            self.report(row, OF_CONNECTORS, id);
        }
    }

    /// The kinds of losses are these and no others, each with a row that had it, and each counts the rows that had it.
    pub(crate) fn assert_losses(&self, losses: &[Loss], said: &str) {
        let kinds: BTreeSet<(&str, &str)> =
            losses.iter().map(|loss| (loss.row, loss.what.as_str())).collect();
        assert_eq!(kinds.len(), losses.len(), "{said}: a kind is reported twice: {losses:?}");
        let known: Vec<&str> = TABLE.iter().flat_map(|(_, names)| *names).copied().collect();
        assert!(kinds.iter().all(|(_, what)| known.contains(what)), "{said}: {kinds:?}");
        for (kind, lost) in &self.certain {
            assert!(kinds.contains(kind), "{said}: {kind:?} of {lost:?} is not reported");
        }
        for loss in losses {
            let ids = |rows: &BTreeMap<Kind, Vec<String>>| -> Vec<String> {
                let found = rows.iter().find(|(kind, _)| **kind == (loss.row, loss.what.as_str()));
                found.map(|(_, ids)| ids.clone()).unwrap_or_default()
            };
            let (most, least) =
                (ids(&self.reported), ids(&self.certain).into_iter().collect::<BTreeSet<_>>());
            assert!(most.contains(&loss.example), "{said}: {loss:?}, and lost have {most:?}");
            let counts = least.len() as u64..=most.len() as u64;
            assert!(counts.contains(&loss.rows), "{said}: {loss:?}, which is not {counts:?}");
        }
    }
}

/// What identifies a row in a format.
fn key(holds: Holds, row: &Row) -> String {
    match row {
        Row::Type(row) => format!("type {:?}", row.id),
        Row::Resource(row) => format!("resource {:?}", row.id),
        Row::Entitlement(row) => format!("entitlement {:?} {:?}", row.resource, row.id),
        Row::Grant(row) if holds == Holds::Version3 => {
            format!("grant {:?} {:?}", row.entitlement, row.principal.id)
        }
        Row::Grant(row) => format!("grant {:?}", row.id),
        Row::Asset(row) => format!("asset {:?}", row.id),
    }
}
