//! Applying a change set as a durable function: it is brought to the database in slices, and done there by whatever worker runs.
//!
//! ```text
//!  slice 1 .. slice n      each is a transaction; a client that comes again goes on behind the last
//!        |
//!  whole: plan, function, instance      one transaction
//!        |
//!  a worker, with the rights of the role that brought it: looked at, done, written down      one transaction
//! ```
//!
//! One file an idea: [`bring`] brings the rows, [`plan`] writes down what is to be done with them, [`told`] reads what came of it.
//! Invariants C13 to C19 of `docs/design/change-sets.md`.

mod bring;
mod plan;
mod told;

use crate::{
    apply::{run::Run, Applied, ApplyOptions, Counts},
    error::ApplyError,
    read::ChangeSet,
};
use duramen_base::clock;
use duramen_postgres::connection::Target;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;

/// How long one session may take to bring what it brings until it begins the next one.
const SESSION_LIMIT: Duration = Duration::from_secs(3600);
/// How long a database may be out of reach before it is given up.
const REACH_LIMIT: Duration = Duration::from_secs(300);
/// How often what was brought may have gone meanwhile.
const VANISHED_MAX: u32 = 3;
/// Between two tries to reach it, and between two looks at an instance.
const PAUSE: Duration = Duration::from_millis(500);

/// How a change set is applied durably.
#[derive(Debug, Clone)]
pub struct DurableOptions {
    /// What holds for every application. Nothing is taken back.
    pub apply: ApplyOptions,
    /// How long it is waited for a worker to do it, once it was brought.
    pub wait: Duration,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durable {
    /// It is done.
    Applied {
        /// What.
        counts: Counts,
        /// The instance that did it.
        instance: String,
    },
    /// It was done before.
    AlreadyApplied(Applied),
    /// It was brought, and a worker will do it.
    Brought {
        /// The instance that will.
        instance: String,
        /// As what the database has it: `pending` if no worker has taken it.
        status: String,
    },
}

/// What a client that brings a change set is told of.
pub type OnSlice<'a> = &'a mut (dyn FnMut(Slice) + Send);

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Slices that are in the database.
    pub done: u64,
    /// Rows of them.
    pub rows: u64,
    /// All rows of the change set.
    pub of_rows: u64,
}

/// Brings a change set to a database in which durable functions are installed, has it applied by an instance of the role, and waits
/// for that. Whatever ends in between, the same call goes on.
///
/// # Errors
/// [`ApplyError`]. All but [`ApplyError::Unknown`] mean that no row was changed.
pub async fn apply_durably(
    set: &ChangeSet,
    target: &Target,
    options: &DurableOptions,
    on_slice: OnSlice<'_>,
) -> Result<Durable, ApplyError> {
    if !set.ddl().is_empty() {
        return Err(ApplyError::NotDurable(
            "it has statements that change definitions, and those are done with the rows or not at all; apply it without --durable, or \
             carry definitions and rows in two change sets"
                .to_owned(),
        ));
    }
    let target = target.clone().application_name("duramen change apply --durable");
    let mut last_reached = clock::now();
    let mut vanished = 0;
    let begun = loop {
        let mut heard = |slice: Slice| {
            last_reached = clock::now();
            on_slice(slice);
        };
        let brought = timeout(SESSION_LIMIT, bring::bring(set, &target, &options.apply, &mut heard)).await;
        match brought.unwrap_or(Err(ApplyError::TooSlow { limit: SESSION_LIMIT })) {
            Ok(begun) => break begun,
            Err(error) if is_of_network(&error) && last_reached.elapsed() < REACH_LIMIT => {
                tracing::debug!(%error, "the database is asked again");
                sleep(PAUSE).await;
            }
            Err(error) if is_gone(&error) && vanished < VANISHED_MAX => vanished += 1,
            Err(error) => return Err(error),
        }
    };
    match begun {
        bring::Begun::Applied(applied) => Ok(Durable::AlreadyApplied(applied)),
        bring::Begun::Runs(instance) => wait(set, &target, options, instance).await,
    }
}

/// Whether somebody who comes again may fare better.
fn is_of_network(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Connect(_) | ApplyError::Lost { .. })
}

/// Whether what was brought went between two looks: an instance that an earlier client started has ended.
fn is_gone(error: &ApplyError) -> bool {
    let gone = [SqlState::UNDEFINED_TABLE.code(), SqlState::INVALID_SCHEMA_NAME.code()];
    matches!(error, ApplyError::Refused { code: Some(code), .. } if gone.contains(&code.as_str()))
}

/// Waits until the instance has ended, and reads what came of it.
async fn wait(
    set: &ChangeSet,
    target: &Target,
    options: &DurableOptions,
    instance: String,
) -> Result<Durable, ApplyError> {
    let begin = clock::now();
    let mut last_reached = clock::now();
    let mut status = "pending".to_owned();
    loop {
        let looked = async {
            let client = target.connect().await?;
            let run = Run::new(&client, target, &options.apply);
            loop {
                status = told::status(&run, &instance).await?;
                last_reached = clock::now();
                if !matches!(status.as_str(), "pending" | "running") {
                    return told::outcome(&run, set, &instance, &status).await.map(Some);
                }
                if begin.elapsed() >= options.wait {
                    return Ok(None);
                }
                sleep(PAUSE).await;
            }
        };
        match looked.await {
            Ok(Some(durable)) => return Ok(durable),
            Ok(None) => return Ok(Durable::Brought { instance, status }),
            Err(error) if is_of_network(&error) && last_reached.elapsed() < REACH_LIMIT => {
                if begin.elapsed() >= options.wait {
                    return Ok(Durable::Brought { instance, status });
                }
                sleep(PAUSE).await;
            }
            Err(error) if is_of_network(&error) => {
                let cause = error.to_string();
                return Err(ApplyError::Unknown { target: target.describe(), cause });
            }
            Err(error) => return Err(error),
        }
    }
}
