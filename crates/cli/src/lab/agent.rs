//! `duramen lab agent`: the end of a run's load on another machine.

use crate::{context::Outcome, failure::Failure};
use clap::Args;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab run replication --workload orders.toml --agent ssh://me@app1 --primary 'host=db1' --standby 'host=db2'
  ssh me@app1 duramen lab agent --stdio

The first one is what you run: it starts the second on app1. An agent serves the run that started it, over its standard
input and output, and ends with it. It listens on no port.";

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Serve one run over the standard input and output
    #[arg(long, required = true)]
    stdio: bool,
}

pub(super) async fn run(_: Agent) -> Outcome {
    match duramen_replication::workload::serve().await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::from(error)),
    }
}
