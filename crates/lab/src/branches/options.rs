//! What a run is asked to do.

use std::path::PathBuf;

use duramen_api::model::{Policy, Refill, RefillSettings};
use duramen_measure::evidence::Evidence;
use duramen_postgres::volume::Choice;
use serde_json::json;

use duramen_reports::suite::{Output, SuiteError};

/// What each branch is asked to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Write {
    /// One row into the table `events`, which has two indexes.
    #[default]
    Events,
    /// A schema, a table, two indexes and a row, in one transaction.
    Ddl,
    /// Nothing.
    None,
}

impl Write {
    /// The word on the command line and in evidence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Write::Events => "events",
            Write::Ddl => "ddl",
            Write::None => "none",
        }
    }

    /// The least policy under which the write is allowed.
    #[must_use]
    pub fn policy(self) -> Policy {
        match self {
            Write::Events => Policy::ReadWrite,
            Write::Ddl => Policy::Ddl,
            Write::None => Policy::ReadOnly,
        }
    }
}

/// How queries reach a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runner {
    /// Through the daemon and the branch's resident session.
    #[default]
    Session,
    /// Over a new PostgreSQL connection to the branch's URL.
    Wire,
    /// By processes of `psql` on the branch's URL.
    Psql,
    /// By clients of the package `pg`, all in one process of Node.
    NodePg,
    /// Over a new connection to the router, which creates the branch.
    Router,
}

impl Runner {
    /// The word on the command line and in evidence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Runner::Session => "session",
            Runner::Wire => "wire",
            Runner::Psql => "psql",
            Runner::NodePg => "node-pg",
            Runner::Router => "router",
        }
    }
}

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The home directory.
    pub home: PathBuf,
    /// The program to start a daemon with, if none answers.
    pub exe: PathBuf,
    /// How many rounds.
    pub rounds: u32,
    /// How many branches at once.
    pub concurrency: u32,
    /// What each branch writes.
    pub write: Write,
    /// How queries reach it.
    pub runner: Runner,
    /// The source's name.
    pub source: String,
    /// How many flights the sample source has. `None`: the real ones, or those that it has already.
    pub rows: Option<u64>,
    /// Size of the hot pool. `None`: as many as there are clients.
    pub pool: Option<u32>,
    /// Server settings of the branches.
    pub settings: Vec<(String, String)>,
    /// Whether branches flush what they commit.
    pub durable: bool,
    /// How the pool is refilled.
    pub refill: Refill,
    /// Two numbers of rows whose branches are compared, the smaller first, or none.
    pub scale: Vec<u64>,
    /// The numbers of branches made at a time whose refills are compared; empty for no comparison.
    pub sweep: Vec<u32>,
    /// How many branches are made without the pool.
    pub cold: u32,
    /// How volumes are cloned, if the daemon is started here.
    pub volumes: Choice,
    /// Bytes of a loop-backed volume store, if the daemon is started here and makes one. `None`: what it makes unasked.
    pub volume_size: Option<u64>,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// The size of the hot pool.
    #[must_use]
    pub fn pool_size(&self) -> u32 {
        self.pool.unwrap_or(self.concurrency)
    }

    /// Refuses options that cannot be measured with.
    pub(crate) fn check(&self) -> Result<(), SuiteError> {
        let refuse = |message: &str| Err(SuiteError::Options(message.to_owned()));
        if self.rounds == 0 || self.concurrency == 0 {
            return refuse("--rounds and --concurrency must be at least 1");
        }
        if self.pool == Some(0) {
            return refuse("--pool 0 leaves nothing to lease; what has no pool is measured with --cold");
        }
        if self.sweep.iter().any(|count| !(1..=RefillSettings::MOST).contains(count)) {
            return refuse(
                "--sweep takes numbers of branches made at a time, each from 1 to 64, as in --sweep 3,8,32",
            );
        }
        match self.scale.as_slice() {
            [] => {}
            [small, large] if 0 < *small && small < large => {}
            _ => return refuse("--scale takes two sizes, the smaller first, as in --scale 300k,20M"),
        }
        Ok(())
    }

    /// Notes all options in an evidence document.
    pub(crate) fn note(&self, evidence: &mut Evidence) {
        let settings: serde_json::Map<_, _> =
            self.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        evidence.configure("home", self.home.display().to_string());
        evidence.configure("rounds", self.rounds);
        evidence.configure("concurrency", self.concurrency);
        evidence.configure("write", self.write.name());
        evidence.configure("policy", self.write.policy().name());
        evidence.configure("runner", self.runner.name());
        evidence.configure("source", self.source.as_str());
        evidence.configure("rows", self.rows);
        evidence.configure("pool", self.pool_size());
        evidence.configure("settings", settings);
        evidence.configure("durable", self.durable);
        evidence.configure("refill", refill_name(self.refill));
        evidence.configure("scale", self.scale.clone());
        evidence.configure("sweep", self.sweep.clone());
        evidence.configure("cold", self.cold);
        evidence.configure("volumes_wanted", choice_name(self.volumes));
        evidence.configure("volume_size", self.volume_size);
    }
}

pub(crate) fn refill_name(refill: Refill) -> &'static str {
    match refill {
        Refill::Phased => "phased",
        Refill::Pipelined => "pipelined",
    }
}

pub(crate) fn choice_name(choice: Choice) -> &'static str {
    match choice {
        Choice::Auto => "auto",
        Choice::Btrfs => "btrfs",
        Choice::Reflink => "reflink",
        Choice::Copy => "copy",
    }
}
