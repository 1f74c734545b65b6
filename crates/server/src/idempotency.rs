//! The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): a client that lost the reply asks again with the
//! same key, and is told what was done the first time.
//!
//! Keys belong to who asks, and are in memory: a daemon that started since does not know them. A request whose client
//! leaves before it is done is given up, and its key with it; one that goes on without its client ([`goes_on`]) keeps it.

use crate::{
    api::Answer,
    caller::Caller,
    reply::{self, Refusal, Reply},
};
use bytes::Bytes;
use duramen_api::route::{Endpoint, Op, KEY_MAX};
use duramen_base::clock;
use hyper::{header::HeaderMap, Response, StatusCode};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The header's name.
pub(crate) const HEADER: &str = "idempotency-key";
/// How long a reply is kept.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
/// How many keys one asker has, and how many there are; the oldest one goes.
const KEYS_OF_ONE: usize = 256;
const KEYS_MAX: usize = 4096;
/// The longest reply that is kept.
const REPLY_MAX: usize = 16 << 10;

/// The keys that were shown, and what was replied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<HashMap<Key, Entry>>>);

/// A key of somebody.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// The id of a token; none of the machine's own users.
    token: Option<String>,
    key: String,
}

#[derive(Debug)]
struct Entry {
    since: Instant,
    /// Of the request: what it asks for, not how it is written.
    digest: [u8; 32],
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    Done(StatusCode, Bytes),
    /// It is done, and the reply was too long to keep.
    TooLong(StatusCode),
}

/// What a request with a key is to do.
pub(crate) enum Turn {
    /// Be done, and tell what came of it.
    First(Claim),
    /// Be answered as the first one was.
    Again(Response<Reply>),
}

/// A key whose request runs. Dropped without an answer, the key is forgotten.
pub(crate) struct Claim {
    keys: Keys,
    key: Option<Key>,
}

/// The key that a request shows.
pub(crate) fn shown<'a>(endpoint: &Endpoint, headers: &'a HeaderMap) -> Result<Option<&'a str>, Refusal> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let bad = |what: &str| Err(Refusal::new(StatusCode::BAD_REQUEST, "bad_idempotency_key", what));
    if !endpoint.takes_key() {
        return bad("this request takes no Idempotency-Key; send it without");
    }
    if headers.get_all(HEADER).iter().nth(1).is_some() {
        return bad("a request has one Idempotency-Key");
    }
    match value.to_str() {
        Ok(key) if (1..=KEY_MAX).contains(&key.len()) => Ok(Some(key)),
        _ => bad("an Idempotency-Key is 1 to 255 visible ASCII characters, a UUID for one"),
    }
}

/// The name of a branch that is created with a key and without a name, in a fleet: it follows from the key and from whose it is.
#[cfg(feature = "fleet")]
pub(crate) fn name(id: &str, key: &str) -> String {
    let hash = blake3::Hash::from(digest(&[b"create", id.as_bytes(), key.as_bytes()])).to_hex();
    format!("k-{}", &hash[..32])
}

impl Keys {
    /// Whose turn it is with a key: the first one to show it, or one who shows it again with the same request.
    pub(crate) fn turn(&self, caller: &Caller, key: &str, request: &[&[u8]]) -> Result<Turn, Refusal> {
        let token = match caller {
            Caller::Holder(visitor) => Some(visitor.token.id.clone()),
            _ => None,
        };
        let key = Key { token, key: key.to_owned() };
        let digest = digest(request);
        let now = clock::now();
        let mut keys = self.lock();
        if let Some(entry) = keys.get(&key).filter(|entry| now.duration_since(entry.since) < KEPT_FOR) {
            return entry.again(digest);
        }
        make_room(&mut keys, &key, now)?;
        keys.insert(key.clone(), Entry { since: now, digest, state: State::Running });
        drop(keys);
        Ok(Turn::First(Claim { keys: self.clone(), key: Some(key) }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn again(&self, digest: [u8; 32]) -> Result<Turn, Refusal> {
        let refuse = |status, code, what: &str| Err(Refusal::new(status, code, what));
        if self.digest != digest {
            let what =
                "this Idempotency-Key was shown with another request; each request has a key of its own";
            return refuse(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", what);
        }
        match &self.state {
            State::Running => {
                let what =
                    "the request with this Idempotency-Key is not done yet; ask again with the same key";
                refuse(StatusCode::CONFLICT, "request_in_progress", what)
            }
            State::Done(status, body) => {
                let mut response = reply::text(*status, body.clone());
                let again = hyper::header::HeaderValue::from_static("true");
                response.headers_mut().insert("idempotent-replayed", again);
                Ok(Turn::Again(response))
            }
            State::TooLong(status) => {
                let what = format!(
                    "it was done ({status}), and its reply was too long to keep: over {REPLY_MAX} bytes; it is not done again"
                );
                refuse(StatusCode::CONFLICT, "reply_not_kept", &what)
            }
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }
}

/// Makes room for one more key: what is too old goes, then the oldest.
fn make_room(keys: &mut HashMap<Key, Entry>, key: &Key, now: Instant) -> Result<(), Refusal> {
    let own = keys.keys().filter(|other| other.token == key.token).count();
    if own < KEYS_OF_ONE && keys.len() < KEYS_MAX {
        return Ok(());
    }
    keys.retain(|_, entry| entry.is_running() || now.duration_since(entry.since) < KEPT_FOR);
    let oldest = |keys: &HashMap<Key, Entry>, of: Option<&Key>| {
        let candidates = keys
            .iter()
            .filter(|(other, entry)| !entry.is_running() && of.is_none_or(|of| of.token == other.token));
        candidates.min_by_key(|(_, entry)| entry.since).map(|(key, _)| key.clone())
    };
    let own = keys.keys().filter(|other| other.token == key.token).count();
    for (full, of) in [(own >= KEYS_OF_ONE, Some(key)), (keys.len() >= KEYS_MAX, None)] {
        if full {
            let Some(oldest) = oldest(keys, of) else {
                let what = "too many requests with an Idempotency-Key run; wait for some of them";
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_keys", what));
            };
            keys.remove(&oldest);
        }
    }
    Ok(())
}

/// Whether an operation goes on when its caller goes away, because it must not stop halfway. It is done again by who does it twice.
pub(crate) const fn goes_on(op: Op) -> bool {
    matches!(
        op,
        Op::ResetBranch | Op::RestoreBranch | Op::UndoBranch | Op::TakeSnapshot | Op::ControlFunction
    )
}

impl Claim {
    /// Keeps what came of the request. What may come out otherwise at the next try is not kept.
    pub(crate) fn answered(mut self, answer: Answer) -> Answer {
        let (status, body) = match &answer {
            Ok(response) => (response.status(), response.body().whole()),
            Err(refusal) => (refusal.status, None),
        };
        let state = match (&answer, body) {
            (Err(_), _) => return answer,
            (Ok(_), Some(body)) if body.len() <= REPLY_MAX => State::Done(status, body.clone()),
            (Ok(_), _) => State::TooLong(status),
        };
        if let Some(key) = self.key.take() {
            if let Some(entry) = self.keys.lock().get_mut(&key) {
                entry.state = state;
            }
        }
        answer
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.keys.lock().remove(key);
        }
    }
}

fn digest(request: &[&[u8]]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in request {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
#[path = "../tests/unit/idempotency.rs"]
mod tests;
