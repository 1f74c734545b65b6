//! The browser console: `duramen console`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use duramen_api::console::{MakeConsoleLink, NewConsoleLink};
use duramen_client::Connection;
use rustix::system;
use std::{
    env, fs,
    io::Write,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen console                    a browser opens, signed in as an administrator for 12 hours
  duramen console --token ci         the same as the holder of a token, with what it may
  duramen console --no-open          print the address alone";

/// How long the browser has to read the file that leads it to the console.
const READ_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Console {
    /// The token that the browser is to have [default: an administrator's for all sources, made for it, for 12 hours]
    #[arg(long, value_name = "NAME")]
    token: Option<String>,
    /// Print the address, and open no browser
    #[arg(long)]
    no_open: bool,
}

/// A link that signs a browser in, and what it is good for.
pub(crate) struct Link {
    made: NewConsoleLink,
    /// The door.
    address: SocketAddr,
    /// The whole address, on this machine.
    pub(crate) url: String,
}

/// Makes a link for a token, or for one that is made for it.
pub(crate) async fn link(connection: &mut Connection, token: Option<String>) -> Result<Link, Failure> {
    let Some(http) = connection.doors().await?.http else {
        return Err(Failure::Other(
            "the daemon has no HTTP door, at which browsers come in; start it with one: duramen serve --http-listen \
             127.0.0.1:6433 (`--handover` takes over from the one that serves)"
                .to_owned(),
        ));
    };
    let made = connection.make_console_link(&MakeConsoleLink { token }).await?;
    let url = with_link(&http.address_here(), &made);
    Ok(Link { made, address: http.address, url })
}

pub(crate) async fn run(context: &Context, console: Console) -> Outcome {
    let mut connection = context.client_here().connect().await?;
    let Link { made, address, url } = link(&mut connection, console.token).await?;
    if context.json {
        output::json(&serde_json::json!({
            "url": url, "token": made.token.name, "expires_at": made.expires_at,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&url);
    if let Some(there) = elsewhere(address) {
        output::line(format_args!("from another machine: {}", with_link(&there, &made)));
    }
    output::line(format_args!("signs a browser in as {}, once, within a minute", made.token.name));
    if !console.no_open && has_display() {
        open(&context.home, &url).await;
    }
    Ok(ExitCode::SUCCESS)
}

fn with_link(address: &str, made: &NewConsoleLink) -> String {
    format!("{address}#link={}", made.link)
}

/// The address for other machines, where the door listens at all of its own.
fn elsewhere(address: SocketAddr) -> Option<String> {
    let name = system::uname().nodename().to_str().ok()?.to_owned();
    address.ip().is_unspecified().then(|| format!("https://{name}:{}/", address.port()))
}

fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Opens a browser. All users of a machine see the arguments of its programs, so the link is in a file of ours, which leads on.
async fn open(home: &Path, url: &str) {
    let opened = match leading_to(home, url) {
        Ok(file) => {
            let mut command = Command::new("xdg-open");
            command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let opened = command.spawn();
            if opened.is_ok() {
                tokio::time::sleep(READ_LIMIT).await;
            }
            let _ = fs::remove_file(&file);
            opened.map(drop)
        }
        Err(error) => Err(error),
    };
    if let Err(error) = opened {
        output::warning(&format_args!("no browser was opened ({error}); open the address yourself"));
    }
}

/// A file that leads a browser to an address, which no other user reads.
pub(crate) fn leading_to(home: &Path, url: &str) -> std::io::Result<PathBuf> {
    // Browsers that are confined read files of the user's own, and not of a hidden folder.
    let folder = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let name = format!("duramen-console-{}.html", duramen_base::entropy::token(8));
    let path = folder.unwrap_or_else(|| home.to_owned()).join(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    // The address has no character that stands for something else in HTML.
    write!(
        file,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\"><a href=\"{url}\">Duramen</a>"
    )?;
    Ok(path)
}
