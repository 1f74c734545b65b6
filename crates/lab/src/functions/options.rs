//! What a run is asked to do, and how much that is.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use duramen_measure::evidence::Evidence;

use duramen_reports::suite::{Output, SuiteError};

/// A run of so many seconds a rung, or more, has the full counts: 50 kills, a backlog of 50,000, a list of 100,000.
pub const FULL_SECONDS: f64 = 5.0;

/// How long the soak lasts when it is asked for by name, in minutes, unless the options say otherwise.
pub(crate) const SOAK_MINUTES: f64 = 10.0;

const WORKER_KILLS: f64 = 50.0;
const POSTGRES_KILLS: f64 = 10.0;
const BACKLOG: f64 = 50_000.0;
const LISTING: f64 = 100_000.0;
const QUEUED: f64 = 500_000.0;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// What one instance costs, and what an idle worker does.
    Calibration,
    /// Closed loops of growing concurrency, starts alone, and all of the calibration.
    Throughput,
    /// Slow steps on all connections, a backlog, and a long list.
    Saturation,
    /// Instances through a queue, and beside a backlog in another one.
    Queues,
    /// The closed loop at 32 sessions with workers of 1 to 40 lanes.
    Lanes,
    /// Instances on four databases beside instances on one: what they cost.
    Shards,
    /// Instances of several kinds at once.
    Mixed,
    /// Kills of the worker and of the server under load.
    Restart,
    /// The same load for long.
    Soak,
    /// Rates and kills, for a first look: the closed loops and the restarts.
    Quick,
    /// Everything.
    All,
}

impl Phase {
    /// All, in the order in which they run.
    pub const ALL: [Phase; 11] = [
        Phase::Calibration,
        Phase::Throughput,
        Phase::Saturation,
        Phase::Queues,
        Phase::Lanes,
        Phase::Shards,
        Phase::Mixed,
        Phase::Restart,
        Phase::Soak,
        Phase::Quick,
        Phase::All,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Calibration => "calibration",
            Phase::Throughput => "throughput",
            Phase::Saturation => "saturation",
            Phase::Queues => "queues",
            Phase::Lanes => "lanes",
            Phase::Shards => "shards",
            Phase::Mixed => "mixed",
            Phase::Restart => "restart",
            Phase::Soak => "soak",
            Phase::Quick => "quick",
            Phase::All => "all",
        }
    }

    /// Whether `part` runs when this phase is asked for.
    ///
    /// ```
    /// use duramen_lab::functions::Phase;
    /// assert!(Phase::Throughput.includes(Phase::Calibration));
    /// assert!(!Phase::Calibration.includes(Phase::Throughput));
    /// ```
    #[must_use]
    pub fn includes(self, part: Phase) -> bool {
        self == part
            || match self {
                Phase::All => true,
                Phase::Throughput => part == Phase::Calibration,
                Phase::Quick => matches!(part, Phase::Throughput | Phase::Restart),
                _ => false,
            }
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Phase::ALL.into_iter().find(|phase| phase.name() == text).ok_or_else(|| {
            format!("there is no phase {text:?}; there are {}", Phase::ALL.map(Phase::name).join(", "))
        })
    }
}

/// How much is done, as it follows from the options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// How long one rung of load lasts.
    pub slice: Duration,
    /// How often the worker is killed.
    pub worker_kills: u32,
    /// How often the server is killed.
    pub postgres_kills: u32,
    /// How many instances the backlog has.
    pub backlog: usize,
    /// How many instances the list has.
    pub listing: usize,
    /// How many instances wait in a queue.
    pub queued: usize,
    /// How long the soak lasts.
    pub soak: Duration,
    /// How long the idle worker is watched.
    pub idle: Duration,
}

impl Sizes {
    /// Whether so many kills of the worker and of the server are those that the targets are for.
    #[must_use]
    pub fn are_all_kills(worker: u32, postgres: u32) -> bool {
        f64::from(worker) >= WORKER_KILLS && f64::from(postgres) >= POSTGRES_KILLS
    }
}

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is measured.
    pub phase: Phase,
    /// How long one rung of load lasts, in seconds. Below [`FULL_SECONDS`] all counts shrink alike.
    pub seconds: f64,
    /// How long the soak lasts, in minutes. `None`: ten minutes for the phase soak, else a minute or less.
    pub minutes: Option<f64>,
    /// How many connections for long steps the worker gets.
    pub connections: usize,
    /// The major version of the server. `None`: the newest that is there.
    pub major: Option<u32>,
    /// The home directory, where fetched packages are looked for.
    pub home: PathBuf,
    /// The folder that the server is made in, and removed from at the end.
    pub dir: PathBuf,
    /// The program whose `fn worker URL --connections N` is the worker.
    pub exe: PathBuf,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// The whole suite in a folder, with the worker of a program.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, exe: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            phase: Phase::All,
            seconds: FULL_SECONDS,
            minutes: None,
            connections: 10,
            major: None,
            home: dir.clone(),
            dir,
            exe: exe.into(),
            output: Output::default(),
        }
    }

    /// How much is done.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let scale = (self.seconds / FULL_SECONDS).min(1.0);
        let of = |full: f64| (full * scale).ceil();
        let minutes = match self.phase {
            Phase::Soak => SOAK_MINUTES,
            _ => scale,
        };
        Sizes {
            slice: Duration::from_secs_f64(self.seconds),
            worker_kills: of(WORKER_KILLS) as u32,
            postgres_kills: of(POSTGRES_KILLS) as u32,
            backlog: of(BACKLOG) as usize,
            listing: of(LISTING) as usize,
            queued: of(QUEUED) as usize,
            soak: Duration::from_secs_f64(self.minutes.unwrap_or(minutes) * 60.0),
            idle: Duration::from_secs(15),
        }
    }

    /// Refuses options that cannot be measured with.
    pub(crate) fn check(&self) -> Result<(), SuiteError> {
        let refuse = |message: &str| Err(SuiteError::Options(message.to_owned()));
        if !(self.seconds >= 0.2 && self.seconds <= 600.0) {
            return refuse("--seconds must be at least 0.2 and at most 600");
        }
        if !self.minutes.is_none_or(|minutes| (0.1..=10_000.0).contains(&minutes)) {
            return refuse("--minutes must be at least 0.1 and at most 10000");
        }
        if !(1..=200).contains(&self.connections) {
            return refuse("--connections must be at least 1 and at most 200");
        }
        Ok(())
    }

    /// Notes all options in an evidence document.
    pub(crate) fn note(&self, evidence: &mut Evidence) {
        let sizes = self.sizes();
        evidence.configure("phase", self.phase.name());
        evidence.configure("seconds", self.seconds);
        evidence.configure("connections", self.connections);
        evidence.configure("dir", self.dir.display().to_string());
        if self.phase.includes(Phase::Restart) {
            evidence.configure("worker_kills", sizes.worker_kills);
            evidence.configure("postgres_kills", sizes.postgres_kills);
        }
        if self.phase.includes(Phase::Saturation) {
            evidence.configure("backlog", sizes.backlog);
            evidence.configure("listing", sizes.listing);
        }
        if self.phase.includes(Phase::Soak) {
            evidence.configure("soak_s", sizes.soak.as_secs_f64());
        }
        if self.phase.includes(Phase::Calibration) {
            evidence.configure("idle_s", sizes.idle.as_secs_f64());
        }
    }
}
