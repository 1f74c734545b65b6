//! Definitions of sources: each change of one is a transaction that compares what it was, and that who changes it is registered.
//!
//! FL-14: one name, one definition. FL-16: so many places, each taken once.

use crate::{
    etcd::{gotten, EtcdError, Found},
    member::{json, Fleet, Standing},
    record::{Key, SourceRecord},
    view::SourceSeen,
};
use duramen_base::clock;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use std::time::Duration;
use tokio::time::sleep;

/// How long a change is tried.
const LIMIT: Duration = Duration::from_secs(3);
/// Pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest definition. etcd takes 1.5 MiB in a request.
pub const DEFINITION_MAX: usize = 256 << 10;

/// Why a definition was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// This node may change nothing now (FL-2).
    #[error("this node ({node}) changes nothing of the fleet now: {why}; try again when `duramen node list` shows it as ready")]
    NotMember {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// It is not what it was.
    #[error("the definition of the source {name} was changed meanwhile; look at it (`duramen source list`), and try again")]
    Changed {
        /// The source.
        name: String,
        /// What it is now; none if it is gone.
        now: Option<Box<SourceRecord>>,
    },
    /// It is too long.
    #[error("the definition of the source {name} has {bytes} bytes, and {DEFINITION_MAX} is the most; shorten its masking rules")]
    TooLong {
        /// The source.
        name: String,
        /// Its bytes.
        bytes: usize,
    },
    /// etcd did not say whether it was done.
    #[error("{source}; whether the definition was changed is unknown")]
    Etcd {
        /// What it said.
        source: EtcdError,
    },
}

/// What a definition is compared with before it is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was<'a> {
    /// There is none.
    Absent,
    /// It is the one of this revision.
    Revision(i64),
    /// The same, and this node has been lost since its member key had this revision: its place is taken (FL-16).
    Lost(i64, &'a str, i64),
}

impl Fleet {
    /// The definition of a source as etcd has it now, with the revision of its last change.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn source(&self, name: &str) -> Result<Option<SourceSeen>, EtcdError> {
        let found = self.etcd.get(Key::Source(name)).await?;
        Ok(found.map(|found| SourceSeen { record: found.read(), revision: found.modified }))
    }

    /// Defines a source, changes its definition, or ends it if there is no other. Tells the revision at which that is done.
    ///
    /// # Errors
    /// [`ChangeError`]. After [`ChangeError::Etcd`] it may have been done; the watch will tell.
    pub async fn change_source(
        &self,
        name: &str,
        was: Was<'_>,
        record: Option<&SourceRecord>,
    ) -> Result<i64, ChangeError> {
        let value = record.map(json);
        if let Some(bytes) = value.as_ref().map(Vec::len).filter(|bytes| *bytes > DEFINITION_MAX) {
            return Err(ChangeError::TooLong { name: name.to_owned(), bytes });
        }
        let begin = clock::now();
        let key = self.etcd.keys.key(Key::Source(name));
        let own = self.etcd.keys.key(Key::Node(&self.settings.node));
        loop {
            let Some(registration) = self.registration() else { return Err(self.changes_nothing()) };
            let mut when = vec![
                match was {
                    Was::Absent => Compare::create_revision(key.clone(), CompareOp::Equal, 0),
                    Was::Revision(revision) | Was::Lost(revision, ..) => {
                        Compare::mod_revision(key.clone(), CompareOp::Equal, revision)
                    }
                },
                Compare::create_revision(own.clone(), CompareOp::Equal, registration.number),
            ];
            if let Was::Lost(_, node, seen) = was {
                let key = |key| self.etcd.keys.key(key);
                when.push(Compare::create_revision(key(Key::Node(node)), CompareOp::Equal, 0));
                when.push(Compare::mod_revision(key(Key::Member(node)), CompareOp::Equal, seen));
            }
            let op = match &value {
                Some(value) => TxnOp::put(key.clone(), value.clone(), None),
                None => TxnOp::delete(key.clone(), None),
            };
            let txn = Txn::new()
                .when(when)
                .and_then([op])
                .or_else([TxnOp::get(key.clone(), None), TxnOp::get(own.clone(), None)]);
            let answer = match self.etcd.txn(txn).await {
                Ok(answer) => answer,
                Err(source) if begin.elapsed() >= LIMIT => return Err(ChangeError::Etcd { source }),
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
            if answer.succeeded() {
                return Ok(revision);
            }
            let mut got = gotten(&answer).into_iter();
            let (found, registered) = (got.next().flatten(), got.next().flatten());
            // An earlier try whose answer was lost; or it was so already.
            if found.as_ref().map(|found| &found.value) == value.as_ref() {
                return Ok(found.map_or(revision, |found| found.modified));
            }
            if registered.is_none_or(|found| found.created != registration.number) {
                self.taken_away(registration.number);
                return Err(self.changes_nothing());
            }
            let now = found.as_ref().and_then(Found::read::<SourceRecord>).map(Box::new);
            return Err(ChangeError::Changed { name: name.to_owned(), now });
        }
    }

    fn changes_nothing(&self) -> ChangeError {
        let why = match self.standing() {
            Standing::Member(_) => "its registration ended in etcd".to_owned(),
            Standing::Joining(why) | Standing::Refused(why) => why,
        };
        ChangeError::NotMember { node: self.settings.node.clone(), why }
    }
}
