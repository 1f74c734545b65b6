//! What somebody is told of events who may not see all of them (H2): what happens to the branches and sources that he sees, and of
//! that the name, the time, the branch and the source. The rest of an entry may be about others.

use duramen_branches::{Engine, Holder, LoggedEvent};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, sync::Arc};

/// What happens to branches.
const OF_BRANCHES: &[&str] = &[
    "leased",
    "renewed",
    "protected",
    "reset",
    "restored",
    "snapshot_taken",
    "snapshot_removed",
    "branch_merged",
    "server_restarted",
    "session_ended",
    "statement_cancelled",
    "destroyed",
    "expired",
    "lease_adopted",
    "lease_lost",
];
/// What happens to sources.
const OF_SOURCES: &[&str] = &[
    "imported",
    "copied",
    "copy_refused",
    "promoted",
    "removed",
    "sealed",
    "generation_labelled",
    "generation_dropped",
];
/// Branches that are remembered. Beyond them those of the past are forgotten, and the end of one is not told.
const BRANCHES_MAX: usize = 10_000;

/// What somebody sees.
#[derive(Debug)]
pub(crate) struct Seen {
    engine: Arc<Engine>,
    onlooker: Holder,
    /// The ids of branches that it sees or has seen.
    branches: HashSet<String>,
}

/// What is read of an entry.
#[derive(Debug, Deserialize)]
struct Entry {
    at: Option<String>,
    branch: Option<String>,
    name: Option<String>,
    source: Option<String>,
    token: Option<String>,
}

/// What is told of it.
#[derive(Debug, Serialize)]
struct Told<'a> {
    event: &'a str,
    at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
}

impl Seen {
    /// What the holder of a token sees that is an onlooker where it only looks.
    pub(crate) fn by(engine: &Arc<Engine>, onlooker: Holder) -> Seen {
        let mut seen = Seen { engine: Arc::clone(engine), onlooker, branches: HashSet::new() };
        seen.look();
        seen
    }

    /// The events that may be told, with what may be told of each.
    pub(super) fn of(&mut self, events: Vec<LoggedEvent>) -> Vec<LoggedEvent> {
        events.into_iter().filter_map(|event| self.told(event)).collect()
    }

    fn told(&mut self, event: LoggedEvent) -> Option<LoggedEvent> {
        let is_of_branch = OF_BRANCHES.contains(&event.name.as_str());
        if !is_of_branch && !OF_SOURCES.contains(&event.name.as_str()) {
            return None;
        }
        let entry: Entry = serde_json::from_str(&event.json).ok()?;
        let is_seen = match (&entry.branch, &entry.source) {
            (Some(id), source) if is_of_branch => {
                let is_own = event.name == "leased"
                    && source
                        .as_deref()
                        .is_some_and(|source| self.onlooker.owns(entry.token.as_deref(), source));
                if is_own {
                    self.remember(id);
                }
                is_own || self.sees(id)
            }
            (_, Some(source)) if !is_of_branch => self.onlooker.may_use(source),
            _ => false,
        };
        if !is_seen {
            return None;
        }
        let told = Told {
            event: &event.name,
            at: entry.at.as_deref(),
            branch: entry.branch.as_deref().filter(|_| is_of_branch),
            name: entry.name.as_deref().filter(|_| is_of_branch),
            source: entry.source.as_deref(),
        };
        let json = serde_json::to_string(&told).ok()?;
        Some(LoggedEvent { json, ..event })
    }

    /// Whether a branch is one that it sees, or has seen. Ids are never given again.
    fn sees(&mut self, id: &str) -> bool {
        if !self.branches.contains(id) {
            self.look();
        }
        self.branches.contains(id)
    }

    fn look(&mut self) {
        for view in self.engine.branches_of(&self.onlooker) {
            self.remember(&view.id);
        }
    }

    fn remember(&mut self, id: &str) {
        if self.branches.len() >= BRANCHES_MAX {
            self.branches.clear();
        }
        self.branches.insert(id.to_owned());
    }
}
