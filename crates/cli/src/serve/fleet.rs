//! The options of `duramen serve` that make its daemon a node of a fleet.

use super::etcd::EtcdArgs;
use crate::{failure::Failure, parse};
use duramen_fleet::address::Address;
use duramen_server::fleet::FleetOptions;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// How long names are kept for a node that is gone.
const GRACE: Duration = Duration::from_secs(300);
/// With less than this, a daemon that is restarted may find its names given away.
const GRACE_SHORT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    /// Act as one with other daemons, by this etcd; with TLS: etcds://
    #[arg(long, value_name = "etcd://HOST[:PORT],...[/FLEET]", requires_all = ["node", "advertise"])]
    fleet: Option<Address>,
    /// The name of this daemon in the fleet
    #[arg(long, value_name = "NAME", requires = "fleet")]
    node: Option<String>,
    /// Where other nodes reach this one
    #[arg(long, value_name = "HOST:PORT", requires = "fleet")]
    advertise: Option<String>,
    /// Where it listens for them [default: that port, of all addresses]
    #[arg(long, value_name = "ADDR:PORT", requires = "fleet")]
    fleet_listen: Option<SocketAddr>,
    /// The directory with this node's certificates, of `duramen node certify` [default: fleet in the home]
    #[arg(long, value_name = "DIR", requires = "fleet")]
    fleet_certs: Option<PathBuf>,
    /// How long names of a node that is gone are kept for it [default: 5m]
    #[arg(long, value_name = "SPAN", value_parser = parse::span, requires = "fleet")]
    fleet_grace: Option<Duration>,
    #[command(flatten)]
    access: EtcdArgs,
}

impl FleetArgs {
    /// How the daemon takes part, if it does.
    pub(crate) fn options(self) -> Result<Option<FleetOptions>, Failure> {
        let (Some(etcd), Some(node), Some(advertise)) = (self.fleet, self.node, self.advertise) else {
            return Ok(None);
        };
        let access = self.access.access(&etcd)?;
        let port = advertise
            .rsplit_once(':')
            .and_then(|(host, port)| port.parse::<u16>().ok().filter(|port| *port > 0 && !host.is_empty()));
        let Some(port) = port else {
            let message = format!(
                "--advertise {advertise}: write it like 10.0.0.7:7443, so that other nodes reach this one"
            );
            return Err(Failure::Usage(message));
        };
        // All addresses of both kinds, where one of IPv6 is advertised.
        let any = match advertise.starts_with('[') {
            true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let grace = self.fleet_grace.unwrap_or(GRACE);
        if grace < GRACE_SHORT {
            tracing::warn!(
                seconds = grace.as_secs(),
                "--fleet-grace is short: a daemon that is away for longer may find its branches' names given to others"
            );
        }
        Ok(Some(FleetOptions {
            etcd,
            access,
            node,
            advertise,
            listen: self.fleet_listen.unwrap_or(SocketAddr::new(any, port)),
            certificates: self.fleet_certs,
            grace,
        }))
    }
}
