//! Leases: who holds which branch, and until when.

use crate::{
    agreed::Agreed,
    branch::Branch,
    capacity::Capacity,
    doors::Holder,
    engine::Engine,
    error::{EngineError, GenerationError, LeaseError, DAYS_MAX},
    history::branching,
    journal::LeaseRecord,
    lineage::From,
    model::{AdministratorUrl, BranchView, CreateBranch, DiskUse, ProtectBranch, RenewBranch},
    names,
    registry::{Ended, Given, Grant, Handover, Ticket, Wanted},
    shared::Shared,
    source::history::Target,
    steps,
};
use duramen_base::clock;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// How long a lease lasts, and how long a create waits, unless the caller says otherwise.
const TTL_DEFAULT_S: i64 = 3600;
const TTL_MAX_S: i64 = DAYS_MAX * 86_400;
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(600);

impl Engine {
    /// Leases a branch: one that is ready, else the next one that becomes ready, in the order of asking. A name that
    /// is leased already gives the same branch again.
    ///
    /// # Errors
    /// Unknown source, a clash of the name with another source or policy, a time to live in the past, no branch in
    /// time, a source that cannot be branched. The source's own address is never given out instead.
    pub async fn create(self: &Arc<Self>, request: CreateBranch) -> Result<BranchView, EngineError> {
        self.create_held(None, request).await
    }

    pub(crate) async fn create_held(
        self: &Arc<Self>,
        holder: Option<&Holder>,
        request: CreateBranch,
    ) -> Result<BranchView, EngineError> {
        let begin = clock::now();
        let leased = self.create_unmeasured(holder, request).await;
        self.shared.metrics.leased(begin, &leased);
        leased
    }

    async fn create_unmeasured(
        self: &Arc<Self>,
        holder: Option<&Holder>,
        request: CreateBranch,
    ) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let _active = shared.activity.enter();
        let from = request.from.as_deref().map(From::read).transpose()?;
        let target = branching::target(&request)?;
        let created_at = clock::utc_now();
        let wanted = Wanted {
            created_at,
            expires_at: expiry(created_at, request.ttl_s, request.expires_at)?,
            policy: request.policy.unwrap_or_default(),
            limit: request.wait_ms.map_or(WAIT_DEFAULT, Duration::from_millis).min(WAIT_MAX),
            boot: shared.boot.clone(),
            id: None,
            source: request.source.clone(),
            name: request.name.clone(),
            holder: holder.cloned(),
            capacity: Capacity::default(),
        };
        if let Some(name) = &wanted.name {
            names::check("branch", name)?;
        }
        let mut wanted = wanted;
        let agreed = Agreed::on(shared, &mut wanted, from.is_some()).await?;
        let leased = self.create_wanted(holder, request, (from, target), wanted).await;
        agreed.keep(leased).await
    }

    async fn create_wanted(
        self: &Arc<Self>,
        holder: Option<&Holder>,
        request: CreateBranch,
        (from, target): (Option<From>, Option<Target>),
        wanted: Wanted,
    ) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        if shared.writes_are_due() {
            shared.measure_capacity();
            if shared.environment.store.lost_writes().is_some() {
                tokio::task::block_in_place(|| shared.check_writes())?;
            }
        }
        let wanted = Wanted { capacity: shared.capacity(), ..wanted };
        if request.require_clean_source {
            if holder.is_some() {
                return Err(LeaseError::CleanSourceElsewhere.into());
            }
            let source = match &from {
                Some(from) => shared.registry.branch(&from.branch, holder)?.0.source,
                None => shared.registry.picked_source(wanted.source.as_deref())?.name,
            };
            self.require_clean(&source).await?;
        }
        if let Some(target) = target {
            if from.is_some() || request.generation.is_some() {
                return Err(GenerationError::TwoBeginnings.into());
            }
            return self.lease_of_moment(target, wanted).await;
        }
        match (from, request.generation) {
            (Some(_), Some(_)) => Err(GenerationError::TwoBeginnings.into()),
            (None, Some(generation)) => self.lease_of_generation(generation, wanted).await,
            (Some(from), None) => {
                // A child has the policy of its parent, unless another one was asked for, which is refused.
                let policy = request.policy.map_or_else(|| self.policy_of(&from, holder), Ok)?;
                self.fork(from, Wanted { policy, ..wanted }, request.quiesce).await
            }
            (None, None) => self.lease(&wanted).await,
        }
    }

    /// Leases the next branch whose server can answer. One that is held by a signal, or whose session has ended, is given up, and another one takes its place,
    /// for as long as the create may wait.
    async fn lease(&self, wanted: &Wanted) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let begin = clock::now();
        let mut silent = 0;
        loop {
            let at = steps::begin();
            let (source, branch) = match shared.registry.take_or_queue(wanted)? {
                Grant::Existing(view) => return Ok(*view),
                Grant::Ready(branch) => {
                    steps::note("take", at);
                    (branch.generation.source.clone(), Some(branch))
                }
                Grant::Queued(ticket, handover) => {
                    let mut waiting = Waiting { shared, ticket, handover };
                    shared.wake.wake();
                    let left = wanted.limit.saturating_sub(begin.elapsed());
                    let handed = tokio::time::timeout(left, &mut waiting.handover).await;
                    steps::note("queue", at);
                    (waiting.ticket.source.clone(), handed.ok().and_then(Result::ok))
                }
            };
            let mut taken = Taken { shared, branch };
            match &taken.branch {
                // Because time is over after others were given up, or the pool cannot be filled.
                None if silent > 0 && begin.elapsed() >= wanted.limit => {}
                None => return Err(shared.registry.nothing_ready(&source, wanted)),
                Some(branch) if branch.is_fit() != Some(false) => {
                    let Some(branch) = taken.branch.take() else { continue };
                    let at = steps::begin();
                    let given = shared.registry.lease(branch, wanted)?;
                    steps::note("journal", at);
                    return match given {
                        Given::Leased(record) => self.announce(record),
                        Given::Existing(view) => Ok(view),
                    };
                }
                Some(_) => {
                    silent += 1;
                    taken.give_up();
                }
            }
            if begin.elapsed() >= wanted.limit {
                return Err(
                    LeaseError::NoneAnswers { source_name: source, policy: wanted.policy, silent }.into()
                );
            }
        }
    }

    /// Logs a new lease before its holder hears of it.
    pub(crate) fn announce(&self, record: LeaseRecord) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        if record.audits_statements {
            shared.statements.follow(&record.volume, &record.id, &record.name);
        }
        let at = steps::begin();
        // Who has it is who asked for it.
        let logged = shared.audit(
            "leased",
            json!({ "branch": record.id, "name": record.name, "source": record.source,
                    "generation": record.generation, "policy": record.policy, "expires_at": record.expires_at,
                    "holder": record.holder, "token": record.holder, "parent": record.base.as_ref().map(|base| &base.branch) }),
        );
        if let Err(error) = logged {
            // What is not logged is not handed out.
            if let Some(ended) = shared.registry.take_back(&record.name, &record.id)? {
                shared.retire(&ended);
            }
            return Err(error);
        }
        steps::note("announce", at);
        steps::leased(&record.id);
        shared.registry.held_branch(&record.name, &record.id)
    }

    /// All leased branches, by name.
    #[must_use]
    pub fn branches(&self) -> Vec<BranchView> {
        self.shared.registry.branches(None)
    }

    /// One leased branch.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn branch(&self, name: &str) -> Result<BranchView, EngineError> {
        self.branch_by(None, name)
    }

    pub(crate) fn branch_by(&self, by: Option<&Holder>, name: &str) -> Result<BranchView, EngineError> {
        let (mut view, branch) = self.shared.registry.branch(name, by)?;
        view.disk = branch.disk_use().map(|(used, quota)| DiskUse { used, quota });
        Ok(view)
    }

    /// The URL by which an administrator of this machine enters a branch as its superuser, through a socket that only
    /// the daemon's user and root can reach. That it was asked for is in the audit log; what is done so is not, and no
    /// policy holds it.
    ///
    /// # Errors
    /// When there is none of that name, or its server does not start.
    pub async fn administrator_url(&self, name: &str) -> Result<AdministratorUrl, EngineError> {
        let session = self.shared.registry.session(name)?;
        session.branch.spare.spoil();
        let url = session.branch.admin_url().await?;
        self.shared.audit("administrator_admitted", json!({ "branch": session.id, "name": name }))?;
        Ok(AdministratorUrl { url })
    }

    /// Moves the end of a lease.
    ///
    /// # Errors
    /// When there is no such branch or the end lies in the past.
    pub fn renew(&self, name: &str, request: RenewBranch) -> Result<BranchView, EngineError> {
        self.renew_by(None, name, request)
    }

    pub(crate) fn renew_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        request: RenewBranch,
    ) -> Result<BranchView, EngineError> {
        let expires_at = expiry(clock::utc_now(), request.ttl_s, request.expires_at)?;
        self.change(by, name, "renewed", json!({ "expires_at": expires_at }), |record| {
            record.expires_at = expires_at
        })
    }

    /// Protects a branch from destruction and expiry, or ends that.
    ///
    /// # Errors
    /// When there is no such branch.
    pub fn protect(&self, name: &str, request: ProtectBranch) -> Result<BranchView, EngineError> {
        self.protect_by(None, name, request)
    }

    pub(crate) fn protect_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        request: ProtectBranch,
    ) -> Result<BranchView, EngineError> {
        let protected = request.protected;
        self.change(by, name, "protected", json!({ "protected": protected }), |record| {
            record.protected = protected
        })
    }

    fn change(
        &self,
        by: Option<&Holder>,
        name: &str,
        event: &str,
        mut details: serde_json::Value,
        change: impl FnOnce(&mut LeaseRecord),
    ) -> Result<BranchView, EngineError> {
        let view = self.shared.registry.change(name, by, change)?;
        details["branch"] = view.id.clone().into();
        details["name"] = view.name.clone().into();
        self.shared.audit(event, named(details, by))?;
        Ok(view)
    }

    /// Gives a branch back. Its server ends and its volume goes a moment later.
    ///
    /// # Errors
    /// When there is no such branch, or it is protected.
    pub fn destroy(&self, name: &str) -> Result<BranchView, EngineError> {
        self.destroy_by(None, name)
    }

    pub(crate) fn destroy_by(&self, by: Option<&Holder>, name: &str) -> Result<BranchView, EngineError> {
        let _active = self.shared.activity.enter();
        let (ended, view) = self.shared.registry.destroy(name, by)?;
        self.shared.end(&ended, "destroyed", by)?;
        Ok(view)
    }
}

/// The details of an entry of the audit log, with the token by which somebody asked for what it tells of (H4).
pub(crate) fn named(mut details: serde_json::Value, by: Option<&Holder>) -> serde_json::Value {
    if let Some(holder) = by {
        details["token"] = holder.id.clone().into();
    }
    details
}

impl Shared {
    pub(crate) fn retire(&self, ended: &Ended) {
        ended.branch.retire();
        if let Some(names) = self.names.get() {
            names.ended(&ended.name, &ended.id);
        }
        self.wake.wake();
    }

    /// What follows on the end of a lease: nothing enters its branch any more, and the audit log says so.
    pub(crate) fn end(&self, ended: &Ended, event: &str, by: Option<&Holder>) -> Result<(), EngineError> {
        self.retire(ended);
        self.audit(event, named(json!({ "branch": ended.id, "name": ended.name }), by))
    }

    /// Ends the leases whose time is over.
    pub(crate) fn end_expired(&self) {
        // A clock that is set forward ends nobody's branch.
        let now = Timestamp::from_millisecond(clock::steady_unix_ms()).unwrap_or_else(|_| clock::utc_now());
        loop {
            let ended = match self.registry.end_expired(now) {
                Ok(None) => return,
                Ok(Some(ended)) => {
                    self.metrics.expired();
                    self.end(&ended, "expired", None)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                tracing::error!(%error, "an expired lease could not be ended");
                return;
            }
        }
    }
}

/// A create in the queue; it leaves the queue, and returns a branch that was handed over too late, when dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    handover: Handover,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.registry.leave_queue(&self.ticket, &mut self.handover);
    }
}

/// A branch that nobody holds, on its way from the pool to a lease; it goes back when dropped.
struct Taken<'a> {
    shared: &'a Shared,
    branch: Option<Arc<Branch>>,
}

impl Taken<'_> {
    /// Has the branch deleted, and another one made.
    fn give_up(&mut self) {
        let Some(branch) = self.branch.take() else { return };
        tracing::warn!(
            volume = branch.volume,
            source = branch.generation.source,
            "the server of a ready branch is held by a signal, or its session has ended, so the branch is given up"
        );
        self.shared.registry.discard(branch);
        self.shared.wake.wake();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(branch) = self.branch.take() {
            self.shared.registry.offer(branch);
        }
    }
}

/// The end of a lease out of what the caller said.
pub(crate) fn expiry(
    now: Timestamp,
    ttl_s: Option<i64>,
    at: Option<Timestamp>,
) -> Result<Timestamp, EngineError> {
    let seconds = match (ttl_s, at) {
        (Some(_), Some(_)) => {
            return Err(LeaseError::TwoEnds.into());
        }
        (None, Some(at)) => at.as_second() - now.as_second(),
        (ttl, None) => ttl.unwrap_or(TTL_DEFAULT_S),
    };
    if seconds <= 0 {
        return Err(LeaseError::EndsInThePast { seconds: -seconds }.into());
    }
    if seconds > TTL_MAX_S {
        return Err(LeaseError::TooLong.into());
    }
    match at {
        Some(at) => Ok(at),
        None => Ok(now.checked_add(SignedDuration::from_secs(seconds)).map_err(LeaseError::NoSuchTime)?),
    }
}
