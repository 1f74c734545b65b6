//! What a run of drills is asked to do.

use std::path::PathBuf;
use std::str::FromStr;

use duramen_reports::suite::{Measured, Output, Plan, Say, Suite, SuiteError};

use super::document::Failover;
use super::given::Given;
use super::run;
use crate::disk;
use crate::patroni::Settings;

/// What is done to the leader, or to what it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Drill {
    /// Its Patroni and its PostgreSQL are killed, and come back later.
    Kill,
    /// Both are held (SIGSTOP) until another one leads, and then go on as if nothing had happened.
    Stop,
    /// Its cable is pulled until another one leads. Clients on its own machine still reach it.
    Cut,
    /// Its disk takes no more, until another one leads.
    Disk,
    /// The leadership is handed over as planned.
    Switchover,
    /// Two of three members of etcd are held: nobody can be elected.
    Quorum,
}

impl Drill {
    /// All, in the order in which they are held.
    pub const ALL: [Drill; 6] =
        [Drill::Switchover, Drill::Kill, Drill::Stop, Drill::Cut, Drill::Disk, Drill::Quorum];

    /// Its name in figures and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Drill::Kill => "kill",
            Drill::Stop => "stop",
            Drill::Cut => "cut",
            Drill::Disk => "disk",
            Drill::Switchover => "switchover",
            Drill::Quorum => "quorum",
        }
    }

    /// What is done, in a line.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Drill::Kill => "the leader's Patroni and PostgreSQL are killed",
            Drill::Stop => "the leader is held (SIGSTOP), and goes on when another one leads",
            Drill::Cut => "the leader's network is cut, and comes back when another one leads",
            Drill::Disk => "the leader's disk takes no more (ENOSPC), until another one leads",
            Drill::Switchover => "the leadership is handed over as planned",
            Drill::Quorum => "two of three members of etcd are held",
        }
    }

    /// Why it cannot be held here, if it cannot.
    #[must_use]
    pub fn obstacle(self) -> Option<String> {
        (self == Drill::Disk).then(disk::obstacle).flatten()
    }

    /// Whether another node leads afterwards.
    #[must_use]
    pub fn changes_leader(self) -> bool {
        self != Drill::Quorum
    }
}

impl FromStr for Drill {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Drill::ALL.into_iter().find(|drill| drill.name() == text).ok_or_else(|| {
            format!("there is no drill {text:?}; there are {}", Drill::ALL.map(Drill::name).join(", "))
        })
    }
}

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The drills, in this order.
    pub drills: Vec<Drill>,
    /// How often each is held.
    pub times: u32,
    /// Clients that write by the network.
    pub clients: usize,
    /// How the cluster is set up.
    pub cluster: Settings,
    /// A cluster of somebody, instead of one of ours: only the switchover is held there, and only if it is named.
    pub given: Option<Given>,
    /// Where Patroni's modules are; `None`: a package of the home, or Python's own.
    pub site: Option<PathBuf>,
    /// The major version of PostgreSQL. `None`: the newest that has all that Patroni runs.
    pub major: Option<u32>,
    /// The home directory, where packages are looked for.
    pub home: PathBuf,
    /// The folder that the cluster is made in, and removed from at the end.
    pub dir: PathBuf,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// All drills once, on a cluster of our own with a synchronous standby, in a folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            drills: Drill::ALL.to_vec(),
            times: 1,
            clients: 4,
            cluster: Settings::default(),
            given: None,
            site: None,
            major: None,
            home: dir.clone(),
            dir,
            output: Output::default(),
        }
    }
}

impl Plan for Options {
    fn suite(&self) -> &'static dyn Suite {
        &Failover
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    fn validate(&self) -> Result<(), SuiteError> {
        let refused = |text: &str| Err(SuiteError::Options(text.to_owned()));
        if self.drills.is_empty() || self.times == 0 {
            return refused("there is no drill to hold");
        }
        if self.clients == 0 || self.clients > 64 {
            return refused("there are from 1 to 64 clients");
        }
        if !(2..=5).contains(&self.cluster.nodes) {
            return refused("there are from 2 to 5 nodes");
        }
        if self.given.is_some() && self.drills != [Drill::Switchover] {
            return refused(
                "on a cluster that is there already only the drill switchover is held, and only if it is named",
            );
        }
        let Settings { ttl, loop_wait, retry_timeout, .. } = self.cluster;
        if ttl < 20 || loop_wait == 0 || retry_timeout < 3 || loop_wait + 2 * retry_timeout > ttl {
            return refused(
                "Patroni takes a ttl of 20 and more, and loop_wait + 2 * retry_timeout may not be above it",
            );
        }
        Ok(())
    }

    fn measure(&self, say: Say<'_>) -> Result<Measured, SuiteError> {
        std::fs::create_dir_all(&self.dir).map_err(SuiteError::file("make", &self.dir))?;
        run::run(self, say)
    }
}
