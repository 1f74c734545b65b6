//! The daemon that is measured: the one that answers for the home, or one of the lab's own.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use duramen_client::{Client, ClientError};
use duramen_postgres::volume::Choice;
use duramen_server::process::Daemon;

use super::control::Control;
use super::options::choice_name;
use duramen_reports::suite::SuiteError;

/// Where a daemon is, or is started.
pub(crate) struct Place<'a> {
    pub(crate) home: &'a Path,
    /// The program that is started.
    pub(crate) exe: &'a Path,
    pub(crate) volumes: Choice,
    pub(crate) volume_size: Option<u64>,
}

/// A daemon that answers.
pub(crate) struct Reached {
    pub(crate) control: Control,
    /// Set when it was started here.
    own: Option<Daemon>,
}

/// Uses the daemon of the home, or starts one.
pub(crate) async fn reach(place: &Place<'_>, say: &dyn Fn(&str)) -> Result<Reached, SuiteError> {
    match Control::connect(Client::new(place.home)).await {
        Ok(control) => return Ok(Reached { control, own: None }),
        Err(ClientError::NotRunning { .. }) => {}
        Err(error) => return Err(SuiteError::refused("connect to the daemon")(error)),
    }
    say("starting a daemon");
    let log = log_file(place.home).map_err(|detail| failed("start", &detail))?;
    let mut args = ["--volumes", choice_name(place.volumes)].map(str::to_owned).to_vec();
    if let Some(size) = place.volume_size {
        args.extend(["--volume-size".to_owned(), size.to_string()]);
    }
    // Another daemon may have the usual port.
    args.extend(["--pg-listen", "127.0.0.1:0"].map(str::to_owned));
    let own = Daemon::spawn(place.exe, place.home, &args, &log).await;
    let own = own.map_err(|error| failed("start", &error))?;
    let control =
        Control::connect(own.client()).await.map_err(SuiteError::refused("connect to the daemon"))?;
    Ok(Reached { control, own: Some(own) })
}

impl Reached {
    /// Whether it was started here.
    pub(crate) fn is_owned(&self) -> bool {
        self.own.is_some()
    }

    /// Stops it, if it was started here.
    pub(crate) async fn stop(self, say: &dyn Fn(&str)) -> Result<(), SuiteError> {
        let Reached { control, own } = self;
        // The daemon drains its connections before it ends.
        drop(control);
        let Some(own) = own else { return Ok(()) };
        say("stopping the daemon");
        own.stop().await.map_err(|error| failed("stop", &error))
    }
}

fn failed(doing: &str, detail: &dyn Display) -> SuiteError {
    SuiteError::Failed(format!("cannot {doing} the daemon: {detail}"))
}

fn log_file(home: &Path) -> Result<std::path::PathBuf, String> {
    let logs = home.join("logs");
    fs::create_dir_all(&logs).map_err(|error| format!("cannot make {}: {error}", logs.display()))?;
    Ok(logs.join("daemon.log"))
}
