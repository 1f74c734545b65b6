//! The suite `functions`: `duramen lab run functions`.

use super::Documents;
use crate::context::{Context, Outcome};
use clap::Args;
use duramen_lab::functions::{self, Options, Phase};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run functions --json out/functions.json --html out/functions.html
  duramen lab run functions --seconds 1
  duramen lab run functions --phase throughput --seconds 10 --major 15
  duramen lab run functions --phase soak --minutes 60

It starts its own PostgreSQL server and worker, and stops them at the end, also after Ctrl-C.

Exit status: 1 when a check failed, 3 when the mechanism under test did not happen";

#[derive(Debug, Args)]
pub(crate) struct Functions {
    /// calibration, throughput, saturation, queues, lanes, shards, mixed, restart, soak, quick (throughput and restart) or all
    #[arg(long, value_name = "PHASE", default_value = "all")]
    phase: Phase,
    /// How long each level of load lasts; below 5 there are fewer kills and instances, too
    #[arg(long, value_name = "SECONDS", default_value_t = functions::FULL_SECONDS)]
    seconds: f64,
    /// How long the soak lasts [default: 10 for --phase soak; with all other phases 1, or less if --seconds is]
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<f64>,
    /// How many connections for long steps the worker gets
    #[arg(long, value_name = "N", default_value_t = 10)]
    connections: usize,
    /// The major version of the server [default: the newest installed]
    #[arg(long, value_name = "VERSION")]
    major: Option<u32>,
    /// Where the server is made, and removed at the end [default: the folder lab of the home]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    documents: Documents,
}

pub(super) fn run(context: &Context, suite: Functions) -> Outcome {
    let Functions { phase, seconds, minutes, connections, major, dir, documents } = suite;
    let options = Options {
        phase,
        seconds,
        minutes,
        connections,
        major,
        home: context.home.clone(),
        output: documents.output(),
        ..Options::new(dir.unwrap_or_else(|| context.home.join("lab")), super::own_program()?)
    };
    super::measure(context, options)
}
