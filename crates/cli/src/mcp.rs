//! The door for agents: `duramen mcp`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
};
use duramen_client::Client;
use std::{path::PathBuf, process::ExitCode};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen mcp                          an agent starts this, and works as you do on this machine
  claude mcp add duramen -- duramen mcp
  DURAMEN_TOKEN=NAME:SECRET duramen mcp --url https://db.example:6433
                                       a daemon elsewhere (duramen serve --http-listen), as the holder of a token
  docs/agents.md has the lines for other agents, and what each tool returns.";

/// The variable that holds the token, as `NAME:SECRET`: arguments are seen by every user of the machine.
const TOKEN: &str = "DURAMEN_TOKEN";

#[derive(Debug, clap::Args)]
pub(crate) struct Mcp {
    /// The HTTP door of a daemon; its token is read from DURAMEN_TOKEN [default: the daemon of the home]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Certificates (PEM) that are believed, such as HOME/doors/certificate.pem of the daemon [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
}

pub(crate) async fn run(context: &Context, options: Mcp) -> Outcome {
    let client = match &options.url {
        None => context.client()?,
        Some(url) => {
            let token = std::env::var(TOKEN).map_err(|_| {
                Failure::Usage(format!(
                    "--url needs a token: set {TOKEN} to NAME:SECRET, as `duramen token create` printed them"
                ))
            })?;
            Client::at(url, &token, options.ca.as_deref())?
        }
    };
    duramen_mcp::serve_stdio(client).await?;
    Ok(ExitCode::SUCCESS)
}
