//! Server processes that are ready before their client comes.
//!
//! A branch in the pool has one, if clients of its pool come through a door: it has logged in with the start-up parameters
//! that they came with last, is warm, and has forgotten what warmed it. It is for the first session of the branch, before
//! which nobody can have changed what a session begins with (the settings of roles and databases); later sessions get a
//! process of their own, and so do all of a branch whose URL was shown on the daemon's own socket: by that, one can enter
//! beside the daemon.
//!
//! While it is made, the branch is out of its pool: what warms it up moves sequences and sets them back, which must not
//! happen to somebody who uses them.

use crate::{
    branch::{Branch, CONNECT_LIMIT},
    registry::PoolKey,
    shared::Shared,
};
use duramen_base::clock;
use duramen_postgres::{Entry, Session};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// Spares follow other parameters only so often: making them anew for a whole pool costs it a second of the processors.
const FOLLOW_EVERY: Duration = Duration::from_secs(10);
/// How many are made at a time.
const SPARES_AT_ONCE: usize = 2;
/// How long the making of one may take: the thread that makes them fills the pools of everybody.
const MAKING_LIMIT: Duration = Duration::from_secs(2);
/// A client that took longer to be let in is not followed: its parameters may say that it wants to be slow.
const QUICK: Duration = Duration::from_secs(1);
/// How many packets with which no spare could be made are remembered of each pool.
const FAILED_MAX: usize = 8;
/// It may differ from what the spare came with, because it is set afterwards.
const APPLICATION_NAME: &str = "application_name";

/// The parameters of a start-up packet.
pub(crate) type Parameters = Vec<(String, String)>;

/// What a spare came with. The order stays: of a parameter that is there twice, the last one counts.
fn normal(parameters: &[(String, String)]) -> Parameters {
    parameters.iter().filter(|(name, _)| name != APPLICATION_NAME).cloned().collect()
}

/// What came of making a spare.
enum Made {
    Spare(Entry),
    /// The server let nobody in with these parameters. Nothing has happened in the branch.
    Refused,
    /// It was let in and did not come to its end, so that nobody knows what it has changed.
    Broken,
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

    /// Notes that somebody enters the branch beside the doors, or that a statement runs in it.
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

    /// Keeps one that was made while the branch was out of its pool, or that there is none with these parameters.
    fn put(&self, parameters: Parameters, entry: Option<Entry>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.used.load(Ordering::Acquire) {
            *kept = Some((parameters, entry));
        }
    }
}

impl Branch {
    /// Has a process ready for a client that comes with these parameters.
    async fn make_spare(&self, parameters: &Parameters) -> Made {
        let told = |error: &dyn std::error::Error| {
            tracing::debug!(%error, volume = self.volume, "no process is ready before its client comes");
        };
        let entry = match timeout(MAKING_LIMIT, self.open_entry(parameters)).await {
            Ok(Ok(entry)) => entry,
            Ok(Err(error)) => {
                told(&error);
                return Made::Refused;
            }
            Err(late) => {
                told(&late);
                return Made::Refused;
            }
        };
        let (mut session, greeting) = Session::of(entry);
        let warmed = async {
            self.warm(&mut session).await?;
            session.simple("discard all").await
        };
        match timeout(MAKING_LIMIT, warmed).await {
            Ok(Ok(())) => session.into_entry(greeting).map_or(Made::Broken, Made::Spare),
            Ok(Err(error)) => {
                told(&error);
                Made::Broken
            }
            Err(late) => {
                told(&late);
                Made::Broken
            }
        }
    }

    /// Takes the spare, if it is what a client with these parameters would get.
    pub(crate) async fn take_spare(&self, parameters: &[(String, String)]) -> Option<Entry> {
        let mut entry = self.spare.take(parameters)?;
        let name = parameters.iter().rfind(|(name, _)| name == APPLICATION_NAME);
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
    /// What spares are made with, unless that failed.
    followed: Parameters,
    /// Since when they are.
    since: Instant,
    /// What the last client came with.
    last: Parameters,
    /// With what no spare could be made, the newest last.
    failed: VecDeque<Parameters>,
}

impl Packets {
    /// Notes with what a client was let in, and how long that took. Spares follow what two clients one after the other came
    /// with.
    pub(crate) fn note(&self, key: PoolKey, parameters: &[(String, String)], took: Duration) {
        if took > QUICK {
            return;
        }
        let parameters = normal(parameters);
        let mut packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(packet) = packets.get_mut(&key) else {
            let (followed, since) = (parameters.clone(), clock::now());
            packets.insert(key, Packet { followed, since, last: parameters, failed: VecDeque::new() });
            return;
        };
        let is_new = packet.followed != parameters && packet.since.elapsed() > FOLLOW_EVERY;
        if is_new && packet.last == parameters && !packet.failed.contains(&parameters) {
            (packet.followed, packet.since) = (parameters.clone(), clock::now());
        }
        packet.last = parameters;
    }

    /// With what spares of a pool are to be made, if its clients come through a door.
    pub(crate) fn of(&self, key: &PoolKey) -> Option<Parameters> {
        let packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = packets.get(key)?;
        (!packet.failed.contains(&packet.followed)).then(|| packet.followed.clone())
    }

    /// Notes with what no spare could be made: it is not tried with that again, because each try holds up whoever waits for a
    /// branch.
    fn give_up(&self, key: &PoolKey, parameters: &Parameters) {
        let mut packets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(packet) = packets.get_mut(key) else { return };
        if !packet.failed.contains(parameters) {
            packet.failed.push_back(parameters.clone());
            if packet.failed.len() > FAILED_MAX {
                packet.failed.pop_front();
            }
        }
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
    /// Makes processes ready for the clients of a few branches of the pool; whether there were any to make.
    pub(crate) fn make_spares(self: &Arc<Self>) -> bool {
        if self.packets.is_empty() {
            return false;
        }
        let wanting = self.registry.take_without_spare(&self.packets, SPARES_AT_ONCE);
        let some = !wanting.is_empty();
        crate::parallel::parallel(SPARES_AT_ONCE, wanting, |(branch, parameters)| {
            let made = self.runtime.block_on(branch.make_spare(&parameters));
            if !matches!(made, Made::Spare(_)) {
                let key = (branch.generation.source.clone(), branch.policy);
                self.packets.give_up(&key, &parameters);
            }
            match made {
                Made::Spare(entry) => branch.spare.put(parameters, Some(entry)),
                Made::Refused => branch.spare.put(parameters, None),
                Made::Broken => return self.registry.discard(branch),
            }
            self.registry.offer(branch);
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
        let quick = Duration::from_millis(5);
        packets.note(("app".to_owned(), Policy::ReadWrite), &with("slow"), QUICK * 2);
        let key = ("app".to_owned(), Policy::ReadWrite);
        assert_eq!(packets.of(&key), None, "nobody came through a door");
        packets.note(key.clone(), &with("UTC"), quick);
        let first = packets.of(&key).unwrap();
        assert_eq!(first, normal(&with("UTC")));
        assert!(first.iter().all(|(name, _)| name != APPLICATION_NAME));
        for _ in 0..3 {
            packets.note(key.clone(), &with("CET"), quick);
        }
        assert_eq!(packets.of(&key), Some(first), "they were made just now");
        let long_ago = clock::now().checked_sub(FOLLOW_EVERY * 2).unwrap();
        packets.0.lock().unwrap().get_mut(&key).unwrap().since = long_ago;
        packets.note(key.clone(), &with("EET"), quick);
        assert_eq!(packets.of(&key), Some(normal(&with("UTC"))), "one client is not enough");
        packets.note(key.clone(), &with("EET"), quick);
        assert_eq!(packets.of(&key), Some(normal(&with("EET"))));
        packets.give_up(&key, &normal(&with("EET")));
        assert_eq!(packets.of(&key), None, "it is not tried again");
        packets.keep(|_| false);
        assert!(packets.is_empty());
    }
}
