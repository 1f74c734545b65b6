//! What a store holds, as it is shown: branches, entries, retained states, and what differs. The branch of a pack is shown so, too.
//!
//! A branch is named as the command line names it, also with a state: `main`, `main@v1`, `main@1234`, `main@2026-11-27T10:00:00Z`.
//! Keys are bytes. They are written as text in which a control character, a byte that is no UTF-8 and what turns the direction of
//! writing is `\xNN`, byte by byte, and a backslash is `\\`; they are read the same way.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A kind of data in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// Key-value pairs.
    Kv,
    /// State cells.
    State,
    /// Events.
    Events,
    /// JSON documents.
    Json,
    /// Vectors.
    Vectors,
    /// Blobs.
    Blobs,
    /// Indexes, as they were declared.
    Indexes,
}

impl EntryKind {
    /// All of them.
    pub const ALL: [EntryKind; 7] = [
        EntryKind::Kv,
        EntryKind::State,
        EntryKind::Events,
        EntryKind::Json,
        EntryKind::Vectors,
        EntryKind::Blobs,
        EntryKind::Indexes,
    ];

    /// Its word.
    ///
    /// # Examples
    /// ```
    /// use duramen_api::attachments::store::EntryKind;
    /// assert_eq!(EntryKind::Events.word(), "events");
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            EntryKind::Kv => "kv",
            EntryKind::State => "state",
            EntryKind::Events => "events",
            EntryKind::Json => "json",
            EntryKind::Vectors => "vectors",
            EntryKind::Blobs => "blobs",
            EntryKind::Indexes => "indexes",
        }
    }
}

/// `GET /v1/attachments/{name}/store-branches`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreBranches {
    /// The version of the last write.
    pub version: u64,
    /// When the store was made, or the pack.
    pub created_at: Timestamp,
    /// Bytes on disk, without the log.
    pub disk_bytes: u64,
    /// Its branches, by name.
    pub branches: Vec<StoreBranch>,
    /// Whether there are more than are told.
    pub truncated: bool,
}

/// A branch of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreBranch {
    /// Its name.
    pub name: String,
    /// The branch that it was forked from, if that is still there.
    pub parent: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it will be deleted by itself.
    pub expires_at: Option<Timestamp>,
    /// Whether it is kept from being deleted, reset or expiring.
    pub protected: bool,
    /// Its entries. Events count twice, collections and indexes have one of their own, and an index has one of each row.
    pub entries: u64,
    /// Bytes of all its keys and values, whoever shares them.
    pub bytes: u64,
}

/// `GET /v1/attachments/{name}/store-contents`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreContents {
    /// The branch, as it was asked for.
    pub branch: String,
    /// Its spaces that have anything in them, by name.
    pub spaces: Vec<StoreSpace>,
    /// Whether there is more than is told.
    pub truncated: bool,
}

/// A space of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreSpace {
    /// Its name.
    pub name: String,
    /// The kinds of data in it.
    pub kinds: Vec<EntryKind>,
    /// Its collections of vectors, by name.
    pub collections: Vec<String>,
}

/// A value, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShownValue {
    /// What it is: `null`, `bool`, `int`, `float`, `string`, `bytes`, `list` or `object`, `vector` or `blob`.
    pub form: String,
    /// Its text. Lists and objects are JSON, in which bytes are `{"$bytes": BASE64}`; bytes and blobs are written as keys are, and a vector
    /// is a list of numbers.
    pub text: String,
    /// Whether something of it was left out at the end.
    pub cut: bool,
}

/// An entry of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreEntry {
    /// Its key; of an event, its number.
    pub key: String,
    /// What it holds.
    pub value: ShownValue,
    /// The length of a blob, or how many dimensions a vector has.
    pub size: Option<u64>,
    /// The version of a cell.
    pub version: Option<u64>,
    /// The type of an event.
    pub event_type: Option<String>,
    /// When an event was appended.
    pub at: Option<Timestamp>,
    /// When a pair ends; told of one that is shown in full.
    pub expires_at: Option<Timestamp>,
    /// The hash of an event, or of a blob, in hexadecimal digits.
    pub hash: Option<String>,
    /// What is kept beside a vector.
    pub metadata: Option<ShownValue>,
}

/// `GET /v1/attachments/{name}/entries`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreEntries {
    /// Entries in the order of their keys; of events, the newest first.
    pub entries: Vec<StoreEntry>,
    /// The cursor of the next page; none after the last.
    pub next: Option<String>,
}

/// `GET /v1/attachments/{name}/store-history`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreHistory {
    /// What is retained from now on, beside what has a tag.
    pub keep: Option<StoreKeep>,
    /// The states that are retained, the newest first.
    pub states: Vec<StoreState>,
    /// How many there are.
    pub all: u64,
}

/// Which states of a branch are retained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreKeep {
    /// How often, in milliseconds; none: at each commit.
    pub every_ms: Option<u64>,
    /// How many at most.
    pub versions: Option<u64>,
    /// For how long, in milliseconds.
    pub age_ms: Option<u64>,
    /// Up to so many bytes on disk.
    pub bytes: Option<u64>,
}

/// A state that is retained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreState {
    /// Its version.
    pub version: u64,
    /// When it was retained.
    pub at: Timestamp,
    /// The tags that name it.
    pub tags: Vec<String>,
    /// Its entries.
    pub entries: u64,
    /// Bytes on disk that nothing needs but it and those before it.
    pub bytes: u64,
}

/// `GET /v1/attachments/{name}/difference`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreDifference {
    /// What differs, in the order of kind, space and key.
    pub changes: Vec<StoreChange>,
    /// The cursor of the next page; none after the last.
    pub next: Option<String>,
}

/// How a key differs between two branches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreChange {
    /// The kind of data.
    pub kind: EntryKind,
    /// The space.
    pub space: String,
    /// The key; of an event its number, of a vector `collection/key`.
    pub key: String,
    /// What the first branch has.
    pub from: Option<ShownValue>,
    /// What the second branch has.
    pub to: Option<ShownValue>,
}
