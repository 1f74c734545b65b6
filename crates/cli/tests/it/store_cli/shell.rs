//! Runs `duramen store ...` on a home of one's own.

use serde_json::Value;
use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// A home, gone with everything in it at the end of the test.
pub(crate) struct Shell {
    dir: tempfile::TempDir,
}

impl Shell {
    pub(crate) fn new() -> Shell {
        Shell { dir: tempfile::tempdir().expect("a scratch directory") }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of("store", arguments)
    }

    pub(crate) fn command_of(&self, noun: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
        command.env_remove("DURAMEN_HOME").env("XDG_DATA_HOME", self.beside("data"));
        // Files are named as they lie in the folder of the test.
        command.current_dir(self.dir.path());
        command.arg("--home").arg(self.home()).arg(noun).args(arguments);
        command
    }

    /// Runs `duramen pack ...`.
    pub(crate) fn pack(&self, arguments: &[&str]) -> Output {
        self.pack_fed(b"", arguments)
    }

    pub(crate) fn pack_fed(&self, input: &[u8], arguments: &[&str]) -> Output {
        feed(self.command_of("pack", arguments), input)
    }

    /// Runs a command with something on its standard input.
    pub(crate) fn fed(&self, input: &[u8], arguments: &[&str]) -> Output {
        feed(self.command(arguments), input)
    }

    /// Runs a command that must do its work. Returns what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.ok_fed(b"", arguments)
    }

    #[track_caller]
    pub(crate) fn ok_fed(&self, input: &[u8], arguments: &[&str]) -> String {
        let output = self.fed(input, arguments);
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
        self.fails_fed(status, b"", arguments)
    }

    #[track_caller]
    pub(crate) fn fails_fed(&self, status: i32, input: &[u8], arguments: &[&str]) -> String {
        let output = self.fed(input, arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", said(&output));
        let error = text(&output.stderr);
        // With --json the reason is JSON, with a code beside it; what is wrong with the arguments is always text.
        let is_told = error.contains("error:") || error.contains("\"error\":{\"code\":\"");
        assert!(is_told, "{arguments:?} gave no reason: {}", said(&output));
        error
    }
}

fn feed(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    // A program that refuses its arguments does not wait for what it is sent.
    let _ = child.stdin.take().expect("it was asked for").write_all(input);
    child.wait_with_output().expect("the program ends")
}

/// Everything that a command printed.
pub(crate) fn said(output: &Output) -> String {
    format!("stdout:\n{}\nstderr:\n{}", text(&output.stdout), text(&output.stderr))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}
