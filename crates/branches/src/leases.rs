//! Leases: who holds which branch, and until when.

use crate::{
    branch::Branch,
    engine::{Engine, Lease, Shared, State},
    error::{EngineError, Kind},
    journal::LeaseRecord,
    model::{AdministratorUrl, BranchView, CreateBranch, Policy, ProtectBranch, RenewBranch},
    names,
};
use duramen_measure::{clock, entropy};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::{
    sync::{atomic::Ordering, Arc},
    time::Duration,
};

/// How long a lease lasts, and how long a create waits, unless the caller says otherwise.
const TTL_DEFAULT_S: i64 = 3600;
const TTL_MAX_S: i64 = 90 * 86_400;
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(600);
/// A machine of two cores holds about a thousand live branches; this stops a runaway caller.
const LEASES_MAX: usize = 5000;
/// What a branch holds of its source's data.
pub(crate) const DATA: &str = "full";

impl Engine {
    /// Leases a branch: one that is ready, else the next one that becomes ready, in the order of asking. A name that
    /// is leased already gives the same branch again.
    ///
    /// # Errors
    /// Unknown source, a clash of the name with another source or policy, a time to live in the past, no branch in
    /// time, a source that cannot be branched. The source's own address is never given out instead.
    pub async fn create(self: &Arc<Self>, request: CreateBranch) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let _active = shared.activity.enter();
        let now = clock::utc_now();
        let expires_at = expiry(now, request.ttl_s, request.expires_at)?;
        let policy = request.policy.unwrap_or_default();
        if let Some(name) = &request.name {
            names::check("branch", name)?;
        }
        if shared.writes_are_due() && shared.workshop.store.lost_writes().is_some() {
            tokio::task::block_in_place(|| shared.check_writes())?;
        }
        let limit = request.wait_ms.map_or(WAIT_DEFAULT, Duration::from_millis).min(WAIT_MAX);

        let (source, waiting) = {
            let mut state = shared.state();
            let source = pick_source(&state, request.source.as_deref())?;
            if let Some(view) = existing(&state, request.name.as_deref(), &source, policy)? {
                return Ok(view);
            }
            if state.leases.len() >= LEASES_MAX {
                return Err(EngineError::new(
                    Kind::Unavailable,
                    "too_many_leases",
                    format!("{LEASES_MAX} branches are leased, which is the limit; destroy some first"),
                ));
            }
            match state.pools.take(&source, policy) {
                Some(branch) => {
                    let lease = self.lease(&mut state, branch, request.name, expires_at, now)?;
                    drop(state);
                    return self.announce(lease);
                }
                None if limit.is_zero() => return Err(nothing_ready(&state, &source, policy, limit)),
                None => {
                    state.next_ticket += 1;
                    let ticket = state.next_ticket;
                    let receive = state.pools.wait(&source, policy, ticket);
                    (source, Waiting { shared, policy, ticket, receive, source_name: String::new() })
                }
            }
        };
        let mut waiting = waiting;
        source.clone_into(&mut waiting.source_name);
        shared.wake.wake();
        let handed = tokio::time::timeout(limit, &mut waiting.receive).await;
        let Ok(Ok(branch)) = handed else {
            return Err(nothing_ready(&shared.state(), &source, policy, limit));
        };
        let lease = {
            let mut state = shared.state();
            // While this create waited, another one may have leased the name.
            match existing(&state, request.name.as_deref(), &source, policy) {
                Ok(None) => self.lease(&mut state, branch, request.name, expires_at, now)?,
                other => {
                    state.pools.offer(branch);
                    return other
                        .and_then(|view| view.ok_or_else(|| nothing_ready(&state, &source, policy, limit)));
                }
            }
        };
        self.announce(lease)
    }

    /// Journals and enters a lease. The caller holds the lock.
    fn lease(
        &self,
        state: &mut State,
        branch: Arc<Branch>,
        name: Option<String>,
        expires_at: Timestamp,
        created_at: Timestamp,
    ) -> Result<LeaseRecord, EngineError> {
        if !state.pools.is_current(&branch) {
            // It was handed over in the moment in which its source changed, or writes were lost.
            let source = branch.generation.source.clone();
            state.pools.doomed.push_back((branch, false));
            return Err(EngineError::new(
                Kind::Unavailable,
                "source_changed",
                format!("source {source} changed while the branch was handed over; create it again"),
            ));
        }
        let id = format!("b-{}", entropy::token(16));
        let name = name.unwrap_or_else(|| id.clone());
        let record = LeaseRecord {
            id,
            name: name.clone(),
            source: branch.generation.source.clone(),
            generation: branch.generation.manifest.generation,
            policy: branch.policy,
            volume: branch.volume.clone(),
            socket: branch.socket.clone(),
            durable: branch.generation.durable,
            created_at,
            expires_at,
            protected: false,
            boot: self.shared.boot.clone(),
            problem: None,
            unentered: false,
        };
        // A promise that cannot be written down is not made. Under the lock, so that the journal's lines are in the
        // order of what happened.
        if let Err(error) = self.shared.journal.put(&record) {
            state.pools.doomed.push_back((branch, false));
            return Err(error);
        }
        let lease = Lease { record: record.clone(), branch, problem: None, resetting: false };
        state.leases.insert(name, lease);
        Ok(record)
    }

    /// Logs a new lease before its holder hears of it.
    fn announce(&self, record: LeaseRecord) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let logged = shared.audit(
            "leased",
            json!({ "branch": record.id, "name": record.name, "source": record.source,
                    "generation": record.generation, "policy": record.policy, "expires_at": record.expires_at }),
        );
        if let Err(error) = logged {
            // What is not logged is not handed out.
            let mut state = shared.state();
            if held(&mut state, &record.name, &record.id).is_ok() {
                let ended = shared.release(&mut state, &record.name)?;
                drop(state);
                shared.retire(&ended);
            }
            return Err(error);
        }
        let mut state = shared.state();
        held(&mut state, &record.name, &record.id).map(|lease| view(lease))
    }

    /// All leased branches, by name.
    #[must_use]
    pub fn branches(&self) -> Vec<BranchView> {
        let state = self.shared.state();
        let mut views: Vec<BranchView> = state.leases.values().map(view).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// One leased branch.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn branch(&self, name: &str) -> Result<BranchView, EngineError> {
        let state = self.shared.state();
        find(&state, name).map(view)
    }

    /// The URL by which an administrator of this machine enters a branch as its superuser, through a socket that only
    /// the daemon's user and root can reach. That it was asked for is in the audit log; what is done so is not, and no
    /// policy holds it.
    ///
    /// # Errors
    /// When there is none of that name, or its server does not start.
    pub async fn administrator_url(&self, name: &str) -> Result<AdministratorUrl, EngineError> {
        let (id, branch) = {
            let state = self.shared.state();
            let lease = find(&state, name)?;
            (lease.record.id.clone(), Arc::clone(&lease.branch))
        };
        let url = branch.admin_url().await?;
        self.shared.audit("administrator_admitted", json!({ "branch": id, "name": name }))?;
        Ok(AdministratorUrl { url })
    }

    /// Moves the end of a lease.
    ///
    /// # Errors
    /// When there is no such branch or the end lies in the past.
    pub fn renew(&self, name: &str, request: RenewBranch) -> Result<BranchView, EngineError> {
        let expires_at = expiry(clock::utc_now(), request.ttl_s, request.expires_at)?;
        self.change(name, "renewed", json!({ "expires_at": expires_at }), |record| {
            record.expires_at = expires_at
        })
    }

    /// Protects a branch from destruction and expiry, or ends that.
    ///
    /// # Errors
    /// When there is no such branch.
    pub fn protect(&self, name: &str, request: ProtectBranch) -> Result<BranchView, EngineError> {
        let protected = request.protected;
        self.change(name, "protected", json!({ "protected": protected }), |record| {
            record.protected = protected
        })
    }

    fn change(
        &self,
        name: &str,
        event: &str,
        mut details: serde_json::Value,
        change: impl FnOnce(&mut LeaseRecord),
    ) -> Result<BranchView, EngineError> {
        let (record, view) = {
            let mut state = self.shared.state();
            let lease = find_mut(&mut state, name)?;
            let mut record = lease.record.clone();
            change(&mut record);
            self.shared.journal.put(&record)?;
            lease.record = record.clone();
            (record, view(lease))
        };
        details["branch"] = record.id.clone().into();
        details["name"] = record.name.clone().into();
        self.shared.audit(event, details)?;
        Ok(view)
    }

    /// Gives a branch back. Its server ends and its volume goes a moment later.
    ///
    /// # Errors
    /// When there is no such branch, or it is protected.
    pub fn destroy(&self, name: &str) -> Result<BranchView, EngineError> {
        let _active = self.shared.activity.enter();
        let (ended, view) = {
            let mut state = self.shared.state();
            let lease = find(&state, name)?;
            if lease.record.protected {
                return Err(EngineError::new(
                    Kind::Conflict,
                    "protected",
                    format!("branch {name} is protected; run `duramen branch unprotect {name}` first"),
                ));
            }
            let view = view(lease);
            (self.shared.release(&mut state, name)?, view)
        };
        self.shared.end(&ended, "destroyed")?;
        Ok(view)
    }

    /// Puts a branch back to its snapshot, under the same URL.
    ///
    /// # Errors
    /// When there is no such branch, its generation's snapshot is gone, or the new server does not start; the lease
    /// then stays, in state `failed`, and can be reset again.
    pub async fn reset(self: &Arc<Self>, name: &str) -> Result<BranchView, EngineError> {
        let engine = Arc::clone(self);
        let name = name.to_owned();
        // In a task of its own: a caller who goes away must not leave the branch between two volumes.
        tokio::spawn(async move { engine.reset_now(&name).await })
            .await
            .map_err(|error| EngineError::new(Kind::Failed, "reset_failed", error.to_string()))?
    }

    async fn reset_now(self: &Arc<Self>, name: &str) -> Result<BranchView, EngineError> {
        let (id, old) = {
            let mut state = self.shared.state();
            let lease = find_mut(&mut state, name)?;
            if lease.resetting {
                return Err(EngineError::new(
                    Kind::Conflict,
                    "resetting",
                    format!("branch {name} is being reset"),
                ));
            }
            lease.resetting = true;
            (lease.record.id.clone(), Arc::clone(&lease.branch))
        };
        let shared = Arc::clone(&self.shared);
        let replaced = tokio::task::spawn_blocking({
            let (name, id) = (name.to_owned(), id.clone());
            let old = Arc::clone(&old);
            move || replace(&shared, &name, &id, &old)
        })
        .await
        .map_err(|error| EngineError::new(Kind::Failed, "reset_failed", error.to_string()))
        .and_then(|result| result);
        let mut problem = None;
        if let Ok(branch) = &replaced {
            if let Err(error) = branch.connect(true).await {
                problem = Some(error);
            }
        }
        let mut state = self.shared.state();
        let lease = held(&mut state, name, &id)?;
        lease.resetting = false;
        let failure = problem.or(replaced.err());
        if !Arc::ptr_eq(&lease.branch, &old) {
            // A reset that ended before it changed anything says nothing of the branch.
            lease.problem =
                failure.as_ref().map(|error| error.message.clone()).or_else(|| lease.record.problem.clone());
        }
        if failure.is_none() {
            lease.record.unentered = false;
            self.shared.journal.put(&lease.record)?;
        }
        let view = view(lease);
        drop(state);
        self.shared.audit("reset", json!({ "branch": id, "name": name, "failed": failure.is_some() }))?;
        failure.map_or(Ok(view), Err)
    }
}

/// Gives the lease `id` a fresh clone of its own generation, and ends the old branch. Blocks.
fn replace(
    shared: &Arc<Shared>,
    name: &str,
    id: &str,
    old: &Arc<Branch>,
) -> Result<Arc<Branch>, EngineError> {
    let workshop = &shared.workshop;
    old.generation.check(&workshop.store)?;
    let volume = workshop.clone_snapshot(&old.generation)?;
    let branch = Arc::new(Branch::new(
        workshop,
        Arc::clone(&old.generation),
        old.policy,
        volume,
        Some(old.socket.clone()),
    ));
    {
        let mut state = shared.state();
        let stale = branch.losses != state.pools.losses || shared.closing.load(Ordering::Acquire);
        let lease = match held(&mut state, name, id) {
            Ok(lease) if !stale => lease,
            other => {
                let error = other.err().unwrap_or_else(|| interrupted(name));
                drop(state);
                workshop.delete_volume(&branch.volume);
                return Err(error);
            }
        };
        let mut record = lease.record.clone();
        branch.volume.clone_into(&mut record.volume);
        record.problem = None;
        record.unentered = true;
        // From here on a restarted daemon serves the new volume.
        if let Err(error) = shared.journal.put(&record) {
            drop(state);
            workshop.delete_volume(&branch.volume);
            return Err(error);
        }
        lease.record = record;
        lease.branch = Arc::clone(&branch);
        // The socket's directory goes on to the new server.
        state.pools.doomed.push_back((Arc::clone(old), true));
    }
    old.kill();
    shared.wake.wake();
    branch.start()?;
    branch.place_relation_cache();
    Ok(branch)
}

impl Shared {
    /// Takes the lease that `name` stands for out of the books: written down first, then its branch is doomed. The
    /// caller holds the lock, under which it also looked whether the lease may end, and then calls [`Shared::end`]
    /// without it.
    fn release(&self, state: &mut State, name: &str) -> Result<Ended, EngineError> {
        self.journal.end(&find(state, name)?.record.id)?;
        let Some(lease) = state.leases.remove(name) else { return Err(destroyed_meanwhile(name)) };
        state.pools.doomed.push_back((Arc::clone(&lease.branch), false));
        Ok(Ended { id: lease.record.id, name: lease.record.name, branch: lease.branch })
    }

    fn retire(&self, ended: &Ended) {
        ended.branch.retire();
        self.wake.wake();
    }

    /// What follows on the end of a lease: nothing enters its branch any more, and the audit log is told.
    fn end(&self, ended: &Ended, event: &str) -> Result<(), EngineError> {
        self.retire(ended);
        self.audit(event, json!({ "branch": ended.id, "name": ended.name }))
    }

    /// Ends the leases whose time is over.
    pub(crate) fn end_expired(&self) {
        let now = clock::utc_now();
        let is_over =
            |lease: &Lease| lease.record.expires_at <= now && !lease.record.protected && !lease.resetting;
        loop {
            let ended = {
                let mut state = self.state();
                let Some(name) =
                    state.leases.values().find(|lease| is_over(lease)).map(|lease| lease.record.name.clone())
                else {
                    return;
                };
                self.release(&mut state, &name)
            };
            if let Err(error) = ended.and_then(|ended| self.end(&ended, "expired")) {
                tracing::error!(%error, "an expired lease could not be ended");
                return;
            }
        }
    }
}

/// A lease that is in the books no more.
struct Ended {
    id: String,
    name: String,
    branch: Arc<Branch>,
}

/// A create in the queue; it leaves the queue, and returns a branch that was handed over too late, when dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    source_name: String,
    policy: Policy,
    ticket: u64,
    receive: tokio::sync::oneshot::Receiver<Arc<Branch>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.receive.close();
        let mut state = self.shared.state();
        state.pools.leave(&self.source_name, self.policy, self.ticket);
        if let Ok(branch) = self.receive.try_recv() {
            state.pools.offer(branch);
        }
    }
}

pub(crate) fn view(lease: &Lease) -> BranchView {
    let record = &lease.record;
    BranchView {
        name: record.name.clone(),
        id: record.id.clone(),
        source: record.source.clone(),
        generation: record.generation,
        policy: record.policy,
        data: DATA.to_owned(),
        durable: record.durable,
        url: lease.branch.url(),
        created_at: record.created_at,
        expires_at: record.expires_at,
        protected: record.protected,
        state: if lease.problem.is_some() { "failed" } else { "ready" }.to_owned(),
        existing: false,
    }
}

pub(crate) fn find<'a>(state: &'a State, name: &str) -> Result<&'a Lease, EngineError> {
    state.leases.get(name).ok_or_else(|| {
        let hint = names::closest(name, state.leases.keys()).map(|known| format!("; did you mean {known}?"));
        EngineError::new(
            Kind::NotFound,
            "not_found",
            format!(
                "there is no branch {name:?}{}; `duramen branch list` shows those there are",
                hint.unwrap_or_default()
            ),
        )
    })
}

fn find_mut<'a>(state: &'a mut State, name: &str) -> Result<&'a mut Lease, EngineError> {
    find(state, name)?;
    state.leases.get_mut(name).ok_or_else(|| EngineError::new(Kind::NotFound, "not_found", name))
}

/// The lease `id`, which was `name` when the operation began: by now the name may stand for another one.
fn held<'a>(state: &'a mut State, name: &str, id: &str) -> Result<&'a mut Lease, EngineError> {
    state.leases.get_mut(name).filter(|lease| lease.record.id == id).ok_or_else(|| destroyed_meanwhile(name))
}

fn interrupted(name: &str) -> EngineError {
    EngineError::new(
        Kind::Unavailable,
        "interrupted",
        format!("the reset of branch {name} was given up, and the branch is as it was: the daemon stops, or the volume store lost writes; try again"),
    )
}

fn destroyed_meanwhile(name: &str) -> EngineError {
    EngineError::new(
        Kind::Conflict,
        "destroyed",
        format!("branch {name} was destroyed meanwhile; create it again if it is needed"),
    )
}

fn pick_source(state: &State, wanted: Option<&str>) -> Result<String, EngineError> {
    match wanted {
        Some(name) if state.pools.generations.contains_key(name) => Ok(name.to_owned()),
        Some(name) => {
            let hint =
                names::closest(name, state.sources.keys()).map(|known| format!("; did you mean {known}?"));
            Err(EngineError::new(
                Kind::NotFound,
                "unknown_source",
                format!(
                    "there is no source {name:?}{}; add one with `duramen source add`",
                    hint.unwrap_or_default()
                ),
            ))
        }
        None if state.pools.generations.len() == 1 => {
            Ok(state.pools.generations.keys().next().cloned().unwrap_or_default())
        }
        None => Err(EngineError::new(
            Kind::Invalid,
            "which_source",
            format!("there are {} sources; say which with --source", state.pools.generations.len()),
        )),
    }
}

/// The branch that a create with this name gets without making one.
fn existing(
    state: &State,
    name: Option<&str>,
    source: &str,
    policy: Policy,
) -> Result<Option<BranchView>, EngineError> {
    let Some(lease) = name.and_then(|name| state.leases.get(name)) else { return Ok(None) };
    let record = &lease.record;
    if record.source != source || record.policy != policy {
        return Err(EngineError::new(
            Kind::Conflict,
            "name_clash",
            format!(
                "branch {} exists, of source {} under policy {}; choose another name or destroy it",
                record.name, record.source, record.policy
            ),
        ));
    }
    Ok(Some(BranchView { existing: true, ..view(lease) }))
}

fn nothing_ready(state: &State, source: &str, policy: Policy, waited: Duration) -> EngineError {
    if let Some(reason) = state.pools.broken.get(source) {
        return EngineError::new(
            Kind::Unavailable,
            "pool_broken",
            format!("no branch of {source} can be made: {reason}"),
        );
    }
    EngineError::new(
        Kind::Unavailable,
        "no_branch_ready",
        format!(
            "no {policy} branch of {source} became ready within {} ms; wait longer (--wait), or keep more ready: duramen source settings {source} --hot {policy}=N",
            waited.as_millis()
        ),
    )
}

/// The end of a lease out of what the caller said.
fn expiry(now: Timestamp, ttl_s: Option<i64>, at: Option<Timestamp>) -> Result<Timestamp, EngineError> {
    let seconds = match (ttl_s, at) {
        (Some(_), Some(_)) => {
            return Err(EngineError::new(Kind::Invalid, "bad_ttl", "give ttl_s or expires_at, not both"));
        }
        (None, Some(at)) => at.as_second() - now.as_second(),
        (ttl, None) => ttl.unwrap_or(TTL_DEFAULT_S),
    };
    if seconds <= 0 {
        return Err(EngineError::new(
            Kind::Invalid,
            "ttl_in_the_past",
            format!("the lease would end {} s ago; give a time to live above zero", -seconds),
        ));
    }
    if seconds > TTL_MAX_S {
        return Err(EngineError::new(
            Kind::Invalid,
            "bad_ttl",
            format!(
                "a lease may last {} days at most; protect the branch to keep it longer",
                TTL_MAX_S / 86_400
            ),
        ));
    }
    at.map_or_else(
        || {
            now.checked_add(SignedDuration::from_secs(seconds))
                .map_err(|error| EngineError::new(Kind::Invalid, "bad_ttl", error.to_string()))
        },
        Ok,
    )
}
