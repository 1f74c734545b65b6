//! Branches for those who come through a door: who they are, and how they enter.

use crate::{
    branch::Branch,
    engine::Engine,
    error::EngineError,
    model::{BranchView, CreateBranch, Policy},
    registry::Doorway,
    shared::Shared,
};
use duramen_postgres::{Entry, EntryError};
use serde::Serialize;
use std::sync::Arc;

/// Who asks through a door: the holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The id of the token. It is written down with each branch that the holder creates.
    pub id: String,
    /// How many branches it may hold at a time.
    pub branches_max: u32,
    /// Whether branches of others are its own too, as for an administrator.
    pub all: bool,
}

impl Holder {
    /// Whether a branch that was created by `holder` is its own.
    pub(crate) fn owns(&self, holder: Option<&str>) -> bool {
        self.all || holder == Some(self.id.as_str())
    }
}

/// The way into one branch, for as long as its lease has it.
#[derive(Debug)]
pub struct Door {
    /// The lease's id, which is nobody else's when the name is.
    pub id: String,
    /// The branch's name.
    pub name: String,
    /// Its source.
    pub source: String,
    /// What its holder may do.
    pub policy: Policy,
    /// The database that it serves.
    pub database: String,
    /// Whether the other databases of the copied server can be entered too.
    pub all_databases: bool,
    /// Whether rules of its source were applied to what it holds.
    pub masked: bool,
    branch: Arc<Branch>,
    shared: Arc<Shared>,
}

impl Door {
    /// Has a process of the branch's server ready for one client, as the role of the branch's policy. `parameters` are those
    /// of the client's start-up packet but for `user` and `database`. A server that does not run is started.
    ///
    /// # Errors
    /// What the server refused, whole, or why it could not be asked.
    pub async fn enter(
        &self,
        database: &str,
        parameters: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Entry, EntryError> {
        let who = [("user", self.policy.role()), ("database", database)];
        let who = who.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let parameters: Vec<(String, String)> = who.into_iter().chain(parameters).collect();
        let key = (self.source.clone(), self.policy);
        self.shared.packets.note(key, &parameters);
        self.shared.wake.wake();
        let _active = self.shared.activity.enter();
        self.branch.enter(&parameters).await
    }
}

impl Engine {
    /// Leases a branch as [`Engine::create`] does, for somebody who came through a door: it counts as the holder's, and a
    /// name that is somebody else's is refused.
    ///
    /// # Errors
    /// As for [`Engine::create`], and when the holder has as many branches as it may.
    pub async fn create_for(
        self: &Arc<Self>,
        holder: &Holder,
        request: CreateBranch,
    ) -> Result<BranchView, EngineError> {
        self.create_held(Some(holder), request).await
    }

    /// The way into a branch of the holder's.
    ///
    /// # Errors
    /// When the holder has none of that name, or it does not work.
    pub fn door(&self, holder: &Holder, name: &str) -> Result<Door, EngineError> {
        let Doorway { id, branch, all_databases } = self.shared.registry.doorway(holder, name)?;
        Ok(Door {
            id,
            name: name.to_owned(),
            source: branch.generation.source.clone(),
            policy: branch.policy,
            database: branch.generation.manifest.database.clone(),
            all_databases,
            masked: branch.generation.manifest.masking.is_some(),
            branch,
            shared: Arc::clone(&self.shared),
        })
    }

    /// The names of the holder's branches, in their order.
    #[must_use]
    pub fn names_of(&self, holder: &Holder) -> Vec<String> {
        self.shared.registry.names_of(holder)
    }

    /// Ends the lease `id` of a branch that nobody asked to keep, whether it is protected or not. One that has ended is left
    /// as it is.
    ///
    /// # Errors
    /// When the end cannot be written down; the lease is then held until its time is over.
    pub fn give_back(&self, name: &str, id: &str) -> Result<(), EngineError> {
        match self.shared.registry.take_back(name, id)? {
            Some(ended) => self.shared.end(&ended, "destroyed"),
            None => Ok(()),
        }
    }

    /// Moves the end of the lease `id`, `ttl_s` seconds from now.
    ///
    /// # Errors
    /// When the lease has ended.
    pub fn prolong(&self, name: &str, id: &str, ttl_s: i64) -> Result<(), EngineError> {
        let expires_at = crate::leases::expiry(duramen_base::clock::utc_now(), Some(ttl_s), None)?;
        self.shared.registry.prolong(name, id, expires_at)
    }

    /// Writes what happened at a door into the audit log.
    ///
    /// # Errors
    /// When it cannot be written; then nothing may be acknowledged.
    pub fn note(&self, event: &str, details: impl Serialize) -> Result<(), EngineError> {
        self.shared.audit(event, details)
    }
}
