//! `--json`, which stands at every level of every command. It is not one global argument, because the lab's own
//! `--json` names a file.

use clap::{Arg, ArgAction, ArgMatches, Command};

const NAME: &str = "print_json";

/// Adds the flag to a command and all commands below it, where the name is free.
pub(crate) fn add(command: Command) -> Command {
    let taken = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
    let command = command.mut_subcommands(add);
    if taken {
        return command;
    }
    let help = "Print JSON instead of tables";
    command.arg(Arg::new(NAME).long("json").action(ArgAction::SetTrue).help(help))
}

/// Whether it was given at any level.
pub(crate) fn given(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>(NAME).ok().flatten().copied().unwrap_or(false);
    here || matches.subcommand().is_some_and(|(_, below)| given(below))
}
