//! `duramen pack cat`: what is in a pack, a line for each entry.

use super::{
    file::{open_branch, Bases},
    graph,
};
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    store::listing::Lines,
};
use clap::Args;
use duramen_pack::container::{Kind, Pack};
use duramen_store::{Part, Primitive, Store, DEFAULT_BRANCH};
use serde_json::json;
use std::{ops::ControlFlow, path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// The pack
    file: PathBuf,
    /// Only this kind of data: kv, state, event, json or vector
    #[arg(long, value_name = "KIND")]
    kind: Option<Primitive>,
    /// Only this space [default: all of them]
    #[arg(long, value_name = "NAME")]
    space: Option<String>,
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Print at most this many [default: all]
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    rows: graph::Rows,
}

pub(crate) fn run(context: &Context, cat: &Cat) -> Outcome {
    match Pack::open(&cat.file)?.kind() {
        Kind::Branch => {
            graph::refuse(&cat.rows.given(), &cat.file, "a branch")?;
            branch(context, cat)
        }
        Kind::Graph => {
            let given = graph::named([
                ("--kind", cat.kind.is_some()),
                ("--space", cat.space.is_some()),
                ("--prefix", cat.prefix.is_some()),
                ("--base", cat.bases.given()),
            ]);
            graph::refuse(&given, &cat.file, "an access graph")?;
            graph::cat(context, &cat.file, &cat.rows, cat.limit)
        }
        Kind::Changes => Err(Failure::Usage(format!(
            "{} is a change set; `duramen change show {0}` shows it",
            cat.file.display()
        ))),
    }
}

fn branch(context: &Context, cat: &Cat) -> Outcome {
    let pack = open_branch(&cat.file, &cat.bases)?.snapshot()?;
    let part = Part { primitive: cat.kind, space: cat.space.clone(), prefix: cat.prefix.clone() };
    let mut left = cat.limit.unwrap_or(u64::MAX);
    let mut lines = Lines::new();
    // All of it is what it has more than nothing.
    let nothing = Store::memory().branch(DEFAULT_BRANCH)?.snapshot()?;
    nothing.diff_with(&pack, &part, |change| {
        let Some(entry) = change.entry() else { return ControlFlow::Continue(()) };
        if left == 0 {
            return ControlFlow::Break(());
        }
        left -= 1;
        let value = entry.right.unwrap_or_default();
        let (kind, space, key) = (entry.primitive, entry.space, entry.key);
        match context.json {
            true => lines.line(json!({ "kind": kind, "space": space, "key": key, "value": value })),
            false => lines.line(format_args!("{kind}\t{space}\t{key}\t{value}")),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
