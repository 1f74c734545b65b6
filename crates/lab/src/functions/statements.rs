//! Counting statements by the server's own log: exact, at once, and on every version.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// How the server begins its lines: who, under which name.
pub(crate) const PREFIX: &str = "%m [%p] %q%u/%a ";
/// The name of the suite's own sessions.
pub(crate) const LAB: &str = "duramen lab";
/// The names of its clients' sessions.
const CLIENTS: [&str; 2] = ["duramen fn client", "duramen fn waiter"];

/// How many statements were sent, by whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statements {
    /// By clients: those that start instances, and those that wait for them.
    pub clients: u64,
    /// By everybody else but the suite itself: the worker.
    pub worker: u64,
}

/// Counts the statements in the text of a server's log that was written with `log_statement = all`.
///
/// A statement of the simple protocol counts once, and so does each execution of the extended one; those that are sent
/// together without waiting for the answers are counted apart. What functions run inside is not counted.
#[must_use]
pub(crate) fn count_statements(log: &str) -> Statements {
    let mut counted = Statements::default();
    for line in log.lines() {
        // A statement of several lines goes on without a prefix, and could contain anything.
        let begins = line.starts_with(|c: char| c.is_ascii_digit());
        let Some((_, line)) = line.split_once("] ").filter(|_| begins) else { continue };
        let Some((before, said)) = line.split_once(":  ") else { continue };
        let is_statement = said.starts_with("execute ") || said.starts_with("statement: ");
        let Some(who) = before.strip_suffix(" LOG").filter(|_| is_statement) else { continue };
        let application = who.split_once('/').map_or("", |(_, application)| application);
        match application {
            LAB => {}
            name if CLIENTS.contains(&name) => counted.clients += 1,
            _ => counted.worker += 1,
        }
    }
    counted
}

/// What was written to a file since it had `from` bytes.
pub(crate) fn written_since(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How long a file is, in bytes.
pub(crate) fn length(path: &Path) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}
