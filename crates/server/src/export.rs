//! Exports, sent as they are made.

use crate::{
    api::{Answer, Api, Call},
    reply,
};
use bytes::Bytes;
use duramen_api::model::{ExportFormat, EXPORT_JOBS_MAX};
use duramen_branches::{EngineError, Holder, Kind, WantedExport};
use std::{io, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// Parts that a client has not read yet. The export waits for it.
const UNREAD_PARTS: usize = 16;
/// How long the export waits for a client that does not read.
const PART_LIMIT: Duration = Duration::from_secs(60);

/// What a request asks for.
pub(crate) fn wanted(call: &Call<'_>) -> Result<WantedExport, reply::Refusal> {
    let format = call.needed("format")?.parse::<ExportFormat>();
    let format = format.map_err(|error| call.bad(format_args!("{error}")))?;
    let jobs = match call.parameter("jobs")? {
        None => 1,
        Some(text) => match text.parse() {
            Ok(jobs @ 1..=EXPORT_JOBS_MAX) => jobs,
            _ => {
                return Err(call.bad(format_args!("jobs={text} is not a number from 1 to {EXPORT_JOBS_MAX}")))
            }
        },
    };
    let quiesce = match call.parameter("quiesce")?.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(call.bad(format_args!("quiesce={other} is neither true nor false"))),
    };
    Ok(WantedExport { format, jobs, quiesce })
}

/// Exports, and replies with the bytes. The export is given up when its client leaves. One that fails before the first byte is
/// refused with a status; later the reply breaks off.
pub(crate) async fn run(api: &Api, call: &Call<'_>, by: Option<Holder>, wanted: WantedExport) -> Answer {
    let (told, mut parts) = mpsc::channel::<Bytes>(UNREAD_PARTS);
    let (sent, rest) = mpsc::channel::<io::Result<Bytes>>(UNREAD_PARTS);
    let (engine, name, mut ending) = (Arc::clone(&api.engine), call.name.to_owned(), api.orders.ending());
    let work = tokio::spawn(async move {
        tokio::select! {
            result = engine.export(by.as_ref(), &name, wanted, &told) => result,
            _ = ending.wait() => {
                let message = "the daemon is stopping, so the export was given up; export again once it runs";
                Err(EngineError::new(Kind::Unavailable, "stopping", message))
            }
            () = told.closed() => {
                let message = "its client has left, so the export was given up";
                Err(EngineError::new(Kind::Unavailable, "client_gone", message))
            }
        }
    });
    let finished = async move {
        work.await.unwrap_or_else(|error| {
            let message = format!("the export ended without a word: {error}");
            Err(EngineError::new(Kind::Failed, "internal", message))
        })
    };
    let Some(first) = parts.recv().await else {
        finished.await?;
        return Ok(reply::octets(Bytes::new(), rest));
    };
    tokio::spawn(async move {
        while let Some(part) = tokio::select! { part = parts.recv() => part, () = sent.closed() => None } {
            if !matches!(timeout(PART_LIMIT, sent.send(Ok(part))).await, Ok(Ok(()))) {
                break;
            }
        }
        // Whoever exports is told that nobody listens.
        drop(parts);
        if let Err(error) = finished.await {
            tracing::warn!(code = error.code, "an export failed: {error}");
            let _ = timeout(PART_LIMIT, sent.send(Err(io::Error::other(error.message)))).await;
        }
    });
    Ok(reply::octets(first, rest))
}
