//! Tells a supervisor such as systemd how a worker is: ready, alive, stopping.

use duramen_functions::{cluster::ClusterMonitor, worker::Monitor};
use sd_notify::NotifyState;
use std::{io, time::Duration};
use tokio::time::{interval, timeout, MissedTickBehavior};

/// How long a message may take: a supervisor that reads nothing keeps no worker from its work.
const SAY_WITHIN: Duration = Duration::from_secs(1);
/// How long a worker may take to end, beside the limit for draining.
const END_WITHIN: Duration = Duration::from_secs(15);

/// What can say whether it goes on.
pub(crate) trait Moves: Send {
    /// Why it does not, if it does not.
    fn motion(&self) -> Result<(), String>;
}

impl Moves for Monitor {
    fn motion(&self) -> Result<(), String> {
        Monitor::motion(self).map_err(|reason| reason.to_string())
    }
}

impl Moves for ClusterMonitor {
    fn motion(&self) -> Result<(), String> {
        ClusterMonitor::motion(self)
    }
}

/// What the environment says of a supervisor.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    listens: bool,
    /// How often it wants to hear that the worker lives.
    watchdog: Option<Duration>,
}

impl Supervisor {
    pub(crate) fn of_environment() -> Supervisor {
        Supervisor {
            listens: std::env::var_os("NOTIFY_SOCKET").is_some_and(|socket| !socket.is_empty()),
            watchdog: sd_notify::watchdog_enabled().filter(|time| !time.is_zero()),
        }
    }

    /// The worker works.
    pub(crate) async fn ready(&self, place: &str) {
        let status = format!("works on {place}");
        self.say(move || sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)])).await;
    }

    /// The worker begins nothing new, and ends within this time and a little.
    pub(crate) async fn stopping(&self, limit: Duration) {
        let status = format!("draining, for at most {limit:?}");
        // Longer than an hour cannot be said.
        let us = u32::try_from((limit + END_WITHIN).as_micros()).unwrap_or(u32::MAX);
        let extend = NotifyState::ExtendTimeoutUsec(us);
        self.say(move || sd_notify::notify(&[NotifyState::Stopping, extend, NotifyState::Status(&status)]))
            .await;
    }

    /// Says twice in the time of the watchdog that the worker lives, for as long as it does. A database that does not answer is
    /// no reason to end a worker, which waits for it. Without a watchdog there is nothing to do, for ever.
    pub(crate) async fn watch(self, worker: impl Moves) {
        let Some(time) = self.watchdog.filter(|_| self.listens) else { return std::future::pending().await };
        let mut ticks = interval(time / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match worker.motion() {
                Ok(()) => self.say(|| sd_notify::notify(&[NotifyState::Watchdog])).await,
                Err(error) => tracing::error!(%error, "the watchdog is not told that this worker lives"),
            }
        }
    }

    async fn say(&self, message: impl FnOnce() -> io::Result<()> + Send + 'static) {
        if !self.listens {
            return;
        }
        let cause = match timeout(SAY_WITHIN, tokio::task::spawn_blocking(message)).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it takes nothing within {SAY_WITHIN:?}"),
        };
        tracing::warn!(cause, "the supervisor of NOTIFY_SOCKET cannot be told how the worker is");
    }
}
