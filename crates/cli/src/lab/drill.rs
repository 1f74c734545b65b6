//! `duramen lab drill failover`: a cluster under Patroni whose leader is gone.

use super::Documents;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
};
use clap::{Args, Subcommand, ValueEnum};
use duramen_drill::{
    failover::{self, Given, Options},
    http::Endpoint,
    patroni::Settings,
    shards,
};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab drill failover
  duramen lab drill failover kill stop --times 20 --json out/failover.json --html out/failover.html
  duramen lab drill failover kill cut --mode async
  duramen lab drill failover switchover --nodes 2 --ttl 30 --loop-wait 10 --retry-timeout 10
  duramen lab drill failover switchover --patroni-config patroni.yml --dsn 'host=a user=app' --dsn 'host=b user=app'

It starts three etcd and three nodes of Patroni with PostgreSQL in network namespaces of their own, lets clients write,
breaks something, and tells how long nobody could write, when each stage was reached, and which acknowledged rows are
missing. Nothing is left of it, even after a kill. It needs root, etcd (Debian's etcd-server) and Patroni 4: make
setup-cluster.

On a cluster of your own (--patroni-config or --rest, and --dsn for each node) only the switchover is held, and only if you
name it. Nothing is written there but commits without objects.

Exit status: 1 when a check failed, 3 when the fault did not happen";

#[derive(Debug, Subcommand)]
pub(crate) enum Drill {
    /// Time without commits and lost rows when the leader of a cluster under Patroni is gone
    #[command(after_help = EXAMPLES)]
    Failover(Box<FailoverOptions>),
    /// Instances lost and effects doubled when leaders and workers of durable functions over four databases are killed
    #[command(after_help = SHARDS_EXAMPLES)]
    Shards(ShardsOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ShardsOptions {
    /// How often the leader of a pair is killed
    #[arg(long, value_name = "N", default_value = "1")]
    failovers: u32,
    /// How often a worker is killed meanwhile
    #[arg(long, value_name = "N", default_value = "3")]
    kills: u32,
    /// Whether commits on the pairs wait for the standby: what is lost else is measured
    #[arg(long, value_enum, default_value = "sync")]
    mode: Mode,
    /// Clients that start instances
    #[arg(long, value_name = "N", default_value = "8")]
    clients: usize,
    /// Where Patroni's modules are [default: a package patroni... of the home]
    #[arg(long, value_name = "DIR")]
    patroni: Option<PathBuf>,
    /// The major version of PostgreSQL [default: the newest installed]
    #[arg(long, value_name = "VERSION")]
    major: Option<u32>,
    /// Where it is made, and removed at the end [default: the folder lab of the home]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    documents: Documents,
}

const SHARDS_EXAMPLES: &str = "\
Examples:
  duramen lab drill shards
  duramen lab drill shards --failovers 20 --kills 50 --json out/shards.json --html out/shards.html
  duramen lab drill shards --mode async

It starts three etcd, two pairs of PostgreSQL under Patroni, two servers alone, and three workers of all four, in network
namespaces of their own. Clients start instances; leaders and workers are killed meanwhile. Then it counts. Nothing is left
of it, even after a kill. It needs root, etcd (Debian's etcd-server) and Patroni 4: make setup-cluster.

Exit status: 1 when a check failed, 3 when no load came about";

#[derive(Debug, Args)]
pub(crate) struct FailoverOptions {
    /// Which drills: switchover, kill, stop, cut, disk, quorum [default: all]
    #[arg(value_name = "DRILL")]
    drills: Vec<failover::Drill>,
    /// How often each is held
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// Whether commits wait for a synchronous standby: what is lost else is measured
    #[arg(long, value_enum, default_value = "sync")]
    mode: Mode,
    /// Nodes of PostgreSQL, from 2 to 5
    #[arg(long, value_name = "N", default_value = "3")]
    nodes: usize,
    /// Clients that write by the network
    #[arg(long, value_name = "N", default_value = "4")]
    clients: usize,
    /// Patroni's ttl, in seconds: 20 and more
    #[arg(long, value_name = "SECONDS", default_value = "20")]
    ttl: u32,
    /// Patroni's loop_wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "3")]
    loop_wait: u32,
    /// Patroni's retry_timeout, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "8")]
    retry_timeout: u32,
    /// Where Patroni's modules are [default: a package patroni... of the home]
    #[arg(long, value_name = "DIR")]
    patroni: Option<PathBuf>,
    /// The major version of PostgreSQL [default: the newest installed]
    #[arg(long, value_name = "VERSION")]
    major: Option<u32>,
    /// The configuration file of a Patroni of your own cluster, which says where its REST API is
    #[arg(long, value_name = "FILE", requires = "dsn", conflicts_with = "rest")]
    patroni_config: Option<PathBuf>,
    /// The REST API of a Patroni of your own cluster, HOST:PORT (by HTTP, without a password)
    #[arg(long, value_name = "HOST:PORT", requires = "dsn")]
    rest: Option<String>,
    /// A node of your own cluster; once for each
    #[arg(long, value_name = "DSN")]
    dsn: Vec<String>,
    /// Where the cluster is made, and removed at the end [default: the folder lab of the home]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    documents: Documents,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// synchronous_mode: nothing that was acknowledged may be lost
    Sync,
    /// What was acknowledged last may be lost
    Async,
}

pub(super) fn run(context: &Context, drill: Drill) -> Outcome {
    let asked = match drill {
        Drill::Failover(asked) => asked,
        Drill::Shards(asked) => return shards(context, asked),
    };
    let given = match (&asked.patroni_config, asked.rest) {
        (Some(file), _) => Some(Given::from_config(file, asked.dsn).map_err(other)?),
        (None, Some(address)) => {
            Some(Given { rest: Endpoint { address, credentials: None }, nodes: asked.dsn })
        }
        (None, None) if asked.dsn.is_empty() => None,
        (None, None) => {
            return Err(Failure::Usage("--dsn needs --patroni-config or --rest as well".to_owned()));
        }
    };
    let options = Options::new(asked.dir.unwrap_or_else(|| context.home.join("lab")));
    let options = Options {
        drills: if asked.drills.is_empty() { options.drills } else { asked.drills },
        times: asked.times,
        clients: asked.clients,
        cluster: Settings {
            nodes: asked.nodes,
            is_synchronous: asked.mode == Mode::Sync,
            ttl: asked.ttl,
            loop_wait: asked.loop_wait,
            retry_timeout: asked.retry_timeout,
        },
        given,
        site: asked.patroni,
        major: asked.major,
        home: context.home.clone(),
        output: asked.documents.output(),
        ..Options::new(options.dir)
    };
    super::measure(context, options)
}

fn shards(context: &Context, asked: ShardsOptions) -> Outcome {
    let dir = asked.dir.unwrap_or_else(|| context.home.join("lab"));
    let options = shards::Options {
        failovers: asked.failovers,
        kills: asked.kills,
        is_synchronous: asked.mode == Mode::Sync,
        clients: asked.clients,
        site: asked.patroni,
        major: asked.major,
        home: context.home.clone(),
        output: asked.documents.output(),
        ..shards::Options::new(dir, super::own_program()?)
    };
    super::measure(context, options)
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    duramen_reports::suite::SuiteError::other(error).into()
}
