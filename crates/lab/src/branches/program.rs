//! Programs of others that are run to their end: no wait is without a deadline, and no process is left behind.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use duramen_base::clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The kernel lets go of a process that was killed within this.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Why a program did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProgramError {
    /// It could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It could not be listened to, and was killed.
    #[error("cannot read what {program} prints: {source}; it was killed")]
    Read {
        /// The program.
        program: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// It took too long, and was killed.
    #[error("{program} did not end within {} s and was killed", limit.as_secs_f64())]
    Deadline {
        /// The program.
        program: String,
        /// The time that it had.
        limit: Duration,
    },
}

impl ProgramError {
    /// Whether there is no such program.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, ProgramError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// A program that has come to its end.
#[derive(Debug)]
pub(crate) struct Finished {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// What it printed.
    pub(crate) stdout: Vec<u8>,
    /// What it complained of.
    pub(crate) stderr: Vec<u8>,
    /// From its start to its end.
    pub(crate) took: Duration,
}

/// Runs a program without input to its end. It is killed when the limit passes, or when the caller gives up.
pub(crate) async fn finish(mut command: Command, limit: Duration) -> Result<Finished, ProgramError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begin) = match timeout(limit, start(command)).await {
        Ok(Ok(started)) => started,
        Ok(Err(source)) => return Err(ProgramError::Start { program, source }),
        Err(_) => return Err(ProgramError::Deadline { program, limit }),
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let left = limit.saturating_sub(begin.elapsed());
    let ended = timeout(left, async { tokio::try_join!(all_of(out), all_of(err), child.wait()) }).await;
    let took = begin.elapsed();
    match ended {
        Ok(Ok((stdout, stderr, status))) => Ok(Finished { status, stdout, stderr, took }),
        Ok(Err(source)) => {
            end(&mut child).await;
            Err(ProgramError::Read { program, source })
        }
        Err(_) => {
            end(&mut child).await;
            Err(ProgramError::Deadline { program, limit })
        }
    }
}

/// Starts a program that is killed when its handle goes away, and says when that was.
///
/// A start blocks until the program has taken the place of this one. On a thread of the runtime it would hold up the other
/// clients, and be in their latencies.
pub(crate) async fn start(mut command: Command) -> io::Result<(Child, Instant)> {
    let started = tokio::task::spawn_blocking(move || {
        let begin = clock::now();
        command.kill_on_drop(true).spawn().map(|child| (child, begin))
    });
    started.await.map_err(io::Error::other)?
}

/// Kills a program that may have ended already, and takes its status, so that it does not stay as a zombie.
pub(crate) async fn end(child: &mut Child) {
    // An error means that it has ended; what the kernel does not let go of is left to the runtime.
    let _ = timeout(KILL_LIMIT, child.kill()).await;
}

async fn all_of(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// What a program said, as one text for an error.
pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
#[path = "../../tests/unit/branches/program.rs"]
mod tests;
