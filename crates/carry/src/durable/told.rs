//! What came of an instance that applied a change set.

use super::Durable;
use crate::{
    apply::{
        check::{about, is_there, not_as_it_was, too_few},
        registry,
        run::Run,
        Applied, Conflict, ConflictKind, Counts,
    },
    error::ApplyError,
    read::ChangeSet,
};
use jiff::Timestamp;
use serde::Deserialize;

/// What the function in the database returns.
#[derive(Debug, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum Outcome {
    Applied {
        inserted: u64,
        updated: u64,
        deleted: u64,
        sequences: u64,
    },
    AlreadyApplied {
        at: Timestamp,
        by: String,
    },
    Conflicts {
        conflicts: Vec<Told>,
        more: bool,
    },
    /// What the database has is not what it had when the change set was brought.
    Definitions,
    Refused {
        message: Option<String>,
        code: Option<String>,
    },
}

/// A conflict, as a line of the plan has it.
#[derive(Debug, Deserialize)]
struct Told {
    table: usize,
    kind: Kind,
    by: Option<String>,
    row: Values,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Old,
    Few,
    New,
    Referring,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Values {
    expected: Option<Vec<Option<String>>>,
    found: Option<serde_json::Value>,
    times: i64,
    rows: i64,
}

/// Its status; `completed` only if it has ended.
pub(super) async fn status(run: &Run<'_>, instance: &str) -> Result<String, ApplyError> {
    let sql = "SELECT df.status($1)";
    let found = run.rows("asking about the instance", sql, &[&instance]).await?;
    Ok(found.first().and_then(|row| row.get::<_, Option<String>>(0)).unwrap_or_else(|| "unknown".to_owned()))
}

/// What came of an instance that has ended.
pub(super) async fn outcome(
    run: &Run<'_>,
    set: &ChangeSet,
    instance: &str,
    status: &str,
) -> Result<Durable, ApplyError> {
    let sql = "SELECT r.output FROM df.results(ARRAY[$1]) AS r(instance_id, status, output)";
    let found = run.rows("asking what came of the instance", sql, &[&instance]).await?;
    let output: Option<String> = found.first().and_then(|row| row.get(0));
    let ended = |cause: String| ApplyError::Instance { instance: instance.to_owned(), cause };
    if status != "completed" {
        // What it did last may have been to write down that it is applied.
        run.begin().await?;
        let applied = registry::look(run, &set.digest()).await;
        run.take_back().await;
        if let Some(applied) = applied? {
            return Ok(Durable::AlreadyApplied(applied));
        }
        return Err(ended(format!("it is {status}: {}", output.unwrap_or_default())));
    }
    // The result of the last step, whose only row holds it.
    let output: serde_json::Value = serde_json::from_str(&output.unwrap_or_default())
        .map_err(|error| ended(format!("its result is not JSON: {error}")))?;
    let outcome = output.pointer("/rows/0/outcome").cloned().unwrap_or_default();
    let outcome: Outcome = serde_json::from_value(outcome)
        .map_err(|error| ended(format!("its result is of another kind: {error}")))?;
    match outcome {
        Outcome::Applied { inserted, updated, deleted, sequences } => {
            let counts = Counts { statements: 0, inserted, updated, deleted, sequences };
            Ok(Durable::Applied { counts, instance: instance.to_owned() })
        }
        Outcome::AlreadyApplied { at, by } => Ok(Durable::AlreadyApplied(Applied { at, by })),
        Outcome::Conflicts { conflicts, more } => {
            let conflicts = conflicts.into_iter().filter_map(|told| conflict(set, told)).collect();
            Err(ApplyError::Conflicts { conflicts, more })
        }
        Outcome::Definitions => Err(ApplyError::Refused {
            doing: "comparing definitions".to_owned(),
            cause: "tables of the change set are defined otherwise than when it was brought; apply it again"
                .to_owned(),
            code: None,
            place: None,
        }),
        Outcome::Refused { message, code } => {
            let (doing, cause) = ("the instance".to_owned(), message.unwrap_or_default());
            Err(ApplyError::Refused { doing, cause, code, place: None })
        }
    }
}

fn conflict(set: &ChangeSet, told: Told) -> Option<Conflict> {
    let table = &set.tables().get(told.table)?.table;
    let Values { expected, found, times, rows } = told.row;
    let expected = expected.unwrap_or_default();
    Some(match told.kind {
        Kind::Old => {
            let found: Option<Vec<Option<String>>> =
                found.and_then(|found| serde_json::from_value(found).ok());
            not_as_it_was(table, &expected, found.as_deref())
        }
        Kind::Few => too_few(table, &expected, times, found.and_then(|it| it.as_i64()).unwrap_or(0)),
        Kind::New => is_there(table, &expected),
        Kind::Referring => about(table, ConflictKind::Referenced { by: told.by.unwrap_or_default(), rows }),
    })
}
