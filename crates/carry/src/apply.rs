//! Bringing a change set to a database: all of it in one transaction, once, or nothing.
//!
//! ```text
//!  begun -> not applied yet -> as it was? -> done in some order -> written down -> committed
//!             | applied: told    | no: conflicts, rolled back         | connection broke: asked again on another
//! ```
//!
//! One file an idea: [`registry`] is what makes it once, [`target`] what the database has, [`stage`] brings the rows there,
//! [`check`] looks whether all is as it was, [`work`] does it, [`order`] says in which order, [`sql`] writes the statements.

pub(crate) mod check;
pub(crate) mod conflict;
pub(crate) mod order;
pub(crate) mod registry;
pub(crate) mod run;
pub(crate) mod sequences;
pub(crate) mod sql;
pub(crate) mod stage;
pub(crate) mod target;
pub(crate) mod work;

pub use conflict::{Conflict, ConflictKind, Differing};

use crate::{error::ApplyError, read::ChangeSet};
use duramen_postgres::connection::Target;
use jiff::Timestamp;
use registry::Entry;
use run::Run;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_postgres::{error::Severity, Client};

/// How long all of it may take.
pub(crate) const APPLY_LIMIT: Duration = Duration::from_secs(3600);
/// How long a commit may take before it is asked about on another connection.
const COMMIT_LIMIT: Duration = Duration::from_secs(60);
/// How long it is tried to reach a database again whose connection broke at the commit.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// Between two tries.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// What triggers of users do while a change set is applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Triggers {
    /// Where there are any, nothing is done: what they did in the branch stands in the change set, so to fire is to do it twice, and only
    /// whoever knows them knows whether that is right.
    #[default]
    Refuse,
    /// They fire, as for any other change.
    Fire,
    /// Those of the tables in it are off in the transaction: what they did in the branch stands in the change set.
    Off,
}

/// How a change set is applied.
#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// Whether all of it is taken back at the end.
    pub dry_run: bool,
    /// What triggers of users do.
    pub triggers: Triggers,
    /// How long one statement may wait for a lock.
    pub lock_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// Whether the table of applied change sets may be anybody's: where who connects may no more than its owner gave anyway, as
    /// the holder of a branch, whatever hangs on the table gains nothing.
    pub any_registry: bool,
}

impl Default for ApplyOptions {
    fn default() -> ApplyOptions {
        ApplyOptions {
            dry_run: false,
            triggers: Triggers::Refuse,
            lock_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(600),
            any_registry: false,
        }
    }
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Statements that changed definitions.
    pub statements: u64,
    /// Rows that came.
    pub inserted: u64,
    /// Rows that were changed.
    pub updated: u64,
    /// Rows that went; those of tables that went are among them.
    pub deleted: u64,
    /// Sequences that were moved on.
    pub sequences: u64,
}

/// When a change set was applied, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// When its transaction began.
    pub at: Timestamp,
    /// The role.
    pub by: String,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// It is done, and durable as far as the database makes commits durable.
    Applied(Counts),
    /// It was done before, and nothing was done now.
    AlreadyApplied(Applied),
    /// It can be done, and was taken back.
    WouldApply(Counts),
}

/// Applies a change set to a database: in one transaction, if every row that it changes is as it was, and if it was not applied
/// before. Of several at a time, one does it.
///
/// # Errors
/// [`ApplyError`]. All but [`ApplyError::Unknown`] mean that nothing was changed.
pub async fn apply(set: &ChangeSet, target: &Target, options: &ApplyOptions) -> Result<Outcome, ApplyError> {
    let target = target.clone().application_name("duramen change apply");
    let digest = set.digest();
    let client = target.connect().await?;
    let run = Run::new(&client, &target, options);
    let work = async {
        run.begin().await?;
        if let Some(applied) = registry::enter(&run, &digest).await? {
            run.take_back().await;
            return Ok(Step::Over(Outcome::AlreadyApplied(applied)));
        }
        let counts = match work::all(&run, set).await {
            Ok(counts) => counts,
            Err(error) => {
                run.take_back().await;
                return Err(error);
            }
        };
        if options.dry_run {
            run.take_back().await;
            return Ok(Step::Over(Outcome::WouldApply(counts)));
        }
        registry::write(&run, &Entry { digest: &digest, head: set.head(), counts: &counts }).await?;
        Ok(Step::Commit(counts))
    };
    let step = timeout(APPLY_LIMIT, work).await.unwrap_or(Err(ApplyError::TooSlow { limit: APPLY_LIMIT }))?;
    let counts = match step {
        Step::Over(outcome) => return Ok(outcome),
        Step::Commit(counts) => counts,
    };
    commit(client, &target, options, &digest).await?;
    Ok(Outcome::Applied(counts))
}

/// Commits a transaction that has written its digest down. If the answer does not come, the database is asked on another connection.
pub(crate) async fn commit(
    client: Client,
    target: &Target,
    options: &ApplyOptions,
    digest: &str,
) -> Result<(), ApplyError> {
    let cause = match timeout(COMMIT_LIMIT, client.batch_execute("COMMIT")).await {
        Ok(Ok(())) => return Ok(()),
        // The server said no: a deferred constraint, or a conflict that it saw at the commit.
        Ok(Err(error)) if is_refusal(&error) && !client.is_closed() => {
            return Err(Run::new(&client, target, options).failed("the commit", error));
        }
        Ok(Err(error)) => duramen_postgres::connection::with_sources(&error),
        Err(_) => format!("no answer to the commit within {} s", COMMIT_LIMIT.as_secs()),
    };
    drop(client);
    ask(target, options, digest, cause).await
}

/// Whether a server refused something, and did not end the session: then nobody knows what came of a commit.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|error| !matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic)))
}

enum Step {
    Over(Outcome),
    Commit(Counts),
}

/// Finds out what became of a commit whose answer did not come: on another connection, behind the lock that its transaction
/// holds for as long as it lives.
async fn ask(target: &Target, options: &ApplyOptions, digest: &str, cause: String) -> Result<(), ApplyError> {
    let look = async {
        loop {
            let looked = async {
                let client = target.connect().await?;
                let run = Run::new(&client, target, options);
                run.begin().await?;
                let found = registry::enter(&run, digest).await;
                run.take_back().await;
                found
            };
            match looked.await {
                Ok(found) => return found,
                Err(error) => tracing::debug!(%error, "the database was not asked"),
            }
            sleep(ASK_PAUSE).await;
        }
    };
    match timeout(ASK_LIMIT, look).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(ApplyError::Lost { target: target.describe(), cause }),
        Err(_) => Err(ApplyError::Unknown { target: target.describe(), cause }),
    }
}
