//! A process that clears up when this one cannot any more.
//!
//! A guardian holds one end of a pipe, and this process the other. When this one ends, in whatever way, the system closes
//! its end, and the guardian goes to work: nothing has to be told, and nobody has to live to tell it.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use duramen_base::clock;

/// Between two looks at a guardian that is waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// A guardian that watches. When this is dropped it does its work, and is waited for.
#[derive(Debug)]
pub struct Guardian {
    process: Child,
    wait: Option<Duration>,
}

impl Guardian {
    /// Runs `command` as a guardian: a program that reads its standard input to the end, and then clears up. It works in
    /// `/`, in a process group of its own, since what interrupts this process must not interrupt its guardian.
    ///
    /// # Errors
    /// The command cannot be run.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::spawn(command.stdout(Stdio::null()))
    }

    /// As [`Guardian::start`], for a program that first writes the line `ready` to its standard output; returns when it
    /// has. Blocks, for at most `within`.
    ///
    /// # Errors
    /// The command cannot be run, or does not say in time that it watches.
    pub fn start_watching(command: &mut Command, ready: &str, within: Duration) -> io::Result<Self> {
        // What does not answer may not end either.
        let mut guardian = Self::spawn(command.stdout(Stdio::piped()))?.wait_at_most(within);
        let output = guardian.process.stdout.take();
        // A thread, because a pipe has no deadline.
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            // What cannot be read is not the line that is waited for.
            let _ = output.map(|output| BufReader::new(output).read_line(&mut line));
            // Nobody may be waiting any more.
            let _ = sender.send(line);
        });
        match receiver.recv_timeout(within) {
            Ok(line) if line.trim() == ready => {
                guardian.wait = None;
                Ok(guardian)
            }
            _ => Err(io::Error::other(format!(
                "{} does not watch over it",
                command.get_program().to_string_lossy()
            ))),
        }
    }

    fn spawn(command: &mut Command) -> io::Result<Self> {
        let process =
            command.current_dir("/").stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn()?;
        Ok(Self { process, wait: None })
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Tells it something on its standard input.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn tell(
        &mut self,
        say: impl FnOnce(&mut std::process::ChildStdin) -> io::Result<()>,
    ) -> io::Result<()> {
        let input = self.process.stdin.as_mut();
        say(input.ok_or_else(|| io::Error::other("it has been let go"))?)
    }

    /// Waits for its work for so long at the most when this is dropped; the guardian then goes on alone.
    #[must_use]
    pub fn wait_at_most(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Lets it go to work, and does not wait for it.
    pub fn release(self) {
        drop(self.wait_at_most(Duration::ZERO));
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let Some(limit) = self.wait else {
            // How it ends says nothing that could be acted upon.
            let _ = self.process.wait();
            return;
        };
        let begin = clock::now();
        while begin.elapsed() < limit && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(PAUSE);
        }
    }
}
