//! Nodes of a fleet: `duramen node ...`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output, progress,
};
use clap::Subcommand;
use duramen_api::fleet::{FleetNode, FleetView};
#[cfg(feature = "fleet")]
use std::path::PathBuf;
use std::{process::ExitCode, time::Duration};

#[cfg(feature = "fleet")]
pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen node init /srv/fleet-ca                      certificates for a fleet: its authority, once
  duramen node certify a --ca /srv/fleet-ca --out a    and one for each node, to be brought to HOME/fleet there
  duramen serve --fleet etcds://10.0.0.1,10.0.0.2,10.0.0.3 --node a --advertise 10.0.0.7:7443
  duramen node list
  duramen node drain a                                 no new branches there; waits until it is empty";
#[cfg(not(feature = "fleet"))]
pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen node list
  duramen node drain a        no new branches there; waits until it is empty

Of a daemon on another machine, or of another build: this one was built without fleets.";
#[cfg(feature = "fleet")]
const INIT_EXAMPLES: &str = "\
Examples:
  duramen node init /srv/fleet-ca

The key in it certifies nodes. Keep it where no node is.";
#[cfg(feature = "fleet")]
const CERTIFY_EXAMPLES: &str = "\
Examples:
  duramen node certify a --ca /srv/fleet-ca --out a
  scp -r a/. root@10.0.0.7:/var/lib/duramen/fleet/";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen node list
  duramen node list --json | jq -r '.nodes[] | select(.state != \"ready\") | .name'";
const DRAIN_EXAMPLES: &str = "\
Examples:
  duramen node drain a              waits until the last branch there has ended
  duramen node drain a --no-wait
  duramen node undrain a";
const UNDRAIN_EXAMPLES: &str = "\
Examples:
  duramen node undrain a";
const FORGET_EXAMPLES: &str = "\
Examples:
  duramen node forget a             its home is gone for good: its names are free, and another home can be the node a";

/// How often it is looked whether a node is empty.
const POLL: Duration = Duration::from_millis(500);

#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// Make the authority of a fleet, which certifies its nodes
    #[cfg(feature = "fleet")]
    #[command(after_help = INIT_EXAMPLES)]
    Init {
        /// The directory to make it in
        dir: PathBuf,
    },
    /// Make a certificate for a node, by which others know it
    #[cfg(feature = "fleet")]
    #[command(after_help = CERTIFY_EXAMPLES)]
    Certify {
        /// The node's name
        name: String,
        /// The directory of the authority
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// The directory to put it in [default: fleet in the home]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// List the nodes of the fleet that the daemon is in
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Have a node take no new branches, and wait until it has none
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain {
        /// The node's name
        name: String,
        /// Do not wait
        #[arg(long)]
        no_wait: bool,
    },
    /// Have a node take new branches again
    #[command(after_help = UNDRAIN_EXAMPLES)]
    Undrain {
        /// The node's name
        name: String,
    },
    /// Forget a node that is gone for good
    #[command(after_help = FORGET_EXAMPLES)]
    Forget {
        /// The node's name
        name: String,
    },
}

pub(crate) async fn run(context: &Context, node: Node) -> Outcome {
    match node {
        #[cfg(feature = "fleet")]
        Node::Init { dir } => {
            duramen_fleet::authority::make(&dir).map_err(|error| Failure::Other(error.to_string()))?;
            told(
                context,
                &dir,
                format_args!("made an authority in {}; certify nodes with --ca {0}", dir.display()),
            )?;
        }
        #[cfg(feature = "fleet")]
        Node::Certify { name, ca, out } => {
            let out = out.unwrap_or_else(|| context.home.join("fleet"));
            duramen_fleet::authority::certify(&ca, &name, &out)
                .map_err(|error| Failure::Other(error.to_string()))?;
            told(
                context,
                &out,
                format_args!(
                    "made a certificate for {name} in {}; it belongs into the node's HOME/fleet",
                    out.display()
                ),
            )?;
        }
        Node::List => list(context, &context.connect().await?.nodes().await?)?,
        Node::Drain { name, no_wait } => {
            context.connect().await?.drain_node(&name, true).await?;
            if !no_wait {
                progress::during("waiting until the last branch there has ended", empty(context, &name))
                    .await?;
            }
            changed(
                context,
                &name,
                if no_wait { "takes no new branches" } else { "has no branches, and takes none" },
            )?;
        }
        Node::Undrain { name } => {
            context.connect().await?.drain_node(&name, false).await?;
            changed(context, &name, "takes new branches")?;
        }
        Node::Forget { name } => {
            context.connect().await?.forget_node(&name).await?;
            changed(context, &name, "is forgotten; its names are free")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "fleet")]
fn told(context: &Context, dir: &std::path::Path, line: std::fmt::Arguments<'_>) -> Result<(), Failure> {
    match context.json {
        true => output::json(&serde_json::json!({ "directory": dir })),
        false => {
            output::line(line);
            Ok(())
        }
    }
}

fn changed(context: &Context, name: &str, what: &str) -> Result<(), Failure> {
    match context.json {
        true => output::json(&serde_json::json!({ "node": name })),
        false => {
            output::line(format_args!("the node {name} {what}"));
            Ok(())
        }
    }
}

/// Waits until a node has no branches any more.
async fn empty(context: &Context, name: &str) -> Result<(), Failure> {
    loop {
        let view = context.connect().await?.nodes().await?;
        match view.nodes.iter().find(|node| node.name == name) {
            Some(node) if node.names > 0 || node.leases.is_some_and(|leases| leases > 0) => {}
            _ => return Ok(()),
        }
        tokio::time::sleep(POLL).await;
    }
}

fn list(context: &Context, view: &FleetView) -> Result<(), Failure> {
    if context.json {
        return output::json(view);
    }
    let rows = view.nodes.iter().map(|node| row(view, node));
    let heads =
        ["NODE", "STATE", "BRANCHES", "READY", "MEMORY FREE", "DISK FREE", "SOURCES", "ADDRESS", "VERSION"];
    output::print(output::table(heads, rows));
    if let Some(problem) = &view.problem {
        output::line(format_args!("{} gives no names: {problem}", view.node));
    }
    if view.to_free > 0 {
        output::line(format_args!(
            "{} names of branches that have ended are freed when etcd answers",
            view.to_free
        ));
    }
    Ok(())
}

fn row(view: &FleetView, node: &FleetNode) -> [String; 9] {
    let own = if node.name == view.node { " (this one)" } else { "" };
    let state = match node.kept_for_s {
        Some(left) => format!("{}, lost in {left} s", node.state),
        None => node.state.clone(),
    };
    let size =
        |bytes: Option<u64>| bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        format!("{}{own}", node.name),
        state,
        node.leases.unwrap_or(node.names).to_string(),
        or_none(node.hot.map(|hot| hot.to_string())),
        or_none(size(node.memory_free)),
        or_none(size(node.disk_free)),
        node.sources.join(", "),
        or_none(node.address.clone()),
        or_none(node.version.clone()),
    ]
}
