//! The names of the engine, agreed on with the fleet.

use super::NAME_ELSEWHERE;
use duramen_branches::{name_taken, Engine, EngineError, Holder, Kind, Names, Promised, WantedName};
use duramen_fleet::{
    member::Fleet,
    names::{ClaimError, Holds, Local},
    record::NameRecord,
    view::NodeState,
};
use std::sync::Arc;

/// Claims for an engine.
#[derive(Debug)]
pub(super) struct Agreeing(pub(super) Arc<Fleet>);

impl Names for Agreeing {
    fn claim<'a>(&'a self, wanted: WantedName<'a>) -> Promised<'a, Result<(), EngineError>> {
        Box::pin(async move {
            stall::at("before claim").await;
            let WantedName { name, id, source, holder } = wanted;
            // What a holder has on all nodes, as far as this one has heard.
            let has_all =
                |holder: &&Holder| self.0.view().held_by(&holder.id) >= holder.branches_max as usize;
            if let Some(Holder { id, branches_max, .. }) = holder.filter(has_all) {
                let message = format!(
                    "{branches_max} branches are held by this token ({id}) on all nodes, which is as many as it may; destroy one first"
                );
                return Err(EngineError::new(Kind::Quota, "quota_exceeded", message));
            }
            self.0
                .claim(name, id, source, holder.map(|holder| holder.id.as_str()))
                .await
                .map_err(|error| told(&self.0, error, holder))?;
            stall::at("after claim").await;
            Ok(())
        })
    }

    fn confirm<'a>(&'a self, name: &'a str, id: &'a str) -> Promised<'a, Result<(), EngineError>> {
        Box::pin(async move {
            stall::at("after journal").await;
            self.0.confirm(name, id).await.map_err(|error| told(&self.0, error, None))?;
            stall::at("before answer").await;
            Ok(())
        })
    }

    fn still_has<'a>(&'a self, name: &'a str, id: &'a str) -> Promised<'a, Result<(), EngineError>> {
        Box::pin(async move { self.0.still_has(name, id).await.map_err(|error| told(&self.0, error, None)) })
    }

    fn ended(&self, name: &str, id: &str) {
        self.0.ended(name, id);
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

/// Places in a create at which tests have a daemon stop: `DURAMEN_FLEET_STALL=PLACE=FILE` waits there for as long as the file is
/// there, and says so by a file beside it. No release has them.
#[cfg(not(debug_assertions))]
mod stall {
    pub(super) async fn at(_: &str) {}
}

#[cfg(debug_assertions)]
mod stall {
    use std::{path::Path, time::Duration};

    const VARIABLE: &str = "DURAMEN_FLEET_STALL";

    pub(super) async fn at(place: &str) {
        let Ok(wanted) = std::env::var(VARIABLE) else { return };
        let Some((_, file)) = wanted.split_once('=').filter(|(wanted, _)| *wanted == place) else { return };
        let file = Path::new(file);
        if file.exists() {
            let _ = std::fs::write(file.with_extension("there"), place);
        }
        while file.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
