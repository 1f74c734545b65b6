//! Stores, and branches in packs: what they hold, a page at a time. Nothing here writes.

mod difference;
mod entries;
mod moment;
mod value;

pub use difference::{difference, DifferenceAsked};
pub use duramen_store::Store;
pub use entries::{entries, entry, EntriesAsked, EntryAsked};

use crate::{error::ReadError, limits::LIST_MAX};
use duramen_api::attachments::store::{
    EntryKind, StoreBranch, StoreBranches, StoreContents, StoreHistory, StoreKeep, StoreSpace, StoreState,
};
use duramen_store::{BranchInfo, Every, Primitive, Scope};
use jiff::Timestamp;

/// A time that a store says, which may be any number.
fn time(unix_ms: i64) -> Timestamp {
    Timestamp::from_millisecond(unix_ms).unwrap_or_default()
}

const fn kind_of(primitive: Primitive) -> EntryKind {
    match primitive {
        Primitive::Kv => EntryKind::Kv,
        Primitive::Blob => EntryKind::Blobs,
        Primitive::State => EntryKind::State,
        Primitive::Event => EntryKind::Events,
        Primitive::Json => EntryKind::Json,
        Primitive::Vector => EntryKind::Vectors,
        Primitive::Index => EntryKind::Indexes,
    }
}

const fn primitive_of(kind: EntryKind) -> Primitive {
    match kind {
        EntryKind::Kv => Primitive::Kv,
        EntryKind::Blobs => Primitive::Blob,
        EntryKind::State => Primitive::State,
        EntryKind::Events => Primitive::Event,
        EntryKind::Json => Primitive::Json,
        EntryKind::Vectors => Primitive::Vector,
        EntryKind::Indexes => Primitive::Index,
    }
}

/// The kind of data of a word.
///
/// # Errors
/// [`ReadError::Invalid`] when it is none.
///
/// # Examples
/// ```
/// use duramen_api::attachments::store::EntryKind;
/// assert_eq!(duramen_attachments::store::kind("json")?, EntryKind::Json);
/// assert!(duramen_attachments::store::kind("rows").is_err());
/// # Ok::<(), duramen_attachments::error::ReadError>(())
/// ```
pub fn kind(word: &str) -> Result<EntryKind, ReadError> {
    let found = EntryKind::ALL.into_iter().find(|kind| kind.word() == word);
    found.ok_or_else(|| {
        let words = EntryKind::ALL.map(EntryKind::word).join(", ");
        ReadError::Invalid(format!("{word:?} is no kind of data; use one of {words}"))
    })
}

/// The branches of a store: the first thousand by name.
///
/// # Errors
/// [`ReadError::Store`] when it cannot be read.
///
/// # Examples
/// ```
/// let store = duramen_store::Store::memory();
/// store.fork("main", "try")?;
/// let branches = duramen_attachments::store::branches(&store)?.branches;
/// assert_eq!((branches[1].name.as_str(), branches[1].parent.as_deref()), ("try", Some("main")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn branches(store: &Store) -> Result<StoreBranches, ReadError> {
    let info = store.info();
    let mut branches = store.branches(false)?;
    let truncated = branches.len() > LIST_MAX;
    branches.truncate(LIST_MAX);
    Ok(StoreBranches {
        version: info.version,
        created_at: time(info.created_ms),
        disk_bytes: info.node_bytes,
        branches: branches.into_iter().map(shown).collect(),
        truncated,
    })
}

fn shown(info: BranchInfo) -> StoreBranch {
    StoreBranch {
        name: info.name,
        parent: info.parent,
        created_at: time(info.created_ms),
        expires_at: info.expires_ms.map(time),
        protected: info.protected,
        entries: info.entries,
        bytes: info.bytes,
    }
}

/// What a branch has: the first thousand spaces of each kind of data, and as many collections of vectors.
///
/// # Errors
/// [`ReadError::Store`] when there is no such branch or state, or it cannot be read; [`ReadError::Invalid`] for what is no state.
///
/// # Examples
/// ```
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// store.branch("main")?.space("tenant-7")?.kv().put("colour", "green")?;
/// let contents = duramen_attachments::store::contents(&store, None)?;
/// assert_eq!((contents.branch.as_str(), contents.spaces[0].name.as_str()), ("main", "tenant-7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn contents(store: &Store, branch: Option<&str>) -> Result<StoreContents, ReadError> {
    let branch = branch.map_or_else(|| moment::main_one(store), |branch| Ok(branch.to_owned()))?;
    let snapshot = moment::snapshot(store, &branch)?;
    let mut found = snapshot.spaces_within(LIST_MAX + 1)?;
    let mut truncated = found.len() > LIST_MAX;
    found.truncate(LIST_MAX);
    let mut left = LIST_MAX;
    let mut spaces = Vec::new();
    for space in found {
        let mut collections = match space.kinds.contains(&Primitive::Vector) {
            true => snapshot.space(&space.name)?.vectors().list_within(left + 1)?,
            false => Vec::new(),
        };
        truncated |= collections.len() > left;
        collections.truncate(left);
        left -= collections.len();
        let kinds = space.kinds.into_iter().map(kind_of).collect();
        spaces.push(StoreSpace { name: space.name, kinds, collections });
    }
    Ok(StoreContents { branch, spaces, truncated })
}

/// The states of a branch that are retained, the newest first, a thousand of them.
///
/// # Errors
/// [`ReadError::Store`] when there is no such branch, or it cannot be read.
///
/// # Examples
/// ```
/// use duramen_store::{Scope, Store};
/// let store = Store::memory();
/// store.branch("main")?.kv().put("colour", "green")?;
/// store.tag("main", "v1")?;
/// let history = duramen_attachments::store::history(&store, None)?;
/// assert_eq!(history.states[0].tags, ["v1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn history(store: &Store, branch: Option<&str>) -> Result<StoreHistory, ReadError> {
    let branch = branch.map_or_else(|| moment::main_one(store), |branch| Ok(branch.to_owned()))?;
    let history = store.branch(&branch)?.history()?;
    let all = history.states.len() as u64;
    let states = history.states.into_iter().rev().take(LIST_MAX).map(|state| StoreState {
        version: state.version,
        at: time(state.time_ms),
        tags: state.tags,
        entries: state.entries,
        // A store in a folder knows them, and others are not attached.
        bytes: state.bytes.unwrap_or(0),
    });
    let keep = history.keep.map(|keep| StoreKeep {
        every_ms: match keep.every {
            Every::Ms(ms) => Some(ms),
            _ => None,
        },
        versions: keep.versions,
        age_ms: keep.age_ms,
        bytes: keep.bytes,
    });
    Ok(StoreHistory { keep, states: states.collect(), all })
}
