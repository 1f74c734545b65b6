//! The names of the engine, agreed on with the fleet.

use super::{offers::Offers, stall, NAME_ELSEWHERE};
use duramen_branches::{name_taken, Engine, EngineError, Holder, Kind, Names, Promised, WantedName};
use duramen_fleet::{
    member::Fleet,
    names::{ClaimError, Holds, Local},
    record::NameRecord,
    view::NodeState,
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::timeout;

/// How long a create of a daemon that was just started waits until the fleet was seen.
const SEEN_LIMIT: Duration = Duration::from_secs(1);

/// Claims for an engine.
#[derive(Debug)]
pub(super) struct Agreeing {
    pub(super) fleet: Arc<Fleet>,
    pub(super) offers: Arc<Offers>,
    /// The engine has this, and not the other way round.
    pub(super) engine: Weak<Engine>,
}

impl Agreeing {
    /// FL-15: a create of a source's name is not answered with a branch of another source that has it here.
    async fn check_source(&self, wanted: Option<&str>) -> Result<(), EngineError> {
        if self.offers.is_unknown() {
            let mut changes = self.fleet.changes();
            let is_seen = self.fleet.view().age().is_some();
            if !is_seen {
                let _ = timeout(SEEN_LIMIT, changes.changed()).await;
            }
            if let Some(engine) = self.engine.upgrade() {
                self.offers.compare(&engine.local_sources());
            }
        }
        match wanted {
            Some(source) => self.offers.check(source),
            // The only one that there is.
            None => {
                let engine = self.engine.upgrade();
                let only = engine.map(|engine| engine.source_names()).unwrap_or_default();
                only.first().filter(|_| only.len() == 1).map_or(Ok(()), |only| self.offers.check(only))
            }
        }
    }
}

impl Names for Agreeing {
    fn claim<'a>(&'a self, wanted: WantedName<'a>) -> Promised<'a, Result<(), EngineError>> {
        Box::pin(async move {
            stall::at("before claim").await;
            let WantedName { name, id, source, is_child, holder } = wanted;
            // A child is made of what its parent is.
            if !is_child {
                self.check_source(source).await?;
            }
            // What a holder has on all nodes, as far as this one has heard.
            let has_all =
                |holder: &&Holder| self.fleet.view().held_by(&holder.id) >= holder.branches_max as usize;
            if let Some(Holder { id, branches_max, .. }) = holder.filter(has_all) {
                let message = format!(
                    "{branches_max} branches are held by this token ({id}) on all nodes, which is as many as it may; destroy one first"
                );
                return Err(EngineError::new(Kind::Quota, "quota_exceeded", message));
            }
            self.fleet
                .claim(name, id, source, holder.map(|holder| holder.id.as_str()))
                .await
                .map_err(|error| told(&self.fleet, error, holder))?;
            stall::at("after claim").await;
            Ok(())
        })
    }

    fn confirm<'a>(&'a self, name: &'a str, id: &'a str) -> Promised<'a, Result<(), EngineError>> {
        Box::pin(async move {
            stall::at("after journal").await;
            self.fleet.confirm(name, id).await.map_err(|error| told(&self.fleet, error, None))?;
            stall::at("before answer").await;
            Ok(())
        })
    }

    fn still_has<'a>(&'a self, name: &'a str, id: &'a str) -> Promised<'a, Result<(), EngineError>> {
        Box::pin(async move {
            self.fleet.still_has(name, id).await.map_err(|error| told(&self.fleet, error, None))
        })
    }

    fn ended(&self, name: &str, id: &str) {
        self.fleet.ended(name, id);
    }
}

/// Whether somebody may hear of a branch: of his own, or of any, if he is on the machine (FL-8).
pub(super) fn may_hear(who: Option<&Holder>, record: &NameRecord) -> bool {
    let source = record.source.as_deref().unwrap_or_default();
    who.is_none_or(|who| who.owns(record.holder.as_deref(), source))
}

/// What a create says of a name that is not to be had.
fn told(fleet: &Fleet, error: ClaimError, holder: Option<&Holder>) -> EngineError {
    let message = error.to_string();
    let unavailable = |code, message| EngineError::new(Kind::Unavailable, code, message);
    match error {
        ClaimError::NotMember { .. } => unavailable("not_in_fleet", message),
        ClaimError::Draining { .. } => unavailable("node_drains", message),
        ClaimError::Held { name, record, .. } if record.node == fleet.node() => unavailable(
            "name_settles",
            format!("the name {name} is being settled after a restart; try again"),
        ),
        ClaimError::Held { name, record, state: NodeState::Unreachable } if !may_hear(holder, &record) => {
            name_taken(&name)
        }
        ClaimError::Held { name, record, state: NodeState::Unreachable } => {
            let kept = fleet.node_view(&record.node).and_then(|node| node.kept_for).unwrap_or_default();
            let message = format!(
                "the branch {name} is on the node {}, which does not answer; its name is kept for it for {} s more",
                record.node,
                kept.as_secs()
            );
            unavailable("node_unreachable", message)
        }
        ClaimError::Held { .. } => EngineError::new(Kind::Conflict, NAME_ELSEWHERE, message),
        _ => unavailable("fleet_silent", message),
    }
}

/// What an engine holds.
pub(super) struct Holding(pub(super) Arc<Engine>);

impl Holds for Holding {
    fn all(&self) -> Vec<Local> {
        let held = self.0.held_names().into_iter();
        held.map(|held| Local { name: held.name, id: held.id, source: held.source, holder: held.holder })
            .collect()
    }

    fn rename(&self, name: &str, id: &str, other: &str) -> Result<(), String> {
        self.0.rename(name, id, other).map(drop).map_err(|error| error.message)
    }
}
