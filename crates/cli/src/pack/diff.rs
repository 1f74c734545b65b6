//! `duramen pack diff`: what differs between two packs.

use super::{
    effective,
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
    /// Of access graphs, also .c1z files: who gained and who lost what, by grants or through groups and roles
    #[arg(long)]
    who: bool,
    /// With --who: also write a page about all changes, what they have in common first
    #[arg(long, value_name = "FILE", requires = "who")]
    html: Option<PathBuf>,
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
    if diff.who {
        graph::refuse(&diff.given(), &diff.left, "an access graph")?;
        return effective::compare(context, (&diff.left, &diff.right), diff.limit, diff.html.as_deref());
    }
    match (Pack::open(&diff.left)?.kind(), Pack::open(&diff.right)?.kind()) {
        (Kind::Branch, Kind::Branch) => branches(context, diff),
        (Kind::Graph, Kind::Graph) => {
            graph::refuse(&diff.given(), &diff.left, "an access graph")?;
            graph::compare(context, &diff.left, &diff.right, diff.limit)
        }
        (left, right) => Err(Failure::Usage(format!(
            "{} holds a {left} and {} a {right}; compare packs of one kind",
            diff.left.display(),
            diff.right.display()
        ))),
    }
}

impl Diff {
    /// The arguments that mean something for branches only, where they were given.
    fn given(&self) -> Vec<&'static str> {
        graph::named([
            ("--kind", self.kind.is_some()),
            ("--space", self.space.is_some()),
            ("--prefix", self.prefix.is_some()),
            ("--base", self.bases.given()),
        ])
    }
}

fn branches(context: &Context, diff: &Diff) -> Outcome {
    let (left, right) = open_two(&diff.left, &diff.right, &diff.bases)?;
    let part = Part { primitive: diff.kind, space: diff.space.clone(), prefix: diff.prefix.clone() };
    let found = branch::diff(&left, &right, &part, diff.limit)?;
    let name = |path: &PathBuf| path.display().to_string();
    compare::print_diff(context.json, &found, &name(&diff.left), &name(&diff.right))
}
