//! Watching: the servers are looked at ten times a second, and what is seen is added up.

use crate::{
    error::WatchError,
    ledger::{Change, Ledger, Stall},
    line::{ask_once, target},
    observation::{Observation, Sight, Standby},
    options::Options,
    primary::{identify, Identity, Primary},
    standby::{Companion, NAME},
};
use duramen_base::clock;
use duramen_measure::process::self_cpu_time;
use duramen_postgres::connection::Target;
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::{interval, MissedTickBehavior};
use tokio_postgres::Client;

/// The time between two looks.
pub const PERIOD: Duration = Duration::from_millis(100);

/// Something that happened while watching.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Commits have not come through for [`STALL`](crate::ledger::STALL).
    Begun(Stall),
    /// They do again.
    Ended(Stall),
    /// The primary does not answer any more; why.
    Lost(String),
    /// It does again.
    Found,
}

/// What was seen up to now, which others may read at any time.
#[derive(Debug, Default)]
pub struct State {
    /// Everything added up.
    pub ledger: Ledger,
    /// The last look at the primary, if that answers.
    pub last: Option<Observation>,
    /// How often the primary did not answer.
    pub missed: u64,
}

/// A pair that is watched.
pub struct Watch {
    primary: Primary,
    standbys: Vec<Companion>,
    identity: Identity,
    versions: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    state: Arc<Mutex<State>>,
    began: Instant,
    processor: Duration,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Watch").field("primary", &self.identity.described).finish_non_exhaustive()
    }
}

/// The settings that decide what commits wait for, as they are told.
const SETTINGS: &str = "
    SELECT coalesce(string_agg(name || '=' || setting, E'\\n' ORDER BY name), '') FROM pg_settings WHERE name IN (
        'synchronous_standby_names', 'synchronous_commit', 'wal_sender_timeout', 'wal_level', 'max_connections',
        'hot_standby_feedback', 'max_standby_streaming_delay', 'recovery_min_apply_delay', 'recovery_prefetch',
        'wal_receiver_status_interval', 'wal_receiver_timeout')";

impl Watch {
    /// Connects to all servers and checks that they are a primary and its standbys, and that the role sees what is needed.
    /// Nothing is changed on them.
    ///
    /// # Errors
    /// [`WatchError`].
    pub async fn begin(options: &Options) -> Result<Self, WatchError> {
        let at = target("primary", &options.primary)?;
        let (client, identity) = identify("primary", &at).await?;
        if identity.is_standby {
            return Err(WatchError::Role {
                described: identity.described,
                is: "a standby",
                advice: "give --primary the server that takes writes",
            });
        }
        let mut versions = vec![(identity.described.clone(), identity.version.clone())];
        let mut settings = settings_of("primary", &at, &client).await?;
        let mut standbys = Vec::new();
        for dsn in &options.standbys {
            let at = target("standby", dsn)?;
            let (client, found) = identify("standby", &at).await?;
            if !found.is_standby {
                return Err(WatchError::Role {
                    described: found.described,
                    is: "not a standby: it takes writes",
                    advice: "give --standby a server that replays what the primary writes",
                });
            }
            if found.system_identifier != identity.system_identifier {
                let primary = identity.described.clone();
                return Err(WatchError::Stranger { described: found.described, primary });
            }
            let name: String = ask_once("standby", &at, &client, NAME).await?.get(0);
            settings.extend(settings_of("standby", &at, &client).await?);
            versions.push((found.described, found.version));
            standbys.push(Companion::start(&at, name));
        }
        Ok(Self {
            primary: Primary::new(&at),
            standbys,
            identity,
            versions,
            settings,
            state: Arc::new(Mutex::new(State::default())),
            began: clock::now(),
            processor: self_cpu_time(),
        })
    }

    /// What is seen, for whoever shows it.
    #[must_use]
    pub fn state(&self) -> Arc<Mutex<State>> {
        Arc::clone(&self.state)
    }

    /// The servers with their versions, the primary first.
    #[must_use]
    pub fn servers(&self) -> &[(String, String)] {
        &self.versions
    }

    /// The settings that decide what commits wait for: of which server, and `name=value`.
    #[must_use]
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// The identifier of the cluster.
    #[must_use]
    pub fn system_identifier(&self) -> &str {
        &self.identity.system_identifier
    }

    /// The processor time that this process has used since then.
    #[must_use]
    pub fn processor(&self) -> Duration {
        self_cpu_time().saturating_sub(self.processor)
    }

    /// Looks until `stop` ends, and tells what happens.
    pub async fn run(&mut self, stop: impl Future<Output = ()>, mut tell: impl FnMut(&Event)) {
        let mut stop = std::pin::pin!(stop);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut is_lost = false;
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = ticks.tick() => {}
            }
            let looked = tokio::select! {
                () = &mut stop => break,
                looked = self.look() => looked,
            };
            match looked {
                Ok(change) => {
                    if std::mem::take(&mut is_lost) {
                        tell(&Event::Found);
                    }
                    change.into_iter().map(Event::from).for_each(|event| tell(&event));
                }
                Err(why) => {
                    if !std::mem::replace(&mut is_lost, true) {
                        tell(&Event::Lost(why));
                    }
                }
            }
        }
        let ended = locked(&self.state).ledger.finish();
        ended.into_iter().map(Event::from).for_each(|event| tell(&event));
    }

    /// Looks once.
    async fn look(&mut self) -> Result<Option<Change>, String> {
        match self.primary.look(self.began.elapsed()).await {
            Ok(mut seen) => {
                self.look_at_standbys(&mut seen).await;
                let mut state = locked(&self.state);
                let change = state.ledger.add(&seen);
                state.last = Some(seen);
                Ok(change)
            }
            Err(unread) => {
                let mut state = locked(&self.state);
                state.missed += 1;
                state.last = None;
                Err(unread.to_string())
            }
        }
    }

    /// Adds what the standbys show; while somebody waits, as it is now.
    async fn look_at_standbys(&mut self, seen: &mut Observation) {
        let is_only_one = self.standbys.len() == 1 && seen.standbys.len() == 1;
        for companion in &mut self.standbys {
            let sight: Option<Sight> =
                if seen.waiters.is_empty() { companion.last() } else { companion.look().await };
            let is_it = |standby: &&mut Standby| is_only_one || standby.name == companion.name;
            for standby in seen.standbys.iter_mut().filter(is_it) {
                standby.seen.clone_from(&sight);
            }
        }
    }
}

impl From<Change> for Event {
    fn from(change: Change) -> Self {
        match change {
            Change::Begun(stall) => Event::Begun(stall),
            Change::Ended(stall) => Event::Ended(stall),
        }
    }
}

/// What was seen; a holder that panicked left it whole.
pub fn locked(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn settings_of(
    node: &'static str,
    at: &Target,
    client: &Client,
) -> Result<Vec<(String, String)>, WatchError> {
    let text: String = ask_once(node, at, client, SETTINGS).await?.get(0);
    Ok(text.lines().map(|line| (at.describe(), line.to_owned())).collect())
}
