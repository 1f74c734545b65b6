//! Puts what a fleet had agreed on back into an etcd that lost it. What is there already stays: nodes that are there have registered, and
//! have claimed the names of what they hold.
//!
//! What is missing is put by transactions of a few keys each. Each of them compares that none of its keys has come meanwhile, and moves
//! a mark on: `restore`, beside the keys. Until the last one the mark says that the restore is under way. So a half of one is
//! recognised and done again, two at once do not mix, and a transaction that is delivered late does nothing.

use crate::{
    agreed::{Agreed, AgreedKey, Agreement, Kind},
    etcd::{gotten, EtcdError, Found},
    member::json,
};
use duramen_base::{clock, entropy};
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::sleep;

/// So many keys are put at a time: etcd takes 128 operations a transaction, unless it is told otherwise.
pub const KEYS_AT_A_TIME: usize = 60;
/// And so many bytes of values: etcd takes requests of 1.5 MiB.
const BYTES_AT_A_TIME: usize = 512 << 10;
/// How long one transaction is tried.
const TRY_LIMIT: Duration = Duration::from_secs(20);
/// Pause before that.
const PAUSE: Duration = Duration::from_millis(300);
/// So many names stand in a refusal.
const NAMED_MAX: usize = 10;

/// The mark of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreMark {
    /// The digest of the backup.
    pub digest: String,
    /// When the backup was made.
    pub made_at: Timestamp,
    /// When the restore began.
    pub began_at: Timestamp,
    /// By which run of the command.
    pub run: String,
    /// How many transactions of that run there were.
    pub step: usize,
    /// Whether it is done.
    pub done: bool,
}

/// What is to be put back.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What was agreed on.
    pub agreed: &'a Agreed,
    /// The digest of the backup that it is of, by which a restore is known again.
    pub digest: &'a str,
    /// When that was made.
    pub made_at: Timestamp,
    /// Whether what the fleet has beyond it, or has deleted since, is no hindrance.
    pub force: bool,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Keys that were put.
    pub put: Vec<String>,
    /// Keys of the backup that were there, and are as they were there: what is there counts.
    pub kept: Vec<String>,
    /// Whether it goes on with a restore of the same backup that was not finished.
    pub resumed: bool,
}

/// Why nothing, or not all, was put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup is of another fleet.
    #[error("the backup is of the fleet {of}, and not of {fleet}; name its own: etcd://.../{of}")]
    OtherFleet {
        /// The backup's.
        of: String,
        /// The one that was meant.
        fleet: String,
    },
    /// It holds what no fleet has.
    #[error("the backup holds {key:?}, which is not a key of a fleet, or out of order; nothing was restored. Take another backup")]
    Misplaced {
        /// The key.
        key: String,
    },
    /// The fleet has what the backup does not.
    #[error("the fleet has gone on since the backup of {made_at}: it has {newer}, which the backup does not have. A restore changes nothing of these, and adds what is missing, tokens that were revoked since included: --force, if that is meant")]
    GoneOn {
        /// When the backup was made.
        made_at: Timestamp,
        /// What it has, in words.
        newer: String,
    },
    /// etcd has not lost what it had.
    #[error("etcd has not lost the fleet's data: it still has {still}, as the backup of {made_at} has it. What is missing ({missing}) was ended since; to have it again, tokens that were revoked included: --force")]
    NotLost {
        /// When the backup was made.
        made_at: Timestamp,
        /// What it has still, in words.
        still: String,
        /// What would be put.
        missing: String,
    },
    /// The same backup was restored before.
    #[error("this backup was restored here already ({at}). What is missing ({missing}) was ended since; to have it again: --force")]
    Before {
        /// When.
        at: Timestamp,
        /// What would be put.
        missing: String,
    },
    /// A restore of another backup was begun and not finished.
    #[error("a restore of another backup (made at {made_at}) was begun at {began_at} and is not finished; finish it, or restore this one over it: --force")]
    Other {
        /// When that backup was made.
        made_at: Timestamp,
        /// When its restore began.
        began_at: Timestamp,
    },
    /// Somebody else restores at the same time.
    #[error("another restore came between; look whether it goes on, and do this one again")]
    Overtaken,
    /// etcd does not answer.
    #[error("{source}; {done} of {of} steps are done, as far as is known. Do the same again: what is there is kept")]
    Etcd {
        /// What it said.
        source: EtcdError,
        /// Steps that are done.
        done: usize,
        /// All of them.
        of: usize,
    },
}

impl Agreement {
    /// The mark of a restore; nothing, if there was none.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn mark(&self) -> Result<Option<RestoreMark>, EtcdError> {
        let found = self.etcd.get_at(self.etcd.keys.restore()).await?;
        Ok(found.and_then(|found| found.read()))
    }

    /// Puts back what etcd lacks. `step` is told how many transactions are done, and how many there are, before each of them.
    ///
    /// # Errors
    /// [`RestoreError`]. What is put stays; the same again goes on.
    pub async fn restore(
        &self,
        wanted: Wanted<'_>,
        mut step: impl AsyncFnMut(usize, usize),
    ) -> Result<Restored, RestoreError> {
        let Wanted { agreed, digest, made_at, .. } = wanted;
        if agreed.fleet != self.fleet() {
            let (of, fleet) = (agreed.fleet.clone(), self.fleet().to_owned());
            return Err(RestoreError::OtherFleet { of, fleet });
        }
        if let Some(key) = agreed.misplaced() {
            return Err(RestoreError::Misplaced { key: key.to_owned() });
        }
        let silent = |source| RestoreError::Etcd { source, done: 0, of: 0 };
        let found = self.etcd.get_at(self.etcd.keys.restore()).await.map_err(silent)?;
        let mark = found.as_ref().and_then(Found::read::<RestoreMark>);
        let now = self.read().await.map_err(silent)?;
        let there = now.by_key();
        let mut missing: Vec<&AgreedKey> =
            agreed.keys.iter().filter(|key| !there.contains_key(key.key.as_str())).collect();
        let resumed = mark.as_ref().is_some_and(|mark| !mark.done && mark.digest == digest);
        let is_done = mark.as_ref().is_some_and(|mark| mark.done && mark.digest == digest);
        if !wanted.force && !resumed {
            allowed(wanted, mark.as_ref(), &there, &missing)?;
        }
        let kept = agreed
            .keys
            .iter()
            .filter(|key| there.get(key.key.as_str()).is_some_and(|there| !there.is_same_as(key)));
        let mut restored =
            Restored { kept: kept.map(|key| key.key.clone()).collect(), resumed, put: Vec::new() };
        if missing.is_empty() && (is_done || mark.is_none()) {
            return Ok(restored);
        }
        missing.sort_by(|a, b| (Kind::of(&a.key), &a.key).cmp(&(Kind::of(&b.key), &b.key)));
        let mut putting = Putting {
            agreement: self,
            mark: RestoreMark {
                digest: digest.to_owned(),
                made_at,
                began_at: clock::utc_now(),
                run: entropy::token(16),
                step: 0,
                done: false,
            },
            revision: found.map_or(0, |found| found.modified),
        };
        let parts = parts(&missing);
        for (done, part) in parts.iter().enumerate() {
            step(done, parts.len()).await;
            let put = putting.put(part, done + 1 == parts.len()).await;
            let (put, kept) = put.map_err(|error| error.after(done, parts.len()))?;
            restored.put.extend(put);
            restored.kept.extend(kept);
        }
        Ok(restored)
    }
}

impl RestoreError {
    fn after(self, done: usize, of: usize) -> RestoreError {
        match self {
            RestoreError::Etcd { source, .. } => RestoreError::Etcd { source, done, of },
            other => other,
        }
    }
}

/// Whether a restore does what is meant by who looks at an etcd that lost its data.
fn allowed(
    wanted: Wanted<'_>,
    mark: Option<&RestoreMark>,
    there: &BTreeMap<&str, &AgreedKey>,
    missing: &[&AgreedKey],
) -> Result<(), RestoreError> {
    let Wanted { agreed, digest, made_at, .. } = wanted;
    let lacks = || named(missing.iter().map(|key| key.key.as_str()));
    if missing.is_empty() {
        return Ok(());
    }
    match mark {
        Some(mark) if mark.done && mark.digest == digest => {
            return Err(RestoreError::Before { at: mark.began_at, missing: lacks() });
        }
        Some(mark) if !mark.done => {
            return Err(RestoreError::Other { made_at: mark.made_at, began_at: mark.began_at });
        }
        _ => {}
    }
    let had = agreed.by_key();
    let is_still = |key: &&&AgreedKey| {
        had.get(key.key.as_str()).is_some_and(|had| (had.created, &had.value) == (key.created, &key.value))
    };
    let still: Vec<&str> = there.values().filter(is_still).map(|key| key.key.as_str()).collect();
    if !still.is_empty() {
        return Err(RestoreError::NotLost { made_at, still: named(still.into_iter()), missing: lacks() });
    }
    let is_newer = |key: &&&AgreedKey| match Kind::of(&key.key) {
        // What nodes and versions keep there by themselves hinders nobody.
        Kind::Drain | Kind::Other => false,
        Kind::Member | Kind::Name | Kind::Source | Kind::Token => {
            !had.get(key.key.as_str()).is_some_and(|had| had.is_same_as(key))
        }
    };
    let newer: Vec<&str> = there.values().filter(is_newer).map(|key| key.key.as_str()).collect();
    if newer.is_empty() {
        return Ok(());
    }
    Err(RestoreError::GoneOn { made_at, newer: named(newer.into_iter()) })
}

/// Some of so many names.
fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let shown: Vec<&str> = names.take(NAMED_MAX).collect();
    match count.saturating_sub(NAMED_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What is put at a time; one part at least, since the mark is to be put, too.
fn parts<'a>(missing: &[&'a AgreedKey]) -> Vec<Vec<&'a AgreedKey>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for key in missing {
        let size = key.key.len() + key.value.len();
        let last = parts.last_mut().expect("there is always one");
        if last.len() == KEYS_AT_A_TIME || (bytes + size > BYTES_AT_A_TIME && !last.is_empty()) {
            parts.push(vec![*key]);
            bytes = size;
        } else {
            last.push(*key);
            bytes += size;
        }
    }
    parts
}

struct Putting<'a> {
    agreement: &'a Agreement,
    mark: RestoreMark,
    /// The revision of the mark that is there; zero if there is none.
    revision: i64,
}

impl Putting<'_> {
    /// Puts a part. Tells which keys it put, and which have come meanwhile.
    async fn put(
        &mut self,
        part: &[&AgreedKey],
        last: bool,
    ) -> Result<(Vec<String>, Vec<String>), RestoreError> {
        let etcd = &self.agreement.etcd;
        let (place, prefix) = (etcd.keys.restore(), etcd.keys.prefix());
        let begin = clock::now();
        let mut rest: Vec<&AgreedKey> = part.to_vec();
        let mut kept = Vec::new();
        self.mark.step += 1;
        self.mark.done = last;
        loop {
            let full = |key: &AgreedKey| format!("{prefix}{}", key.key);
            let mut when = vec![Compare::mod_revision(place.clone(), CompareOp::Equal, self.revision)];
            when.extend(rest.iter().map(|key| Compare::create_revision(full(key), CompareOp::Equal, 0)));
            let mut then = vec![TxnOp::put(place.clone(), json(&self.mark), None)];
            then.extend(rest.iter().map(|key| TxnOp::put(full(key), key.value.clone(), None)));
            let mut or = vec![TxnOp::get(place.clone(), None)];
            or.extend(rest.iter().map(|key| TxnOp::get(full(key), None)));
            let answer = match etcd.txn(Txn::new().when(when).and_then(then).or_else(or)).await {
                Ok(answer) => answer,
                Err(source) if begin.elapsed() >= TRY_LIMIT => {
                    return Err(RestoreError::Etcd { source, done: 0, of: 0 });
                }
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let put = |rest: &[&AgreedKey]| rest.iter().map(|key| key.key.clone()).collect();
            if answer.succeeded() {
                self.revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
                return Ok((put(&rest), kept));
            }
            let mut got = gotten(&answer).into_iter();
            let found = got.next().flatten();
            let mark = found.as_ref().and_then(Found::read::<RestoreMark>);
            if mark.is_some_and(|mark| (&mark.run, mark.step) == (&self.mark.run, self.mark.step)) {
                // An earlier try whose answer was lost.
                self.revision = found.map_or(0, |found| found.modified);
                return Ok((put(&rest), kept));
            }
            if found.map_or(0, |found| found.modified) != self.revision {
                return Err(RestoreError::Overtaken);
            }
            // What a node has claimed meanwhile, or somebody made.
            let come: Vec<bool> = got.map(|found| found.is_some()).collect();
            let mut come = come.into_iter();
            rest.retain(|key| {
                let has_come = come.next().unwrap_or(false);
                if has_come {
                    kept.push(key.key.clone());
                }
                !has_come
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_to_what_etcd_takes_at_a_time() {
        let key = |number: usize, size: usize| AgreedKey {
            key: format!("names/{number:05}"),
            value: vec![b'x'; size],
            created: 1,
            modified: 1,
        };
        let sizes = |keys: &[AgreedKey]| -> Vec<usize> {
            parts(&keys.iter().collect::<Vec<_>>()).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[]), [0], "the mark is put, too");
        let many: Vec<AgreedKey> = (0..130).map(|number| key(number, 200)).collect();
        assert_eq!(sizes(&many), [60, 60, 10]);
        let large: Vec<AgreedKey> = (0..4).map(|number| key(number, 300 << 10)).collect();
        assert_eq!(sizes(&large), [1, 1, 1, 1]);
    }

    #[test]
    fn of_many_names_some_are_told() {
        let names: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
        let text = named(names.iter().map(String::as_str));
        assert!(text.starts_with("n0, n1") && text.ends_with("n9 and 2 more"), "{text}");
        assert_eq!(named(["a"].into_iter()), "a");
    }
}
