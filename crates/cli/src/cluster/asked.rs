//! What is asked: the fleet through a daemon, the shards by themselves, both at once and each with a limit.

use crate::{context::Context, failure::Failure};
use clap::{Args, ValueEnum};
use duramen_api::cluster::ClusterView;
use duramen_client::ClientError;
#[cfg(feature = "engines")]
use duramen_functions::cluster::{Cluster, Health, HEALTH_WITHIN};
use duramen_operate::{
    finding::{ordered, Finding, Kind, Limits},
    fleet,
};
use serde::Serialize;
use std::time::Duration;

/// How long the daemon may take, which has limits of its own.
const DAEMON_WITHIN: Duration = Duration::from_secs(10);

/// Which of both is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// The fleet and its etcd
    Fleet,
    /// The shards of durable functions
    #[cfg(feature = "engines")]
    Functions,
}

#[derive(Debug, Args)]
pub(crate) struct Asks {
    /// Ask one of both only
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// A shard of durable functions, as `duramen fn cluster list` takes it; of several the first that answers [default: DURAMEN_FN_URL]
    #[cfg(feature = "engines")]
    #[arg(long, value_name = "URL")]
    url: Vec<String>,
}

/// What was answered.
#[derive(Debug, Serialize)]
pub(crate) struct Asked {
    /// The fleet; absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fleet: Option<ClusterView>,
    /// Why it said nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fleet_problem: Option<String>,
    /// Whether the daemon is in no fleet, which is no problem where the functions are asked, too.
    pub(crate) no_fleet: bool,
    #[cfg(feature = "engines")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) functions: Option<Shards>,
    #[cfg(feature = "engines")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) functions_problem: Option<String>,
}

/// The shards.
#[cfg(feature = "engines")]
#[derive(Debug, Serialize)]
pub(crate) struct Shards {
    /// The cluster's id.
    pub(crate) cluster: String,
    /// The version of the list that was read.
    pub(crate) version: i64,
    /// The shard of which it was read.
    pub(crate) here: u16,
    pub(crate) shards: Vec<Health>,
    #[serde(skip)]
    pub(crate) list: Cluster,
}

impl Asked {
    /// What is wrong, the worst first.
    pub(crate) fn findings(&self, limits: &Limits) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(view) = &self.fleet {
            found.extend(fleet::findings(view, limits));
        }
        if let Some(problem) = &self.fleet_problem {
            let next = "look at the daemon of this machine (duramen status), or ask another node";
            found.push(Finding::new(Kind::FleetSilent, "the fleet", problem.clone(), next));
        }
        #[cfg(feature = "engines")]
        {
            if let Some(shards) = &self.functions {
                found.extend(duramen_operate::shards::findings(&shards.list, &shards.shards));
            }
            if let Some(problem) = &self.functions_problem {
                let next = "look at that shard, or name another one (--url, once or more)";
                found.push(Finding::new(Kind::FunctionsSilent, "the shards", problem.clone(), next));
            }
        }
        ordered(found)
    }
}

/// Asks, both at once.
pub(crate) async fn ask(context: &Context, asks: &Asks) -> Result<Asked, Failure> {
    #[cfg(feature = "engines")]
    let urls = urls(asks);
    #[cfg(feature = "engines")]
    let others = !urls.is_empty() && asks.only != Some(Only::Fleet);
    #[cfg(not(feature = "engines"))]
    let others = false;
    #[cfg(feature = "engines")]
    let fleet_too = asks.only != Some(Only::Functions);
    #[cfg(not(feature = "engines"))]
    let fleet_too = matches!(asks.only, None | Some(Only::Fleet));
    #[cfg(feature = "engines")]
    if !fleet_too && !others {
        let message = "no shard is named; pass --url postgres://ROLE@HOST/DATABASE, or set DURAMEN_FN_URL";
        return Err(Failure::Usage(message.to_owned()));
    }
    let fleet = async {
        match fleet_too {
            true => Some(of_fleet(context).await),
            false => None,
        }
    };
    #[cfg(feature = "engines")]
    let (fleet, functions) = tokio::join!(fleet, async {
        match others {
            true => Some(of_functions(&urls).await),
            false => None,
        }
    });
    #[cfg(not(feature = "engines"))]
    let fleet = fleet.await;
    let (fleet, problem) = parted(fleet);
    let no_fleet = matches!(&problem, Some(Unasked::NoFleet(_))) && others;
    #[cfg(feature = "engines")]
    let (functions, functions_problem) = parted(functions);
    Ok(Asked {
        fleet,
        fleet_problem: problem.filter(|_| !no_fleet).map(|problem| match problem {
            Unasked::NoFleet(said) | Unasked::Silent(said) => said,
        }),
        no_fleet,
        #[cfg(feature = "engines")]
        functions,
        #[cfg(feature = "engines")]
        functions_problem,
    })
}

fn parted<T, E>(answer: Option<Result<T, E>>) -> (Option<T>, Option<E>) {
    match answer {
        None => (None, None),
        Some(Ok(answer)) => (Some(answer), None),
        Some(Err(problem)) => (None, Some(problem)),
    }
}

/// Why a fleet was not asked.
enum Unasked {
    NoFleet(String),
    Silent(String),
}

async fn of_fleet(context: &Context) -> Result<ClusterView, Unasked> {
    let asking = async {
        let client = context.client()?.with_deadline(DAEMON_WITHIN);
        Ok::<ClusterView, Failure>(client.connect().await?.cluster().await?)
    };
    asking.await.map_err(|failure| match &failure {
        Failure::Client(error @ ClientError::Refused { .. }) if error.code() == Some("no_fleet") => {
            Unasked::NoFleet(failure.to_string())
        }
        _ => Unasked::Silent(failure.to_string()),
    })
}

#[cfg(feature = "engines")]
fn urls(asks: &Asks) -> Vec<String> {
    let of_environment = || std::env::var("DURAMEN_FN_URL").ok().filter(|url| !url.trim().is_empty());
    match asks.url.is_empty() {
        true => of_environment().into_iter().collect(),
        false => asks.url.clone(),
    }
}

#[cfg(feature = "engines")]
async fn of_functions(urls: &[String]) -> Result<Shards, String> {
    let mut problem = "no shard is named".to_owned();
    for url in urls {
        match tokio::time::timeout(HEALTH_WITHIN, Cluster::read(url)).await {
            Ok(Ok(list)) => {
                let shards = list.health().await;
                let (cluster, version, here) = (list.id().to_owned(), list.version(), list.here());
                return Ok(Shards { cluster, version, here, shards, list });
            }
            Ok(Err(error)) => problem = error.to_string(),
            Err(_) => problem = format!("no answer within {} s", HEALTH_WITHIN.as_secs()),
        }
    }
    Err(problem)
}
