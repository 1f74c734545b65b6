//! Ends the steps of a rehearsal that would reach outside, without doing them.
//!
//! A call, or a step elsewhere, is an activity, and comes here in the place of being run. A task waits for a program that does
//! not know this copy: here it is ended in the same way as a program does it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use tokio_postgres::{types::Type, Client};

use super::activity::Outcome;
use super::control::drains;
use super::shared::Shared;
use super::turn::TurnError;
use crate::interpret::{Cell, Failure};
use crate::json::Json;
use crate::rehearsal::{Reached, Rehearsal, Says, Source, NOT_DONE};

/// How often tasks are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long to wait after the database was not to be reached.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many tasks are looked at together.
const TASKS_MAX: i64 = 200;
/// How many of the newest instances of a label are looked at for an answer.
pub(crate) const RECORD_MAX: u32 = 1000;

/// What the newest of a label's instances that had completed before `$4` was given at the cell `$3` of the node `$2`, as instance
/// `$1` would be: of the same role, and with the same text of the node. What a rehearsal has given here is younger than `$4`.
const RECORDED: &str = "
    WITH me AS (
        SELECT i.submitted_by, i.label, (i.graph -> $2)::text AS node FROM df._instance i WHERE i.seq = $1
    ), before AS (
        (SELECT i.seq, i.graph, me.node FROM me CROSS JOIN LATERAL (
            SELECT k.seq, k.graph FROM df._instance k
            WHERE me.label IS NOT NULL AND k.submitted_by = me.submitted_by AND k.label = me.label
            ORDER BY k.created_at DESC LIMIT $5) i)
        UNION ALL
        (SELECT i.seq, i.graph, me.node FROM me CROSS JOIN LATERAL (
            SELECT k.seq, k.graph, k.label FROM df._instance k
            WHERE me.label IS NULL AND k.submitted_by = me.submitted_by
            ORDER BY k.created_at DESC LIMIT $5) i WHERE i.label IS NULL)
    )
    SELECT CASE WHEN d.state IS NULL THEN d.output
        ELSE coalesce(c.value -> 'r', d.state -> 'cells' -> (c.value ->> 'rc') -> 'r') END::text
    FROM before b JOIN df._done d ON d.seq = b.seq
    CROSS JOIN LATERAL (SELECT d.state -> 'cells' -> $3 AS value) c
    WHERE d.status = 'c' AND d.completed_at < $4::text::timestamptz AND (b.graph -> $2)::text = b.node
      AND CASE WHEN d.state IS NULL THEN json_array_length(b.graph) = 1 ELSE c.value ->> 's' = 'completed' END
    ORDER BY d.completed_at DESC LIMIT 1";

/// Ends a task unless it has ended, or somebody is about to end it: then the next look sees what became of it.
const END_TASK: &str = "
    WITH ended AS (
        UPDATE df._task t SET ended_at = clock_timestamp()
        WHERE t.number = (SELECT k.number FROM df._task k WHERE k.number = $1 AND k.ended_at IS NULL FOR UPDATE SKIP LOCKED)
        RETURNING t.seq, t.submitted_by, t.cell
    )
    INSERT INTO df._inbox (seq, submitted_by, kind, name, data)
    SELECT e.seq, e.submitted_by, 'activity', e.cell, $2::text::json FROM ended e";

/// How a step ends that is not done.
pub(super) async fn outcome(
    shared: &Shared,
    rehearsal: &Rehearsal,
    seq: i64,
    cell: &str,
    reached: Reached<'_>,
) -> Result<Outcome, TurnError> {
    let said = match said(rehearsal, reached) {
        Some(said) => Some(said),
        None => {
            let home = shared.home().await?;
            recorded(&home, rehearsal, seq, cell).await?.map(Says::Result)
        }
    };
    Ok(match said.unwrap_or_else(|| otherwise(rehearsal, reached)) {
        Says::Result(result) => Ok(result),
        Says::Failure(failure) => Err(failure),
        // Only tasks are left to anybody, and they do not come here.
        Says::Leave => Ok(Json::null()),
    })
}

/// What is said without looking into the database.
fn said(rehearsal: &Rehearsal, reached: Reached<'_>) -> Option<Says> {
    match rehearsal {
        Rehearsal::Skip => Some(Says::Failure(Failure {
            message:
                "this step would reach outside of the database, and was skipped: its worker rehearses with \
                --external=skip"
                    .to_owned(),
            sqlstate: Some(NOT_DONE.to_owned()),
        })),
        Rehearsal::Stub(answers) => match &answers.source {
            Source::Listed(list) => {
                let found =
                    list.iter().find(|answer| answer.is_to(reached)).map(|answer| answer.says.clone());
                Some(found.unwrap_or_else(|| otherwise(rehearsal, reached)))
            }
            Source::Record { .. } => None,
        },
    }
}

/// What a step is told for which there is no answer.
fn otherwise(rehearsal: &Rehearsal, reached: Reached<'_>) -> Says {
    let Rehearsal::Stub(answers) = rehearsal else { return Says::Result(Json::null()) };
    if !answers.strict {
        return Says::Result(Json::null());
    }
    let what = match reached {
        // A query may hold a secret.
        Reached::Http(call) => {
            format!("{} {}", call.method, call.url.split(['?', '#']).next().unwrap_or_default())
        }
        Reached::Database(name) => format!("a step in database {name}"),
        Reached::Server => "a statement that acts on the whole server".to_owned(),
        Reached::Task(name) => format!("task {name}"),
    };
    let message = format!("the rehearsal has no answer for {what}; add one, or leave out --answers-strict");
    Says::Failure(Failure { message, sqlstate: Some(NOT_DONE.to_owned()) })
}

/// What an earlier instance was given, if that is asked for.
async fn recorded(
    home: &Client,
    rehearsal: &Rehearsal,
    seq: i64,
    cell: &str,
) -> Result<Option<Json>, TurnError> {
    let Rehearsal::Stub(answers) = rehearsal else { return Ok(None) };
    let Source::Record { before } = &answers.source else { return Ok(None) };
    let Some(node) = Cell::parse(cell).and_then(|cell| i32::try_from(cell.node()).ok()) else {
        return Ok(None);
    };
    // Without the number of the request, which counts what was asked for before.
    let key = cell.split('#').next().unwrap_or_default();
    let (before, most) = (before.to_string(), i64::from(RECORD_MAX));
    let row = home
        .query_typed_opt(
            RECORDED,
            &[
                (&seq, Type::INT8),
                (&node, Type::INT4),
                (&key, Type::TEXT),
                (&before, Type::TEXT),
                (&most, Type::INT8),
            ],
        )
        .await?;
    Ok(row.and_then(|row| row.get::<_, Option<String>>(0)).map(Json::from_valid))
}

/// Ends the tasks that there are, until the worker drains.
pub(crate) async fn answer_tasks(shared: Arc<Shared>) {
    let Some(rehearsal) = &shared.outside.rehearsal else { return };
    let mut draining = shared.draining.subscribe();
    let mut client: Option<Client> = None;
    loop {
        let pause = match look(&shared, rehearsal, &mut client).await {
            Ok(()) => LOOK_EVERY,
            Err(error) => {
                tracing::warn!(%error, "tasks cannot be answered; the worker tries again");
                client = None;
                RETRY_AFTER
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = drains(&mut draining) => return,
        }
    }
}

/// Ends all tasks but those that are left to programs.
async fn look(shared: &Shared, rehearsal: &Rehearsal, client: &mut Option<Client>) -> Result<(), TurnError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = Some(shared.home().await?);
    }
    let Some(client) = client else { return Ok(()) };
    let mut after = 0_i64;
    let mut has_ended = false;
    loop {
        let rows = client
            .query_typed(
                "SELECT t.number, t.seq, t.cell, t.name FROM df._task t
                 WHERE t.number > $1 AND t.ended_at IS NULL ORDER BY t.number LIMIT $2",
                &[(&after, Type::INT8), (&TASKS_MAX, Type::INT8)],
            )
            .await?;
        for row in &rows {
            after = row.get(0);
            let (seq, cell, name): (i64, &str, &str) = (row.get(1), row.get(2), row.get(3));
            let reached = Reached::Task(name);
            let said = match said(rehearsal, reached) {
                Some(said) => said,
                None => {
                    let result = recorded(client, rehearsal, seq, cell).await?;
                    result.map_or_else(|| otherwise(rehearsal, reached), Says::Result)
                }
            };
            let answer = match said {
                Says::Leave => continue,
                Says::Result(result) => format!(r#"{{"result":{}}}"#, result.text()),
                Says::Failure(Failure { message, sqlstate: None }) => {
                    json!({ "failure": message }).to_string()
                }
                Says::Failure(Failure { message, sqlstate: Some(code) }) => {
                    json!({ "failure": message, "sqlstate": code }).to_string()
                }
            };
            let ended =
                client.execute_typed(END_TASK, &[(&after, Type::INT8), (&answer, Type::TEXT)]).await?;
            has_ended |= ended > 0;
        }
        if i64::try_from(rows.len()).unwrap_or(0) < TASKS_MAX {
            break;
        }
    }
    if has_ended {
        shared.wake();
    }
    Ok(())
}
