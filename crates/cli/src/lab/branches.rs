//! The suite `branches`: `duramen lab run branches`.

use super::Documents;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    parse::{self, RefillName},
    volumes::VolumesName,
};
use clap::{Args, ValueEnum};
use duramen_lab::branches::{Options, Runner, Write};

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run branches --rounds 5 --concurrency 100 --write ddl --html out/ddl.html
  duramen lab run branches --runner wire --durable
  duramen lab run branches --runner psql --rounds 1
  duramen lab run branches --runner node-pg --json out/node-pg.json
  duramen lab run branches --pool 1000 --concurrency 1000 --rounds 1
  duramen lab run branches --rounds 1 --scale 300k,20M --json out/scale.json
  duramen lab run branches --rounds 1 --sweep 3,4,6,8,16,32 --html out/sweep.html

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Args)]
pub(crate) struct Branches {
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// How many branches at once
    #[arg(long, value_name = "N", default_value_t = 100)]
    concurrency: u32,
    /// What each branch writes
    #[arg(long, value_enum, default_value = "events")]
    write: WriteName,
    /// How queries reach a branch
    #[arg(long, value_enum, default_value = "session")]
    runner: RunnerName,
    /// The source; the sample is imported when it is not there
    #[arg(long, value_name = "NAME", default_value = "flights")]
    source: String,
    /// How many flights the sample has [default: the real 336,776]
    #[arg(long, value_name = "N", value_parser = duramen_base::words::parse_count)]
    rows: Option<u64>,
    /// Size of the hot pool [default: as many as --concurrency]
    #[arg(long, value_name = "N")]
    pool: Option<u32>,
    /// A server setting of the branches (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse::setting)]
    settings: Vec<(String, String)>,
    /// Flush what branches commit
    #[arg(long)]
    durable: bool,
    /// How the pool is refilled
    #[arg(long, value_enum, default_value = "phased")]
    refill: RefillName,
    /// How volumes are cloned, when no daemon runs yet
    #[arg(long, value_enum, default_value = "auto")]
    volumes: VolumesName,
    /// Size of a loop-backed volume store, when no daemon runs yet and one is made
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    volume_size: Option<u64>,
    /// Compare branches of two sources that have so many rows, the smaller first
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = duramen_base::words::parse_count)]
    scale: Vec<u64>,
    /// Compare refills of the pool, both ways, with so many branches made at a time
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    sweep: Vec<u32>,
    /// How many branches are made without the pool
    #[arg(long, value_name = "N", default_value_t = 20)]
    cold: u32,
    #[command(flatten)]
    documents: Documents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WriteName {
    /// One row into the table events
    Events,
    /// A schema, a table, two indexes and a row
    Ddl,
    /// Nothing
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RunnerName {
    /// Through the daemon and the branch's resident session
    Session,
    /// Over a new PostgreSQL connection
    Wire,
    /// By psql, a process for each statement
    Psql,
    /// By Node with the package pg, a client for each branch in one process
    NodePg,
    /// Over a new connection to the router, which creates the branch
    Router,
}

impl Branches {
    fn into_options(self, context: &Context) -> Result<Options, Failure> {
        Ok(Options {
            home: context.home.clone(),
            exe: super::own_program()?,
            rounds: self.rounds,
            concurrency: self.concurrency,
            write: match self.write {
                WriteName::Events => Write::Events,
                WriteName::Ddl => Write::Ddl,
                WriteName::None => Write::None,
            },
            runner: match self.runner {
                RunnerName::Session => Runner::Session,
                RunnerName::Wire => Runner::Wire,
                RunnerName::Psql => Runner::Psql,
                RunnerName::NodePg => Runner::NodePg,
                RunnerName::Router => Runner::Router,
            },
            source: self.source,
            rows: self.rows,
            pool: self.pool,
            settings: self.settings,
            durable: self.durable,
            refill: self.refill.into(),
            scale: self.scale,
            sweep: self.sweep,
            cold: self.cold,
            volumes: self.volumes.into(),
            volume_size: self.volume_size,
            output: self.documents.output(),
        })
    }
}

pub(super) fn run(context: &Context, suite: Branches) -> Outcome {
    super::measure(context, suite.into_options(context)?)
}
