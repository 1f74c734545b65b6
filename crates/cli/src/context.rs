//! What every command knows: the home, the form of its output, and how to wait.

use crate::failure::Failure;
use duramen_base::home;
use duramen_client::{Client, Connection};
use std::{env, future::Future, path::PathBuf, process::ExitCode};
use tokio::runtime::{Builder, Runtime};

/// What every command knows.
#[derive(Debug)]
pub(crate) struct Context {
    /// The home directory, absolute.
    pub(crate) home: PathBuf,
    /// Whether it was named by an option.
    named: bool,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

impl Context {
    pub(crate) fn new(home: Option<PathBuf>, json: bool) -> Result<Context, Failure> {
        let named = home.is_some();
        let home = home.unwrap_or_else(home::usual);
        if home.as_os_str().is_empty() {
            return Err(Failure::Usage("--home is empty; name a directory".to_owned()));
        }
        // The daemon does not run in our working directory.
        let home = std::path::absolute(&home).map_err(Failure::io("find", &home))?;
        Ok(Context { home, named, json })
    }

    pub(crate) async fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.client()?.connect().await?)
    }

    /// A client of the daemon that is meant, here or elsewhere.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let named = self.named.then_some(self.home.as_path());
        Ok(Client::of_environment(named, &self.home, |name| env::var(name).ok())?)
    }

    /// A client of the daemon of the home.
    #[cfg(feature = "engines")]
    pub(crate) fn client_here(&self) -> Client {
        Client::new(&self.home)
    }

    /// Runs a command that mostly waits.
    pub(crate) fn wait(&self, work: impl Future<Output = Outcome>) -> Outcome {
        block_on(Builder::new_current_thread(), work)
    }

    /// Runs a command that works.
    #[cfg(feature = "engines")]
    pub(crate) fn wait_on_all_cores(&self, work: impl Future<Output = Outcome>) -> Outcome {
        block_on(Builder::new_multi_thread(), work)
    }
}

/// What a command ends with.
pub(crate) type Outcome = Result<ExitCode, Failure>;

fn block_on(mut builder: Builder, work: impl Future<Output = Outcome>) -> Outcome {
    let runtime: Runtime = builder.enable_all().build().map_err(Failure::Runtime)?;
    let outcome = runtime.block_on(work);
    // Work that was given up must not hold up the end.
    runtime.shutdown_background();
    outcome
}
