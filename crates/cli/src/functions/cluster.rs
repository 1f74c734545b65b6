//! `duramen fn cluster`: databases that run durable functions together.

use super::handle::{note, Handle};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output,
};
use clap::{Args, Subcommand};
use duramen_functions::cluster::{Cluster, ClusterError, Counts, Shard, ShardState, Standing};
use serde_json::{json, Value};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn cluster create postgres://df_worker@a/jobs 'postgres://df_worker@b,c/jobs'    b and c: a primary and its standby
  duramen fn worker postgres://df_worker@a/jobs --cluster     one worker for all of them
  duramen fn start 'SELECT 1' --shard any --wait
  duramen fn cluster add postgres://df_worker@d/jobs
  duramen fn cluster list
Roles and passwords are the same on all shards; the list has none.";
pub(crate) const CREATE_EXAMPLES: &str = "\
Examples:
  duramen fn cluster create postgres://df_worker@a/jobs postgres://df_worker@b/jobs
  duramen fn cluster create postgres://df_worker@a/jobs     of one database, to which others are added
Each has durable functions already (`duramen fn install`); all but the first must never have had an instance.";
pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  duramen fn cluster list --url postgres://df_worker@a/jobs
  duramen fn cluster list --json | jq '.shards[] | select(.error) | .shard'";
pub(crate) const ADD_EXAMPLES: &str = "\
Examples:
  duramen fn cluster add postgres://df_worker@d/jobs     new instances go there at once";
pub(crate) const DRAIN_EXAMPLES: &str = "\
Examples:
  duramen fn cluster drain 2     it takes no new instances, and ends what it has";
pub(crate) const OPEN_EXAMPLES: &str = "\
Examples:
  duramen fn cluster open 2      it takes new instances again";
pub(crate) const LEAVE_EXAMPLES: &str = "\
Examples:
  duramen fn cluster leave postgres://df_worker@d/jobs     `create` or `add` was interrupted, and is not wanted any more";
pub(crate) const BELIEVE_EXAMPLES: &str = "\
Examples:
  duramen fn cluster believe 1     shard 0 was restored from a backup, and has an older list than shard 1
  duramen fn cluster believe 0     whoever owns shard 1 has written a list there that is not so";
pub(crate) const REMOVE_EXAMPLES: &str = "\
Examples:
  duramen fn cluster drain 2 && duramen fn cluster remove 2     refused while instances have not ended
  duramen fn cluster remove 2 --force     its server is lost: what had not ended there is given up";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a cluster of databases that have durable functions
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// List the shards: where each is, whether it takes new instances, and what it has
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Add a database as a new shard
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// Let a shard take no new instances
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(Number),
    /// Let a shard take new instances again
    #[command(after_help = OPEN_EXAMPLES)]
    Open(Number),
    /// Take back that a database was made ready for a cluster whose list has not come
    #[command(after_help = LEAVE_EXAMPLES)]
    Leave(Leave),
    /// Put the list of a shard in force where shards have different ones, which commands refuse to choose from
    #[command(after_help = BELIEVE_EXAMPLES)]
    Believe(Number),
    /// Take a shard that is drained and has ended what it had out of the list
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The databases, as the role that installed the schema or a member of it; the first one is shard 0
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The database, as the role that installed the schema or a member of it
    #[arg(value_name = "NEW")]
    new: String,
}

#[derive(Debug, Args)]
pub(crate) struct Leave {
    /// The database, as the role that installed the schema or a member of it
    #[arg(value_name = "URL")]
    database: String,
}

#[derive(Debug, Args)]
pub(crate) struct Number {
    /// The shard's number
    #[arg(value_name = "SHARD")]
    shard: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    #[command(flatten)]
    number: Number,
    /// Also if it has instances that have not ended, or cannot be asked
    #[arg(long)]
    force: bool,
}

/// What the command does, and to which database it speaks: `create` names its own.
pub(crate) async fn run(
    handle: impl FnOnce() -> Result<Handle, Failure>,
    json: bool,
    command: Command,
) -> Outcome {
    if let Command::Create(Create { urls }) = &command {
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let cluster = Cluster::create(&urls).await?;
        return say(json, &cluster, &cluster.standing().await);
    }
    if let Command::Leave(Leave { database }) = &command {
        Cluster::leave(database).await?;
        output::line(if json { "{}" } else { "it belongs to no cluster" });
        return Ok(ExitCode::SUCCESS);
    }
    let cluster = Cluster::read(&handle()?.url).await?;
    let changed = !matches!(command, Command::List);
    let cluster = match command {
        Command::Create(_) | Command::Leave(_) | Command::List => cluster,
        Command::Add(Add { new }) => cluster.add(&new).await?,
        Command::Drain(Number { shard }) => cluster.set(shard, ShardState::Draining, false).await?,
        Command::Open(Number { shard }) => cluster.set(shard, ShardState::Open, false).await?,
        Command::Believe(Number { shard }) => cluster.believe(shard).await?,
        Command::Remove(Remove { number, force }) => {
            cluster.set(number.shard, ShardState::Removed, force).await?
        }
    };
    let standing = cluster.standing().await;
    let printed = say(json, &cluster, &standing)?;
    // Whoever has not heard of a change goes by the old list.
    let untold: Vec<String> = standing
        .iter()
        .filter(|standing| !standing.counts.as_ref().is_ok_and(|counts| counts.version >= cluster.version()))
        .map(|standing| standing.number.to_string())
        .collect();
    if changed && !untold.is_empty() {
        note(format_args!(
            "the list is changed, but not known to shard {} yet, which goes by the old one until a worker or another command tells it",
            untold.join(", ")
        ));
        return Ok(ExitCode::from(FAILED));
    }
    Ok(printed)
}

/// What there is to say of one shard.
fn standing_of<'a>(shard: &Shard, standing: &'a [Standing]) -> Option<&'a Result<Counts, String>> {
    standing.iter().find(|standing| standing.number == shard.number).map(|standing| &standing.counts)
}

fn say(json: bool, cluster: &Cluster, standing: &[Standing]) -> Outcome {
    let shards: Vec<Value> = cluster
        .shards()
        .iter()
        .map(|shard| {
            let counts = standing_of(shard, standing);
            let mut value = json!({ "shard": shard.number, "place": shard.place, "state": shard.state, "keyed": shard.keyed });
            match counts {
                Some(Ok(counts)) => value["has"] = json!(counts),
                Some(Err(error)) => value["error"] = json!(error),
                None => {}
            }
            value
        })
        .collect();
    let value = json!({ "cluster": cluster.id(), "version": cluster.version(), "shards": shards });
    let table = output::table(
        ["SHARD", "STATE", "WORKERS", "PENDING", "RUNNING", "LIST", "PLACE"],
        cluster.shards().iter().map(|shard| {
            let counts = standing_of(shard, standing);
            let [workers, pending, running, version] = match counts {
                Some(Ok(has)) => {
                    [has.workers, has.pending, has.running, has.version].map(|count| count.to_string())
                }
                Some(Err(_)) => ["?"; 4].map(str::to_owned),
                None => ["-"; 4].map(str::to_owned),
            };
            [
                shard.number.to_string(),
                shard.state.to_string(),
                workers,
                pending,
                running,
                version,
                shard.place.clone(),
            ]
        }),
    );
    let silent: Vec<String> = standing
        .iter()
        .filter_map(|standing| {
            Some(format!("\nshard {}: {}", standing.number, standing.counts.as_ref().err()?))
        })
        .collect();
    if json {
        output::json(&value)?;
    } else {
        output::line(format_args!("{}{}", table.trim_end(), silent.concat()));
    }
    Ok(ExitCode::SUCCESS)
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Failure {
        match error {
            ClusterError::Connect(error) => error.into(),
            ClusterError::Schema(error) => error.into(),
            ClusterError::Worker(error) => error.into(),
            ClusterError::Client(error) => error.into(),
            _ => Failure::Other(error.to_string()),
        }
    }
}
