//! `duramen source list`, with where sources are in a fleet.

use crate::{
    context::{Context, Outcome},
    output,
};
use duramen_api::{fleet::FleetSource, model::SourceView};
use std::process::ExitCode;

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  duramen source list
  duramen source list --json | jq -r '.[].name'
  duramen node list --json | jq '.sources'          those of the fleet, wherever they are";

pub(super) async fn list(context: &Context) -> Outcome {
    let mut connection = context.connect().await?;
    let sources = connection.sources().await?;
    if context.json {
        output::json(&sources)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A daemon that is in no fleet refuses to tell of one.
    let fleet = connection.nodes().await.map(|view| view.sources).unwrap_or_default();
    if sources.is_empty() && fleet.is_empty() {
        output::line("no sources; import one with `duramen source add`, for instance: duramen source add flights --sample flights");
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["NAME", "ORIGIN", "DATABASE", "GENERATION", "SIZE", "SERVER", "IMPORTED", "BRANCHES"];
    output::print(output::table(head, sources.iter().map(row)));
    if !fleet.is_empty() {
        let rows = fleet.iter().map(|source| {
            [
                source.name.clone(),
                source.keeper.clone(),
                source.replicas.to_string(),
                source.generation.map_or_else(|| "being made".to_owned(), |number| number.to_string()),
                nodes(source),
            ]
        });
        let head = ["OF THE FLEET", "KEPT BY", "REPLICAS", "GENERATION", "NODES"];
        output::print(format_args!("\n{}", output::table(head, rows)));
    }
    for problem in fleet.iter().flat_map(problems) {
        output::line(problem);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(source: &SourceView) -> [String; 8] {
    [
        source.name.clone(),
        source.origin.clone(),
        source.database.clone(),
        source.generation.to_string(),
        output::bytes(source.bytes),
        source.server_version.clone(),
        output::time(source.imported_at),
        source.branches_by_generation.values().sum::<u32>().to_string(),
    ]
}

/// The nodes that a source is on, or comes to: `a, b (42 % of generation 3)`.
pub(super) fn nodes(source: &FleetSource) -> String {
    let of = source.bytes.unwrap_or(0).max(1) as f64;
    let copies = source.copies.iter().map(|copy| match (copy.state.as_str(), copy.done) {
        ("held", _) => copy.node.clone(),
        (_, Some(done)) => {
            let share = (done as f64 / of * 100.0).clamp(0.0, 100.0);
            format!("{} ({share:.0} % of generation {})", copy.node, source.generation.unwrap_or(0))
        }
        (state, None) => format!("{} ({state})", copy.node),
    });
    copies.collect::<Vec<_>>().join(", ")
}

fn problems(source: &FleetSource) -> Vec<String> {
    let of_nodes = source.copies.iter().filter_map(|copy| {
        let problem = copy.problem.as_ref()?;
        Some(format!("{} does not come to {}: {problem}", source.name, copy.node))
    });
    let whole = source.problem.iter().map(|problem| format!("{}: {problem}", source.name));
    of_nodes.chain(whole).collect()
}
