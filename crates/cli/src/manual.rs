//! `duramen manual`: man pages and completions, for packages.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, Command};
use clap_complete::Shell;
use std::{path::PathBuf, process::ExitCode};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen manual /tmp/manual
  . /tmp/manual/duramen.bash";

#[derive(Debug, Args)]
pub(crate) struct Manual {
    /// Where the files are written
    #[arg(value_name = "DIR")]
    out: PathBuf,
}

/// Writes a man page for each command, and completions for bash, zsh and fish.
pub(crate) fn run(context: &Context, manual: &Manual, mut command: Command) -> Outcome {
    let out = &manual.out;
    std::fs::create_dir_all(out).map_err(Failure::io("make the directory", out))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "duramen", out)
            .map_err(Failure::io("write the completions in", out))?;
    }
    command.build();
    clap_mangen::generate_to(command, out).map_err(Failure::io("write the man pages in", out))?;
    if context.json {
        output::json(&serde_json::json!({ "written": out }))?;
    } else {
        output::line(format_args!("written: man pages and completions in {}", out.display()));
    }
    Ok(ExitCode::SUCCESS)
}
