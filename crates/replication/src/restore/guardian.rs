//! The process that puts things back when the run cannot: this program, waiting for the end of the run.

use crate::error::no_runtime;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use duramen_base::clock;

use super::{put_back, Outcome, RestoreFile};
use duramen_reports::suite::SuiteError;

/// What a guardian says when it watches.
const WATCHING: &str = "watching";
/// It says so within this.
const START: Duration = Duration::from_secs(20);
/// A run that was dropped waits so long for its guardian; afterwards the guardian goes on alone.
const WAIT: Duration = Duration::from_secs(60);
/// A guardian tries so long: servers may be starting again.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// A guardian at work. When this is dropped, or the process is killed, it puts back what the file says and ends; if
/// there is no file any more it has nothing to do.
#[derive(Debug)]
pub(in super::super) struct Guardian {
    process: Child,
    /// Nobody waits for its end.
    alone: bool,
}

impl Guardian {
    /// Runs `exe lab restore --when-orphaned FILE`, and returns when it watches. Blocks.
    pub(in super::super) fn run(exe: &Path, file: &Path) -> Result<Self, SuiteError> {
        let failed = |source| SuiteError::file("run a guardian for the restore file", file)(source);
        let mut process = Command::new(exe)
            .args(["lab", "restore", "--when-orphaned"])
            .arg(file)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // What interrupts the run must not interrupt its guardian.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let said = process.stdout.take();
        let guardian = Self { process, alone: false };
        // A thread, because a pipe has no deadline.
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = said.map(|said| BufReader::new(said).read_line(&mut line));
            // Nobody may be waiting any more.
            let _ = sender.send(line);
        });
        match receiver.recv_timeout(START) {
            Ok(line) if line.trim() == WATCHING => Ok(guardian),
            _ => Err(failed(io::Error::other(format!("{} does not watch over it", exe.display())))),
        }
    }
}

impl Guardian {
    /// Lets it go to work, and does not wait for it.
    pub(in super::super) fn release(mut self) {
        drop(self.process.stdin.take());
        self.alone = true;
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let begin = clock::now();
        while !self.alone && matches!(self.process.try_wait(), Ok(None)) && begin.elapsed() < WAIT {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What a guardian does: waits for the end of its input, that is of the run, then puts back what the file says, again
/// and again until nothing is left, for ten minutes. Blocks.
///
/// # Errors
/// What kept the last try from putting everything back; the file is kept.
pub fn watch(file: &Path) -> Result<Option<Outcome>, SuiteError> {
    let mut out = io::stdout();
    // If nobody reads it, the run is over already, and that is what it waits for.
    let _ = writeln!(out, "{WATCHING}").and_then(|()| out.flush());
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let begin = clock::now();
    loop {
        if !file.exists() {
            return Ok(None);
        }
        let result = attempt(file);
        match &result {
            Ok(Some(outcome)) if outcome.left.is_empty() => return result,
            // The run has put it back itself in the meantime.
            Err(_) if !file.exists() => return Ok(None),
            _ if begin.elapsed() > PATIENCE => return result,
            _ => thread::sleep(PAUSE),
        }
    }
}

fn attempt(file: &Path) -> Result<Option<Outcome>, SuiteError> {
    let Some(file) = RestoreFile::take_over(file)? else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    runtime.block_on(put_back(file)).map(Some)
}
