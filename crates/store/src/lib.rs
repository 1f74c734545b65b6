//! An embedded database with branches: key-value pairs, blobs, state cells, event logs, JSON documents and vectors, at three
//! levels of durability.
//!
//! A [`Store`] has branches; a [`Branch`] is written by commits; forking one costs a record in the log, whatever it
//! holds. Inside a branch, data lies in spaces, and each space has six kinds of it:
//!
//! | kind | handle | for |
//! | --- | --- | --- |
//! | pairs | [`kv::Kv`] | values by key, in order |
//! | blobs | [`blob::Blobs`] | values of up to a gibibyte, as streams |
//! | cells | [`state::Cells`] | values with a version, compare-and-swap |
//! | events | [`event::Events`] | an append-only log, chained by hashes, indexed by type |
//! | documents | [`json::Documents`] | JSON that is read and set at paths |
//! | vectors | [`vector::Vectors`] | collections, searched exactly |
//!
//! Pairs and documents are found by what they hold, through an [`index`] if one is declared.
//!
//! All of them are reached through a [`Scope`]: a [`Branch`], a [`Transaction`], or a [`Snapshot`].
//!
//! ```
//! use duramen_store::{MergeOptions, Part, Scope, Store};
//! let store = Store::memory();
//! let main = store.branch("main")?;
//! main.kv().put("colour", "green")?;
//!
//! let fork = main.fork("autumn")?;
//! fork.kv().put("colour", "red")?;
//! fork.events().append("leaf", &serde_json::json!({ "fallen": 3 }))?;
//!
//! let diff = store.diff("main", "autumn", &Part::default(), 10)?;
//! assert_eq!((diff.modified, diff.added), (1, 1));
//! store.merge("autumn", "main", MergeOptions::default())?;
//! assert_eq!(main.kv().get("colour")?, Some("red".into()));
//! # Ok::<(), duramen_store::StoreError>(())
//! ```
//!
//! [`Durability`] says what an acknowledged commit survives. Reads append nothing to the log and sync nothing, ever;
//! [`Counters`] let anybody check that. How it works inside is in `docs/design/store.md`.

/// The program of the page for packages runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod access;
mod backup;
mod batch;
pub mod blob;
mod branch;
mod branch_state;
mod branches;
mod bulk;
mod checkpoint;
mod commit;
pub mod conflict;
mod diff;
mod display;
pub mod durability;
mod engine;
mod error;
pub mod event;
mod exchange;
mod expiry;
pub mod filter;
mod folder;
mod follower;
mod garbage;
mod ground;
mod held;
mod history;
pub mod index;
pub mod json;
mod keys;
pub mod kv;
mod lock_order;
pub mod log;
mod maintenance;
mod manifest;
mod merge;
mod names;
pub mod nodes;
mod open_store;
mod options;
mod overlay;
mod pace;
mod reclaim;
mod record;
mod recovery;
mod registry;
mod requests;
mod scope;
mod slot;
mod snapshot;
pub mod state;
mod store;
mod stored_branch;
mod sync;
mod transaction;
pub mod upgrade;
pub mod value;
pub mod vector;
mod verify;
mod watch;
mod writer;

pub use access::Space;
pub use backup::Backup;
pub use branch::Branch;
pub use diff::{ChangeKind, Diff, DiffEntry, Part, RawChange};
pub use durability::Durability;
pub use error::{Severity, StoreError};
pub use follower::Follower;
pub use ground::{Ground, Source};
pub use history::{Every, History, Keep, KeyState, Moment, RetainedState};
pub use keys::Primitive;
pub use kv::Page;
pub use merge::{Conflict, Decision, Equal, MergeOptions, MergeReport, Resolution, Resolver, Rule, Strategy};
pub use names::{DEFAULT_BRANCH, DEFAULT_SPACE};
pub use options::Options;
pub use recovery::Repaired;
pub use scope::{Scope, SpaceInfo};
pub use snapshot::Snapshot;
pub use store::{BranchInfo, Counters, Store, StoreInfo};
pub use stored_branch::StoredBranch;
pub use transaction::{Savepoint, Transaction};
pub use value::Value;
pub use verify::{Verified, VerifiedBranch};
pub use watch::Watch;

/// Limits that are not those of one kind of data.
pub mod limits {
    pub use crate::batch::BATCH_OPERATIONS_MAX;
    pub use crate::expiry::TTL_MAX;
    pub use crate::history::TAGS_MAX;
    pub use crate::names::{
        BRANCH_NAME_BYTES_MAX, KEY_BYTES_MAX, LABEL_BYTES_MAX, SPACE_NAME_BYTES_MAX, TAG_BYTES_MAX,
    };
    pub use crate::store::TTL_S_MAX;
    pub use crate::transaction::{ATTEMPTS_MAX, READS_MAX, READ_BYTES_MAX};
}
