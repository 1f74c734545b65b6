//! Pairs, lent for as long as the reply is read.

use crate::{
    api::{Answer, Api, Call},
    order::Ending,
    reply,
};
use bytes::Bytes;
use duramen_api::model::{MakePair, PairLine};
use duramen_base::clock;
use duramen_branches::{Engine, EngineError, Kind, LentPair};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{interval_at, timeout, MissedTickBehavior},
};

/// How often it is said that a pair runs, and looked whether it does: by that it is noticed that a client is gone, too.
const EVERY: Duration = Duration::from_secs(1);
/// Lines that a client has not read yet. Those beyond are left out.
const UNREAD_LINES: usize = 16;
/// How long the last line, and the one with the secret, wait for a client that does not read.
const LINE_LIMIT: Duration = Duration::from_secs(10);

/// Makes a pair in a task of its own, and replies with what comes of it. It goes when its client leaves. What is refused before
/// anything is done is refused with a status; later the refusal is the last line.
pub(crate) async fn run(api: &Api, call: &Call<'_>, wanted: MakePair) -> Answer {
    let (lines, mut first) = mpsc::channel::<Result<PairLine, EngineError>>(UNREAD_LINES);
    let (engine, ending) = (Arc::clone(&api.engine), api.orders.ending());
    tokio::spawn(lend(engine, wanted, lines, ending));
    let line = match first.recv().await {
        Some(Ok(line)) => written(&line),
        Some(Err(error)) => return Err(error.into()),
        None => {
            let message = format!("{call} ended without a word; the daemon's log says more");
            return Err(EngineError::new(Kind::Failed, "internal", message).into());
        }
    };
    let (sent, rest) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let line = tokio::select! {
                line = first.recv() => line,
                // The client has left, and need not be told anything to be known to have.
                () = sent.closed() => break,
            };
            let line = match line {
                Some(Ok(line)) => line,
                Some(Err(error)) => PairLine::Failed(error.body()),
                None => break,
            };
            if sent.send(written(&line)).await.is_err() {
                break;
            }
        }
    });
    Ok(reply::lines(line, rest))
}

fn written(line: &PairLine) -> Bytes {
    let json = serde_json::to_string(line).expect("a line about a pair is always JSON");
    format!("{json}\n").into()
}

async fn lend(
    engine: Arc<Engine>,
    wanted: MakePair,
    lines: mpsc::Sender<Result<PairLine, EngineError>>,
    mut ending: Ending,
) {
    let steps = lines.clone();
    let report = move |doing: &str| {
        // A client that does not read can do without this step.
        let _ = steps.try_send(Ok(PairLine::Step { doing: doing.to_owned() }));
    };
    let made = tokio::select! {
        made = engine.make_pair(wanted, report) => made,
        _ = ending.wait() => Err(stopping()),
        // Nobody is there to be told.
        () = lines.closed() => return,
    };
    let ended = match made {
        Ok(pair) => {
            let ended = keep(&pair, &lines, &mut ending).await;
            // Before its client is told: what it is told is then true.
            if let Err(error) = pair.end().await {
                tracing::error!(%error, "the end of a pair could not be written down");
            }
            ended
        }
        Err(error) => error,
    };
    tracing::info!(code = ended.code, "the request for a pair is over: {ended}");
    // No answer: the client has left, or does not read.
    let _ = timeout(LINE_LIMIT, lines.send(Err(ended))).await;
}

/// Says that the pair is there until it is to go, and why that is.
async fn keep(
    pair: &LentPair,
    lines: &mpsc::Sender<Result<PairLine, EngineError>>,
    ending: &mut Ending,
) -> EngineError {
    let ready = lines.send(Ok(PairLine::Ready(Box::new(pair.view().clone()))));
    if !matches!(timeout(LINE_LIMIT, ready).await, Ok(Ok(()))) {
        return gone();
    }
    let mut ticks = interval_at((clock::now() + EVERY).into(), EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => match pair.left() {
                Ok(left) => drop(lines.try_send(Ok(PairLine::Running { left_s: left.as_secs() }))),
                Err(error) => return error,
            },
            _ = ending.wait() => return stopping(),
            () = lines.closed() => return gone(),
        }
    }
}

fn stopping() -> EngineError {
    let message = "the daemon is stopping, so the pair is gone; run again once it serves";
    EngineError::new(Kind::Unavailable, "stopping", message)
}

fn gone() -> EngineError {
    EngineError::new(Kind::Unavailable, "client_gone", "its client has left, so the pair is gone")
}
