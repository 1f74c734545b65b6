//! The process that puts things back when the run cannot: this program, waiting for the end of the run.

use crate::error::no_runtime;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use duramen_base::clock;
use duramen_postgres::Guardian;

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

/// Runs `exe lab restore --when-orphaned FILE`, and returns once it is watching. When the guardian is dropped, or this
/// process is killed, it restores the settings recorded in the file and exits. If the file has been removed, it just exits.
/// Blocks.
pub(in super::super) fn guard(exe: &Path, file: &Path) -> Result<Guardian, SuiteError> {
    let mut command = Command::new(exe);
    command.args(["lab", "restore", "--when-orphaned"]).arg(file);
    Guardian::start_watching(&mut command, WATCHING, START)
        .map(|guardian| guardian.wait_at_most(WAIT))
        .map_err(SuiteError::file("run a guardian for the restore file", file))
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
