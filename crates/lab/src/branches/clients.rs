//! The clients of a run, by its runner: programs of others are found once, and made ready before each round.

use std::sync::Arc;

use super::client::{Failure, Lived, STEP_DEADLINE};
use super::control::Control;
use super::node;
use super::options::{Options, Runner};
use super::psql::Psql;
use super::router::Door;
use super::wire;
use super::workload::Plan;
use duramen_reports::suite::SuiteError;

/// What the clients of a run are made with.
pub(crate) enum Clients {
    /// Nothing but what is here.
    Own(Way),
    /// A process of Node for each round.
    NodePg(node::Package),
}

/// How a client reaches its branch once it has the URL.
#[derive(Clone)]
pub(crate) enum Way {
    /// Through the daemon, which takes no URL.
    Session,
    /// Over a connection of our own.
    Wire,
    /// By processes of `psql`.
    Psql(Arc<Psql>),
    /// By a client in the round's process of Node.
    NodePg(node::Handle),
    /// Through the router, by a URL that creates the branch.
    Router(Arc<Door>),
}

/// The way of a round, with the process that it goes through.
pub(crate) struct Ready {
    pub(crate) way: Way,
    process: Option<node::Process>,
}

impl Clients {
    /// Finds what the runner needs, or says what is missing.
    pub(crate) async fn find(
        control: &mut Control,
        options: &Options,
        say: &dyn Fn(&str),
    ) -> Result<Clients, SuiteError> {
        Ok(match options.runner {
            Runner::Session => Clients::Own(Way::Session),
            Runner::Wire => Clients::Own(Way::Wire),
            Runner::Psql => {
                let sources = control.sources().await?;
                let source = sources.iter().find(|source| source.name == options.source);
                let version = source.map(|source| source.server_version.as_str());
                let psql = Psql::find(&options.home, version).await.map_err(SuiteError::other)?;
                Clients::Own(Way::Psql(Arc::new(psql)))
            }
            Runner::Router => {
                let door = Door::open(control, options, options.write.policy()).await?;
                Clients::Own(Way::Router(Arc::new(door)))
            }
            Runner::NodePg => {
                let package = node::Package::find(&options.home, say).await;
                Clients::NodePg(package.map_err(SuiteError::other)?)
            }
        })
    }

    /// The version of the program that is measured with, if it is not this one.
    pub(crate) fn version(&self) -> Option<&str> {
        match self {
            Clients::Own(Way::Psql(psql)) => Some(&psql.version),
            Clients::Own(_) => None,
            Clients::NodePg(package) => Some(&package.version),
        }
    }

    /// Comes once before anything is measured, where what is made ready depends on with what clients come.
    pub(crate) async fn announce(&self) -> Result<(), SuiteError> {
        match self {
            Clients::Own(Way::Router(door)) => {
                door.knock().await.map_err(|failure| SuiteError::Failed(failure.message))
            }
            _ => Ok(()),
        }
    }

    /// Ends what the run needed.
    pub(crate) async fn end(&self, control: &mut Control) -> Result<(), SuiteError> {
        match self {
            Clients::Own(Way::Router(door)) => control.revoke_token(door.token()).await,
            _ => Ok(()),
        }
    }

    /// Whether branches are created by connecting to the router.
    pub(crate) fn come_by_the_router(&self) -> bool {
        matches!(self, Clients::Own(Way::Router(_)))
    }

    /// Makes ready what a round needs.
    pub(crate) async fn ready(&self) -> Result<Ready, SuiteError> {
        match self {
            Clients::Own(way) => Ok(Ready { way: way.clone(), process: None }),
            Clients::NodePg(package) => {
                let process = node::Process::start(package).await.map_err(SuiteError::other)?;
                Ok(Ready { way: Way::NodePg(process.handle()), process: Some(process) })
            }
        }
    }
}

impl Ready {
    /// Ends what the round needed.
    pub(crate) async fn end(self) {
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

impl Way {
    /// Whether clients need the URL of their branch.
    pub(crate) fn takes_url(&self) -> bool {
        !matches!(self, Way::Session | Way::Router(_))
    }

    /// Reads twice and writes by the URL.
    pub(crate) async fn work(&self, url: &str, plan: &Plan, lived: &mut Lived) -> Result<(), Failure> {
        match self {
            Way::Session => Ok(()),
            Way::Wire => tokio::time::timeout(STEP_DEADLINE, wire::work(url, plan, lived))
                .await
                .unwrap_or_else(|_| Err(Failure::deadline("wire"))),
            // These have a deadline for each of their steps.
            Way::Psql(psql) => psql.work(url, plan, lived).await,
            Way::NodePg(node) => node.work(url, plan, lived).await,
            Way::Router(door) => door.work(plan, lived).await,
        }
    }
}
