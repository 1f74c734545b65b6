//! The options of `duramen serve` that make its daemon a node of a fleet.

use crate::{failure::Failure, parse};
use duramen_fleet::address::{Access, Address};
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
    /// Speak to etcd on other machines without TLS: who is on the network between reads and writes all of the fleet
    #[arg(long, requires = "fleet")]
    etcd_insecure: bool,
    /// The certificate that vouches for etcd (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "fleet")]
    etcd_ca: Option<PathBuf>,
    /// A certificate to show etcd (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// A user of etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// The file with the user's password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

impl FleetArgs {
    /// How the daemon takes part, if it does.
    pub(crate) fn options(self) -> Result<Option<FleetOptions>, Failure> {
        let (Some(etcd), Some(node), Some(advertise)) = (self.fleet, self.node, self.advertise) else {
            return Ok(None);
        };
        // Who writes to etcd is the administrator of all nodes.
        if let Some(member) = etcd.open_member().filter(|_| !self.etcd_insecure) {
            let message = format!(
                "--fleet etcd://{member}: without TLS, who is on the network between this machine and etcd can act as the administrator of \
                 all nodes; use etcds:// (--etcd-ca, --etcd-cert, --etcd-key), or, on a network of your own, --etcd-insecure"
            );
            return Err(Failure::Usage(message));
        }
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
            access: Access {
                authority: self.etcd_ca,
                identity: self.etcd_cert.zip(self.etcd_key),
                user: self.etcd_user.zip(self.etcd_password_file),
            },
            node,
            advertise,
            listen: self.fleet_listen.unwrap_or(SocketAddr::new(any, port)),
            certificates: self.fleet_certs,
            grace,
        }))
    }
}
