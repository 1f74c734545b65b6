//! The options by which etcd is asked.

use crate::failure::Failure;
use duramen_fleet::address::{Access, Address};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct EtcdArgs {
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

impl EtcdArgs {
    /// By what right an etcd is asked; refused where others could listen.
    pub(crate) fn access(self, etcd: &Address) -> Result<Access, Failure> {
        // Who writes to etcd is the administrator of all nodes.
        if let Some(member) = etcd.open_member().filter(|_| !self.etcd_insecure) {
            let message = format!(
                "--fleet etcd://{member}: without TLS, who is on the network between this machine and etcd can act as the administrator of \
                 all nodes; use etcds:// (--etcd-ca, --etcd-cert, --etcd-key), or, on a network of your own, --etcd-insecure"
            );
            return Err(Failure::Usage(message));
        }
        Ok(Access {
            authority: self.etcd_ca,
            identity: self.etcd_cert.zip(self.etcd_key),
            user: self.etcd_user.zip(self.etcd_password_file),
        })
    }
}
