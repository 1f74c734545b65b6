//! Comparisons told as they go: a line of JSON for each part.

use crate::{
    api::{Answer, Api, Call},
    reply::{self, Refusal},
};
use bytes::Bytes;
use duramen_api::data_diff::{names_in, DataDiff, DIFF_ROWS, DIFF_ROWS_MAX};
use duramen_branches::{DiffPart, EngineError, Holder, Kind, WantedDiff, WantedGenerations};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// Parts that a client has not read yet. The comparison waits for it.
const UNREAD_PARTS: usize = 256;
/// How long the comparison waits for a client that does not read.
const LINE_LIMIT: Duration = Duration::from_secs(60);

/// Compares a branch with its snapshot, and replies with what differs.
pub(crate) async fn run(api: &Api, call: &Call<'_>, by: Option<Holder>) -> Answer {
    let (wanted, engine, name) = (wanted(call)?, Arc::clone(&api.engine), call.name.to_owned());
    let compare = |told: mpsc::Sender<DiffPart>| async move {
        engine.data_diff(by.as_ref(), &name, wanted, &told).await
    };
    reply(api, compare).await
}

/// The same for two generations of a source. `masked` is whether both have to be.
pub(crate) async fn of_generations(api: &Api, call: &Call<'_>, by: Option<Holder>, masked: bool) -> Answer {
    let (from, to) = (call.needed("from")?.into_owned(), call.needed("to")?.into_owned());
    let rows = WantedDiff { whole: false, ..wanted(call)? };
    let wanted = WantedGenerations { from, to, rows, masked };
    let (engine, name) = (Arc::clone(&api.engine), call.name.to_owned());
    let compare = |told: mpsc::Sender<DiffPart>| async move {
        engine.generation_data_diff(by.as_ref(), &name, wanted, &told).await
    };
    reply(api, compare).await
}

fn wanted(call: &Call<'_>) -> Result<WantedDiff, Refusal> {
    let only = names_in(&call.parameter("tables")?.unwrap_or_default());
    let rows = match call.parameter("limit")? {
        None => DIFF_ROWS,
        Some(text) => match text.parse() {
            Ok(rows) if rows <= DIFF_ROWS_MAX => rows,
            _ => return Err(call.bad(format_args!("limit={text} is not a number from 0 to {DIFF_ROWS_MAX}"))),
        },
    };
    Ok(WantedDiff { only, whole: call.flag("whole")?, rows: rows.into() })
}

/// Replies with what a comparison tells. It is given up when its client leaves. One that fails before anything was told is
/// refused with a status; later the refusal is the last line.
async fn reply<F>(api: &Api, compare: impl FnOnce(mpsc::Sender<DiffPart>) -> F) -> Answer
where
    F: Future<Output = Result<(), EngineError>> + Send + 'static,
{
    let (told, mut parts) = mpsc::channel::<DiffPart>(UNREAD_PARTS);
    let (lines, rest) = mpsc::channel::<Bytes>(UNREAD_PARTS);
    let (comparison, mut ending) = (compare(told.clone()), api.orders.ending());
    let work = tokio::spawn({
        let told = told.clone();
        async move {
            tokio::select! {
                result = comparison => result,
                _ = ending.wait() => {
                    let message = "the daemon is stopping, so the comparison was given up; compare again once it runs";
                    Err(EngineError::new(Kind::Unavailable, "stopping", message))
                }
                () = told.closed() => {
                    let message = "its client has left, so the comparison was given up";
                    Err(EngineError::new(Kind::Unavailable, "client_gone", message))
                }
            }
        }
    });
    drop(told);
    let finished = async move {
        work.await.unwrap_or_else(|error| {
            Err(EngineError::new(
                Kind::Failed,
                "internal",
                format!("the comparison ended without a word: {error}"),
            ))
        })
    };
    let Some(first) = parts.recv().await else {
        // Without a single part there is no success either: its last one is the summary.
        let error = finished.await.err();
        let unheard = || EngineError::new(Kind::Failed, "internal", "the comparison told nothing");
        return Err(error.unwrap_or_else(unheard).into());
    };
    tokio::spawn(async move {
        while let Some(part) = tokio::select! { part = parts.recv() => part, () = lines.closed() => None } {
            let Ok(line) = line(&part) else { break };
            if !matches!(timeout(LINE_LIMIT, lines.send(line)).await, Ok(Ok(()))) {
                break;
            }
        }
        // Whoever compares is told that nobody listens.
        drop(parts);
        if let Err(error) = finished.await {
            tracing::warn!(code = error.code, "a comparison failed: {error}");
            if let Ok(line) = line(&DataDiff::Failed(error.body())) {
                let _ = timeout(LINE_LIMIT, lines.send(line)).await;
            }
        }
    });
    Ok(reply::lines(line(&first)?, rest))
}

fn line(part: &impl serde::Serialize) -> Result<Bytes, Refusal> {
    let text = serde_json::to_string(part).map_err(|error| {
        let message = format!("a part of a comparison has no JSON form: {error}");
        Refusal::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    })?;
    Ok(format!("{text}\n").into())
}
