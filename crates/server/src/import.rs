//! Imports reported as they go: what is being done, then the source or why there is none; a line of JSON each, or a
//! server-sent event.

use crate::{
    order::Ending,
    reply::{self, Refusal, Reply},
};
use bytes::Bytes;
use duramen_api::model::{Progress, SourceView};
use duramen_api::EVENTS;
use duramen_base::clock;
use duramen_branches::{EngineError, Kind};
use hyper::{
    header::{HeaderMap, ACCEPT},
    Response,
};
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{interval_at, timeout, MissedTickBehavior},
};

/// A step that takes long is told again this often, so that a client can tell slow work from a dead daemon.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Lines that a client has not read yet. Steps beyond them are left out; the last line never is.
const UNREAD_LINES: usize = 256;
/// How long the last line waits for a client that does not read.
const LAST_LINE_LIMIT: Duration = Duration::from_secs(30);

/// Reports an import's steps.
pub(crate) type Reporter = Box<dyn Fn(&str, Option<f64>) + Send + Sync + 'static>;

/// How a client wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A line of JSON each.
    Lines,
    /// Server-sent events, named `step`, `done` and `failed`, whose data is the same JSON.
    Events,
}

impl Form {
    /// What the header `Accept` asks for.
    pub(crate) fn accepted(headers: &HeaderMap) -> Form {
        let events = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|accept| accept.to_str().ok())
            .flat_map(|accept| accept.split(','))
            .any(|kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENTS));
        if events {
            Form::Events
        } else {
            Form::Lines
        }
    }

    fn part(self, progress: &Progress) -> Bytes {
        let json = serde_json::to_string(progress).expect("a source's view is always JSON");
        match self {
            Form::Lines => format!("{json}\n").into(),
            Form::Events => {
                let name = match progress {
                    Progress::Step { .. } => "step",
                    Progress::Done(_) => "done",
                    Progress::Failed(_) => "failed",
                };
                format!("event: {name}\ndata: {json}\n\n").into()
            }
        }
    }
}

enum Event {
    Line(Bytes),
    Failed(EngineError),
}

/// Runs an import in a task of its own, and replies with its progress. It is given up when its client leaves. An
/// import that fails before its first step is refused with a status; later the refusal is the last line.
pub(crate) async fn run<F, Fut>(form: Form, ending: Ending, import: F) -> Result<Response<Reply>, Refusal>
where
    F: FnOnce(Reporter) -> Fut,
    Fut: Future<Output = Result<SourceView, EngineError>> + Send + 'static,
{
    let (events, mut first) = mpsc::channel(UNREAD_LINES);
    let last_step = Arc::new(Mutex::new(None));
    let reporter: Reporter = {
        let (events, last_step) = (events.clone(), Arc::clone(&last_step));
        Box::new(move |doing, fraction| {
            let line = form.part(&Progress::Step { doing: doing.to_owned(), fraction });
            *last_step.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
            // A full queue means a client that does not read: it can do without this step.
            let _ = events.try_send(Event::Line(line));
        })
    };
    tokio::spawn(report(form, import(reporter), events, last_step, ending));
    match first.recv().await {
        Some(Event::Line(line)) => Ok(match form {
            Form::Lines => reply::lines(line, forward(form, first)),
            Form::Events => reply::events(line, forward(form, first)),
        }),
        Some(Event::Failed(error)) => Err(error.into()),
        None => Err(EngineError::new(Kind::Failed, "internal", CRASHED).into()),
    }
}

const CRASHED: &str = "the import ended without a word; the daemon's log says more";

async fn report(
    form: Form,
    import: impl Future<Output = Result<SourceView, EngineError>>,
    events: mpsc::Sender<Event>,
    last_step: Arc<Mutex<Option<Bytes>>>,
    mut ending: Ending,
) {
    let mut import = pin!(import);
    let mut heartbeat = interval_at((clock::now() + HEARTBEAT).into(), HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let result = loop {
        tokio::select! {
            result = import.as_mut() => break result,
            _ = ending.wait() => {
                let message = "the daemon is stopping, so the import was given up; import again once it runs";
                break Err(EngineError::new(Kind::Unavailable, "stopping", message));
            }
            () = events.closed() => {
                let message = "its client has left, so the import was given up; nothing is left of it";
                break Err(EngineError::new(Kind::Unavailable, "client_gone", message));
            }
            _ = heartbeat.tick() => {
                let step = last_step.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(step) = step {
                    let _ = events.try_send(Event::Line(step));
                }
            }
        }
    };
    let last = match result {
        Ok(source) => Event::Line(form.part(&Progress::Done(Box::new(source)))),
        Err(error) => {
            tracing::warn!(code = error.code, "import failed: {error}");
            Event::Failed(error)
        }
    };
    // No answer: the client has left, or does not read.
    let _ = timeout(LAST_LINE_LIMIT, events.send(last)).await;
}

/// The rest of the lines as bytes.
fn forward(form: Form, mut events: mpsc::Receiver<Event>) -> mpsc::Receiver<Bytes> {
    let (lines, rest) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                // The client has left, and need not be told anything to be known to have.
                () = lines.closed() => break,
            };
            let line = match event {
                Some(Event::Line(line)) => line,
                Some(Event::Failed(error)) => form.part(&Progress::Failed(error.body())),
                None => break,
            };
            if lines.send(line).await.is_err() {
                break;
            }
        }
    });
    rest
}

#[cfg(test)]
#[path = "../tests/unit/imports.rs"]
mod tests;
