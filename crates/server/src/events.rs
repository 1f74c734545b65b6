//! `GET /v1/events`: what happens, as server-sent events (WHATWG HTML, "Server-sent events"), out of the audit log.

pub(crate) mod seen;

use crate::{
    order::Ending,
    reply::{self, Refusal, Reply},
};
use bytes::Bytes;
use duramen_base::clock;
use duramen_branches::{Events, LoggedEvent, NotAPosition, Position};
use hyper::{Response, StatusCode};
use seen::Seen;
use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{mpsc, OwnedSemaphorePermit, Semaphore},
    time::{interval_at, MissedTickBehavior},
};

/// How many may follow at a time.
const FOLLOWERS_MAX: usize = 64;
/// How many of them may be of one token that is no administrator's for all sources.
const FOLLOWERS_OF_ONE: usize = 8;
/// Without an event for so long a comment is sent, so that a client and what is between can tell quiet from dead.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Parts of the stream that a client has not read yet; then the log is not read on.
const UNREAD: usize = 4;
/// How long a client is to wait until it comes back, in milliseconds.
const RETRY_MS: u32 = 1000;

/// How many follow what happens.
#[derive(Debug, Clone)]
pub(crate) struct Followers {
    free: Arc<Semaphore>,
    /// How many of them a token has, by its id, unless it may follow everything.
    of_tokens: Arc<Mutex<HashMap<String, usize>>>,
}

impl Default for Followers {
    fn default() -> Followers {
        Followers { free: Arc::new(Semaphore::new(FOLLOWERS_MAX)), of_tokens: Arc::default() }
    }
}

/// A place among those who follow.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    share: Option<(Followers, String)>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((followers, token)) = self.share.take() else { return };
        let mut all = followers.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                all.remove(&token);
            }
        }
    }
}

impl Followers {
    /// A place among them; of a token's share, if one is named.
    pub(crate) fn place(&self, token: Option<&str>) -> Result<Place, Refusal> {
        let refuse = |message| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_followers", message);
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| {
            refuse(format!("{FOLLOWERS_MAX} clients follow the events, which is as many as may; end some"))
        })?;
        let share = match token {
            None => None,
            Some(token) => {
                let mut all = self.of_tokens.lock().unwrap_or_else(PoisonError::into_inner);
                let count = all.entry(token.to_owned()).or_default();
                if *count >= FOLLOWERS_OF_ONE {
                    let message = format!(
                        "{FOLLOWERS_OF_ONE} clients follow the events with this token, which is as many as may; end some"
                    );
                    return Err(refuse(message));
                }
                *count += 1;
                Some((self.clone(), token.to_owned()))
            }
        };
        Ok(Place { _permit: permit, share })
    }
}

/// Where a client wants to go on: the header `Last-Event-ID` of one that comes back, else the parameter.
pub(crate) fn wanted(last: Option<&str>, after: Option<&str>) -> Result<Option<Position>, NotAPosition> {
    last.filter(|last| !last.is_empty()).or(after).map(str::parse).transpose()
}

/// Sends events until the client leaves or the daemon ends; those of `names` only, if it names any, and what `seen` lets be seen,
/// if it is there.
pub(crate) fn follow(
    mut events: Events,
    names: Vec<String>,
    mut seen: Option<Seen>,
    mut ending: Ending,
    place: Place,
) -> Response<Reply> {
    let (parts, rest) = mpsc::channel(UNREAD);
    // A client that loses the connection before the first event is to come back to this place.
    let first = format!("retry: {RETRY_MS}\nid: {}\n\n", events.position());
    tokio::spawn(async move {
        let _place = place;
        let mut heartbeat = interval_at((clock::now() + HEARTBEAT).into(), HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let part = tokio::select! {
                next = events.next() => match next {
                    Ok(Some(found)) => match &mut seen {
                        None => text(&found, &names),
                        Some(seen) => text(&seen.of(found), &names),
                    },
                    // The daemon ends.
                    Ok(None) => return,
                    Err(error) => {
                        tracing::error!(%error, "somebody who follows the events is sent away");
                        return;
                    }
                },
                _ = heartbeat.tick() => ": nothing new\n\n".to_owned(),
                () = parts.closed() => return,
                _ = ending.wait() => return,
            };
            if part.is_empty() {
                continue;
            }
            heartbeat.reset();
            let sent = tokio::select! {
                sent = parts.send(Bytes::from(part)) => sent,
                // One that does not read does not keep a daemon from its end.
                _ = ending.wait() => return,
            };
            if sent.is_err() {
                return;
            }
        }
    });
    reply::events(first.into(), rest)
}

fn text(events: &[LoggedEvent], names: &[String]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|event| names.is_empty() || names.contains(&event.name)) {
        // Writing to a string does not fail. The JSON is on one line, as the log has it.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", event.after, event.name, event.json);
    }
    text
}
