//! Several machines, for who operates them: `duramen cluster ...`.

mod asked;
mod check;
#[cfg(feature = "fleet")]
mod keep;
mod status;

use crate::context::{Context, Outcome};
use asked::Asks;
use clap::Subcommand;
#[cfg(feature = "fleet")]
use keep::{KeepArgs, RestoreArgs};

#[cfg(feature = "fleet")]
pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen cluster status                     the fleet that the daemon is in, and its etcd
  duramen cluster status --url postgres://df_worker@a/jobs    the shards of durable functions, too
  duramen cluster check                      what is wrong, and what to do next
  duramen cluster backup /srv/backup/cluster.json --fleet etcds://10.0.0.1,10.0.0.2,10.0.0.3
  duramen cluster restore /srv/backup/cluster.json --fleet etcds://10.0.0.1,10.0.0.2,10.0.0.3

Exit status of status and check: 0 everything works, 1 something does not.";
#[cfg(not(feature = "fleet"))]
pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen cluster status                     the fleet that the daemon is in, and its etcd
  duramen cluster check                      what is wrong, and what to do next

Exit status of status and check: 0 everything works, 1 something does not.";
const STATUS_EXAMPLES: &str = "\
Examples:
  duramen cluster status
  duramen cluster status --only functions --url postgres://df_worker@a/jobs
  duramen cluster status --json | jq -r '.fleet.view.nodes[] | select(.state != \"ready\") | .name'

Exit status: 0 everything works, 1 something does not (duramen cluster check says what).";
const CHECK_EXAMPLES: &str = "\
Examples:
  duramen cluster check
  duramen cluster check --drain-limit 2h --etcd-quota 8G
  duramen cluster check --json | jq -r '.findings[] | select(.severity == \"error\") | .kind'

Exit status: 0 no errors, 1 errors.";
#[cfg(feature = "fleet")]
const BACKUP_EXAMPLES: &str = "\
Examples:
  duramen cluster backup cluster.json --fleet etcds://10.0.0.1,10.0.0.2,10.0.0.3 --etcd-ca ca.pem
  duramen cluster backup cluster.json --fleet etcd://127.0.0.1 --url postgres://df_worker@a/jobs

It has what machines agree on: nodes, drains, names, tokens with their verifiers, the list of shards. The file is secret.
What branches hold is backed up by `duramen branch export` and `duramen source`, what shards hold by PostgreSQL's own tools.";
#[cfg(feature = "fleet")]
const RESTORE_EXAMPLES: &str = "\
Examples:
  duramen cluster restore cluster.json --fleet etcds://10.0.0.1,10.0.0.2,10.0.0.3 --etcd-ca ca.pem
  duramen cluster restore cluster.json --fleet etcd://127.0.0.1 --force    also where the fleet has gone on since

What etcd has stays as it is: nodes that are there have claimed the names of what they hold. Done again it goes on where it was.";

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show how the fleet, its etcd and the shards of durable functions are
    #[command(after_help = STATUS_EXAMPLES)]
    Status(Asks),
    /// Find what is wrong, and say what to do next
    #[command(after_help = CHECK_EXAMPLES)]
    Check(check::CheckArgs),
    /// Write what the machines agree on into a file
    #[cfg(feature = "fleet")]
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(KeepArgs),
    /// Put it back into an etcd that lost it, and on shards that have gone back
    #[cfg(feature = "fleet")]
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
}

pub(crate) async fn run(context: &Context, command: ClusterCommand) -> Outcome {
    match command {
        ClusterCommand::Status(asks) => status::run(context, &asks).await,
        ClusterCommand::Check(check) => check::run(context, &check).await,
        #[cfg(feature = "fleet")]
        ClusterCommand::Backup(args) => keep::backup(context, args).await,
        #[cfg(feature = "fleet")]
        ClusterCommand::Restore(args) => keep::restore(context, args).await,
    }
}
