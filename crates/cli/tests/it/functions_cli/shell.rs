//! Runs `duramen fn ...` on a database.

use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

/// How long a thing that happens by itself may take.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Commands for one database, as one role.
pub(crate) struct Shell {
    url: Option<String>,
}

impl Shell {
    pub(crate) fn new(url: &str) -> Shell {
        Shell { url: Some(url.to_owned()) }
    }

    /// Commands that are not told which database is meant.
    pub(crate) fn nowhere() -> Shell {
        Shell { url: None }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
        command.env_remove("DURAMEN_HOME").env_remove("DURAMEN_LOG").env_remove("DURAMEN_FN_URL");
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
        if let Some(url) = &self.url {
            command.env("DURAMEN_FN_URL", url);
        }
        command.arg("fn").args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Runs a command that must do its work. Returns what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        text(&output.stdout)
    }

    /// Runs a command that must do its work, with `--json`, and takes what it printed apart.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
    }

    /// Runs a command that must end with a status. Returns what it said on its standard error.
    #[track_caller]
    pub(crate) fn fails(&self, status: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", said(&output));
        let error = text(&output.stderr);
        // With --json the reason is JSON, with a code beside it; what is wrong with the arguments is always text.
        let is_told = error.contains("error:") || error.contains("\"error\":{\"code\":\"");
        assert!(is_told, "{arguments:?} gave no reason: {}", said(&output));
        error
    }

    /// Starts an instance. Returns its id.
    #[track_caller]
    pub(crate) fn start(&self, graph: &str) -> String {
        let id = self.ok(&["start", graph]).trim_end().to_owned();
        assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id:?}");
        id
    }

    /// Runs a worker as a process of its own, and waits until it is ready.
    pub(crate) fn worker(&self, arguments: &[&str]) -> Worker {
        self.worker_with(&[&["--allow-superuser"], arguments].concat(), |_| {})
    }

    /// The same, with all its arguments, and what else is to be said of the process.
    pub(crate) fn worker_with(&self, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> Worker {
        let mut command = self.command(&[&["worker"], arguments].concat());
        prepare(&mut command);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut printed = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut log = child.stderr.take().expect("it was asked for");
        // Read as it comes: a program whose log nobody reads stops when the pipe is full.
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = log.read_to_string(&mut text);
            text
        });
        let mut worker = Worker { child, ready: String::new(), log: Some(log) };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = printed.read_line(&mut line);
            let _ = sender.send(line);
        });
        worker.ready = receiver.recv_timeout(SOON).expect("it says that it is ready").trim_end().to_owned();
        if worker.ready.is_empty() {
            panic!("no worker: {}", worker.log());
        }
        worker
    }
}

/// A worker that is killed when the test ends.
pub(crate) struct Worker {
    child: Child,
    /// What it printed when it was ready.
    pub(crate) ready: String,
    log: Option<JoinHandle<String>>,
}

impl Worker {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().expect("a pid")).expect("not 0");
        kill_process(pid, signal).expect("it is ours");
    }

    /// How many files and sockets it has open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs").count()
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        for _ in 0..3000 {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the worker does not end");
    }

    /// What it wrote to its log until its end.
    pub(crate) fn log(&mut self) -> String {
        self.log.take().and_then(|log| log.join().ok()).unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything that a command printed.
pub(crate) fn said(output: &Output) -> String {
    format!("stdout:\n{}\nstderr:\n{}", text(&output.stdout), text(&output.stderr))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("it never came to this: {what}");
}
