//! The leases that are held: who gets which branch, and what becomes of it.

use super::{pool::Retired, Lease, Registry, State};
use crate::{
    branch::{Branch, SocketDir},
    capacity::Capacity,
    doors::Holder,
    error::{EngineError, LeaseError},
    journal::{LeaseRecord, SnapshotRecord},
    model::{BranchView, Parent, Policy},
    spare::{Packets, Parameters},
};
use duramen_base::{entropy, suggest};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// How many sources an error names.
const NAMED_MAX: usize = 10;

/// What a create asks for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The id that the branch is to have, if that was decided.
    pub(crate) id: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) name: Option<String>,
    /// Who came through a door; `None` on the daemon's own socket.
    pub(crate) holder: Option<Holder>,
    pub(crate) policy: Policy,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// How long it may wait.
    pub(crate) limit: Duration,
    /// The boot of the machine.
    pub(crate) boot: String,
    /// How many leases the machine bears.
    pub(crate) capacity: Capacity,
}

/// A lease that is held, and works as far as its data are concerned.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) branch: Arc<Branch>,
    /// Whether its server's role may not have the branch's own secret yet.
    pub(crate) unentered: bool,
    /// Whether its holder is told that it does not work.
    pub(crate) failed: bool,
    /// Whether it is the holder's of a token.
    pub(crate) by_token: bool,
}

/// A name that is given, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldName {
    /// The name.
    pub name: String,
    /// The id of its branch.
    pub id: String,
    /// The branch's source.
    pub source: String,
    /// The id of the token by which it was created, if it was by one.
    pub holder: Option<String>,
}

/// What a create gets.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is given, and a box would cost each create"
)]
pub(crate) enum Grant {
    /// The branch that has the name already.
    Existing(Box<BranchView>),
    /// A branch that was ready, which nobody holds yet.
    Ready(Arc<Branch>),
    /// A place in the queue.
    Queued(Ticket, Handover),
}

/// What becomes of a branch that a create was given.
#[derive(Debug)]
pub(crate) enum Given {
    /// It is leased.
    Leased(LeaseRecord),
    /// It went back, because another create took the name meanwhile and has this one.
    Existing(BranchView),
}

/// The place of a create in the queue of a pool.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) source: String,
    policy: Policy,
    number: u64,
}

/// What a waiting create receives its branch by.
pub(crate) type Handover = oneshot::Receiver<Arc<Branch>>;

/// A lease that is held no more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) branch: Arc<Branch>,
}

/// What entering a lease through a door needs to know of it.
#[derive(Debug)]
pub(crate) struct Doorway {
    pub(crate) id: String,
    pub(crate) branch: Arc<Branch>,
    pub(crate) all_databases: bool,
    pub(crate) connections_max: Option<u32>,
}

/// A lease that gets another volume.
#[derive(Debug)]
pub(crate) struct Resetting {
    pub(crate) record: LeaseRecord,
    pub(crate) old: Arc<Branch>,
    /// What it was made of, if that is a snapshot of another branch and is still there.
    pub(crate) base: Option<SnapshotRecord>,
}

/// What a query needs to know of a lease.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) branch: Arc<Branch>,
    pub(crate) policy: Policy,
    pub(crate) durable: bool,
}

impl Registry {
    /// Takes a branch that is ready, or gives the one that has the name, else queues.
    ///
    /// # Errors
    /// Unknown source, a clash of the name, too many leases, or nothing ready and no time to wait.
    pub(crate) fn take_or_queue(&self, wanted: &Wanted) -> Result<Grant, EngineError> {
        let mut state = self.state();
        let source = state.pick_source(wanted.source.as_deref())?;
        if let Some(view) = state.existing(wanted, &source)? {
            return Ok(Grant::Existing(Box::new(view)));
        }
        if let Some(generation) = state.pools.generations.get(&source) {
            generation.admits(wanted.policy)?;
        }
        state.has_place(wanted)?;
        if let Some(shortage) = wanted.capacity.shortage {
            return Err(LeaseError::NoRoom(shortage).into());
        }
        match state.pools.take(&source, wanted.policy) {
            Some(branch) => Ok(Grant::Ready(branch)),
            None if wanted.limit.is_zero() => Err(state.nothing_ready(&source, wanted)),
            None => {
                state.next_ticket += 1;
                let number = state.next_ticket;
                let handover = state.pools.wait(&source, wanted, number);
                Ok(Grant::Queued(Ticket { source, policy: wanted.policy, number }, handover))
            }
        }
    }

    /// Leases the branch that a create was given, unless another one took the name, or the last place, meanwhile: then
    /// the branch goes back.
    pub(crate) fn lease(&self, branch: Arc<Branch>, wanted: &Wanted) -> Result<Given, EngineError> {
        let mut state = self.state();
        let source = &branch.generation.source;
        let refused = match state.existing(wanted, source) {
            Ok(None) => match state.has_place(wanted) {
                Ok(()) => return self.enter(&mut state, branch, wanted).map(Given::Leased),
                Err(error) => Err(error),
            },
            Ok(Some(view)) => Ok(Given::Existing(view)),
            Err(error) => Err(error),
        };
        state.pools.offer(branch);
        refused
    }

    /// Whether a name is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.state().leases.contains_key(name)
    }

    /// The id of the branch of that name.
    pub(crate) fn id_of(&self, name: &str) -> Option<String> {
        self.state().leases.get(name).map(|lease| lease.record.id.clone())
    }

    /// All names that are given.
    pub(crate) fn held_names(&self) -> Vec<HeldName> {
        let state = self.state();
        let held = state.leases.values().map(|lease| HeldName {
            name: lease.record.name.clone(),
            id: lease.record.id.clone(),
            source: lease.record.source.clone(),
            holder: lease.record.holder.clone(),
        });
        held.collect()
    }

    /// Gives the lease `id` another name, written down first.
    pub(crate) fn rename(&self, name: &str, id: &str, other: &str) -> Result<BranchView, EngineError> {
        let mut state = self.state();
        if state.leases.contains_key(other) {
            return Err(LeaseError::NameTaken { name: other.to_owned() }.into());
        }
        let lease = state.held(name, id)?;
        if lease.resetting {
            return Err(LeaseError::Resetting { name: name.to_owned() }.into());
        }
        let record = LeaseRecord { name: other.to_owned(), ..lease.record.clone() };
        self.journal.put(&record)?;
        lease.record = record;
        let view = view(lease);
        if let Some(lease) = state.leases.remove(name) {
            state.leases.insert(other.to_owned(), lease);
        }
        Ok(view)
    }

    /// Takes a create out of the queue, with what it was handed too late.
    pub(crate) fn leave_queue(&self, ticket: &Ticket, handover: &mut Handover) {
        handover.close();
        let mut state = self.state();
        state.pools.leave(&ticket.source, ticket.policy, ticket.number);
        if let Ok(branch) = handover.try_recv() {
            state.pools.offer(branch);
        }
    }

    /// Why no branch of a source was there in time.
    pub(crate) fn nothing_ready(&self, source: &str, wanted: &Wanted) -> EngineError {
        self.state().nothing_ready(source, wanted)
    }

    /// Journals and enters a lease.
    fn enter(
        &self,
        state: &mut State,
        branch: Arc<Branch>,
        wanted: &Wanted,
    ) -> Result<LeaseRecord, EngineError> {
        if !state.pools.is_current(&branch) {
            // It was handed over in the moment in which its source changed, or writes were lost.
            let source = branch.generation.source.clone();
            state.pools.retired.push_back(Retired::whole(branch));
            return Err(LeaseError::SourceChanged { name: source }.into());
        }
        let record = LeaseRecord::of(&branch, wanted, wanted.id());
        let written = self.write_lease(state, &branch, wanted, record);
        if written.is_err() {
            state.pools.retired.push_back(Retired::whole(branch));
        }
        written
    }

    /// Journals and enters a lease of a branch.
    ///
    /// # Errors
    /// A promise that cannot be written down is not made.
    pub(super) fn write_lease(
        &self,
        state: &mut State,
        branch: &Arc<Branch>,
        wanted: &Wanted,
        record: LeaseRecord,
    ) -> Result<LeaseRecord, EngineError> {
        self.journal.put(&record)?;
        if wanted.holder.is_none() {
            // Who gets its URL may enter it beside the doors.
            branch.spare.spoil();
        }
        state.leases.insert(record.name.clone(), Lease::new(record.clone(), Arc::clone(branch), None));
        Ok(record)
    }

    /// Holds a lease of an earlier daemon.
    ///
    /// # Errors
    /// When it cannot be journalled.
    pub(crate) fn adopt(&self, lease: Lease) -> Result<(), EngineError> {
        let mut state = self.state();
        self.journal.put(&lease.record)?;
        state.leases.insert(lease.record.name.clone(), lease);
        Ok(())
    }

    /// Notes that a branch was stopped such that its files are whole in any boot.
    ///
    /// # Errors
    /// When it cannot be journalled.
    pub(crate) fn note_stopped(&self, mut record: LeaseRecord, boot: &str) -> Result<(), EngineError> {
        boot.clone_into(&mut record.boot);
        self.journal.put(&record)
    }

    /// All leased branches of who asks, by name.
    pub(crate) fn branches(&self, by: Option<&Holder>) -> Vec<BranchView> {
        let state = self.state();
        let mut views: Vec<BranchView> =
            state.leases.values().filter(|lease| lease.is_for(by)).map(|lease| lease.shown_to(by)).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// One leased branch.
    pub(crate) fn branch(
        &self,
        name: &str,
        by: Option<&Holder>,
    ) -> Result<(BranchView, Arc<Branch>), EngineError> {
        self.state().find(name, by).map(|lease| (lease.shown_to(by), Arc::clone(&lease.branch)))
    }

    /// The leases whose server has to run: those that lost no writes, and are not being reset.
    pub(crate) fn held(&self) -> Vec<Held> {
        let state = self.state();
        let held = state.leases.values().filter(|lease| lease.record.problem.is_none() && !lease.resetting);
        held.map(|lease| Held {
            id: lease.record.id.clone(),
            name: lease.record.name.clone(),
            branch: Arc::clone(&lease.branch),
            unentered: lease.record.unentered,
            failed: lease.problem.is_some(),
            by_token: lease.record.holder.is_some(),
        })
        .collect()
    }

    /// Notes that the server of a lease runs again, or why it does not; unless the lease has ended, or has another
    /// branch by now.
    ///
    /// # Errors
    /// When it cannot be journalled.
    pub(crate) fn note_revived(
        &self,
        name: &str,
        id: &str,
        branch: &Arc<Branch>,
        problem: Option<String>,
    ) -> Result<(), EngineError> {
        let mut state = self.state();
        let Ok(lease) = state.held(name, id) else { return Ok(()) };
        if lease.resetting || lease.record.problem.is_some() || !Arc::ptr_eq(&lease.branch, branch) {
            return Ok(());
        }
        if problem.is_none() && lease.record.unentered {
            let record = LeaseRecord { unentered: false, ..lease.record.clone() };
            self.journal.put(&record)?;
            lease.record = record;
        }
        lease.problem = problem;
        Ok(())
    }

    /// The lease `id`, which was `name` when the operation began.
    pub(crate) fn held_branch(&self, name: &str, id: &str) -> Result<BranchView, EngineError> {
        self.state().held(name, id).map(|lease| view(lease))
    }

    /// What a door needs to know of a branch that works.
    ///
    /// # Errors
    /// When the holder has none of that name, whether somebody else has or not; when it does not work.
    pub(crate) fn doorway(&self, holder: &Holder, name: &str) -> Result<Doorway, EngineError> {
        let mut state = self.state();
        let lease = state.find(name, Some(holder))?;
        if let Some(problem) = &lease.problem {
            return Err(LeaseError::Failed { name: name.to_owned(), problem: problem.clone() }.into());
        }
        let (record, branch) = (&lease.record, Arc::clone(&lease.branch));
        let (id, source, all_databases) = (record.id.clone(), record.source.clone(), record.all_databases);
        let connections_max =
            state.sources.get(&source).and_then(|source| source.settings.limits.connections);
        Ok(Doorway { id, branch, all_databases, connections_max })
    }

    /// Takes branches out of the pools that have no process ready for their first client, with what it will come with.
    pub(crate) fn take_without_spare(
        &self,
        packets: &Packets,
        most: usize,
    ) -> Vec<(Arc<Branch>, Parameters)> {
        self.state().pools.take_without_spare(packets, most)
    }

    /// The names of the branches that are the holder's, in their order.
    pub(crate) fn names_of(&self, holder: &Holder) -> Vec<String> {
        let mut names: Vec<String> = self.state().names_of(Some(holder)).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Moves the end of the lease `id`.
    pub(crate) fn prolong(&self, name: &str, id: &str, expires_at: Timestamp) -> Result<(), EngineError> {
        let mut state = self.state();
        let lease = state.held(name, id)?;
        let record = LeaseRecord { expires_at, ..lease.record.clone() };
        self.journal.put(&record)?;
        lease.record = record;
        Ok(())
    }

    /// What runs statements in a branch, whether it works or not.
    pub(crate) fn session(&self, name: &str) -> Result<Session, EngineError> {
        self.state().find(name, None).map(|lease| lease.session())
    }

    /// The same of the lease `id`, which was `name` when the operation began.
    pub(crate) fn held_session(&self, name: &str, id: &str) -> Result<Session, EngineError> {
        self.state().held(name, id).map(|lease| lease.session())
    }

    /// The same, of a branch that works.
    pub(crate) fn working_session(&self, name: &str) -> Result<Session, EngineError> {
        let mut state = self.state();
        let lease = state.find(name, None)?;
        match &lease.problem {
            None => Ok(lease.session()),
            Some(problem) => {
                Err(LeaseError::Failed { name: name.to_owned(), problem: problem.clone() }.into())
            }
        }
    }

    /// The same, of who asks for it.
    pub(crate) fn working_session_of(&self, name: &str, by: Option<&Holder>) -> Result<Session, EngineError> {
        let mut state = self.state();
        let lease = state.find(name, by)?;
        if lease.resetting {
            return Err(LeaseError::Resetting { name: name.to_owned() }.into());
        }
        match &lease.problem {
            None => Ok(lease.session()),
            Some(problem) => {
                Err(LeaseError::Failed { name: name.to_owned(), problem: problem.clone() }.into())
            }
        }
    }

    /// Changes a lease, written down first.
    pub(crate) fn change(
        &self,
        name: &str,
        by: Option<&Holder>,
        change: impl FnOnce(&mut LeaseRecord),
    ) -> Result<BranchView, EngineError> {
        let mut state = self.state();
        let lease = state.find(name, by)?;
        let mut record = lease.record.clone();
        change(&mut record);
        self.journal.put(&record)?;
        lease.record = record;
        Ok(view(lease))
    }

    /// Ends a lease at its holder's wish.
    ///
    /// # Errors
    /// No such branch, or it is protected.
    pub(crate) fn destroy(
        &self,
        name: &str,
        by: Option<&Holder>,
    ) -> Result<(Ended, BranchView), EngineError> {
        let mut state = self.state();
        let lease = state.find(name, by)?;
        if lease.record.protected {
            return Err(LeaseError::Protected { name: name.to_owned() }.into());
        }
        let view = view(lease);
        Ok((self.release(&mut state, name)?, view))
    }

    /// Ends the lease `id`, if it is held.
    pub(crate) fn take_back(&self, name: &str, id: &str) -> Result<Option<Ended>, EngineError> {
        let mut state = self.state();
        if state.held(name, id).is_err() {
            return Ok(None);
        }
        self.release(&mut state, name).map(Some)
    }

    /// Ends one of the leases whose time is over.
    pub(crate) fn end_expired(&self, now: Timestamp) -> Result<Option<Ended>, EngineError> {
        let mut state = self.state();
        let is_over =
            |lease: &&Lease| lease.record.expires_at <= now && !lease.record.protected && !lease.resetting;
        let Some(name) = state.leases.values().find(is_over).map(|lease| lease.record.name.clone()) else {
            return Ok(None);
        };
        self.release(&mut state, &name).map(Some)
    }

    /// Takes a lease out of the registry: written down first, then its branch is retired.
    fn release(&self, state: &mut State, name: &str) -> Result<Ended, EngineError> {
        self.journal.end(&state.find(name, None)?.record.id)?;
        let Some(lease) = state.leases.remove(name) else { return Err(destroyed_meanwhile(name)) };
        state.pools.retired.push_back(Retired::whole(Arc::clone(&lease.branch)));
        if let Err(error) = self.end_unneeded(state) {
            // The lease has ended all the same. The next opening ends what nobody needs.
            tracing::error!(%error, branch = name, "the end of a snapshot could not be written down");
        }
        Ok(Ended { id: lease.record.id, name: lease.record.name, branch: lease.branch })
    }

    /// Begins a reset; gives the lease's id and its branch.
    pub(crate) fn begin_reset(&self, name: &str, by: Option<&Holder>) -> Result<Resetting, EngineError> {
        let mut state = self.state();
        let lease = state.find(name, by)?;
        if lease.resetting {
            return Err(LeaseError::Resetting { name: name.to_owned() }.into());
        }
        lease.resetting = true;
        let (record, old) = (lease.record.clone(), Arc::clone(&lease.branch));
        let base = record.base.as_ref().and_then(|base| state.snapshots.get(&base.snapshot)).cloned();
        Ok(Resetting { record, old, base })
    }

    /// Gives the lease `id` another branch, written down first, so that a restarted daemon serves that. The old one is the
    /// caller's, but for its socket's directory, which goes on to the new one. `inherited` is the volume of which the branch's is a
    /// copy, if that is a branch's.
    ///
    /// # Errors
    /// When the lease has ended, or `is_closing`, or writes were lost since the branch was made.
    pub(crate) fn replace_branch(
        &self,
        name: &str,
        id: &str,
        branch: &Arc<Branch>,
        inherited: Option<&str>,
        is_closing: bool,
    ) -> Result<(), EngineError> {
        let mut state = self.state();
        let stale = branch.losses != state.pools.losses || is_closing;
        let lease = state.held(name, id)?;
        if stale {
            return Err(LeaseError::Interrupted { name: name.to_owned() }.into());
        }
        let mut record = lease.record.clone();
        branch.volume.clone_into(&mut record.volume);
        record.problem = None;
        record.unentered = true;
        record.inherited = inherited.map(str::to_owned);
        self.journal.put(&record)?;
        lease.record = record;
        lease.branch = Arc::clone(branch);
        Ok(())
    }

    /// Has a branch deleted whose place another one took.
    pub(crate) fn discard_replaced(&self, branch: Arc<Branch>) {
        self.state().pools.retired.push_back(Retired { branch, socket: SocketDir::Keep });
    }

    /// Ends a reset that began with the branch `old`.
    pub(crate) fn finish_reset(
        &self,
        name: &str,
        id: &str,
        old: &Arc<Branch>,
        failure: Option<&EngineError>,
    ) -> Result<BranchView, EngineError> {
        let mut state = self.state();
        let lease = state.held(name, id)?;
        lease.resetting = false;
        if !Arc::ptr_eq(&lease.branch, old) {
            // A reset that ended before it changed anything says nothing of the branch.
            lease.problem =
                failure.map(|error| error.message.clone()).or_else(|| lease.record.problem.clone());
        }
        if failure.is_none() {
            lease.record.unentered = false;
            self.journal.put(&lease.record)?;
        }
        Ok(view(lease))
    }

    /// Whether a reset runs.
    pub(crate) fn is_resetting(&self) -> bool {
        self.state().leases.values().any(|lease| lease.resetting)
    }
}

impl Wanted {
    /// The id that the branch gets.
    pub(super) fn id(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("b-{}", entropy::token(16)))
    }
}

impl LeaseRecord {
    /// The lease of a branch to who asks for it.
    pub(super) fn of(branch: &Branch, wanted: &Wanted, id: String) -> LeaseRecord {
        LeaseRecord {
            name: wanted.name.clone().unwrap_or_else(|| id.clone()),
            id,
            source: branch.generation.source.clone(),
            generation: branch.generation.manifest.generation,
            policy: branch.policy,
            volume: branch.volume.clone(),
            socket: branch.socket.clone(),
            durable: branch.generation.durable,
            all_databases: branch.generation.all_databases,
            audits_statements: branch.generation.audits_statements,
            created_at: wanted.created_at,
            expires_at: wanted.expires_at,
            protected: false,
            boot: wanted.boot.clone(),
            problem: None,
            unentered: false,
            holder: wanted.holder.as_ref().map(|holder| holder.id.clone()),
            base: None,
            inherited: None,
        }
    }
}

impl Lease {
    /// Whether it is there for who asks: everything is, for those on the daemon's own socket.
    pub(super) fn is_for(&self, by: Option<&Holder>) -> bool {
        by.is_none_or(|holder| holder.owns(self.record.holder.as_deref(), &self.record.source))
    }

    /// What who asks sees of it. On the daemon's own socket that is its URL, by which it can be entered beside the doors: what
    /// a session begins with may then change, so that a process that was made ready before is of no more use.
    fn shown_to(&self, by: Option<&Holder>) -> BranchView {
        if by.is_none() {
            self.branch.spare.spoil();
        }
        view(self)
    }

    fn session(&self) -> Session {
        Session {
            id: self.record.id.clone(),
            branch: Arc::clone(&self.branch),
            policy: self.record.policy,
            durable: self.record.durable,
        }
    }
}

impl State {
    /// The lease that has the name now, if it is there for who asks. Whether somebody else has one of that name is not
    /// told (H2).
    pub(super) fn find(&mut self, name: &str, by: Option<&Holder>) -> Result<&mut Lease, EngineError> {
        if !self.leases.get(name).is_some_and(|lease| lease.is_for(by)) {
            let closest = suggest::closest(name, self.names_of(by)).map(str::to_owned);
            return Err(LeaseError::NotFound { name: name.to_owned(), closest }.into());
        }
        self.leases.get_mut(name).ok_or_else(|| destroyed_meanwhile(name))
    }

    /// The lease `id`, which was `name` when the operation began: by now the name may stand for another one.
    pub(super) fn held(&mut self, name: &str, id: &str) -> Result<&mut Lease, EngineError> {
        let lease = self.leases.get_mut(name).filter(|lease| lease.record.id == id);
        lease.ok_or_else(|| destroyed_meanwhile(name))
    }

    pub(super) fn pick_source(&self, wanted: Option<&str>) -> Result<String, EngineError> {
        let generations = &self.pools.generations;
        match wanted {
            Some(name) if generations.contains_key(name) => Ok(name.to_owned()),
            Some(name) => {
                let closest = self.closest_source(name);
                Err(LeaseError::UnknownSource { name: name.to_owned(), closest }.into())
            }
            None if generations.len() == 1 => Ok(generations.keys().next().cloned().unwrap_or_default()),
            None if generations.is_empty() => Err(LeaseError::NoSource.into()),
            None => {
                let names = generations.keys().take(NAMED_MAX).cloned().collect();
                Err(LeaseError::WhichSource { count: generations.len(), names }.into())
            }
        }
    }

    /// The branch that a create with this name gets without making one.
    pub(super) fn existing(&self, wanted: &Wanted, source: &str) -> Result<Option<BranchView>, EngineError> {
        let name = wanted.name.as_deref();
        let Some(lease) = name.and_then(|name| self.leases.get(name)) else { return Ok(None) };
        let record = &lease.record;
        if !lease.is_for(wanted.holder.as_ref()) {
            return Err(LeaseError::NameTaken { name: record.name.clone() }.into());
        }
        if record.source != source || record.policy != wanted.policy {
            return Err(LeaseError::NameClash {
                name: record.name.clone(),
                source_name: record.source.clone(),
                policy: record.policy,
            }
            .into());
        }
        Ok(Some(BranchView { existing: true, ..lease.shown_to(wanted.holder.as_ref()) }))
    }

    fn names_of<'a>(&'a self, by: Option<&'a Holder>) -> impl Iterator<Item = &'a str> {
        let own = self.leases.values().filter(move |lease| lease.is_for(by));
        own.map(|lease| lease.record.name.as_str())
    }

    /// Refuses a lease more than the machine bears, or its holder may have.
    pub(super) fn has_place(&self, wanted: &Wanted) -> Result<(), EngineError> {
        let limit = wanted.capacity.leases;
        if self.leases.len() >= limit {
            return Err(LeaseError::TooMany { limit }.into());
        }
        if let Some(holder) = &wanted.holder {
            let own = self.leases.values().filter(|lease| lease.record.holder.as_ref() == Some(&holder.id));
            if own.count() >= holder.branches_max as usize {
                return Err(LeaseError::HolderHasAll { limit: holder.branches_max }.into());
            }
        }
        Ok(())
    }

    fn nothing_ready(&self, source: &str, wanted: &Wanted) -> EngineError {
        let source_name = source.to_owned();
        match self.pools.why_broken(source, wanted.policy) {
            Some(reason) => LeaseError::PoolBroken { source_name, reason: reason.clone() },
            None => LeaseError::NothingReady {
                source_name,
                policy: wanted.policy,
                waited_ms: wanted.limit.as_millis(),
            },
        }
        .into()
    }
}

pub(super) fn view(lease: &Lease) -> BranchView {
    let record = &lease.record;
    BranchView {
        name: record.name.clone(),
        id: record.id.clone(),
        source: record.source.clone(),
        generation: record.generation,
        policy: record.policy,
        data: lease.branch.generation.data().to_owned(),
        durable: record.durable,
        url: lease.branch.url(),
        created_at: record.created_at,
        expires_at: record.expires_at,
        protected: record.protected,
        state: match lease.problem {
            Some(_) => "failed",
            None if lease.branch.sleep.is_asleep() => "asleep",
            None => "ready",
        }
        .to_owned(),
        problem: lease.problem.clone(),
        holder: record.holder.clone(),
        disk: None,
        parent: record.base.as_ref().map(|base| Parent {
            name: base.name.clone(),
            id: base.branch.clone(),
            snapshot: base.snapshot.clone(),
            taken_at: base.taken_at,
            unlogged: if base.running { "empty" } else { "kept" }.to_owned(),
        }),
        existing: false,
        node: None,
    }
}

fn destroyed_meanwhile(name: &str) -> EngineError {
    LeaseError::Destroyed { name: name.to_owned() }.into()
}
