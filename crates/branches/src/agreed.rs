//! Names that are agreed on beyond this machine: claimed before a branch is handed out, confirmed before that is said, freed after
//! the lease's end is written down. What agrees on them is somebody else's; without it a name is what this home gives.
//!
//! The invariants FL-1 to FL-6 that comments name are in `docs/design/fleet.md`.

use crate::{
    doors::Holder,
    engine::Engine,
    error::{EngineError, LeaseError},
    model::BranchView,
    registry::{HeldName, Wanted},
    shared::Shared,
};
use duramen_base::entropy;
use serde_json::json;
use std::{
    collections::HashMap,
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OwnedMutexGuard;

/// What somebody will have done.
pub type Promised<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A name that a branch is to have.
#[derive(Debug, Clone, Copy)]
pub struct WantedName<'a> {
    /// The name.
    pub name: &'a str,
    /// The id of the branch that is being made.
    pub id: &'a str,
    /// Its source, if the create said which.
    pub source: Option<&'a str>,
    /// Whether it begins at another branch, and not at a source.
    pub is_child: bool,
    /// The holder of the token by which it is created.
    pub holder: Option<&'a Holder>,
}

/// The refusal of a create whose name somebody else has, wherever his branch is: whether it is there, and where, is not told.
///
/// # Examples
/// ```
/// assert_eq!(duramen_branches::name_taken("try").code, "name_clash");
/// ```
#[must_use]
pub fn name_taken(name: &str) -> EngineError {
    LeaseError::NameTaken { name: name.to_owned() }.into()
}

/// Who agrees on names beyond this machine.
pub trait Names: Debug + Send + Sync {
    /// Claims a name; nothing is made if that fails.
    fn claim<'a>(&'a self, wanted: WantedName<'a>) -> Promised<'a, Result<(), EngineError>>;

    /// Makes sure that a claim still holds, after its branch was written down and before anybody hears of it. Is called once
    /// for each claim, unless [`Names::ended`] is.
    fn confirm<'a>(&'a self, name: &'a str, id: &'a str) -> Promised<'a, Result<(), EngineError>>;

    /// Makes sure that the name of a branch which this home has is its own still, before a create is answered with that branch.
    fn still_has<'a>(&'a self, name: &'a str, id: &'a str) -> Promised<'a, Result<(), EngineError>>;

    /// A claim is of no more use: its branch has ended, and that is written down, or was not made. Never waits.
    fn ended(&self, name: &str, id: &str);
}

/// What this machine has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Memory that is available, in bytes.
    pub memory: u64,
    /// Bytes that branches may still write.
    pub disk: u64,
}

/// Whose turn it is with a name: two creates of one do not claim beside each other.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

struct Turn {
    shared: Arc<Shared>,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    async fn take(shared: &Arc<Shared>, name: &str) -> Turn {
        let place = {
            let mut turns = shared.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(name.to_owned()).or_default())
        };
        // From here on it is forgotten whatever happens.
        let mut turn = Turn { shared: Arc::clone(shared), name: name.to_owned(), guard: None };
        turn.guard = Some(place.lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut turns = self.shared.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Who waits has one, too.
        if turns.get(&self.name).is_some_and(|place| Arc::strong_count(place) == 1) {
            turns.remove(&self.name);
        }
    }
}

/// The claim of a create, from before its branch is taken to after it is said.
pub(crate) struct Agreed {
    claim: Option<Claimed>,
    _turn: Option<Turn>,
}

struct Claimed {
    shared: Arc<Shared>,
    names: Arc<dyn Names>,
    name: String,
    id: String,
    kept: bool,
}

impl Agreed {
    /// Claims the name of a create, and decides the id of its branch. A name that this home has already is not claimed again: that it is
    /// this home's still is made sure of (FL-1).
    ///
    /// # Errors
    /// When the name is not to be had.
    pub(crate) async fn on(
        shared: &Arc<Shared>,
        wanted: &mut Wanted,
        is_child: bool,
    ) -> Result<Agreed, EngineError> {
        let Some(names) = shared.names.get() else { return Ok(Agreed { claim: None, _turn: None }) };
        let turn = match &wanted.name {
            Some(name) => Some(Turn::take(shared, name).await),
            None => None,
        };
        let has = wanted.name.as_deref().and_then(|name| Some((name, shared.registry.id_of(name)?)));
        if let Some((name, id)) = has {
            names.still_has(name, &id).await?;
            return Ok(Agreed { claim: None, _turn: turn });
        }
        let id = format!("b-{}", entropy::token(16));
        let name = wanted.name.clone().unwrap_or_else(|| id.clone());
        let claimed = WantedName {
            name: &name,
            id: &id,
            source: wanted.source.as_deref(),
            is_child,
            holder: wanted.holder.as_ref(),
        };
        names.claim(claimed).await?;
        wanted.id = Some(id.clone());
        let claim = Claimed { shared: Arc::clone(shared), names: Arc::clone(names), name, id, kept: false };
        Ok(Agreed { claim: Some(claim), _turn: turn })
    }

    /// Hands out what was leased, if the claim still holds. Else the branch is given back.
    ///
    /// # Errors
    /// What the create says, or why the claim does not hold.
    pub(crate) async fn keep(
        mut self,
        leased: Result<BranchView, EngineError>,
    ) -> Result<BranchView, EngineError> {
        let leased = leased?;
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.id == leased.id) {
            // FL-1: where it fails, the drop gives the branch back.
            claim.names.confirm(&claim.name, &claim.id).await?;
            claim.kept = true;
        }
        Ok(leased)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The lease may be there: its create was refused, or whoever asked went away, after it was written down.
        match self.shared.registry.take_back(&self.name, &self.id) {
            Ok(Some(ended)) => {
                if let Err(error) = self.shared.end(&ended, "destroyed", None) {
                    tracing::error!(%error, branch = self.name, "the end of a branch is not in the audit log");
                }
            }
            Ok(None) => self.names.ended(&self.name, &self.id),
            // It is held, so its name stays.
            Err(error) => {
                tracing::error!(%error, branch = self.name, "a branch that nobody was told of stays until its time is over")
            }
        }
    }
}

impl Engine {
    /// Has names agreed on by somebody, from now on. Once for an engine.
    pub fn agree_on_names(&self, names: Arc<dyn Names>) {
        if self.shared.names.set(names).is_err() {
            tracing::error!("names are agreed on by somebody already");
        }
    }

    /// The names that this home has, with the ids, sources and holders of their branches.
    #[must_use]
    pub fn held_names(&self) -> Vec<HeldName> {
        self.shared.registry.held_names()
    }

    /// Whether this home has a branch of that name, whoever may see it.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.shared.registry.has(name)
    }

    /// Gives the branch `id` another name, because its own was given away (FL-3).
    ///
    /// # Errors
    /// When there is no such branch, the other name is taken, or the change cannot be written down.
    pub fn rename(&self, name: &str, id: &str, other: &str) -> Result<BranchView, EngineError> {
        crate::names::check("branch", other)?;
        let view = self.shared.registry.rename(name, id, other)?;
        self.shared.audit("renamed", json!({ "branch": id, "name": other, "was": name }))?;
        Ok(view)
    }

    /// What this machine has room for.
    #[must_use]
    pub fn room(&self) -> Room {
        Room {
            memory: duramen_postgres::memory_available().unwrap_or(0),
            disk: crate::capacity::room(&self.shared.environment).unwrap_or(0),
        }
    }
}
