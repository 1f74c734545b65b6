//! Branches for those who come through a door: who they are, and how they enter.

use crate::{
    branch::{is_alive, Branch, CancelOnDrop},
    engine::Engine,
    error::EngineError,
    model::{
        BranchEvidence, BranchView, CreateBranch, Policy, ProtectBranch, QueryRequest, RenewBranch,
        RestoreBranch, SnapshotView, TakeSnapshot, TreeNode,
    },
    query::QueryAnswer,
    registry::{Doorway, Session},
    shared::Shared,
    sleep::Visit,
};
use duramen_base::clock;
use duramen_postgres::{Entry, EntryError};
use serde::Serialize;
use std::{sync::Arc, time::Duration};

/// How soon, and how often at last, it is looked whether a process has ended. Most do within a millisecond.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who asks through a door: the holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The id of the token. It is written down with each branch that the holder creates.
    pub id: String,
    /// How many branches it may hold at a time.
    pub branches_max: u32,
    /// Whether branches of others are its own too, as for an administrator.
    pub all: bool,
    /// Of which sources; none: of all.
    pub sources: Vec<String>,
}

impl Holder {
    /// Whether a branch of `source` that was created by `holder` is its own.
    ///
    /// # Examples
    /// ```
    /// use duramen_branches::Holder;
    /// let one = Holder { id: "t-1".to_owned(), branches_max: 1, all: false, sources: vec!["app".to_owned()] };
    /// assert!(one.owns(Some("t-1"), "app") && !one.owns(Some("t-2"), "app"));
    /// ```
    #[must_use]
    pub fn owns(&self, holder: Option<&str>, source: &str) -> bool {
        (self.all && self.may_use(source)) || holder == Some(self.id.as_str())
    }

    /// Whether a source is one of its own.
    #[must_use]
    pub fn may_use(&self, source: &str) -> bool {
        self.sources.is_empty() || self.sources.iter().any(|name| name == source)
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
    /// How many connections through the router it may have, if its source says so.
    pub connections_max: Option<u32>,
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
    ) -> Result<(Entry, Running), EntryError> {
        let visit = self.branch.visit();
        let who = [("user", self.policy.role()), ("database", database)];
        let who = who.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let parameters: Vec<(String, String)> = who.into_iter().chain(parameters).collect();
        let began = clock::now();
        let _active = self.shared.activity.enter();
        let entry = self.branch.enter(&parameters).await?;
        let key = (self.source.clone(), self.policy);
        self.shared.packets.note(key, &parameters, began.elapsed());
        self.shared.wake.wake();
        let canceller = Arc::clone(&entry.canceller);
        let process = canceller.process_id();
        let cancels = CancelOnDrop::new(Arc::clone(&self.branch), canceller, process);
        Ok((entry, Running { process, cancels, _visit: visit }))
    }
}

/// A process of a branch's server that somebody entered. When this is dropped, its statement is cancelled; if it does not end,
/// the process is.
#[derive(Debug)]
#[must_use = "dropped, it ends the statement"]
pub struct Running {
    process: i32,
    cancels: CancelOnDrop,
    /// Its branch does not sleep meanwhile.
    _visit: Visit,
}

impl Running {
    /// Waits until the process has ended by itself, after its connection was closed: it first ends its statement, unless it
    /// notices before.
    pub async fn ended(self) {
        let mut pause = LOOK_FIRST;
        while is_alive(self.process) {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY);
        }
        self.cancels.finished();
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
        let Doorway { id, branch, all_databases, connections_max } =
            self.shared.registry.doorway(holder, name)?;
        Ok(Door {
            id,
            name: name.to_owned(),
            source: branch.generation.source.clone(),
            policy: branch.policy,
            database: branch.generation.manifest.database.clone(),
            all_databases,
            connections_max,
            masked: branch.generation.manifest.masking.is_some(),
            branch,
            shared: Arc::clone(&self.shared),
        })
    }

    /// The holder's branches, by name.
    #[must_use]
    pub fn branches_of(&self, holder: &Holder) -> Vec<BranchView> {
        self.shared.registry.branches(Some(holder))
    }

    /// [`Engine::branch`] for somebody who came through a door. Here and below: a branch that is not the holder's is not
    /// there for it, and whether it is, is looked at under the lock under which the operation happens.
    ///
    /// # Errors
    /// When the holder has none of that name.
    pub fn branch_for(&self, holder: &Holder, name: &str) -> Result<BranchView, EngineError> {
        self.branch_by(Some(holder), name)
    }

    /// [`Engine::reset`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::reset`], and when the holder has none of that name.
    pub async fn reset_for(self: &Arc<Self>, holder: &Holder, name: &str) -> Result<BranchView, EngineError> {
        self.reset_by(Some(holder), name).await
    }

    /// [`Engine::restore`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::restore`], and when the holder has none of that name.
    pub async fn restore_for(
        self: &Arc<Self>,
        holder: &Holder,
        name: &str,
        request: RestoreBranch,
    ) -> Result<BranchView, EngineError> {
        self.restore_by(Some(holder), name, request).await
    }

    /// [`Engine::undo`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::undo`], and when the holder has none of that name.
    pub async fn undo_for(self: &Arc<Self>, holder: &Holder, name: &str) -> Result<BranchView, EngineError> {
        self.undo_by(Some(holder), name).await
    }

    /// [`Engine::take_snapshot`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::take_snapshot`], and when the holder has none of that name.
    pub async fn take_snapshot_for(
        self: &Arc<Self>,
        holder: &Holder,
        name: &str,
        request: TakeSnapshot,
    ) -> Result<SnapshotView, EngineError> {
        self.take_snapshot_by(Some(holder), name, request).await
    }

    /// [`Engine::snapshots`] for somebody who came through a door.
    ///
    /// # Errors
    /// When the holder has none of that name.
    pub fn snapshots_for(&self, holder: &Holder, name: &str) -> Result<Vec<SnapshotView>, EngineError> {
        self.shared.registry.snapshots(name, Some(holder))
    }

    /// [`Engine::remove_snapshot`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::remove_snapshot`], and when the holder has none of that name.
    pub fn remove_snapshot_for(
        &self,
        holder: &Holder,
        name: &str,
        snapshot: &str,
    ) -> Result<SnapshotView, EngineError> {
        self.remove_snapshot_by(Some(holder), name, snapshot)
    }

    /// [`Engine::tree`] for somebody who came through a door.
    #[must_use]
    pub fn tree_for(&self, holder: &Holder) -> Vec<TreeNode> {
        self.tree_by(Some(holder))
    }

    /// [`Engine::renew`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::renew`], and when the holder has none of that name.
    pub fn renew_for(
        &self,
        holder: &Holder,
        name: &str,
        request: RenewBranch,
    ) -> Result<BranchView, EngineError> {
        self.renew_by(Some(holder), name, request)
    }

    /// [`Engine::protect`] for somebody who came through a door.
    ///
    /// # Errors
    /// When the holder has none of that name.
    pub fn protect_for(
        &self,
        holder: &Holder,
        name: &str,
        request: ProtectBranch,
    ) -> Result<BranchView, EngineError> {
        self.protect_by(Some(holder), name, request)
    }

    /// [`Engine::destroy`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::destroy`], and when the holder has none of that name.
    pub fn destroy_for(&self, holder: &Holder, name: &str) -> Result<BranchView, EngineError> {
        self.destroy_by(Some(holder), name)
    }

    /// [`Engine::evidence_with`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::evidence_with`], and when the holder has none of that name.
    pub async fn evidence_for(
        &self,
        holder: &Holder,
        name: &str,
        table: Option<&str>,
    ) -> Result<BranchEvidence, EngineError> {
        self.evidence_by(Some(holder), name, table).await
    }

    /// [`Engine::query`] for somebody who came through a door, in the very branch to which it leads.
    ///
    /// # Errors
    /// As for [`Engine::query`]; when the lease has ended, or got another branch by a reset, since the door was found.
    pub async fn query_through(
        self: &Arc<Self>,
        holder: &Holder,
        door: &Door,
        request: QueryRequest,
    ) -> Result<QueryAnswer, EngineError> {
        let session = Session {
            id: door.id.clone(),
            branch: Arc::clone(&door.branch),
            policy: door.policy,
            durable: door.branch.generation.durable,
        };
        self.query_in(&door.name, session, Some(holder), request).await
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
            Some(ended) => self.shared.end(&ended, "destroyed", None),
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
