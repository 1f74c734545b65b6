//! Pairs: a primary and its synchronous standby on clones of one generation, lent to be measured. Invariants RS1 to RS4 of
//! docs/design/replication.md.

mod servers;
mod settings;

use crate::{
    capacity,
    engine::Engine,
    environment::Environment,
    error::{EngineError, PairError},
    model::{MakePair, PairTimes, PairView},
    shared::Shared,
};
use duramen_base::{clock, entropy};
use duramen_postgres::volume;
use serde_json::json;
use servers::Servers;
use std::{
    sync::{atomic::Ordering, Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

/// What the volumes of pairs are called after. No lease and no snapshot names such a volume, so that what is called so belongs
/// to nobody when a home is opened.
pub(crate) const PREFIX: &str = "p-";
/// The least that can be written to a pair.
const SPACE_MIN: u64 = 512 << 20;
/// How long making a pair may take.
const MAKE_LIMIT: Duration = Duration::from_secs(60);
/// The longest that a pair is lent: a run of the lab takes an hour at most.
const LENT_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// How long the engine's end waits for a pair to be removed.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The pair that is lent, if one is.
#[derive(Debug, Default)]
pub(crate) struct Pairs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The source of the pair that has the place.
    taken: Option<String>,
    servers: Weak<Servers>,
}

/// The place of a pair, as long as anything of it is there.
#[derive(Debug)]
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.pairs.state().taken = None;
    }
}

impl Pairs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the pair that is lent. Blocks. None is made any more: the engine closes.
    pub(crate) fn close(&self) {
        let begin = clock::now();
        while begin.elapsed() < END_LIMIT {
            let (is_taken, servers) = {
                let state = self.state();
                (state.taken.is_some(), state.servers.upgrade())
            };
            match servers {
                Some(servers) => return servers.remove(),
                None if !is_taken => return,
                // It has its place, and nothing else yet.
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// A pair that is lent. It is removed when this is ended, or dropped.
#[derive(Debug)]
pub struct LentPair {
    shared: Arc<Shared>,
    servers: Arc<Servers>,
    view: PairView,
    since: Instant,
    is_over: bool,
}

impl LentPair {
    /// What there is to know of it, with its secret.
    #[must_use]
    pub fn view(&self) -> &PairView {
        &self.view
    }

    /// How long it is lent yet.
    ///
    /// # Errors
    /// Why it can no longer be used: its time is over, or one of its servers is gone.
    pub fn left(&self) -> Result<Duration, EngineError> {
        if self.servers.is_given_up() {
            return Err(PairError::Stopping.into());
        }
        if let Some((which, log)) = self.servers.ended() {
            return Err(PairError::Ended { which, log }.into());
        }
        match LENT_LIMIT.checked_sub(self.since.elapsed()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(PairError::OutOfTime { limit: LENT_LIMIT }.into()),
        }
    }

    /// Ends its servers, and removes all of it.
    ///
    /// # Errors
    /// When that could not be written down. It is gone all the same.
    pub async fn end(mut self) -> Result<(), EngineError> {
        self.is_over = true;
        let (shared, servers) = (Arc::clone(&self.shared), Arc::clone(&self.servers));
        let removed = tokio::task::spawn_blocking(move || {
            servers.remove();
            shared.remove_unused_users();
        });
        removed.await.map_err(PairError::Crashed)?;
        self.shared.audit("pair_removed", json!({ "pair": self.view.id }))
    }
}

impl Drop for LentPair {
    fn drop(&mut self) {
        if !self.is_over {
            remove_aside(&self.shared, &self.servers, Some(self.view.id.clone()));
        }
    }
}

/// Removes a pair that nobody waits for any more, on a thread of its own: whoever drops it may be about to end. `id`: of one that was
/// written down.
fn remove_aside(shared: &Arc<Shared>, servers: &Arc<Servers>, id: Option<String>) {
    servers.give_up();
    let (shared, servers) = (Arc::clone(shared), Arc::clone(servers));
    let remove = move || {
        servers.remove();
        drop(servers);
        shared.remove_unused_users();
        let noted = id.map(|id| shared.audit("pair_removed", json!({ "pair": id })));
        if let Some(Err(error)) = noted {
            tracing::error!(%error, "that a pair was removed could not be written down");
        }
    };
    // Without a thread the next opening of the home removes it.
    if let Err(error) = std::thread::Builder::new().name("pair".to_owned()).spawn(remove) {
        tracing::error!(%error, "a pair is left to the next start's sweep");
    }
}

/// A pair that is being made. What there is of it goes when nobody waits for it any more.
struct Making {
    shared: Arc<Shared>,
    servers: Arc<Servers>,
    is_made: bool,
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.is_made {
            remove_aside(&self.shared, &self.servers, None);
        }
    }
}

impl Engine {
    /// Makes a pair of a generation and lends it. `report` is told what is being done.
    ///
    /// If the future is dropped, what was made so far is removed.
    ///
    /// # Errors
    /// Unknown source or generation, a snapshot of which nothing may be made, too little room, another pair, or what a server said.
    pub async fn make_pair(
        self: &Arc<Self>,
        wanted: MakePair,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<LentPair, EngineError> {
        let begin = clock::now();
        let shared = &self.shared;
        if wanted.space_bytes < SPACE_MIN {
            return Err(PairError::TooLittle { least: SPACE_MIN }.into());
        }
        let record = shared.registry.picked_source(wanted.source.as_deref())?;
        let place = shared.place_for_a_pair(&record.name)?;
        let which = wanted.generation.unwrap_or_else(|| record.generation.to_string());
        let id = format!("{PREFIX}{}", entropy::token(16));
        let (made_for, name) = (Arc::clone(shared), id.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let held = made_for.hold_generation(&record, &which)?;
            let generation = made_for.open_generation(&record, &held)?;
            has_room(&made_for, wanted.space_bytes, generation.manifest.bytes)?;
            Ok::<_, EngineError>(Servers::new(
                &made_for.environment,
                generation,
                &name,
                wanted.space_bytes,
                place,
            ))
        });
        let servers = Arc::new(opened.await.map_err(PairError::Crashed)??);
        shared.pairs.state().servers = Arc::downgrade(&servers);
        let mut making = Making { shared: Arc::clone(shared), servers: Arc::clone(&servers), is_made: false };
        let took = self.fill(&servers, report).await?;
        let took = PairTimes { total_ms: clock::ms(begin.elapsed()), ..took };
        let view = servers.view(took);
        let details = json!({ "pair": id, "source": view.source, "generation": view.generation, "space_bytes": wanted.space_bytes });
        shared.audit("pair_made", details)?;
        making.is_made = true;
        let lent =
            LentPair { shared: Arc::clone(shared), servers, view, since: clock::now(), is_over: false };
        let PairView { id, source, .. } = &lent.view;
        tracing::info!(pair = id, source, ms = took.total_ms, "a pair is lent");
        Ok(lent)
    }

    /// Makes the servers on a thread that may wait, and has that end when its time is over.
    async fn fill(
        &self,
        servers: &Arc<Servers>,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<PairTimes, EngineError> {
        let (shared, filled) = (Arc::clone(&self.shared), Arc::clone(servers));
        let making = tokio::task::spawn_blocking(move || {
            let (source, number) = filled.generation();
            let _held = shared.hold_number(source, number);
            let check = || {
                if shared.closing.load(Ordering::Acquire) {
                    return Err(PairError::Stopping);
                }
                // Its user may have gone with it, before a file here was his.
                shared.registry.has_source(source).then_some(()).ok_or(PairError::SourceGone)
            };
            filled.fill(&shared.runtime, &check, &report)
        });
        match tokio::time::timeout(MAKE_LIMIT, making).await {
            Ok(made) => made.map_err(PairError::Crashed)?,
            Err(_) => Err(PairError::TooSlow { doing: servers.doing(), limit: MAKE_LIMIT }.into()),
        }
    }
}

impl Shared {
    /// Takes the place of a pair.
    fn place_for_a_pair(self: &Arc<Self>, source: &str) -> Result<Place, EngineError> {
        let mut state = self.pairs.state();
        // Under the lock: whoever closes waits for what has a place by now.
        if self.closing.load(Ordering::Acquire) {
            return Err(PairError::Stopping.into());
        }
        if let Some(source_name) = &state.taken {
            return Err(PairError::Busy { source_name: source_name.clone() }.into());
        }
        state.taken = Some(source.to_owned());
        Ok(Place(Arc::clone(self)))
    }
}

/// Checks that the machine bears a pair, and that the store has the space for it.
fn has_room(shared: &Shared, space: u64, bytes: u64) -> Result<(), EngineError> {
    shared.measure_capacity();
    if let Some(shortage) = shared.capacity().shortage {
        return Err(PairError::NoRoom(shortage).into());
    }
    let environment: &Environment = &shared.environment;
    // Plain copies take all of what is cloned.
    let copies = if environment.store.volumes.kind() == volume::Kind::Copy { 2 * bytes } else { 0 };
    let (room, needed) = (capacity::room(environment).unwrap_or(0), space.saturating_add(copies));
    if room < needed {
        return Err(PairError::NoSpace { room, needed }.into());
    }
    Ok(())
}
