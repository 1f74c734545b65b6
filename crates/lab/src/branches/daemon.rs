//! The daemon that is measured: the one that answers for the home, or one of the lab's own.

use std::fs;
use std::path::Path;

use duramen_server::client::{Client, ClientError};
use duramen_server::process::Daemon;

use super::control::Control;
use super::error::LabError;
use super::options::{choice_name, refill_name, Options};

/// A daemon that answers.
pub(crate) struct Reached {
    pub(crate) control: Control,
    /// Set when it was started here.
    own: Option<Daemon>,
}

/// Uses the daemon of the home, or starts one.
pub(crate) async fn reach(options: &Options, say: &dyn Fn(&str)) -> Result<Reached, LabError> {
    match Control::connect(Client::new(&options.home)).await {
        Ok(control) => return Ok(Reached { control, own: None }),
        Err(ClientError::NotRunning { .. }) => {}
        Err(error) => return Err(LabError::client("connect to the daemon")(error)),
    }
    say("starting a daemon");
    let log = log_file(&options.home).map_err(|detail| LabError::Daemon { doing: "start", detail })?;
    let args = ["--volumes", choice_name(options.volumes), "--refill", refill_name(options.refill)];
    let args = args.map(str::to_owned);
    let own = Daemon::spawn(&options.exe, &options.home, &args, &log).await;
    let own = own.map_err(|error| LabError::Daemon { doing: "start", detail: error.to_string() })?;
    let control = Control::connect(own.client()).await.map_err(LabError::client("connect to the daemon"))?;
    Ok(Reached { control, own: Some(own) })
}

impl Reached {
    /// Whether it was started here.
    pub(crate) fn is_owned(&self) -> bool {
        self.own.is_some()
    }

    /// Stops it, if it was started here.
    pub(crate) async fn stop(self, say: &dyn Fn(&str)) -> Result<(), LabError> {
        let Reached { control, own } = self;
        // The daemon drains its connections before it ends.
        drop(control);
        let Some(own) = own else { return Ok(()) };
        say("stopping the daemon");
        own.stop().await.map_err(|error| LabError::Daemon { doing: "stop", detail: error.to_string() })
    }
}

fn log_file(home: &Path) -> Result<std::path::PathBuf, String> {
    let logs = home.join("logs");
    fs::create_dir_all(&logs).map_err(|error| format!("cannot make {}: {error}", logs.display()))?;
    Ok(logs.join("daemon.log"))
}
