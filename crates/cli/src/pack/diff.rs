//! `duramen pack diff`: what differs between two packs.

use super::{
    file::{open_two, Bases},
    graph,
};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    store::branch::compare,
};
use clap::Args;
use duramen_pack::{
    branch,
    container::{Kind, Pack},
};
use duramen_store::{Part, Primitive};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The pack to compare with
    left: PathBuf,
    /// The pack whose changes are printed
    right: PathBuf,
    /// Only this kind of data: kv, state, event, json or vector
    #[arg(long, value_name = "KIND")]
    kind: Option<Primitive>,
    /// Only this space [default: all of them]
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Print at most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    bases: Bases,
}

pub(crate) fn run(context: &Context, diff: &Diff) -> Outcome {
    match (Pack::open(&diff.left)?.kind(), Pack::open(&diff.right)?.kind()) {
        (Kind::Branch, Kind::Branch) => branches(context, diff),
        (Kind::Graph, Kind::Graph) => {
            let given = graph::named([
                ("--kind", diff.kind.is_some()),
                ("--space", diff.space.is_some()),
                ("--prefix", diff.prefix.is_some()),
                ("--base", diff.bases.given()),
            ]);
            graph::refuse(&given, &diff.left, "an access graph")?;
            graph::compare(context, &diff.left, &diff.right, diff.limit)
        }
        (left, right) => Err(Failure::Usage(format!(
            "{} holds a {left} and {} a {right}; compare packs of one kind",
            diff.left.display(),
            diff.right.display()
        ))),
    }
}

fn branches(context: &Context, diff: &Diff) -> Outcome {
    let (left, right) = open_two(&diff.left, &diff.right, &diff.bases)?;
    let part = Part { primitive: diff.kind, space: diff.space.clone(), prefix: diff.prefix.clone() };
    let found = branch::diff(&left, &right, &part, diff.limit)?;
    let name = |path: &PathBuf| path.display().to_string();
    compare::print_diff(context.json, &found, &name(&diff.left), &name(&diff.right))
}
