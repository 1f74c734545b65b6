//! `duramen purge`: the way back to a home that only holds what was fetched.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    home, output, progress, serve,
};
use duramen_server::lock::HomeLock;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen purge --yes
  duramen --home /srv/duramen purge --yes";

#[derive(Debug, clap::Args)]
pub(crate) struct Purge {
    /// Really remove all sources and branches of this home
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(context: &Context, purge: Purge) -> Outcome {
    let path = context.home.display();
    if !purge.yes {
        return Err(Failure::Usage(format!(
            "this removes every source and branch below {path}, for good; run: duramen --home {path} purge --yes"
        )));
    }
    if !context.home.is_dir() {
        output::line(format_args!("there is no {path}: nothing to purge"));
        return Ok(ExitCode::SUCCESS);
    }
    let stopped = serve::stop_daemon(context).await?;
    // Held to the end, so that no daemon starts on a home that is being removed.
    let _lock = HomeLock::acquire(&context.home)?;
    let cleared = progress::during("removing sources and branches", home::clear(&context.home)).await?;
    if context.json {
        output::json(&cleared)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::pairs([
        ("daemon", if stopped { "stopped" } else { "was not running" }.to_owned()),
        ("processes", format!("{} ended", cleared.processes)),
        ("control groups", format!("{} removed", cleared.groups)),
        ("mounts", format!("{} undone", cleared.mounts)),
        ("system users", format!("{} removed", cleared.users)),
    ]));
    for path in &cleared.removed {
        output::line(format_args!("removed {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}
