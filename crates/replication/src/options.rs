//! What a run is asked to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use duramen_reports::suite::Output;

use super::level::Level;
use super::pair::hosts::Wanted;
use super::pair::lent::Lender;
use super::workload::Order;

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Numbers of the scenarios; empty: all.
    pub scenarios: Vec<u32>,
    /// The levels; `None`: remote_write, on and remote_apply; in a quick run remote_write and remote_apply.
    pub levels: Option<Vec<Level>>,
    /// `hot_standby_feedback` off, on, or both; `None`: both where it matters, in a quick run off.
    pub feedback: Option<Vec<bool>>,
    /// `max_standby_streaming_delay` in milliseconds; -1 waits for ever.
    pub max_standby_delay_ms: i64,
    /// Round trips that are added between the servers.
    pub rtt_ms: Vec<u32>,
    /// How often each pass is repeated; `None`: 3, in a quick run 1.
    pub repeats: Option<u32>,
    /// The whole set in three minutes: fewer levels and rows, one repeat, shorter blockers, shared set-ups.
    pub quick: bool,
    /// A primary that is there already.
    pub primary: Option<String>,
    /// Its standby.
    pub standby: Option<String>,
    /// Who lends a pair of a source, instead of both.
    pub lender: Option<Arc<dyn Lender>>,
    /// The major version of a pair of our own. `None`: the newest that is there.
    pub major: Option<u32>,
    /// The home directory, where fetched packages are looked for and restore files are kept (`lab/restore`).
    pub home: PathBuf,
    /// The folder that a pair of our own is made in, and removed from at the end.
    pub dir: PathBuf,
    /// This program, whose `lab restore` is the guardian of what was changed.
    pub exe: PathBuf,
    /// Two hosts on which a pair is made for the run.
    pub hosts: Option<Wanted>,
    /// A workload of the user's. Alone if no scenario is named.
    pub workload: Option<Arc<Order>>,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// The whole suite on a pair of its own, in a folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, exe: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            scenarios: Vec::new(),
            levels: None,
            feedback: None,
            max_standby_delay_ms: -1,
            rtt_ms: vec![0],
            repeats: None,
            quick: false,
            primary: None,
            standby: None,
            lender: None,
            major: None,
            home: dir.clone(),
            dir,
            exe: exe.into(),
            hosts: None,
            workload: None,
            output: Output::default(),
        }
    }

    /// The levels that are measured.
    #[must_use]
    pub fn levels(&self) -> Vec<Level> {
        self.levels.clone().unwrap_or_else(|| {
            if self.quick {
                vec![Level::RemoteWrite, Level::RemoteApply]
            } else {
                vec![Level::RemoteWrite, Level::On, Level::RemoteApply]
            }
        })
    }

    /// How often each pass is repeated.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.repeats.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// How long what holds up the replay lasts: a little less than a whole number of seconds. A startup process that
    /// waits for a snapshot does not learn when it ends. It looks again after 1, 2, 4... 512 ms, and then once a second,
    /// so that such a stall ends 1.023 s and a whole number of seconds after it began. Were the blocker to end just
    /// after such a look, the stall would last for nearly a second longer.
    #[must_use]
    pub fn blocker(&self) -> Duration {
        Duration::from_millis(if self.quick { 2_920 } else { 5_920 })
    }

    /// After how long the standby ends a reader that is in the way: `max_standby_streaming_delay`, if that is shorter than
    /// the [blocker](Self::blocker). `None`: no reader is ended.
    #[must_use]
    pub fn cuts_readers_after(&self) -> Option<Duration> {
        let delay = u64::try_from(self.max_standby_delay_ms).ok().map(Duration::from_millis);
        delay.filter(|delay| *delay < self.blocker())
    }

    /// How long one block of load lasts.
    #[must_use]
    pub fn block(&self) -> Duration {
        Duration::from_millis(if self.quick { 700 } else { 1_500 })
    }
}
