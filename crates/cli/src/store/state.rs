//! State cells: `duramen store state ...`.

use super::{
    handle::Handle,
    listing::{self, Counted, Keys},
    value::{self, Given},
};
use crate::{context::Outcome, failure::Failure, output};
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;

const INIT_EXAMPLES: &str = "\
Examples:
  duramen store state init leader alice            a cell that is there already stays as it is";
const SET_EXAMPLES: &str = "\
Examples:
  duramen store state set leader bob
  duramen store state set tries 3 --type int";
const GET_EXAMPLES: &str = "\
Examples:
  duramen store state get leader
  duramen store state get leader --json            with its version, for `cas`";
const CAS_EXAMPLES: &str = "\
Examples:
  duramen store state cas leader bob --expect 1    exit status 1 if it has another version
  duramen store state cas leader alice --absent    only if there is none";
const DELETE_EXAMPLES: &str = "\
Examples:
  duramen store state delete leader";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen store state list --prefix job/";
const COUNT_EXAMPLES: &str = "\
Examples:
  duramen store state count --prefix job/";

#[derive(Debug, Subcommand)]
pub(crate) enum State {
    /// Make a cell if there is none
    #[command(after_help = INIT_EXAMPLES)]
    Init {
        /// The cell's key
        key: String,
        #[command(flatten)]
        value: Given,
    },
    /// Set a cell unconditionally
    #[command(after_help = SET_EXAMPLES)]
    Set {
        /// The cell's key
        key: String,
        #[command(flatten)]
        value: Given,
    },
    /// Print what a cell holds
    #[command(after_help = GET_EXAMPLES)]
    Get {
        /// The cell's key
        key: String,
    },
    /// Set a cell if it has the expected version
    #[command(after_help = CAS_EXAMPLES)]
    Cas {
        /// The cell's key
        key: String,
        #[command(flatten)]
        value: Given,
        /// The version that it must have
        #[arg(long, value_name = "VERSION", required_unless_present = "absent")]
        expect: Option<u64>,
        /// It must not be there
        #[arg(long, conflicts_with = "expect")]
        absent: bool,
    },
    /// Delete a cell
    #[command(after_help = DELETE_EXAMPLES)]
    Delete {
        /// The cell's key
        key: String,
    },
    /// List the keys of cells
    #[command(after_help = LIST_EXAMPLES)]
    List(Keys),
    /// Count cells
    #[command(after_help = COUNT_EXAMPLES)]
    Count(Counted),
}

pub(crate) fn run(handle: &Handle, verb: State) -> Outcome {
    match verb {
        State::Init { key, value } => {
            let value = value.read(&handle.input)?;
            handle.change(|space| {
                let made = space.state().read(&key)?.is_none();
                let version = space.state().init(&key, value)?;
                let text = if made { "made" } else { "was there already" };
                let answer = json!({ "key": key, "version": version, "made": made });
                handle.say(&answer, format_args!("{text}, version {version}"))
            })
        }
        State::Set { key, value } => {
            let value = value.read(&handle.input)?;
            handle.change(|space| set(handle, &key, space.state().set(&key, value)?))
        }
        State::Get { key } => handle.look(|space| {
            let cell = space.state().read(&key)?.ok_or_else(|| {
                Failure::Other(format!(
                    "there is no cell {key:?} in space {:?}; list the cells with `duramen store state list`",
                    space.name()
                ))
            })?;
            if handle.json {
                let answer =
                    json!({ "key": key, "value": value::json(&cell.value)?, "version": cell.version });
                output::json(&answer)?;
            } else {
                output::line(value::shown(&cell.value)?);
            }
            Ok(ExitCode::SUCCESS)
        }),
        State::Cas { key, value, expect, absent: _ } => {
            let value = value.read(&handle.input)?;
            handle.change(|space| set(handle, &key, space.state().cas(&key, expect, value)?))
        }
        State::Delete { key } => handle.take(|space| {
            let deleted = space.state().delete(&key)?;
            let text = if deleted { "deleted" } else { "was not there" };
            handle.say(&json!({ "key": key, "deleted": deleted }), text)
        }),
        State::List(keys) => handle.look(|space| {
            listing::page(handle, &space.state().list(&keys.prefix, keys.after.as_deref(), keys.limit)?)
        }),
        State::Count(counted) => handle.look(|space| {
            let count = space.state().count(&counted.prefix)?;
            handle.say(&json!({ "count": count }), count)
        }),
    }
}

fn set(handle: &Handle, key: &str, version: u64) -> Outcome {
    handle.say(&json!({ "key": key, "version": version }), format_args!("set, version {version}"))
}
