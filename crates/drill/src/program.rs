//! A process of a node, with everything below it: started, held, killed, and found again by the folder that it works in.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use duramen_base::{clock, file};
use duramen_postgres::{processes_below, ServerUser};
use rustix::process::{kill_process, Pid, Signal};

use crate::error::DrillError;
use crate::network::Network;

/// The end of a log that is shown.
const LOG_BYTES: u64 = 4096;
/// What was killed is gone within this.
const GONE: Duration = Duration::from_secs(10);

/// A program with its arguments, the folder that it works in, and its place in the network.
#[derive(Debug)]
pub struct Program {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    user: ServerUser,
    /// It and everything that it starts work in or below it.
    dir: PathBuf,
    node: Option<usize>,
    child: Mutex<Option<Child>>,
}

impl Program {
    /// A program that is not started yet. `dir` is made, and belongs to `user`; the log is `dir/log`.
    ///
    /// # Errors
    /// [`DrillError::File`].
    pub fn new(
        name: impl Into<String>,
        program: &Path,
        dir: &Path,
        user: &ServerUser,
        node: Option<usize>,
    ) -> Result<Self, DrillError> {
        fs::create_dir_all(dir).map_err(DrillError::file("make the folder", dir))?;
        user.own(dir).map_err(DrillError::file("prepare the folder", dir))?;
        let dir = fs::canonicalize(dir).map_err(DrillError::file("find the folder", dir))?;
        Ok(Self {
            name: name.into(),
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            user: user.clone(),
            dir,
            node,
            child: Mutex::new(None),
        })
    }

    /// With these arguments.
    #[must_use]
    pub fn arguments<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With a variable in its environment, which is empty otherwise but for a search path and the locale.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder that it works in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts it, if it does not run. Blocks.
    ///
    /// # Errors
    /// [`DrillError::File`].
    pub fn start(&self, network: &Network) -> Result<(), DrillError> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return Ok(());
        }
        let path = self.dir.join("log");
        // The folder is of the user that it runs as, who may have put something else there.
        let log = file::open_log(&path).map_err(DrillError::file("open the log", &path))?;
        self.user.own_file(&log).map_err(DrillError::file("prepare", &path))?;
        let errors = log.try_clone().map_err(DrillError::file("open the log", &path))?;
        let mut command = self.user.command(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", &self.dir)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors);
        own_group(&mut command);
        let mut spawn = || command.spawn().map_err(DrillError::file("run", &self.program));
        let started = match self.node {
            Some(node) => network.within(node, spawn),
            None => spawn(),
        };
        let started = started?;
        // The guardian ends whoever supervises others before those, which would be started again else.
        let _ =
            file::replace(&self.dir.join("supervisor.pid"), format!("{}\n", started.id()).as_bytes(), 0o644);
        *child = Some(started);
        Ok(())
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// All processes that work in its folder.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        processes_below(&self.dir)
    }

    /// Kills it with everything that works in its folder, as a machine ends that loses its power. Blocks.
    ///
    /// # Errors
    /// [`DrillError::Timeout`], if something is still there.
    pub fn kill(&self) -> Result<(), DrillError> {
        let begin = clock::now();
        loop {
            // It may be starting others while it is killed.
            self.signal(Signal::KILL);
            self.reap();
            // One that has ended and was not waited for yet would pass for one that runs, and not be started again.
            if self.processes().is_empty() && !self.is_running() {
                return Ok(());
            }
            if begin.elapsed() > GONE {
                return Err(DrillError::Timeout {
                    what: format!("the end of {}", self.name),
                    seconds: GONE.as_secs(),
                    said: self.log(),
                });
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Holds it with everything that works in its folder (SIGSTOP), as a machine that is frozen, or lets it go on.
    pub fn hold(&self, held: bool) {
        // Whoever starts others meanwhile is caught by the second round.
        for _ in 0..2 {
            self.signal(if held { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Asks it to end, waits, and kills what is left. Blocks.
    pub fn stop(&self, patience: Duration) {
        self.hold(false);
        {
            let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pid) = child.as_ref().and_then(|child| pid_of(child.id())) {
                // It may have ended.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let begin = clock::now();
        while begin.elapsed() < patience && self.is_running() {
            thread::sleep(Duration::from_millis(20));
        }
        // What cannot be ended here is ended by the guardian of the folder.
        let _ = self.kill();
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(self.dir.join("log"))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(LOG_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        for pid in self.processes().into_iter().filter_map(pid_of) {
            // Who has ended meanwhile needs none.
            let _ = kill_process(pid, signal);
        }
    }

    fn reap(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = child.as_mut() {
            let _ = child.try_wait();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.hold(false);
        let _ = self.kill();
        if let Some(mut child) = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// What interrupts this process does not interrupt what it has started.
fn own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Does what blocks on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DrillError> + Send + 'static,
) -> Result<T, DrillError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| DrillError::failed("a thread", error))?
}
