//! A command with a branch of its own: it finds the branch in its environment, and afterwards the branch is gone and it is told what
//! was done in it.
//!
//! ```text
//!  leased --> before --> running ------------> over --> looked at --> destroyed, or kept
//!               tables     | renewed all the     what changed,
//!               as they    | time; signals are   is the source
//!               are        | passed on           as it was?
//! ```
//!
//! The lease is short and renewed while the command runs, so that the branch ends soon if this process is killed.

mod changes;
pub mod environment;
mod lease;
mod signals;

pub use changes::{Change, TableChange, Tables};
pub use lease::Leased;
pub use signals::Signals;

use crate::{Client, ClientError};
use duramen_api::model::{BranchEvidence, BranchView, CreateBranch, Policy};
use jiff::Timestamp;
use serde::Serialize;
use std::{ffi::OsString, io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long a branch outlives this process unless the caller says otherwise, in seconds.
pub const TTL_S: i64 = 120;
/// How long the source is looked at afterwards: that reads all of it.
const EVIDENCE_LIMIT: Duration = Duration::from_secs(30);
/// How long one request beside the command may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// What is run, and in what.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The source; may be left out when there is only one.
    pub source: Option<String>,
    /// What the command may do in its branch. `None`: `read-write`.
    pub policy: Option<Policy>,
    /// How long the branch outlives this process, in seconds.
    pub ttl_s: i64,
    /// Whether the branch stays when the command is over: for an hour, or `ttl_s` if that is longer.
    pub keep: bool,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no branch for it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The program cannot be started.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Signals cannot be passed on, or the command not be waited for.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A signal came before the command was started.
    #[error("ended by signal {0} before the command was started")]
    Ended(i32),
    /// The branch's URL is of another form than this version knows.
    #[error(
        "the URL of the branch {branch} cannot be read; daemon and program may be of different versions"
    )]
    Url {
        /// The branch.
        branch: String,
    },
}

impl RunError {
    /// The exit status of who runs commands, as shells and `env` have it: 127 for a program that is not there, 126 for one that
    /// cannot be run, 128 and the number for a signal, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            RunError::Spawn { .. } => 126,
            RunError::Ended(signal) => code_of(*signal),
            _ => 1,
        }
    }
}

/// What a command did.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    /// The branch it ran in.
    pub branch: String,
    /// Its source.
    pub source: String,
    /// The exit status of the command; 128 and the number if a signal ended it.
    pub exit_code: u8,
    /// Tables that are not as they were, by name.
    pub tables: Vec<TableChange>,
    /// Why it is not known which tables those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables_unknown: Option<String>,
    /// Whether the source is as it was when it was imported.
    pub source_state: SourceState,
    /// What became of the branch.
    pub fate: Fate,
}

/// Whether the source is as it was when it was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SourceState {
    /// Neither the snapshot nor the live source changed.
    Unchanged,
    /// The snapshot did not; what differs in the live source, which others use too.
    LiveSourceChanged(Vec<String>),
    /// The snapshot is not what was imported.
    SnapshotChanged,
    /// Why it is not known.
    Unknown(String),
}

/// What became of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fate {
    /// It is gone.
    Destroyed,
    /// It stays until then.
    Kept(Timestamp),
    /// It was not there any more.
    Missing,
    /// It could not be given back, for this reason; it ends with its lease.
    Left(String),
}

/// Runs a command to its end with a branch of its own, in the environment (`DATABASE_URL`, `PGHOST`, `PGPORT`, `PGUSER`,
/// `PGPASSWORD`, `PGDATABASE`). SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to it.
///
/// # Errors
/// [`RunError`] when the command was not started; the branch is given back.
pub async fn run(client: &Client, wanted: RunOptions) -> Result<RunReport, RunError> {
    run_with(client, wanted, async |_: &BranchView, _| ()).await.map(|(report, _)| report)
}

/// As [`run`], and has the branch looked at once more before it is given back: `look` gets it with the exit status of the
/// command. What it returns is returned; `None` if a signal came before it had an end.
///
/// # Errors
/// As [`run`].
pub async fn run_with<T>(
    client: &Client,
    wanted: RunOptions,
    look: impl AsyncFnOnce(&BranchView, u8) -> T,
) -> Result<(RunReport, Option<T>), RunError> {
    let client = client.clone().with_deadline(REQUEST_LIMIT);
    // From here on a signal is passed on, or ends this in order.
    let mut signals =
        Signals::listen().map_err(|source| RunError::Io { doing: "listen for signals", source })?;
    let request =
        CreateBranch { source: wanted.source.clone(), policy: wanted.policy, ..CreateBranch::default() };
    let branch = tokio::select! {
        branch = Leased::take(&client, request, wanted.ttl_s) => branch?,
        signal = signals.next() => return Err(RunError::Ended(signal)),
    };
    let (name, source) = (branch.view().name.clone(), branch.view().source.clone());
    let ran = in_branch(&client, &wanted, &branch, &mut signals, look).await;
    let fate = branch.give_back(wanted.keep && ran.is_ok()).await;
    let (status, tables, source_state, looked) = ran?;
    let exit_code = status_code(status);
    let (tables, tables_unknown) = match tables {
        Ok(tables) => (tables, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Ok((RunReport { branch: name, source, exit_code, tables, tables_unknown, source_state, fate }, looked))
}

fn status_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, signal) => code_of(signal.unwrap_or_default()),
    }
}

fn code_of(signal: i32) -> u8 {
    u8::try_from(signal).map_or(128, |signal| signal.saturating_add(128))
}

type Ran<T> = (ExitStatus, Result<Vec<TableChange>, String>, SourceState, Option<T>);

/// Runs the command, and looks at what it did.
async fn in_branch<T>(
    client: &Client,
    wanted: &RunOptions,
    branch: &Leased,
    signals: &mut Signals,
    look: impl AsyncFnOnce(&BranchView, u8) -> T,
) -> Result<Ran<T>, RunError> {
    let name = &branch.view().name;
    let mut command = Command::new(&wanted.program);
    command.args(&wanted.arguments);
    if !branch.enter(&mut command) {
        return Err(RunError::Url { branch: name.clone() });
    }
    let before = tokio::select! {
        before = Tables::of(client, name) => before,
        signal = signals.next() => return Err(RunError::Ended(signal)),
    };
    let spawned = command.spawn();
    let mut child = spawned.map_err(|source| RunError::Spawn {
        program: wanted.program.to_string_lossy().into_owned(),
        source,
    })?;
    let status = to_its_end(&mut child, signals).await?;
    // Who is in a hurry now gets no evidence, but the branch is given back.
    let looked = async {
        let tables = match &before {
            Ok(before) => before.changes(client, name).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let evidence = timeout(EVIDENCE_LIMIT, evidence(client, name)).await;
        (tables, evidence, look(branch.view(), status_code(status)).await)
    };
    let (mut tables, evidence, seen) = tokio::select! {
        looked = looked => looked,
        _ = signals.next() => {
            let why = "a signal came before it was looked at".to_owned();
            return Ok((status, Err(why.clone()), SourceState::Unknown(why), None));
        }
    };
    let source_state = match evidence {
        Ok(Ok(found)) => {
            if let Ok(tables) = &mut tables {
                changes::compare(tables, &found);
            }
            state(&found)
        }
        Ok(Err(error)) => SourceState::Unknown(error.to_string()),
        Err(_) => SourceState::Unknown(format!(
            "reading all of it takes longer than {} s; `duramen branch evidence` does, with --keep",
            EVIDENCE_LIMIT.as_secs()
        )),
    };
    Ok((status, tables, source_state, Some(seen)))
}

async fn to_its_end(child: &mut Child, signals: &mut Signals) -> Result<ExitStatus, RunError> {
    loop {
        let pid = child.id();
        tokio::select! {
            status = child.wait() => {
                return status.map_err(|source| RunError::Io { doing: "wait for the command", source });
            }
            signal = signals.next() => signals::pass_on(pid, signal),
        }
    }
}

async fn evidence(client: &Client, name: &str) -> Result<BranchEvidence, ClientError> {
    let mut connection = client.connect().await?;
    connection.set_deadline(EVIDENCE_LIMIT * 2);
    connection.evidence(name, None).await
}

fn state(found: &BranchEvidence) -> SourceState {
    if found.snapshot_digest != found.snapshot_digest_now {
        SourceState::SnapshotChanged
    } else if !found.source.comparable {
        SourceState::Unknown("the live source cannot be compared with what it was".to_owned())
    } else if found.source.unchanged {
        SourceState::Unchanged
    } else {
        SourceState::LiveSourceChanged(found.source.differences.clone())
    }
}
