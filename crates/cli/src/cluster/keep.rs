//! `duramen cluster backup` and `restore`: what machines agree on, in a file, and back.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
    serve::etcd::EtcdArgs,
};
use clap::Args;
use duramen_base::words::counted;
use duramen_fleet::{
    address::Address,
    agreed::Agreement,
    restore::{Restored, Wanted},
};
use duramen_functions::cluster::{Cluster, ListRestored};
use duramen_operate::backup::Backup;
use serde::Serialize;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// The file
    file: PathBuf,
    #[command(flatten)]
    places: Places,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The file
    file: PathBuf,
    #[command(flatten)]
    places: Places,
    /// Also where the fleet has gone on since, or has ended since what is missing
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct Places {
    /// The fleet's etcd, as `duramen serve` takes it
    #[arg(long, value_name = "etcd://HOST[:PORT],...[/FLEET]", required_unless_present = "url")]
    fleet: Option<Address>,
    #[command(flatten)]
    access: EtcdArgs,
    /// A shard of durable functions, as the role that installed the schema or a member of it
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

impl Places {
    async fn open(self) -> Result<(Option<Agreement>, Option<Cluster>), Failure> {
        let fleet = match self.fleet {
            Some(etcd) => {
                let access = self.access.access(&etcd)?;
                Some(Agreement::at(etcd, access).map_err(said)?)
            }
            None => None,
        };
        let cluster = match &self.url {
            Some(url) => Some(Cluster::read(url).await?),
            None => None,
        };
        Ok((fleet, cluster))
    }
}

fn said(error: impl std::fmt::Display) -> Failure {
    Failure::Other(error.to_string())
}

pub(super) async fn backup(context: &Context, args: KeepArgs) -> Outcome {
    let (fleet, cluster) = args.places.open().await?;
    let agreed = match &fleet {
        Some(fleet) => Some(fleet.read().await.map_err(said)?),
        None => None,
    };
    let list = match &cluster {
        Some(cluster) => Some(cluster.copied().await),
        None => None,
    };
    let backup = Backup::new(agreed, list);
    backup.write(&args.file).map_err(said)?;
    // What cannot be read is no backup.
    let backup = Backup::read(&args.file).map_err(said)?;
    let tally = backup.fleet.as_ref().map(|agreed| agreed.tally());
    if context.json {
        output::json(&serde_json::json!({
            "file": args.file,
            "digest": backup.digest(),
            "made_at": backup.made_at,
            "revision": backup.fleet.as_ref().map(|agreed| agreed.revision),
            "fleet": tally,
            "list_version": backup.functions.as_ref().map(|list| list.version),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(agreed), Some(tally)) = (&backup.fleet, tally) {
        output::line(format_args!(
            "the fleet {} at revision {}: {}, {}, {}, {}, {}",
            agreed.fleet,
            agreed.revision,
            counted(tally.members, "node"),
            counted(tally.drains, "drain"),
            counted(tally.names, "name"),
            counted(tally.sources, "source"),
            counted(tally.tokens, "token"),
        ));
    }
    if let Some(list) = &backup.functions {
        output::line(format_args!(
            "version {} of the list of {}",
            list.version,
            counted(list.shards.len(), "shard")
        ));
    }
    output::line(format_args!(
        "written to {}, for its owner alone: it has the verifiers of tokens ({})",
        args.file.display(),
        backup.digest()
    ));
    Ok(ExitCode::SUCCESS)
}

/// What a restore did.
#[derive(Debug, Default, Serialize)]
struct Done {
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<Restored>,
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<ListRestored>,
}

pub(super) async fn restore(context: &Context, args: RestoreArgs) -> Outcome {
    let backup = Backup::read(&args.file).map_err(said)?;
    let (fleet, cluster) = args.places.open().await?;
    let lacks =
        |what: &str| Failure::Other(format!("{} has no {what}: it was made without", args.file.display()));
    // Before anything is done.
    let agreed = match &fleet {
        Some(fleet) => Some((fleet, backup.fleet.as_ref().ok_or_else(|| lacks("fleet"))?)),
        None => None,
    };
    let list = match &cluster {
        Some(cluster) => Some((cluster, backup.functions.as_ref().ok_or_else(|| lacks("list of shards"))?)),
        None => None,
    };
    let mut done = Done::default();
    if let Some((fleet, agreed)) = agreed {
        let wanted = Wanted { agreed, digest: backup.digest(), made_at: backup.made_at, force: args.force };
        done.fleet = Some(fleet.restore(wanted, async |_, _| {}).await.map_err(said)?);
    }
    if let Some((cluster, list)) = list {
        done.functions = Some(cluster.put_back(list).await?);
    }
    if context.json {
        output::json(&done)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(restored) = &done.fleet {
        told(restored, &backup);
    }
    match done.functions {
        Some(ListRestored::Same) => output::line("the shards know this list"),
        Some(ListRestored::Newer) => output::line("the shards know a newer list, which stays"),
        Some(ListRestored::Restored) => output::line("the shards know this list again"),
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn told(restored: &Restored, backup: &Backup) {
    let Restored { put, kept, resumed } = restored;
    if *resumed {
        output::line("this goes on with a restore that was not finished");
    }
    if put.is_empty() {
        output::line("etcd has all of it: nothing was put back");
        return;
    }
    let of = |kind: &str| put.iter().filter(|key| key.starts_with(kind)).count();
    output::line(format_args!(
        "put back: {}, {}, {}, {}",
        counted(of("members/"), "node"),
        counted(of("drains/"), "drain"),
        counted(of("names/"), "name"),
        counted(of("tokens/"), "token"),
    ));
    if !kept.is_empty() {
        output::line(format_args!(
            "{} differ from the backup and stay as they are: {}",
            counted(kept.len(), "key"),
            kept.join(", ")
        ));
    }
    let tokens: Vec<&str> = put.iter().filter_map(|key| key.strip_prefix("tokens/")).collect();
    if !tokens.is_empty() {
        output::line(format_args!(
            "these tokens let in again, as at {}; revoke those that were revoked since: {}",
            output::time(backup.made_at),
            tokens.join(", ")
        ));
    }
}
