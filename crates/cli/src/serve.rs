//! The daemon: `duramen serve` and `stop`.

#[cfg(feature = "fleet")]
pub(crate) mod etcd;
#[cfg(feature = "fleet")]
mod fleet;

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    log, output, parse, progress,
    volumes::VolumesName,
};
use duramen_base::clock;
use duramen_branches::OpenOptions;
use duramen_client::{ClientError, Connection};
use duramen_postgres::ControlGroups;
use duramen_server::{
    daemon::{self, ServeOptions, Suites},
    lock::HomeLock,
    router::{Identity, Listen, RouterOptions},
};
use ipnet::IpNet;
use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::time::sleep;

pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  duramen serve                        in the foreground, until Ctrl-C or `duramen stop`
  duramen serve --volume-size 200G     room for more branches in a loop-backed volume store
  duramen serve --pg-listen 0.0.0.0:6432 --unmasked-ok
                                       PostgreSQL clients of other machines, with TLS and a token
  duramen serve --handover             take over from the daemon that serves: open branches go on
  DURAMEN_LOG=debug duramen serve      say more on the standard error";
pub(crate) const STOP_EXAMPLES: &str = "\
Examples:
  duramen stop
  duramen --home /srv/duramen stop";

/// How long `stop` waits for the daemon's end.
const STOP_LIMIT: Duration = Duration::from_secs(130);
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// How branches' volumes are cloned
    #[arg(long, value_enum, default_value = "auto")]
    volumes: VolumesName,
    /// Size of a loop-backed volume store, if one is made [default: a quarter of the free disk, at most 32G]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    volume_size: Option<u64>,
    /// The file with more settings [default: DURAMEN_CONFIG, else duramen.toml in the home, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take over from the daemon that serves this home, if there is one; leased branches go on with their sessions
    #[arg(long)]
    handover: bool,
    /// Where PostgreSQL clients with a token connect; `off`: nowhere [default: 127.0.0.1:6432, if it is free]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pg_listen: Option<Listen>,
    /// Where HTTP clients with a token connect [default: nowhere]
    #[arg(long, value_name = "ADDR:PORT")]
    http_listen: Option<SocketAddr>,
    /// The certificate for clients (PEM), with those that vouch for it [default: one of its own]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let clients of other machines connect without TLS
    #[arg(long)]
    insecure: bool,
    /// Let clients of other machines enter branches whose data is not masked
    #[arg(long)]
    unmasked_ok: bool,
    /// Proxies whose PostgreSQL connections begin with a header of the PROXY protocol (version 2), which says who the client is
    #[arg(long, value_name = "ADDR[/BITS]", value_delimiter = ',', value_parser = network)]
    pg_proxy_protocol: Vec<IpNet>,
    /// End sessions of PostgreSQL clients in which nothing happens for this long [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    pg_idle: Option<Duration>,
    /// Stop the servers of branches of tokens that nobody has been in for this long, until somebody comes [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse::span)]
    sleep_after: Option<Duration>,
    #[cfg(feature = "fleet")]
    #[command(flatten)]
    fleet: fleet::FleetArgs,
    /// Stop when the standard input ends: for a daemon that belongs to another program
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

impl Serve {
    /// The file that was named.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The same settings, for a start that was asked for in another way.
    pub(crate) fn started_as(self, asked: &Serve) -> Serve {
        Serve { handover: asked.handover, until_stdin_ends: asked.until_stdin_ends, ..self }
    }
}

pub(crate) async fn serve(context: &Context, serve: Serve) -> Outcome {
    log::to_stderr()?;
    if serve.handover {
        take_over(context).await?;
    }
    #[cfg(not(feature = "otlp"))]
    crate::traces::warn();
    let options = ServeOptions {
        engine: OpenOptions {
            home: context.home.clone(),
            volumes: serve.volumes.into(),
            volume_size: serve.volume_size,
            stall: None,
            sleep_after: serve.sleep_after.filter(|after| !after.is_zero()),
        },
        router: RouterOptions {
            listen: serve.pg_listen.unwrap_or_default(),
            identity: serve
                .tls_cert
                .zip(serve.tls_key)
                .map(|(certificate, key)| Identity { certificate, key }),
            insecure: serve.insecure,
            unmasked_ok: serve.unmasked_ok,
            proxies: serve.pg_proxy_protocol,
            idle: serve.pg_idle.filter(|idle| !idle.is_zero()),
        },
        http_listen: serve.http_listen,
        until_stdin_ends: serve.until_stdin_ends,
        suites: Suites::new(&crate::lab::SUITES),
        #[cfg(feature = "otlp")]
        traces: crate::traces::settings()?,
        #[cfg(feature = "fleet")]
        fleet: serve.fleet.options()?,
    };
    daemon::serve(options).await?;
    Ok(ExitCode::SUCCESS)
}

fn listen(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    text.parse().map(Listen::At).map_err(|_| {
        format!(
            "{text:?} is not an address; write it like 127.0.0.1:6432, 0.0.0.0:6432 or [::1]:6432, or off"
        )
    })
}

fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| {
        format!("{text:?} is not an address; write it like 192.0.2.7, 192.0.2.0/24 or 2001:db8::/64")
    })
}

/// For `ExecStopPost=` of a unit.
#[derive(Debug, clap::Args)]
pub(crate) struct MakeWay {
    /// What systemd says of the end of the main process (`${EXIT_STATUS}`)
    status: String,
}

/// systemd could not put a daemon into the unit's group (`EXIT_CGROUP`), because that one has limited groups below it, of
/// branches that outlived the last daemon. Before systemd 254, which has `DelegateSubgroup=`, so it is after every SIGKILL.
const NOT_LET_IN: &str = "219";

pub(crate) fn make_way(make_way: &MakeWay) -> Outcome {
    if make_way.status == NOT_LET_IN && ControlGroups::undivide().map_err(Failure::Other)? {
        output::line(format_args!("branches are without limits until the next daemon has adopted them"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the daemon that serves the home end and leave its branches to this process, if there is one.
async fn take_over(context: &Context) -> Result<(), Failure> {
    // A program that was run anew in the daemon's process has the daemon's socket, which only it could answer.
    if HomeLock::holder(&context.home).is_none() {
        return Ok(());
    }
    end_daemon(context, async |mut connection| {
        let pid = connection.status().await?.pid;
        match connection.hand_over().await {
            Err(ClientError::Refused { body, .. }) if body.code == "unknown_route" => {
                Err(Failure::Other(format!(
                    "the daemon (pid {pid}) is of a version that cannot hand over; end it with `kill -KILL {pid}`, which \
                     leaves the servers of its leased branches running, and run `duramen serve`, which adopts them"
                )))
            }
            // A daemon that stops right now may not answer.
            Ok(_) | Err(ClientError::Broken { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
    .await
    .map(drop)
}

pub(crate) async fn stop(context: &Context) -> Outcome {
    let stopped = stop_daemon(context).await?;
    if context.json {
        output::json(&serde_json::json!({ "stopped": stopped }))?;
    } else if stopped {
        output::line(format_args!("stopped the daemon of {}", context.home.display()));
    } else {
        output::line(format_args!("no daemon serves {}: nothing to stop", context.home.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the daemon and waits for its end. Returns whether there was one.
pub(crate) async fn stop_daemon(context: &Context) -> Result<bool, Failure> {
    end_daemon(context, async |mut connection| match connection.shutdown().await {
        // A daemon that stops right now may not answer.
        Ok(_) | Err(ClientError::Broken { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    })
    .await
}

/// Has the daemon end as `ask` tells it, and waits for that. Returns whether there was one.
async fn end_daemon(
    context: &Context,
    ask: impl AsyncFnOnce(Connection) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let connection = match context.client_here().connect().await {
        Ok(connection) => connection,
        Err(ClientError::NotRunning { .. }) if HomeLock::holder(&context.home).is_none() => return Ok(false),
        // It holds the lock but has no socket any more: it is stopping already.
        Err(ClientError::NotRunning { .. }) => return wait_for_end(context).await,
        Err(error) => return Err(error.into()),
    };
    ask(connection).await?;
    wait_for_end(context).await
}

async fn wait_for_end(context: &Context) -> Result<bool, Failure> {
    let begin = clock::now();
    let ended = async {
        loop {
            match HomeLock::holder(&context.home) {
                None => return Ok(true),
                Some(pid) if begin.elapsed() > STOP_LIMIT => {
                    let seconds = STOP_LIMIT.as_secs();
                    return Err(Failure::Other(format!(
                        "the daemon (pid {pid}) did not stop within {seconds} s; look into its log, then run: kill {pid}"
                    )));
                }
                Some(_) => sleep(POLL).await,
            }
        }
    };
    progress::during("waiting for the daemon to stop its branches", ended).await
}
