//! The daemon as a child process, for whoever needs one of its own: the demo, the lab, tests.

use duramen_api::model::Status;
use duramen_base::clock;
use duramen_client::{Client, ClientError};
use rustix::process::{kill_process, Pid, Signal};
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};
use tokio::time::sleep;

/// How long a daemon may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to stop everything.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to stop when nobody can wait for it asynchronously any more.
const DROP_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
/// How much of the log's end an error shows.
const LOG_TAIL: u64 = 4096;

/// A daemon that belongs to this process. It stops when this process dies, however it dies, because its standard
/// input then ends.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    home: PathBuf,
    log: PathBuf,
}

/// Why a daemon did not start or stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The program could not be run, or its log not be opened.
    #[error("cannot run {program} with its log in {log}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The log file.
        log: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("the daemon of {home} ended at once ({status}); the end of its log {log}:\n{tail}")]
    Exited {
        /// The home directory.
        home: String,
        /// How it ended.
        status: String,
        /// The log file.
        log: String,
        /// The end of the log.
        tail: String,
    },
    /// It did not answer in time, and was stopped.
    #[error("the daemon of {home} did not answer within {seconds} s and was stopped; the end of its log {log}:\n{tail}")]
    StartTimeout {
        /// The home directory.
        home: String,
        /// The time that was allowed.
        seconds: u64,
        /// The log file.
        log: String,
        /// The end of the log.
        tail: String,
    },
    /// It did not stop in time, and was killed: what it ran may still be there.
    #[error("the daemon of {home} did not stop within {seconds} s and was killed; run `duramen purge --yes --home {home}`")]
    StopTimeout {
        /// The home directory.
        home: String,
        /// The time that was allowed.
        seconds: u64,
    },
    /// It stopped, but not well.
    #[error("the daemon of {home} ended with {status}; the end of its log {log}:\n{tail}")]
    StoppedBadly {
        /// The home directory.
        home: String,
        /// How it ended.
        status: String,
        /// The log file.
        log: String,
        /// The end of the log.
        tail: String,
    },
}

impl Daemon {
    /// Starts `exe --home HOME serve ARGS` with its output appended to the file `log`, and waits until it answers.
    ///
    /// # Errors
    /// [`DaemonError`]; no process is left.
    pub async fn spawn(exe: &Path, home: &Path, args: &[String], log: &Path) -> Result<Daemon, DaemonError> {
        let start = || -> io::Result<Child> {
            let out = File::options().create(true).append(true).mode(0o600).open(log)?;
            let err = out.try_clone()?;
            Command::new(exe)
                .arg("--home")
                .arg(home)
                .args(["serve", "--until-stdin-ends"])
                .args(args)
                .stdin(Stdio::piped())
                .stdout(out)
                .stderr(err)
                // A group of its own: Ctrl-C is for the one who started us, who then stops the daemon in order.
                .process_group(0)
                .spawn()
        };
        let child = start().map_err(|source| DaemonError::Spawn {
            program: exe.display().to_string(),
            log: log.display().to_string(),
            source,
        })?;
        let mut daemon = Daemon { child, home: home.to_owned(), log: log.to_owned() };
        daemon.wait_until_it_answers().await?;
        Ok(daemon)
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), DaemonError> {
        let begin = clock::now();
        let client = Client::new(&self.home).with_deadline(START_LIMIT);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(DaemonError::Exited {
                    home: self.home.display().to_string(),
                    status: status.to_string(),
                    log: self.log.display().to_string(),
                    tail: self.log_tail(),
                });
            }
            let left = START_LIMIT.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let tail = self.log_tail();
                self.end(DROP_LIMIT);
                return Err(DaemonError::StartTimeout {
                    home: self.home.display().to_string(),
                    seconds: START_LIMIT.as_secs(),
                    log: self.log.display().to_string(),
                    tail,
                });
            }
            // The answer must come from our child, not from a daemon that was there before.
            let answer: Result<Status, ClientError> = match client.connect().await {
                Ok(mut connection) => {
                    connection.set_deadline(left.min(Duration::from_secs(1)));
                    connection.status().await
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(status) if status.pid == self.child.id() => return Ok(()),
                _ => sleep(POLL).await,
            }
        }
    }

    /// The daemon's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A client of this daemon.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(&self.home)
    }

    /// Asks the daemon to stop and waits for its end; kills it when it takes longer than a minute.
    ///
    /// # Errors
    /// [`DaemonError::StopTimeout`], [`DaemonError::StoppedBadly`]; the process is gone in any case.
    pub async fn stop(mut self) -> Result<(), DaemonError> {
        let begin = clock::now();
        // A daemon that does not answer gets the signal instead.
        let asked = match self.client().with_deadline(Duration::from_secs(5)).connect().await {
            Ok(mut connection) => connection.shutdown().await.is_ok(),
            Err(_) => false,
        };
        if !asked {
            self.signal(Signal::TERM);
        }
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(DaemonError::StoppedBadly {
                        home: self.home.display().to_string(),
                        status: status.to_string(),
                        log: self.log.display().to_string(),
                        tail: self.log_tail(),
                    });
                }
                _ if begin.elapsed() > STOP_LIMIT => {
                    self.kill_now();
                    return Err(DaemonError::StopTimeout {
                        home: self.home.display().to_string(),
                        seconds: STOP_LIMIT.as_secs(),
                    });
                }
                _ => sleep(POLL).await,
            }
        }
    }

    /// Kills the daemon with SIGKILL, as a crash would. What it ran goes on running until another daemon of the
    /// same home takes it over.
    pub fn kill(mut self) {
        self.kill_now();
    }

    fn kill_now(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&mut self, signal: Signal) {
        // A child that was collected may have given its id to another process.
        if matches!(self.child.try_wait(), Ok(None)) {
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Stops the daemon without a runtime; kills it when it takes longer than `limit`.
    fn end(&mut self, limit: Duration) {
        let begin = clock::now();
        self.signal(Signal::TERM);
        while matches!(self.child.try_wait(), Ok(None)) {
            if begin.elapsed() > limit {
                return self.kill_now();
            }
            thread::sleep(POLL);
        }
    }

    fn log_tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        };
        read().unwrap_or_else(|error| format!("(no log: {error})"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end(DROP_LIMIT);
    }
}
