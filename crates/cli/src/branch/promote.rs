//! `duramen branch promote`.

use super::Name;
use crate::{
    context::{Context, Outcome},
    progress::Progress,
    source,
};
use clap::Args;
use duramen_api::model::PromoteBranch;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen branch promote seeded              new branches of its source hold what it holds now
  duramen branch promote seeded --quiesce    its server is stopped for it: unlogged tables keep their rows
  duramen source refresh app                 back to what the origin holds";

#[derive(Debug, Args)]
pub(crate) struct Promote {
    #[command(flatten)]
    branch: Name,
    /// Stop the branch's server for it: its sessions end, and unlogged tables keep their rows
    #[arg(long)]
    quiesce: bool,
}

pub(super) async fn run(context: &Context, wanted: Promote) -> Outcome {
    let Promote { branch: Name { name }, quiesce } = wanted;
    let mut connection = context.connect().await?;
    let bar = Progress::new(&format!("promoting {name}"));
    let request = PromoteBranch { quiesce };
    let promoted =
        connection.promote_branch(&name, &request, |step, fraction| bar.step(step, fraction)).await;
    drop(bar);
    source::show(context, &promoted?)
}
