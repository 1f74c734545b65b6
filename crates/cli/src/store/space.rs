//! Spaces of a branch: `duramen store space ...`.

use super::{handle::Handle, moment};
use crate::{context::Outcome, output};
use clap::Subcommand;
use duramen_store::{Primitive, Scope};
use serde_json::json;
use std::process::ExitCode;

const LIST_EXAMPLES: &str = "\
Examples:
  duramen store space list
  duramen store space list --branch main@v1";
const DROP_EXAMPLES: &str = "\
Examples:
  duramen store space drop tenant-7                everything in it, in one commit";

#[derive(Debug, Subcommand)]
pub(crate) enum Space {
    /// List the spaces of the branch that have anything in them
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Delete everything in a space
    #[command(after_help = DROP_EXAMPLES)]
    Drop {
        /// The space
        name: String,
    },
}

pub(crate) fn run(handle: &Handle, verb: Space) -> Outcome {
    match verb {
        Space::List => handle.read(|store| {
            let spaces = moment::snapshot(store, &handle.branch_name(store)?)?.spaces()?;
            if handle.json {
                output::json(&spaces)?;
                return Ok(ExitCode::SUCCESS);
            }
            let kinds =
                |kinds: &[Primitive]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" ");
            let rows = spaces.iter().map(|space| [space.name.clone(), kinds(&space.kinds)]);
            if spaces.is_empty() {
                output::line("nothing is in any space");
            } else {
                output::print(output::table(["SPACE", "HAS"], rows));
            }
            Ok(ExitCode::SUCCESS)
        }),
        Space::Drop { name } => {
            handle.needs_store()?;
            handle.write(|store| {
                let deleted = handle.branch(store)?.drop_space(&name)?;
                let noun = if deleted == 1 { "entry" } else { "entries" };
                let text = format!("deleted {deleted} {noun} of {name}");
                handle.say(&json!({ "space": name, "deleted": deleted }), text)
            })
        }
    }
}
