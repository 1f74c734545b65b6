//! The options of a workload.

use crate::failure::Failure;
use clap::Args;
use duramen_replication::{
    pair::hosts::{Address, Ssh, Wanted},
    workload::{From, Order},
};
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Your own transactions: a description (FILE.toml) or a pgbench script, with its weight among several; may be given
    /// several times. Without scenarios it is measured alone
    #[arg(long, value_name = "FILE[@WEIGHT]", conflicts_with = "source")]
    workload: Vec<String>,
    /// SQL that is run before, as the workload's own role in its own schema; or pgbench, for the tables of pgbench
    #[arg(long, value_name = "FILE", requires = "workload")]
    schema: Option<PathBuf>,
    /// The variable scale in the schema and the transactions [default: what the workload says, or 1]
    #[arg(long, value_name = "N", requires = "workload", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale: Option<u32>,
    /// How many sessions run the workload [default: what the workload says, or 8]
    #[arg(long, value_name = "N", requires = "workload", value_parser = clap::value_parser!(u32).range(1..=128))]
    clients: Option<u32>,
}

/// Hosts that are reached by ssh.
#[derive(Debug, Args)]
pub(crate) struct Hosts {
    /// Two hosts on which the pair is made, the primary's first, and removed at the end: ssh://USER@HOST:PORT, with
    /// ?address=IP if others reach it by another address. Their keys must be known
    #[arg(long, value_name = "URL,URL", value_delimiter = ',', num_args = 1, conflicts_with_all = ["primary", "source"])]
    hosts: Vec<Address>,
    /// The host that makes the load of the workload: duramen is started there by ssh, and ends with the run
    #[arg(long, value_name = "URL", requires = "workload")]
    agent: Option<Address>,
    /// The program there
    #[arg(long, value_name = "PATH", requires = "agent", default_value = "duramen")]
    agent_program: String,
    /// A configuration of ssh to be used in the place of yours
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
}

impl Hosts {
    fn ssh(&self) -> Ssh {
        Ssh::with_config(self.ssh_config.clone())
    }

    /// The hosts of a pair, if they are named.
    pub(super) fn pair(&self) -> Result<Option<Wanted>, Failure> {
        match &self.hosts[..] {
            [] => Ok(None),
            [primary, standby] => Ok(Some(Wanted {
                addresses: [primary.clone(), standby.clone()],
                ssh: self.ssh(),
                has_agent: self.agent.is_some(),
            })),
            _ => Err(Failure::Usage("--hosts needs two hosts: the primary's and the standby's".to_owned())),
        }
    }

    /// The host that makes the load, if one is named. It must be able to reach the pair.
    pub(super) fn agent(&self, is_given: bool) -> Result<Option<From>, Failure> {
        let Some(address) = &self.agent else { return Ok(None) };
        if self.hosts.is_empty() && !is_given {
            let text =
                "--agent needs a pair that its host can reach: name --hosts, or --primary and --standby";
            return Err(Failure::Usage(text.to_owned()));
        }
        let program = self.agent_program.clone();
        Ok(Some(From { address: address.clone(), ssh: self.ssh(), program }))
    }
}

impl Load {
    /// The workload, read and checked: nothing has been touched yet.
    pub(super) fn order(self, agent: Option<From>) -> Result<Option<Arc<Order>>, Failure> {
        if self.workload.is_empty() {
            return Ok(None);
        }
        let order = Order::read(&self.workload, self.schema.as_deref(), self.scale, self.clients)?;
        Ok(Some(Arc::new(order.from_agent(agent))))
    }
}
