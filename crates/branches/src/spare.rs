//! Server processes that are ready before their client comes.
//!
//! A branch in the pool has one, if clients of its pool come through a door: it has logged in with the start-up parameters
//! that they came with last, is warm, and has forgotten what warmed it. It is for the first session of the branch, before
//! which nobody can have changed what a session begins with (the settings of roles and databases); later sessions get a
//! process of their own.

use crate::{
    branch::{Branch, CONNECT_LIMIT},
    registry::PoolKey,
    shared::Shared,
};
use duramen_base::clock;
use duramen_postgres::{Entry, EntryError, Session};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};

/// Spares follow other parameters only so often: making them anew for a whole pool costs it a second of the processors.
const FOLLOW_EVERY: Duration = Duration::from_secs(10);
/// How many are made at a time.
const SPARES_AT_ONCE: usize = 2;
/// It may differ from what the spare came with, because it is set afterwards.
const APPLICATION_NAME: &str = "application_name";

/// The parameters of a start-up packet.
pub(crate) type Parameters = Vec<(String, String)>;

/// What a spare came with, in an order that is always the same.
fn normal(parameters: &[(String, String)]) -> Parameters {
    let mut normal: Parameters =
        parameters.iter().filter(|(name, _)| name != APPLICATION_NAME).cloned().collect();
    normal.sort();
    normal
}

/// The place of a branch's spare.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// With what it came; without an entry, it could not.
    kept: Mutex<Option<(Parameters, Option<Entry>)>>,
    /// Whether a session or a statement of somebody has been in the branch.
    used: AtomicBool,
}

impl Spare {
    /// Notes that somebody enters the branch; what was spare and does not fit is of no more use.
    pub(crate) fn take(&self, parameters: &[(String, String)]) -> Option<Entry> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.used.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (with, entry) = kept?;
        entry.filter(|entry| with == normal(parameters) && entry.is_alive())
    }

    /// Notes that a statement of somebody runs in the branch.
    pub(crate) fn spoil(&self) {
        if !self.used.swap(true, Ordering::AcqRel) {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Whether it is there.
    pub(crate) fn is_ready(&self) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().is_some_and(|(_, entry)| entry.is_some())
    }

    /// Whether one with these parameters is missing, and was not tried before.
    pub(crate) fn wants(&self, parameters: &Parameters) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        !self.used.load(Ordering::Acquire) && kept.as_ref().is_none_or(|(with, _)| with != parameters)
    }

    fn put(&self, parameters: Parameters, entry: Option<Entry>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.used.load(Ordering::Acquire) {
            *kept = Some((parameters, entry));
        }
    }
}

impl Branch {
    /// Has a process ready for a client that comes with these parameters.
    pub(crate) async fn make_spare(&self, parameters: &Parameters) {
        let made = async {
            let entry = self.open_entry(parameters).await?;
            let (mut session, greeting) = Session::of(entry);
            let warmed = async {
                self.warm(&mut session).await?;
                session.simple("discard all").await
            };
            warmed.await.map_err(|error| EntryError::Io(std::io::Error::other(error)))?;
            Ok::<Option<Entry>, EntryError>(session.into_entry(greeting))
        };
        let entry = match tokio::time::timeout(CONNECT_LIMIT, made).await {
            Ok(Ok(entry)) => entry,
            Ok(Err(error)) => {
                tracing::debug!(%error, volume = self.volume, "no process is ready before its client comes");
                None
            }
            Err(_) => None,
        };
        self.spare.put(parameters.clone(), entry);
    }

    /// Takes the spare, if it is what a client with these parameters would get.
    pub(crate) async fn take_spare(&self, parameters: &[(String, String)]) -> Option<Entry> {
        let mut entry = self.spare.take(parameters)?;
        let name = parameters.iter().find(|(name, _)| name == APPLICATION_NAME);
        if let Some((_, name)) = name.filter(|(_, name)| !name.is_empty()) {
            entry.name_application(name, CONNECT_LIMIT).await.ok()?;
        }
        Some(entry)
    }
}

/// With what clients come, by pool.
#[derive(Debug, Default)]
pub(crate) struct Packets(Mutex<HashMap<PoolKey, Packet>>);

#[derive(Debug)]
struct Packet {
    /// What spares are made with.
    followed: Option<(Parameters, Instant)>,
    /// What the last client came with.
    last: Parameters,
}

impl Packets {
    /// Notes with what a client came. Spares follow what two clients one after the other came with.
    pub(crate) fn note(&self, key: PoolKey, parameters: &[(String, String)]) {
        let parameters = normal(parameters);
        let mut packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(packet) = packets.get_mut(&key) else {
            let followed = Some((parameters.clone(), clock::now()));
            packets.insert(key, Packet { followed, last: parameters });
            return;
        };
        let is_new = packet
            .followed
            .as_ref()
            .is_none_or(|(followed, since)| *followed != parameters && since.elapsed() > FOLLOW_EVERY);
        if is_new && packet.last == parameters {
            packet.followed = Some((parameters.clone(), clock::now()));
        }
        packet.last = parameters;
    }

    /// With what spares of a pool are to be made, if its clients come through a door.
    pub(crate) fn of(&self, key: &PoolKey) -> Option<Parameters> {
        let packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        packets.get(key)?.followed.as_ref().map(|(parameters, _)| parameters.clone())
    }

    /// Forgets pools that are there no more.
    pub(crate) fn keep(&self, is_there: impl Fn(&PoolKey) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_there(key));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Shared {
    /// Makes processes ready for the clients of up to `slice` branches of the pool; whether there were any to make.
    pub(crate) fn make_spares(self: &Arc<Self>, slice: usize) -> bool {
        if self.packets.is_empty() {
            return false;
        }
        let wanting = self.registry.without_spare(&self.packets, slice);
        let some = !wanting.is_empty();
        crate::parallel::parallel(SPARES_AT_ONCE, wanting, |(branch, parameters)| {
            self.runtime.block_on(branch.make_spare(&parameters));
        });
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Policy;

    fn with(value: &str) -> Parameters {
        [("user", "duramen_write"), ("TimeZone", value), ("application_name", value)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }

    #[test]
    fn spares_follow_what_comes_twice_and_not_at_every_turn() {
        let packets = Packets::default();
        let key = ("app".to_owned(), Policy::ReadWrite);
        assert_eq!(packets.of(&key), None, "nobody came through a door");
        packets.note(key.clone(), &with("UTC"));
        let first = packets.of(&key).unwrap();
        assert_eq!(first, normal(&with("UTC")));
        assert!(first.iter().all(|(name, _)| name != APPLICATION_NAME));
        for _ in 0..3 {
            packets.note(key.clone(), &with("CET"));
        }
        assert_eq!(packets.of(&key), Some(first), "they were made just now");
        let long_ago = clock::now().checked_sub(FOLLOW_EVERY * 2).unwrap();
        packets.0.lock().unwrap().get_mut(&key).unwrap().followed.as_mut().unwrap().1 = long_ago;
        packets.note(key.clone(), &with("EET"));
        assert_eq!(packets.of(&key), Some(normal(&with("UTC"))), "one client is not enough");
        packets.note(key.clone(), &with("EET"));
        assert_eq!(packets.of(&key), Some(normal(&with("EET"))));
        packets.keep(|_| false);
        assert!(packets.is_empty());
    }
}
