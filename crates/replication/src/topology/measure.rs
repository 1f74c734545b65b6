//! One pass: a load, a fault for some time, and what was seen meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_postgres::connection::Target;
use duramen_reports::suite::SuiteError;
use tokio::sync::watch;
use tokio::task::{spawn_blocking, JoinHandle};

use super::arrangement::{Arrangement, Expected, Fault};
use super::load::{longest_gap, Committed, Load};
use super::options::{FAR, GIVEN_UP};
use super::sample::{watch_below, Below, Eye, Position, Seeing};
use super::servers::Servers;
use crate::level::Level;

/// A load runs for so long before anything is done.
const WARM: Duration = Duration::from_millis(400);
/// And for so long after it was put right.
const AFTER: Duration = Duration::from_millis(200);
/// What is fast enough to be no wait for a standby that is far away.
const NEAR: Duration = Duration::from_millis(FAR.as_millis() as u64 / 2);

/// What is to be done in a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) arrangement: &'a Arrangement,
    /// To which standby.
    pub(super) victim: Option<&'a str>,
    pub(super) fault: Fault,
    pub(super) level: Level,
    pub(super) clients: usize,
    pub(super) lasts: Duration,
}

/// A pass as it was measured.
#[derive(Debug)]
pub(super) struct Pass {
    /// When the fault was there, from the beginning of the pass.
    pub(super) window: [Duration; 2],
    pub(super) committed: Committed,
    pub(super) seeing: Seeing,
}

impl Asked<'_> {
    /// A part of the names of its figures.
    pub(super) fn key(&self) -> String {
        let what = match self.victim.filter(|_| self.fault != Fault::Plain) {
            Some(victim) => format!("{}-{victim}", self.fault.name()),
            None => self.fault.name().to_owned(),
        };
        format!("{}/{what}/{}", self.arrangement.slug(), self.level)
    }

    /// What commits are to do.
    pub(super) fn expected(&self) -> Expected {
        match self.victim {
            Some(victim) if self.level.waits_for_standby() => self.arrangement.expected(victim, self.fault),
            _ => Expected::GoOn,
        }
    }

    /// Measures it. `servers` are ours; without them nothing is done to anybody.
    pub(super) async fn run(
        &self,
        primary: &Target,
        servers: Option<&Arc<Servers>>,
    ) -> Result<Pass, SuiteError> {
        let origin = clock::now();
        let (stop, stopped) = watch::channel(false);
        let eye = Eye::open(primary).await?;
        let looking = tokio::spawn({
            let stopped = stopped.clone();
            async move { eye.watch(origin, stopped).await }
        });
        let mut below: Vec<(String, JoinHandle<Vec<Below>>)> = Vec::new();
        if let Some(servers) = servers {
            let standbys = self.arrangement.standbys().iter();
            for standby in standbys.filter(|standby| standby.upstream.is_some()) {
                let looking = watch_below(servers.standby(&standby.name)?, origin, stopped.clone());
                below.push((standby.name.clone(), tokio::spawn(looking)));
            }
        }
        let load = Load::begin(primary, self.level, self.clients, origin).await?;
        tokio::time::sleep(WARM).await;
        let window = self.disturb(servers, origin).await?;
        tokio::time::sleep(AFTER).await;
        let committed = load.end().await?;
        // Without one who looks nobody listens.
        let _ = stop.send(true);
        let ended = |error: tokio::task::JoinError| SuiteError::Failed(format!("a task ended: {error}"));
        let mut seeing = Seeing { samples: looking.await.map_err(ended)??, below: BTreeMap::new() };
        for (name, looking) in below {
            seeing.below.insert(name, looking.await.map_err(ended)?);
        }
        Ok(Pass { window, committed, seeing })
    }

    async fn disturb(
        &self,
        servers: Option<&Arc<Servers>>,
        origin: Instant,
    ) -> Result<[Duration; 2], SuiteError> {
        let since = || clock::now().duration_since(origin);
        let (Some(victim), Some(servers)) = (self.victim, servers) else {
            let begin = since();
            tokio::time::sleep(self.lasts).await;
            return Ok([begin, since()]);
        };
        let fault = self.fault;
        let on_thread = |work: fn(&Servers, &str, Fault) -> Result<(), SuiteError>| {
            let (servers, victim) = (Arc::clone(servers), victim.to_owned());
            async move {
                let done = spawn_blocking(move || work(&servers, &victim, fault)).await;
                done.map_err(|error| SuiteError::Failed(format!("a thread ended: {error}")))?
            }
        };
        let begin = since();
        on_thread(Servers::begin).await?;
        tokio::time::sleep(self.lasts).await;
        let end = since();
        on_thread(Servers::end).await?;
        Ok([begin, end])
    }
}

impl Pass {
    /// The longest time without a commit while the fault was there.
    pub(super) fn gap(&self) -> Duration {
        longest_gap(&self.committed.commits, self.window[0], self.window[1])
    }

    /// How long commits took that were acknowledged while the fault was there, the first few of before left out.
    pub(super) fn took(&self) -> Vec<Duration> {
        let [begin, end] = self.window;
        let inside = |at: Duration| at >= begin + FAR * 2 && at <= end;
        self.committed.commits.iter().filter(|commit| inside(commit.at)).map(|commit| commit.took).collect()
    }

    /// Whether what was to be measured happened at all: why not, if not.
    pub(super) fn unmet(&self, asked: &Asked<'_>) -> Option<String> {
        if self.committed.commits.len() < 20 {
            return Some(format!("only {} commits were acknowledged", self.committed.commits.len()));
        }
        let victim = asked.victim?;
        let [begin, end] = self.window;
        let is_gone = |within: Duration| {
            self.seeing.samples.iter().any(|sample| {
                sample.at > begin && sample.at < begin + within && !sample.standbys.contains_key(victim)
            })
        };
        let late = || {
            let mut late: Vec<Duration> = self
                .seeing
                .behind(victim, |at: &Position| at.flushed, [begin + FAR * 2, end])
                .into_iter()
                .map(|(.., late)| late)
                .collect();
            late.sort_unstable();
            late
        };
        match asked.fault {
            Fault::Plain => None,
            Fault::Slow => {
                let late = late();
                let ninth = late.get(late.len() * 9 / 10).copied().unwrap_or_default();
                (ninth < FAR.mul_f64(0.8))
                    .then(|| format!("{victim} was to be {FAR:?} late, and was {ninth:?} late"))
            }
            Fault::Hang => {
                let longest = late().last().copied().unwrap_or_default();
                (longest < asked.lasts.mul_f64(0.8))
                    .then(|| format!("{victim} was to hang for {:?}, and was {longest:?} late", asked.lasts))
            }
            Fault::Vanish => (!is_gone(asked.lasts)).then(|| format!("{victim} was never given up")),
            Fault::Die => (!is_gone(asked.lasts)).then(|| format!("{victim} did not die")),
        }
    }

    /// Whether commits did what they were to do, and what they did.
    pub(super) fn is_as_expected(&self, asked: &Asked<'_>) -> (bool, String) {
        let gap = self.gap();
        let mut took = self.took();
        took.sort_unstable();
        let median = took.get(took.len() / 2).copied();
        let said = format!(
            "commits are to {}: the longest time without one was {:.2} s of {:.1} s, and one took {} in the middle",
            asked.expected().in_words(),
            gap.as_secs_f64(),
            asked.lasts.as_secs_f64(),
            median.map_or_else(|| "no time".to_owned(), |median| format!("{:.1} ms", clock::ms(median))),
        );
        let least = Duration::from_secs(1);
        let is_so = match asked.expected() {
            Expected::GoOn => {
                let is_near = asked.fault != Fault::Slow || median.is_some_and(|median| median < NEAR);
                gap < asked.lasts.mul_f64(0.4).max(least) && is_near
            }
            Expected::Wait => median.is_some_and(|median| median >= FAR.mul_f64(0.8)),
            Expected::TakeOver => {
                gap >= GIVEN_UP.mul_f64(0.7) && gap <= GIVEN_UP + least + least / 2 && !took.is_empty()
            }
            Expected::Stop => gap >= asked.lasts.mul_f64(0.9),
        };
        (is_so, said)
    }
}
