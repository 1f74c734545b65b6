//! `duramen lab list`: the suites, and the scenarios of those that have some.

use crate::{
    context::{Context, Outcome},
    output,
};
use clap::Args;
use duramen_reports::{
    suite::{find, Suite},
    text::{narrow_table, wrapped},
};
use serde_json::{json, Value};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab list
  duramen lab list replication
  duramen lab list --json

A scenario is run alone by its number: duramen lab run replication S2 S8";

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only this suite, with all that is said of its scenarios
    #[arg(value_name = "SUITE", value_parser = known)]
    suite: Option<&'static str>,
}

fn known(name: &str) -> Result<&'static str, String> {
    find(&super::SUITES, name).map(|suite| suite.name()).ok_or_else(|| {
        let names = super::SUITES.map(|suite| suite.name()).join(", ");
        format!("there is no suite {name:?}; there are {names}")
    })
}

pub(super) fn run(context: &Context, list: &List) -> Outcome {
    let suites = super::SUITES.into_iter().filter(|suite| list.suite.is_none_or(|name| name == suite.name()));
    if context.json {
        output::json(&suites.map(document).collect::<Vec<Value>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    for suite in suites {
        output::line(wrapped(&format!("{:<12} {}", suite.name(), suite.about()), 13));
        let scenarios = suite.scenarios();
        if scenarios.is_empty() {
            continue;
        }
        if list.suite.is_some() {
            let rows = scenarios.into_iter().map(|scenario| [scenario.id, scenario.name, scenario.what]);
            output::line(format_args!("\n{}", narrow_table(&["scenario", "name", "what is done"], rows)));
        } else {
            for scenario in scenarios {
                output::line(format_args!("  {:<4} {}", scenario.id, scenario.name));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn document(suite: &dyn Suite) -> Value {
    let scenarios = suite.scenarios().into_iter();
    let scenarios: Vec<Value> = scenarios
        .map(|scenario| json!({ "id": scenario.id, "name": scenario.name, "what": scenario.what }))
        .collect();
    json!({ "name": suite.name(), "about": suite.about(), "scenarios": scenarios })
}
