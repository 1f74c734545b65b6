//! Names: claimed before a branch is handed out, confirmed before that is said, freed after its end, and reconciled with what a node
//! holds.

use crate::{
    etcd::{gotten, EtcdError},
    member::{json, Fleet, Standing},
    record::{Key, NameRecord},
    view::NodeState,
};
use duramen_base::clock;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// How long a claim is tried.
const CLAIM_LIMIT: Duration = Duration::from_secs(3);
/// Pause before something is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long it is remembered what was freed. A claim that comes to etcd later than its freeing is freed again after that.
const FREED_KEPT: Duration = Duration::from_secs(30);
/// How many names are freed at a time.
const AT_A_TIME: usize = 16;

/// Why a name is not one's own.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// This node may give no names now (FL-2).
    #[error("this node ({node}) gives no names now: {why}. Branches that are there go on; ask another node, or again when `duramen node list` shows it as ready")]
    NotMember {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// It drains (FL-11).
    #[error("the node {node} drains, and gives no names; ask another one (`duramen node list`), or end that: duramen node undrain {node}")]
    Draining {
        /// The node.
        node: String,
    },
    /// Another node has it.
    #[error("the name {name} is on the node {}, which is {state}", record.node)]
    Held {
        /// The name.
        name: String,
        /// Its claim.
        record: NameRecord,
        /// How that node is.
        state: NodeState,
    },
    /// etcd did not say whether it is.
    #[error("{source}; branches that are there go on, and new ones are made when it answers")]
    Etcd {
        /// What it said.
        source: EtcdError,
    },
}

/// A branch that a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// The id of the token by which it was created, if it was by one.
    pub holder: Option<String>,
}

/// What a node holds, which the names of the fleet are reconciled with.
pub trait Holds: Send + Sync {
    /// All branches.
    fn all(&self) -> Vec<Local>;

    /// Whether it holds the branch of that id now.
    fn has(&self, id: &str) -> bool {
        self.all().iter().any(|local| local.id == id)
    }

    /// Gives a branch another name, because its own was given away (FL-3).
    ///
    /// # Errors
    /// In words.
    fn rename(&self, name: &str, id: &str, other: &str) -> Result<(), String>;
}

/// What reconciling did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Names that were claimed again.
    pub claimed: Vec<String>,
    /// Names without a branch, which are being freed.
    pub freed: Vec<String>,
    /// Branches that were given another name: from, to.
    pub renamed: Vec<(String, String)>,
}

/// Claims that are to be freed, and those whose creates are under way.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    state: Mutex<State>,
    /// There is something to free.
    more: Notify,
    /// Something was freed.
    fewer: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Name and id.
    ended: HashSet<(String, String)>,
    /// Id of the claim, and the number of the registration by which it was made.
    making: HashMap<String, i64>,
    /// Name and id of what was freed a short time ago, which the view may show still.
    freed: HashMap<(String, String), Instant>,
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a claim is to be freed, or was a short time ago.
    fn is_known(&self, name: &str, id: &str) -> bool {
        let (state, claim) = (self.state(), (name.to_owned(), id.to_owned()));
        state.ended.contains(&claim) || state.freed.contains_key(&claim)
    }

    fn is_ended(&self, name: &str, id: &str) -> bool {
        self.state().ended.contains(&(name.to_owned(), id.to_owned()))
    }
}

impl Fleet {
    /// Claims a name for a branch that is being made. Whoever gets it has to [`Fleet::confirm`] it before he says so, or to
    /// have it freed by [`Fleet::ended`].
    ///
    /// # Errors
    /// [`ClaimError`]; the claim is then freed, should it have happened all the same.
    pub async fn claim(
        &self,
        name: &str,
        id: &str,
        source: Option<&str>,
        holder: Option<&str>,
    ) -> Result<(), ClaimError> {
        let record = NameRecord {
            node: self.settings.node.clone(),
            id: id.to_owned(),
            source: source.map(str::to_owned),
            holder: holder.map(str::to_owned),
            claimed_at: clock::utc_now(),
        };
        self.pending.state().making.insert(id.to_owned(), 0);
        let mut making = Making { fleet: self, name, id, then: Then::Free };
        let mut unknown = false;
        let claimed = self.try_claim(name, &record, &mut unknown).await;
        making.then = match &claimed {
            Ok(_) => Then::Keep,
            // What no try can have done needs no freeing.
            Err(_) if !unknown => Then::Forget,
            Err(_) => Then::Free,
        };
        drop(making);
        let number = claimed?;
        self.pending.state().making.insert(id.to_owned(), number);
        Ok(())
    }

    /// `unknown` becomes whether etcd was asked and did not answer.
    async fn try_claim(
        &self,
        name: &str,
        record: &NameRecord,
        unknown: &mut bool,
    ) -> Result<i64, ClaimError> {
        let begin = clock::now();
        let node = &self.settings.node;
        let keys = &self.etcd.keys;
        let (key, own, drain) =
            (keys.key(Key::Name(name)), keys.key(Key::Node(node)), keys.key(Key::Drain(node)));
        // What the claim replaces: nothing, or a claim of this revision by a node that is lost, or an ended one of our own.
        let mut over: Vec<Compare> = vec![Compare::create_revision(key.clone(), CompareOp::Equal, 0)];
        // The lost node whose name is being taken.
        let mut taken: Option<String> = None;
        loop {
            let Some(registration) = self.registration() else { return Err(self.not_member()) };
            let mut when = std::mem::take(&mut over);
            when.push(Compare::create_revision(own.clone(), CompareOp::Equal, registration.number));
            when.push(Compare::create_revision(drain.clone(), CompareOp::Equal, 0));
            let txn =
                Txn::new().when(when).and_then([TxnOp::put(key.clone(), json(record), None)]).or_else([
                    TxnOp::get(key.clone(), None),
                    TxnOp::get(own.clone(), None),
                    TxnOp::get(drain.clone(), None),
                ]);
            over = vec![Compare::create_revision(key.clone(), CompareOp::Equal, 0)];
            let answer = match self.etcd.txn_of_name(txn).await {
                Ok(answer) if answer.succeeded() => {
                    if let Some(lost) = taken {
                        tracing::warn!(name, node = lost, "the name of a lost node was taken");
                    }
                    return Ok(registration.number);
                }
                Ok(answer) => answer,
                Err(source) if begin.elapsed() >= CLAIM_LIMIT => {
                    *unknown = true;
                    return Err(ClaimError::Etcd { source });
                }
                Err(_) => {
                    *unknown = true;
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let mut got = gotten(&answer).into_iter();
            let (found, registered, drains) =
                (got.next().flatten(), got.next().flatten(), got.next().flatten());
            if let Some(found) = found {
                let Some(has) = found.read::<NameRecord>() else {
                    return Err(ClaimError::Etcd {
                        source: self.etcd.silent(format_args!("the claim of {name} cannot be read")),
                    });
                };
                if has.id == record.id {
                    // An earlier try whose answer was lost.
                    return Ok(registration.number);
                }
                if let Some(lost) = taken.take() {
                    // The takeover changed nothing: the node is back, or its name is another one's.
                    tracing::debug!(name, node = lost, "the name of a lost node was not to be had");
                    sleep(PAUSE).await;
                }
                let same = Compare::mod_revision(key.clone(), CompareOp::Equal, found.modified);
                if has.node == *node && self.pending.is_ended(name, &has.id) {
                    over = vec![same];
                } else if let Some(seen) = self.view().lost(&has.node).filter(|_| has.node != *node) {
                    // FL-5.
                    over = vec![
                        same,
                        Compare::create_revision(keys.key(Key::Node(&has.node)), CompareOp::Equal, 0),
                        Compare::mod_revision(keys.key(Key::Member(&has.node)), CompareOp::Equal, seen),
                    ];
                    taken = Some(has.node);
                } else {
                    let state = self.view().state(&has.node);
                    return Err(ClaimError::Held { name: name.to_owned(), record: has, state });
                }
            } else if drains.is_some() {
                return Err(ClaimError::Draining { node: node.clone() });
            } else if registered.is_none_or(|found| found.created != registration.number) {
                self.taken_away(registration.number);
                return Err(self.not_member());
            }
            if begin.elapsed() >= CLAIM_LIMIT {
                return Err(ClaimError::Etcd {
                    source: self.etcd.silent(format_args!("the name {name} changes all the time")),
                });
            }
        }
    }

    fn not_member(&self) -> ClaimError {
        let why = match self.standing() {
            Standing::Member(_) => "its registration ended in etcd".to_owned(),
            Standing::Joining(why) | Standing::Refused(why) => why,
        };
        ClaimError::NotMember { node: self.settings.node.clone(), why }
    }

    /// Makes sure that a claim is still one's own: by the fence, else by etcd (FL-1, FL-2). The create under way is over.
    ///
    /// # Errors
    /// When it is not, or nobody says so: the branch is to be given back.
    pub async fn confirm(&self, name: &str, id: &str) -> Result<(), ClaimError> {
        let number = self.pending.state().making.get(id).copied();
        let lasts = self.registration().is_some_and(|registration| Some(registration.number) == number);
        let confirmed = match lasts {
            true => Ok(()),
            false => match self.etcd.get(Key::Name(name)).await {
                Ok(found) => match found.and_then(|found| found.read::<NameRecord>()) {
                    Some(has) if has.id == id => Ok(()),
                    Some(has) => {
                        let state = self.view().state(&has.node);
                        Err(ClaimError::Held { name: name.to_owned(), record: has, state })
                    }
                    None => Err(self.not_member()),
                },
                Err(source) => Err(ClaimError::Etcd { source }),
            },
        };
        self.pending.state().making.remove(id);
        confirmed
    }

    /// Makes sure that a name is still that of a branch that this node holds, before somebody is handed that branch by its name
    /// (FL-1): by the fence and what was seen, else by etcd.
    ///
    /// # Errors
    /// When it is another one's, or nobody says so.
    pub async fn still_has(&self, name: &str, id: &str) -> Result<(), ClaimError> {
        let is_seen = || self.view().name(name).is_some_and(|name| name.record.id == id);
        if self.registration().is_some() && is_seen() {
            return Ok(());
        }
        let found = self.etcd.get(Key::Name(name)).await.map_err(|source| ClaimError::Etcd { source })?;
        match found.and_then(|found| found.read::<NameRecord>()) {
            Some(has) if has.id == id => Ok(()),
            Some(has) => {
                let state = self.view().state(&has.node);
                Err(ClaimError::Held { name: name.to_owned(), record: has, state })
            }
            None if self.registration().is_some() => Err(ClaimError::NotMember {
                node: self.settings.node.clone(),
                why: format!("etcd has no claim of {name}, which is made again within seconds"),
            }),
            None => Err(self.not_member()),
        }
    }

    /// A claim is of no more use: its branch has ended, or was not made. Its name is freed as soon as etcd answers.
    pub fn ended(&self, name: &str, id: &str) {
        let mut state = self.pending.state();
        state.making.remove(id);
        state.ended.insert((name.to_owned(), id.to_owned()));
        drop(state);
        self.pending.more.notify_one();
    }

    /// Waits until nothing of that name is to be freed, as long as `limit`; tells whether that is so.
    pub async fn name_freed(&self, name: &str, limit: Duration) -> bool {
        let is_waiting = || self.pending.state().ended.iter().any(|(other, _)| other == name);
        let waiting = async {
            loop {
                let fewer = self.pending.fewer.notified();
                if !is_waiting() {
                    return;
                }
                fewer.await;
            }
        };
        timeout(limit, waiting).await.is_ok()
    }

    /// Waits until a claim is freed, as long as `limit`; tells whether it is.
    pub async fn freed(&self, name: &str, id: &str, limit: Duration) -> bool {
        let waiting = async {
            loop {
                let fewer = self.pending.fewer.notified();
                if !self.pending.is_ended(name, id) {
                    return;
                }
                fewer.await;
            }
        };
        timeout(limit, waiting).await.is_ok()
    }

    /// How many claims are to be freed.
    #[must_use]
    pub fn to_free(&self) -> usize {
        self.pending.state().ended.len()
    }

    pub(crate) async fn free_pending(&self) {
        // Whether something that waits was tried already, or could not be.
        let mut is_late = false;
        loop {
            let ended: Vec<_> = self.pending.state().ended.iter().take(AT_A_TIME).cloned().collect();
            if ended.is_empty() {
                is_late = false;
                self.pending.more.notified().await;
                continue;
            }
            // FL-12: another home may be the node by now, or another process of a copy of this one.
            let Some(registration) = self.registration() else {
                is_late = true;
                sleep(PAUSE).await;
                continue;
            };
            let mut freeing = tokio::task::JoinSet::new();
            for (name, id) in ended {
                let (etcd, revision) = (std::sync::Arc::clone(&self.etcd), self.revision_of(&name, &id));
                let node = self.settings.node.clone();
                freeing.spawn(async move {
                    let freed = free(&etcd, (&name, &id), revision, (&node, registration.number)).await;
                    (name, id, freed)
                });
            }
            let mut failed = false;
            while let Some(Ok((name, id, freed))) = freeing.join_next().await {
                match freed {
                    Ok(false) => {
                        self.taken_away(registration.number);
                        failed = true;
                    }
                    Ok(true) => {
                        if is_late {
                            self.etcd.figures.freed_late();
                        }
                        let mut state = self.pending.state();
                        let (freed, now) = ((name, id), clock::now());
                        state.ended.remove(&freed);
                        state.freed.retain(|_, at| now.duration_since(*at) < FREED_KEPT);
                        state.freed.insert(freed, now);
                        drop(state);
                        self.pending.fewer.notify_waiters();
                    }
                    Err(error) => {
                        tracing::debug!(%error, name, "the name is freed later");
                        failed = true;
                    }
                }
            }
            if failed {
                is_late = true;
                sleep(PAUSE).await;
            }
        }
    }

    /// The revision of a claim as it was seen.
    fn revision_of(&self, name: &str, id: &str) -> Option<i64> {
        let view = self.view();
        view.name(name).filter(|name| name.record.id == id).map(|name| name.revision)
    }

    /// Brings names and branches together (FL-3, FL-6): after each registration, and at times.
    ///
    /// # Errors
    /// When this node is not registered, or etcd does not answer; what was done so far stays done.
    pub async fn reconcile(&self, holds: &dyn Holds) -> Result<Reconciled, ClaimError> {
        let node = self.settings.node.clone();
        let mut done = Reconciled::default();
        // FL-12: who is not registered has nothing of this node's to bring together.
        if self.registration().is_none() {
            return Err(self.not_member());
        }
        // In this order: what is claimed after the first look is under way or held by the time of the others.
        let claimed = self.view().names_of(&node);
        let making: HashSet<String> = self.pending.state().making.keys().cloned().collect();
        let local = holds.all();
        let held: HashSet<&str> = local.iter().map(|local| local.id.as_str()).collect();
        for (name, id) in claimed {
            if !held.contains(id.as_str()) && !making.contains(&id) && !self.pending.is_known(&name, &id) {
                tracing::warn!(name, id, "a name of this node without a branch is freed");
                self.ended(&name, &id);
                done.freed.push(name);
            }
        }
        for branch in &local {
            let seen = self.view().name(&branch.name).is_some_and(|name| name.record.id == branch.id);
            if seen || making.contains(&branch.id) {
                continue;
            }
            match self.claim_again(branch, holds).await? {
                Again::Own => {}
                // It may have ended meanwhile, and its name freed before it was claimed again.
                Again::Claimed if !holds.has(&branch.id) => self.ended(&branch.name, &branch.id),
                Again::Claimed => done.claimed.push(branch.name.clone()),
                Again::Other(has) => {
                    let other = other_name(&branch.name);
                    if let Err(error) = holds.rename(&branch.name, &branch.id, &other) {
                        tracing::error!(
                            error,
                            name = branch.name,
                            "a branch whose name was given away keeps it here"
                        );
                        continue;
                    }
                    tracing::warn!(
                        name = branch.name,
                        to = other,
                        by = has.node,
                        "the name was given away while this node was lost: the branch has another one"
                    );
                    self.claim_again(&Local { name: other.clone(), ..branch.clone() }, holds).await?;
                    done.renamed.push((branch.name.clone(), other));
                }
            }
        }
        Ok(done)
    }

    /// Claims the name of a branch that this node already holds; a draining node may do so, too. If etcd was restored from an older
    /// snapshot, it can have a claim by this node for a branch that no longer exists: that claim is replaced. One of a branch that was made
    /// here since it was looked at what is held is not.
    async fn claim_again(&self, branch: &Local, holds: &dyn Holds) -> Result<Again, ClaimError> {
        let Some(registration) = self.registration() else { return Err(self.not_member()) };
        let record = NameRecord {
            node: self.settings.node.clone(),
            id: branch.id.clone(),
            source: Some(branch.source.clone()),
            holder: branch.holder.clone(),
            claimed_at: clock::utc_now(),
        };
        let key = self.etcd.keys.key(Key::Name(&branch.name));
        let own = self.etcd.keys.key(Key::Node(&self.settings.node));
        let begin = clock::now();
        let mut over = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
        loop {
            let txn = Txn::new()
                .when([over, Compare::create_revision(own.clone(), CompareOp::Equal, registration.number)])
                .and_then([TxnOp::put(key.clone(), json(&record), None)])
                .or_else([TxnOp::get(key.clone(), None), TxnOp::get(own.clone(), None)]);
            let answer = self.etcd.txn_of_name(txn).await.map_err(|source| ClaimError::Etcd { source })?;
            if answer.succeeded() {
                return Ok(Again::Claimed);
            }
            let mut got = gotten(&answer).into_iter();
            let (found, registered) = (got.next().flatten(), got.next().flatten());
            if registered.is_none_or(|found| found.created != registration.number) {
                self.taken_away(registration.number);
                return Err(self.not_member());
            }
            over = match found.map(|found| (found.modified, found.read::<NameRecord>())) {
                Some((_, Some(has))) if has.id == branch.id => return Ok(Again::Own),
                Some((modified, Some(has))) if has.node == record.node => {
                    // In this order: what is made no more is held, if it was not given back.
                    let is_making = self.pending.state().making.contains_key(&has.id);
                    if is_making || holds.has(&has.id) || !holds.has(&branch.id) {
                        return Ok(Again::Own);
                    }
                    Compare::mod_revision(key.clone(), CompareOp::Equal, modified)
                }
                Some((_, Some(has))) => return Ok(Again::Other(has)),
                Some((_, None)) => {
                    let what = format_args!("the claim of {} cannot be read", branch.name);
                    return Err(ClaimError::Etcd { source: self.etcd.silent(what) });
                }
                // It was freed in between.
                None => Compare::create_revision(key.clone(), CompareOp::Equal, 0),
            };
            if begin.elapsed() >= CLAIM_LIMIT {
                let what = format_args!("the name {} changes all the time", branch.name);
                return Err(ClaimError::Etcd { source: self.etcd.silent(what) });
            }
        }
    }
}

enum Again {
    Own,
    Claimed,
    Other(NameRecord),
}

/// A name for a branch whose own was given away.
fn other_name(name: &str) -> String {
    const NAME_MAX: usize = 63;
    let mark = format!(".was-{}", duramen_base::entropy::token(6).to_ascii_lowercase());
    // Names are ASCII.
    let kept = name.len().min(NAME_MAX - mark.len());
    format!("{}{mark}", &name[..kept])
}

/// Frees a claim, unless the name is another one's. `seen` is its revision, if that is known. Tells whether that is done: it is not, once the
/// registration of this number is not the node's any more (FL-12).
async fn free(
    etcd: &crate::etcd::Etcd,
    (name, id): (&str, &str),
    mut seen: Option<i64>,
    (node, number): (&str, i64),
) -> Result<bool, EtcdError> {
    let (key, own) = (etcd.keys.key(Key::Name(name)), etcd.keys.key(Key::Node(node)));
    loop {
        let revision = match seen.take() {
            Some(revision) => revision,
            None => match etcd.get(Key::Name(name)).await? {
                Some(found) if found.read::<NameRecord>().is_some_and(|has| has.id == id) => found.modified,
                _ => return Ok(true),
            },
        };
        let txn = Txn::new()
            .when([
                Compare::mod_revision(key.clone(), CompareOp::Equal, revision),
                Compare::create_revision(own.clone(), CompareOp::Equal, number),
            ])
            .and_then([TxnOp::delete(key.clone(), None)])
            .or_else([TxnOp::get(own.clone(), None)]);
        let answer = etcd.txn_of_name(txn).await?;
        if answer.succeeded() {
            return Ok(true);
        }
        let registered = gotten(&answer).into_iter().next().flatten();
        if registered.is_none_or(|found| found.created != number) {
            return Ok(false);
        }
    }
}

/// A claim under way.
struct Making<'a> {
    fleet: &'a Fleet,
    name: &'a str,
    id: &'a str,
    then: Then,
}

/// What follows on it.
enum Then {
    /// It is there, and a branch is made.
    Keep,
    /// It is not there.
    Forget,
    /// It may be there, or who asked for it went away.
    Free,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        match self.then {
            Then::Keep => {}
            Then::Forget => drop(self.fleet.pending.state().making.remove(self.id)),
            Then::Free => self.fleet.ended(self.name, self.id),
        }
    }
}
