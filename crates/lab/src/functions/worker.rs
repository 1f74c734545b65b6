//! The worker that is measured: a process, as its users run it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::process;
use duramen_postgres::LogFile;
use rustix::process::{kill_process, Pid, Signal};
use tokio::sync::oneshot;

use super::options::Options;
use duramen_reports::suite::SuiteError;

/// What the worker prints when it works.
const READY: &str = "worker ready";
/// It works within this.
const START: Duration = Duration::from_secs(30);
/// It ends what it has begun within this.
const STOP: Duration = Duration::from_secs(20);

/// A running worker. Dropping it kills it.
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    /// Runs `duramen fn worker URL`, for all shards of its cluster or for one database, and waits until it is ready.
    pub(crate) async fn start(
        options: &Options,
        lanes: Option<usize>,
        url: &str,
        is_of_cluster: bool,
        root: &Path,
    ) -> Result<Self, SuiteError> {
        let failed = |detail: String| SuiteError::Failed(format!("cannot start the worker: {detail}"));
        let log = log_of(root);
        let errors = File::options().create(true).append(true).open(&log.0);
        let errors = errors.map_err(|error| failed(format!("{}: {error}", log.0.display())))?;
        let mut child = Command::new(&options.exe)
            .args(["fn", "worker", url, "--connections"])
            .arg(options.connections.to_string())
            .args(lanes.map(|lanes| format!("--lanes={lanes}")))
            .args(is_of_cluster.then_some("--cluster"))
            // Who works in the folder is found by its guardian.
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("{}: {error}", options.exe.display())))?;
        let (sender, ready) = oneshot::channel();
        if let Some(printed) = child.stdout.take() {
            std::thread::spawn(move || read(printed, sender));
        }
        let mut worker = Self { child };
        match tokio::time::timeout(START, ready).await {
            Ok(Ok(())) => Ok(worker),
            Ok(Err(_)) => {
                let status = worker.child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
                Err(failed(format!("it ended before it was ready ({status}); it said:\n{}", log.tail())))
            }
            Err(_) => Err(failed(format!(
                "it did not print `{READY}` within {} s; it said:\n{}",
                START.as_secs(),
                log.tail()
            ))),
        }
    }

    /// Whether it is still there.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.kill_now();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), SuiteError> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // If it is gone already there is nobody to ask.
            let _ = kill_process(pid, Signal::TERM);
        }
        let begin = clock::now();
        while self.is_running() {
            if begin.elapsed() > STOP {
                let detail = format!("it was still there {} s after SIGTERM, and was killed", STOP.as_secs());
                return Err(SuiteError::Failed(format!("cannot stop the worker: {detail}")));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The CPU time that it has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        process::cpu_time(self.child.id()).unwrap_or_default()
    }

    fn kill_now(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill_now();
    }
}

/// What the workers of a run say.
pub(crate) fn log_of(root: &Path) -> LogFile {
    LogFile(PathBuf::from(root).join("worker.log"))
}

/// Reads all that the worker prints, so that it never waits for a reader, and tells when it is ready.
fn read(printed: impl std::io::Read, sender: oneshot::Sender<()>) {
    let mut sender = Some(sender);
    for line in BufReader::new(printed).lines() {
        let Ok(line) = line else { return };
        if line.starts_with(READY) {
            if let Some(sender) = sender.take() {
                // Who waited may have given up.
                let _ = sender.send(());
            }
        }
    }
}
