//! Branches of branches, their snapshots, and going back to them.

use super::{show, Name};
use crate::{
    context::{Context, Outcome},
    output, progress,
};
use clap::Args;
use duramen_api::model::{RestoreBranch, SnapshotKind, SnapshotView, TakeSnapshot, TreeNode};
use std::process::ExitCode;

pub(super) const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  duramen branch snapshot try before             keep it as it is now, while it is used
  duramen branch restore try --to before
  duramen branch snapshot try before --remove    branches that were made of it go on";
pub(super) const SNAPSHOTS_EXAMPLES: &str = "\
Examples:
  duramen branch snapshots try";
pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  duramen branch restore try --to before
  duramen branch restore try --to 2030-01-01T09:30:00Z      the newest snapshot that was there by then
  duramen branch undo try                                   and back again";
pub(super) const UNDO_EXAMPLES: &str = "\
Examples:
  duramen branch undo try      what it was before it was last reset or restored; again: as now";
pub(super) const TREE_EXAMPLES: &str = "\
Examples:
  duramen branch tree
  duramen branch tree --json";

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// The branch's name
    branch: String,
    /// The snapshot's name [default: it is found by its time]
    name: Option<String>,
    /// Stop the branch's server for it: its sessions end, and unlogged tables keep their rows
    #[arg(long, conflicts_with = "remove")]
    quiesce: bool,
    /// Remove it instead
    #[arg(long, requires = "name")]
    remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    branch: Name,
    /// The name or the id of a snapshot of it, or a time (RFC 3339)
    #[arg(long, value_name = "SNAPSHOT")]
    to: String,
}

pub(super) async fn snapshot(context: &Context, wanted: Snapshot) -> Outcome {
    let mut connection = context.connect().await?;
    let Snapshot { branch, name, quiesce, remove } = wanted;
    let view = match (remove, &name) {
        (true, Some(name)) => connection.remove_snapshot(&branch, name).await?,
        _ => {
            let request = TakeSnapshot { name, quiesce };
            let work = connection.take_snapshot(&branch, &request);
            progress::during("taking a snapshot of the branch", work).await?
        }
    };
    if context.json {
        output::json(&view)?;
    } else {
        let done = if remove { "removed" } else { "kept" };
        output::line(format_args!("{done} {} of {branch}", called(&view)));
    }
    Ok(ExitCode::SUCCESS)
}

fn called(view: &SnapshotView) -> &str {
    view.name.as_deref().unwrap_or(&view.id)
}

pub(super) async fn snapshots(context: &Context, branch: &str) -> Outcome {
    let found = context.connect().await?.snapshots(branch).await?;
    if context.json {
        output::json(&found)?;
    } else if found.is_empty() {
        output::line(format_args!(
            "no snapshots of {branch}; keep one with `duramen branch snapshot {branch} NAME`"
        ));
    } else {
        let rows = found.iter().map(|view| {
            let state = view.problem.as_deref().map_or("ready", |_| "not usable");
            [called(view).to_owned(), view.taken_at.to_string(), why(view.kind).to_owned(), state.to_owned()]
        });
        output::print(output::table(["SNAPSHOT", "TAKEN", "WHY", "STATE"], rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn why(kind: SnapshotKind) -> &'static str {
    match kind {
        SnapshotKind::Named => "asked for",
        SnapshotKind::Base => "a branch was made of it",
        SnapshotKind::BeforeReset => "before a reset",
        SnapshotKind::BeforeRestore => "before a restore",
        SnapshotKind::Interval => "at its time",
    }
}

pub(super) async fn restore(context: &Context, wanted: Restore) -> Outcome {
    let mut connection = context.connect().await?;
    let request = RestoreBranch { to: wanted.to };
    let work = connection.restore_branch(&wanted.branch.name, &request);
    show(context, &progress::during("restoring the branch", work).await?)
}

pub(super) async fn undo(context: &Context, branch: &str) -> Outcome {
    let mut connection = context.connect().await?;
    show(context, &progress::during("restoring the branch", connection.undo_branch(branch)).await?)
}

pub(super) async fn tree(context: &Context) -> Outcome {
    let nodes = context.connect().await?.branch_tree().await?;
    if context.json {
        output::json(&nodes)?;
        return Ok(ExitCode::SUCCESS);
    }
    if nodes.is_empty() {
        output::line("no branches; lease one with `duramen branch create`");
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Vec::new();
    let mut sources: Vec<&str> = nodes.iter().map(|node| node.source.as_str()).collect();
    sources.sort_unstable();
    sources.dedup();
    for source in sources {
        rows.push([source.to_owned(), String::new(), String::new(), String::new(), String::new()]);
        let is_root = |node: &&TreeNode| node.source == source && parent_of(&nodes, node).is_none();
        for root in nodes.iter().filter(is_root) {
            place(&nodes, root, 1, &mut rows);
        }
    }
    output::print(output::table(["BRANCH", "OWN", "SHARED", "SNAPSHOTS", "EXPIRES"], rows));
    Ok(ExitCode::SUCCESS)
}

/// The branch that another one was made of, if that is still there.
fn parent_of<'a>(nodes: &'a [TreeNode], node: &TreeNode) -> Option<&'a TreeNode> {
    let parent = node.parent.as_ref()?;
    nodes.iter().find(|other| other.id == parent.id)
}

/// Adds the line of a branch and those of the branches that were made of it.
fn place(nodes: &[TreeNode], node: &TreeNode, depth: usize, rows: &mut Vec<[String; 5]>) {
    let gone = node.parent.as_ref().filter(|_| parent_of(nodes, node).is_none());
    let of = gone.map(|parent| format!(" (of {}, which is gone)", parent.name)).unwrap_or_default();
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), output::bytes);
    rows.push([
        format!("{}{}{of}", "  ".repeat(depth), node.name),
        size(node.own_bytes),
        size(node.shared_bytes),
        node.snapshots.len().to_string(),
        output::until(node.expires_at),
    ]);
    let children = nodes.iter().filter(|child| child.parent.as_ref().is_some_and(|it| it.id == node.id));
    for child in children {
        place(nodes, child, depth + 1, rows);
    }
}
