//! How git is run: with a deadline, without hooks, prompts, signatures and what the environment says of repositories.

use super::error::io;
use super::GitError;
use crate::run::{after, reap, Guardian, Pump, Stop};
use duramen_base::clock;
use rustix::process::{kill_process_group, Pid, Signal};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A call of git takes no longer: checkouts of great repositories take minutes.
const DEADLINE: Duration = Duration::from_secs(600);
/// Asked to end, git removes its lock files, and has so long for it.
const END: Duration = Duration::from_secs(5);
/// Children of git that hold its output open have so long.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// What is read of one call.
const OUTPUT_MAX: usize = 256 * 1024 * 1024;
/// What is shown of git's own words.
const SAID_MAX: usize = 2_000;

/// Settings that hold for each call, whatever the user's say: nothing of the user's is run, signed or written beside
/// what is asked for.
const SETTINGS: [&str; 14] = [
    "core.hooksPath=/dev/null",
    "core.logAllRefUpdates=false",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "commit.gpgsign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
    "advice.detachedHead=false",
    "submodule.recurse=false",
    "checkout.defaultRemote=",
];

/// A call of git.
#[derive(Debug)]
pub(super) struct Call {
    doing: &'static str,
    dir: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    settings: Vec<String>,
    input: Option<Vec<u8>>,
    guarded: bool,
}

/// What a call came to.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    /// Git's own words, short enough to be shown.
    pub(super) fn said(&self) -> String {
        let text = String::from_utf8_lossy(if self.stderr.is_empty() { &self.stdout } else { &self.stderr });
        let text = text.trim();
        match text.char_indices().nth(SAID_MAX) {
            Some((end, _)) => format!("{} ...", &text[..end]),
            None if text.is_empty() => format!("git ended with status {}", self.code),
            None => text.to_owned(),
        }
    }

    /// The output as one line of text.
    pub(super) fn line(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        text.strip_suffix('\n').unwrap_or(&text).to_owned()
    }

    /// The items of an output of `-z`.
    pub(super) fn items(&self) -> impl Iterator<Item = &[u8]> {
        self.stdout.split(|byte| *byte == 0).filter(|item| !item.is_empty())
    }
}

impl Call {
    /// `doing` completes "cannot ... in FOLDER".
    pub(super) fn new(doing: &'static str, dir: &Path) -> Self {
        let (args, env, settings) = (Vec::new(), Vec::new(), Vec::new());
        Self { doing, dir: dir.to_owned(), args, env, settings, input: None, guarded: false }
    }

    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(super) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// `NAME=VALUE`.
    pub(super) fn setting(mut self, setting: impl Into<String>) -> Self {
        self.settings.push(setting.into());
        self
    }

    pub(super) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = Some(input);
        self
    }

    /// Ended at once when we are killed. For what is written to worktrees of ours only: git that is killed leaves its
    /// lock files.
    pub(super) fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }

    /// The output of a call that succeeds.
    pub(super) fn run(self) -> Result<Output, GitError> {
        let (doing, dir) = (self.doing, self.dir.clone());
        let output = self.any()?;
        match output.code {
            0 => Ok(output),
            _ => Err(GitError::Failed { doing, dir, said: output.said() }),
        }
    }

    /// The output of a call, whatever its exit status.
    pub(super) fn any(self) -> Result<Output, GitError> {
        let (doing, dir) = (self.doing, &self.dir);
        let guardian =
            self.guarded.then(Guardian::start).transpose().map_err(io("start a guardian for git in", dir))?;
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            let name = name.as_encoded_bytes();
            // How servers are reached stays: a partial clone asks for what it lacks.
            let is_transport = name.starts_with(b"GIT_SSL_") || name.starts_with(b"GIT_SSH");
            if name.starts_with(b"GIT_") && !is_transport {
                command.env_remove(OsStr::from_bytes(name));
            }
        }
        for setting in SETTINGS.iter().copied().chain(self.settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        command
            .args(&self.args)
            .current_dir(dir)
            .env("LC_ALL", "C")
            .env_remove("LANGUAGE")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_EDITOR", ":")
            .env("GIT_PAGER", "cat")
            .env("GIT_ASKPASS", "true")
            .env("SSH_ASKPASS", "true")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(self.input.as_ref().map_or_else(Stdio::null, |_| Stdio::piped()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(guardian.as_ref().map_or(0, Guardian::group));
        let mut child = command.spawn().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound if dir.is_dir() => GitError::NotInstalled,
            _ => GitError::Io { doing: "run git in", path: dir.clone(), source },
        })?;
        let group = guardian
            .as_ref()
            .map_or_else(|| Some(Pid::from_child(&child)), |guardian| Pid::from_raw(guardian.group()));
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        let mut pump = Pump::start(&mut child, self.input, OUTPUT_MAX).map_err(io("run git in", dir))?;
        let never = || false;
        let mut stop = pump.until_exit(after(clock::now(), DEADLINE), &never);
        if stop == Stop::TimedOut {
            signal(Signal::TERM);
            pump.until_exit(after(clock::now(), END), &never);
            signal(Signal::KILL);
        }
        pump.until_closed(after(clock::now(), LAST_WORDS));
        let status = match reap(&mut child).map_err(io("wait for git in", dir))? {
            Some((status, _)) => status,
            None => {
                stop = Stop::TimedOut;
                std::process::ExitStatus::default()
            }
        };
        drop(guardian);
        if stop == Stop::TimedOut {
            return Err(GitError::TimedOut { doing, dir: dir.clone(), seconds: DEADLINE.as_secs() });
        }
        let [stdout, stderr] = &mut pump.said;
        let ((stdout, omitted), (stderr, _)) = (stdout.finish(), stderr.finish());
        if omitted > 0 {
            return Err(GitError::TooMuch { doing, dir: dir.clone(), limit: OUTPUT_MAX });
        }
        // Ended by a signal it has no code, and has not succeeded.
        Ok(Output { code: status.code().unwrap_or(-1), stdout, stderr })
    }
}
