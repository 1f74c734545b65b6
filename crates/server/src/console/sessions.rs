//! The sessions of browsers: a secret in a cookie, whose hash is kept with the token that it stands for (W1, W2).
//!
//! They are in `HOME/doors/sessions.json`, which is replaced as a whole before a sign-in or a sign-out is acknowledged. A session is
//! bound to the secret that its token had then: one that was revoked or rotated has none, whatever the file says.

use super::{hash, secret};
use crate::tokens::{Bond, Grant, Tokens};
use duramen_base::{clock, file};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicI64, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    time::Duration,
};
use tokio::sync::watch;

/// The name of the file in `doors`.
const FILE: &str = "sessions.json";
/// Only the daemon reads it.
const FILE_MODE: u32 = 0o600;
/// The largest file that is read.
const FILE_MAX: u64 = 8 << 20;
/// A session ends after so long without a request, and after so long in all.
pub(super) const UNUSED_MAX: SignedDuration = SignedDuration::from_hours(12);
pub(super) const AGE_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How many a token has, and how many there are. One more ends the one that was used least lately.
pub(super) const SESSIONS_OF_ONE: usize = 64;
pub(super) const SESSIONS_MAX: usize = 4096;
/// When a session was used is written down this often. A daemon that was killed takes it for unused that much longer.
const NOTED_EACH_MS: i64 = 10 * 60 * 1000;
/// How often something that goes on for long looks whether its session is over.
const LOOK_EACH: Duration = Duration::from_secs(1);

/// Why a session was not begun, or its end not written down.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}; make room for it, and try again")]
pub(crate) struct NotKept {
    path: PathBuf,
    source: io::Error,
}

/// A session that was begun.
#[derive(Debug)]
pub(crate) struct Session {
    hash: blake3::Hash,
    bond: Bond,
    began_at: Timestamp,
    /// When it was used last, and what of that is written down: milliseconds since 1970.
    used_ms: AtomicI64,
    noted_ms: AtomicI64,
    over: watch::Sender<bool>,
}

/// The sessions of a home.
#[derive(Debug)]
pub(crate) struct Sessions {
    path: PathBuf,
    open: Mutex<HashMap<blake3::Hash, Arc<Session>>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sessions: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    hash: String,
    #[serde(flatten)]
    bond: Bond,
    began_at: Timestamp,
    used_at: Timestamp,
}

impl Session {
    /// When it ends unless it is used.
    pub(crate) fn ends_at(&self) -> Timestamp {
        let used = Timestamp::from_millisecond(self.used_ms.load(Ordering::Relaxed)).unwrap_or(self.began_at);
        let end = |from: Timestamp, after| from.checked_add(after).unwrap_or(Timestamp::MAX);
        end(used, UNUSED_MAX).min(end(self.began_at, AGE_MAX))
    }

    /// When it began.
    pub(crate) fn began_at(&self) -> Timestamp {
        self.began_at
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at() <= now
    }

    /// Waits until it was signed out, made way for another one, or is over.
    pub(crate) async fn ends(&self) {
        let mut over = self.over.subscribe();
        while !self.is_over(clock::utc_now()) {
            if let Ok(Ok(_)) = tokio::time::timeout(LOOK_EACH, over.wait_for(|over| *over)).await {
                return;
            }
        }
    }

    fn line(&self) -> Line {
        let used_ms = self.used_ms.load(Ordering::Relaxed);
        self.noted_ms.store(used_ms, Ordering::Relaxed);
        Line {
            hash: self.hash.to_hex().to_string(),
            bond: self.bond.clone(),
            began_at: self.began_at,
            used_at: Timestamp::from_millisecond(used_ms).unwrap_or(self.began_at),
        }
    }
}

impl Sessions {
    /// Reads the sessions of a home, in its directory `doors`. Where that cannot be done nobody is signed in, and the log says so.
    pub(super) fn open(dir: &Path) -> Sessions {
        let path = dir.join(FILE);
        let open = match read(&path) {
            Ok(open) => open,
            Err(error) => {
                tracing::error!(
                    "{} is damaged or cannot be read: {error}; nobody is signed in to the console. The next sign-in replaces it",
                    path.display()
                );
                HashMap::new()
            }
        };
        Sessions { path, open: Mutex::new(open) }
    }

    /// Begins a session for the holder of a token, and gives its secret.
    pub(super) fn begin(
        &self,
        tokens: &Tokens,
        grant: &Grant,
        now: Timestamp,
    ) -> Result<(String, Arc<Session>), NotKept> {
        let (text, hash) = secret();
        let (over, _) = watch::channel(false);
        let bond = grant.bond();
        let now_ms = now.as_millisecond();
        let session = Arc::new(Session {
            hash,
            bond: bond.clone(),
            began_at: now,
            used_ms: AtomicI64::new(now_ms),
            noted_ms: AtomicI64::new(now_ms),
            over,
        });
        let mut open = self.lock();
        let mut left: Vec<_> = open.values().cloned().collect();
        left.retain(|session| !session.is_over(now) && tokens.bound(&session.bond).is_some());
        // The one that was used least lately is the last one.
        left.sort_unstable_by_key(|session| std::cmp::Reverse(session.used_ms.load(Ordering::Relaxed)));
        let mut of_one = 0;
        left.retain(|session| {
            of_one += usize::from(session.bond.is_of(&bond));
            !session.bond.is_of(&bond) || of_one < SESSIONS_OF_ONE
        });
        left.truncate(SESSIONS_MAX - 1);
        left.push(Arc::clone(&session));
        self.write(left.iter().map(|session| session.line()).collect())?;
        let left = left.into_iter().map(|session| (session.hash, session)).collect();
        for (hash, ended) in std::mem::replace(&mut *open, left) {
            if !open.contains_key(&hash) {
                ended.over.send_replace(true);
            }
        }
        Ok((text, session))
    }

    /// The session whose secret this is, and what its holder has: what the token has, for as long as both last (W1).
    pub(crate) fn find(&self, tokens: &Tokens, text: &str, now: Timestamp) -> Option<Grant> {
        let hash = hash(text);
        let open = self.lock();
        let session = Arc::clone(open.get(&hash).filter(|session| !session.is_over(now))?);
        let grant = tokens.bound(&session.bond)?.within(Arc::clone(&session));
        let now_ms = now.as_millisecond();
        session.used_ms.fetch_max(now_ms, Ordering::Relaxed);
        if now_ms - session.noted_ms.load(Ordering::Relaxed) >= NOTED_EACH_MS {
            if let Err(error) = self.write(open.values().map(|session| session.line()).collect()) {
                tracing::warn!(%error, "when sessions were used is not kept");
            }
        }
        Some(grant)
    }

    /// Ends a session, and what goes on in it.
    pub(super) fn end(&self, session: &Session) -> Result<(), NotKept> {
        let mut open = self.lock();
        // Whatever becomes of the file, it is over in this daemon.
        open.remove(&session.hash);
        session.over.send_replace(true);
        self.write(open.values().map(|session| session.line()).collect())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<blake3::Hash, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, sessions: Vec<Line>) -> Result<(), NotKept> {
        let fail = |source| NotKept { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(&File { sessions }).map_err(|error| fail(error.into()))?;
        file::replace(&self.path, &text, FILE_MODE).map_err(fail)
    }
}

fn read(path: &Path) -> io::Result<HashMap<blake3::Hash, Arc<Session>>> {
    let text = match file::read_plain(path, FILE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        text => text?,
    };
    let File { sessions } = serde_json::from_str(&text)?;
    let read = sessions.into_iter().take(SESSIONS_MAX).map(|line| {
        let hash = blake3::Hash::from_hex(&line.hash).map_err(io::Error::other)?;
        let used_ms = line.used_at.as_millisecond();
        let session = Session {
            hash,
            bond: line.bond,
            began_at: line.began_at,
            used_ms: AtomicI64::new(used_ms),
            noted_ms: AtomicI64::new(used_ms),
            over: watch::channel(false).0,
        };
        Ok((hash, Arc::new(session)))
    });
    read.collect()
}

#[cfg(test)]
#[path = "../../tests/unit/console_sessions.rs"]
mod tests;
