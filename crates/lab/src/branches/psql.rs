//! The same work by `psql`, as people and scripts do it: a process for each statement, and one that is held open.

mod find;
mod held;

use std::path::PathBuf;
use std::time::Duration;

use duramen_base::clock;
use tokio::process::Command;

use super::client::{Failure, Lived, DEADLOCK, STEP_DEADLINE};
use super::program::{self, ProgramError};
use super::statement;
use super::workload::{Change, Plan, Read};
use held::Held;

/// No start-up file, rows only, no alignment, and an end at the first error.
const ARGUMENTS: [&str; 6] = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"];
/// Errors with their SQLSTATE, by which deadlocks are known in every language.
const ERRORS_IN_FULL: [&str; 2] = ["-v", "VERBOSITY=verbose"];

/// A `psql` that runs.
#[derive(Debug)]
pub(crate) struct Psql {
    program: PathBuf,
    /// What `psql --version` says.
    pub(crate) version: String,
}

impl Psql {
    /// Reads twice and writes, each by a process of its own, and reads on a client that has read before.
    pub(crate) async fn work(&self, url: &str, plan: &Plan, lived: &mut Lived) -> Result<(), Failure> {
        let [first, second] = &plan.reads;
        lived.note("psql_first_query_ms", self.read(url, "first query", first).await?);
        lived.note("psql_second_process_ms", self.read(url, "second process", second).await?);
        lived.note("psql_second_query_ms", self.read_again(url, first, second).await?);
        if let Some(change) = &plan.change {
            lived.note("psql_write_ms", self.write(url, change).await?);
        }
        Ok(())
    }

    /// A read by a process of its own, from its start to its end.
    async fn read(&self, url: &str, step: &'static str, read: &Read) -> Result<Duration, Failure> {
        let (printed, took) = self.run(url, step, &statement::of_read(read)).await?;
        judge(step, read, &printed)?;
        Ok(took)
    }

    /// A read by a process that is connected and has answered one before.
    async fn read_again(&self, url: &str, first: &Read, second: &Read) -> Result<Duration, Failure> {
        const STEP: &str = "second query";
        let mut held = Held::open(self.command(url)).await.map_err(|error| {
            Failure::wrong(STEP, format!("cannot run {}: {error}", self.program.display()))
        })?;
        let asked = async {
            judge(STEP, first, &held.ask(STEP, &statement::of_read(first)).await?)?;
            let begin = clock::now();
            let printed = held.ask(STEP, &statement::of_read(second)).await?;
            let took = begin.elapsed();
            judge(STEP, second, &printed)?;
            Ok::<Duration, Failure>(took)
        };
        let asked = tokio::time::timeout(STEP_DEADLINE, asked).await;
        let asked = asked.unwrap_or_else(|_| Err(Failure::deadline(STEP)));
        let said = held.close().await;
        asked.map_err(|mut failure| {
            if !said.is_empty() {
                failure.deadlock |= is_deadlock(&said);
                failure.message = format!("{}: {said}", failure.message);
            }
            failure
        })
    }

    /// A write by a process of its own.
    async fn write(&self, url: &str, change: &Change) -> Result<Duration, Failure> {
        const STEP: &str = "write";
        let (printed, took) = self.run(url, STEP, &statement::of_change(change)).await?;
        let is_right = match change {
            Change::Event { .. } => printed.lines().count() == 1,
            Change::Schema { .. } => printed.is_empty(),
        };
        if !is_right {
            return Err(Failure::wrong(STEP, format!("psql printed {printed:?}")));
        }
        Ok(took)
    }

    /// One process, one statement: what it printed, and how long it took.
    async fn run(&self, url: &str, step: &'static str, sql: &str) -> Result<(String, Duration), Failure> {
        let mut command = self.command(url);
        command.args(["-c", sql]);
        let output = program::finish(command, STEP_DEADLINE).await.map_err(|error| match error {
            ProgramError::Deadline { .. } => Failure::deadline(step),
            other => Failure::wrong(step, other.to_string()),
        })?;
        if !output.status.success() {
            let said = program::said(&output.stderr);
            let message = format!("psql ended with {}: {said}", output.status);
            return Err(Failure { deadlock: is_deadlock(&said), ..Failure::wrong(step, message) });
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        Ok((printed.trim_end_matches('\n').to_owned(), output.took))
    }

    /// `psql` on a URL, whatever the environment says of other servers.
    fn command(&self, url: &str) -> Command {
        let (url, secret) = without_secret(url);
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        if let Some(secret) = secret {
            command.env("PGPASSWORD", secret);
        }
        command.env("PGCONNECT_TIMEOUT", STEP_DEADLINE.as_secs().to_string());
        command.env("PGCLIENTENCODING", "UTF8");
        command.args(ARGUMENTS).args(ERRORS_IN_FULL).arg(url);
        command
    }
}

/// A URL without its secret, and the secret: the arguments of a process can be read by every user of the machine.
fn without_secret(url: &str) -> (String, Option<String>) {
    let unchanged = || (url.to_owned(), None);
    let Some((address, settings)) = url.split_once('?') else { return unchanged() };
    let (secrets, others): (Vec<&str>, Vec<&str>) =
        settings.split('&').partition(|setting| setting.starts_with("password="));
    match secrets.as_slice() {
        // One that is escaped is left to psql to read.
        [only] if !only.contains('%') => {
            let secret = only.trim_start_matches("password=").to_owned();
            (format!("{address}?{}", others.join("&")), Some(secret))
        }
        _ => unchanged(),
    }
}

/// Whether the printed rows are those expected.
fn judge(step: &'static str, read: &Read, printed: &str) -> Result<(), Failure> {
    match statement::expected_text(read) {
        Some(expected) if expected == printed => Ok(()),
        _ => Err(Failure::wrong(step, format!("expected {}, psql printed {printed:?}", read.expected))),
    }
}

/// Whether a deadlock is among what `psql` complained of.
fn is_deadlock(said: &str) -> bool {
    said.contains(&format!("{DEADLOCK}:"))
}

#[cfg(test)]
#[path = "../../tests/unit/branches/psql.rs"]
mod tests;
