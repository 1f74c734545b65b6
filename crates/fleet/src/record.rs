//! What is stored in etcd, under which key: the table in `docs/design/fleet.md`.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The number of the protocol that nodes speak with one another. It changes when two versions would misunderstand each other.
pub const PROTOCOL: u32 = 1;

/// The keys of one fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

/// What a key is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key<'a> {
    /// The registration of a node.
    Node(&'a str),
    /// Whose home a node is.
    Member(&'a str),
    /// That a node drains.
    Drain(&'a str),
    /// The claim of a name.
    Name(&'a str),
    /// A token, by its name.
    Token(&'a str),
    /// The definition of a source.
    Source(&'a str),
}

impl Keys {
    /// Those of the fleet of that name.
    #[must_use]
    pub fn of(fleet: &str) -> Keys {
        Keys { prefix: format!("/duramen/{fleet}/v1/") }
    }

    /// What all of them begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Where it stands that a backup is being restored, or was. Nodes do not read it.
    #[must_use]
    pub fn restore(&self) -> String {
        format!("{}restore", self.prefix)
    }

    /// A key as etcd has it.
    ///
    /// # Examples
    /// ```
    /// use duramen_fleet::record::{Key, Keys};
    /// let keys = Keys::of("lab");
    /// assert_eq!(keys.key(Key::Name("try")), "/duramen/lab/v1/names/try");
    /// assert_eq!(keys.read("/duramen/lab/v1/names/try"), Some(Key::Name("try")));
    /// assert_eq!(keys.read("/duramen/lab/v2/names/try"), None);
    /// ```
    #[must_use]
    pub fn key(&self, key: Key<'_>) -> String {
        let (kind, name) = match key {
            Key::Node(name) => ("nodes", name),
            Key::Member(name) => ("members", name),
            Key::Drain(name) => ("drains", name),
            Key::Name(name) => ("names", name),
            Key::Token(name) => ("tokens", name),
            Key::Source(name) => ("sources", name),
        };
        format!("{}{kind}/{name}", self.prefix)
    }

    /// What a key of etcd is of; nothing, if it is of no kind that this version knows.
    #[must_use]
    pub fn read<'a>(&self, key: &'a str) -> Option<Key<'a>> {
        let (kind, name) = key.strip_prefix(&self.prefix)?.split_once('/')?;
        match kind {
            "nodes" => Some(Key::Node(name)),
            "members" => Some(Key::Member(name)),
            "drains" => Some(Key::Drain(name)),
            "names" => Some(Key::Name(name)),
            "tokens" => Some(Key::Token(name)),
            "sources" => Some(Key::Source(name)),
            _ => None,
        }
    }
}

/// The registration of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Where other nodes reach it, `HOST:PORT`.
    pub address: String,
    /// Its version.
    pub version: String,
    /// What it has room for.
    pub capacity: Capacity,
    /// Whether it serves sessions of PostgreSQL clients that others pass on.
    #[serde(default)]
    pub sessions: bool,
    /// The protocol that it speaks with other nodes. The first versions did not say so.
    #[serde(default = "first_protocol")]
    pub protocol: u32,
}

fn first_protocol() -> u32 {
    1
}

/// What a node has room for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Memory that is free, in bytes.
    pub memory_free: u64,
    /// Room on the disk of its home, in bytes.
    pub disk_free: u64,
    /// Leases that it holds.
    pub leases: u32,
    /// Leases that its machine bears.
    pub places: u32,
    /// Branches that are ready, by source and policy.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// The sources of which branches are made there when somebody asks for one of the fleet, by name.
    #[serde(default)]
    pub sources: Vec<String>,
    /// All of its sources, with what it has of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<CopyRecord>,
    /// What it is being brought, or was refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bringing: Vec<BringingRecord>,
}

/// What a node has of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRecord {
    /// The source's name.
    pub source: String,
    /// Which source that is; none for one that is the node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The generation that serves.
    pub generation: u32,
    /// The digest of its files; empty while it is being taken.
    pub digest: String,
}

/// A generation on its way to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BringingRecord {
    /// The source's name.
    pub source: String,
    /// The generation.
    pub generation: u32,
    /// Bytes that have come.
    pub done: u64,
    /// Bytes of all of its files.
    pub of: u64,
    /// Why it does not come, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The definition of a source of the fleet (FL-14).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Which source it is: drawn when it was added. Another one of the same name has another.
    pub id: String,
    /// The node that makes its generations: the only one that knows its origin.
    pub keeper: String,
    /// What kind of origin that is, in a word. Where it is, and by which password, is not in etcd.
    pub origin: String,
    /// How its branches run, as the keeper's settings say.
    pub settings: serde_json::Value,
    /// On how many nodes it is to be.
    pub replicas: u32,
    /// The current generation; none while the first is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<GenerationRecord>,
    /// The nodes that have it, or are to have it: each took its place by a transaction (FL-16).
    pub places: Vec<String>,
    /// When it was defined.
    pub defined_at: Timestamp,
}

/// A generation of a source of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecord {
    /// Its number.
    pub number: u32,
    /// The digest of its files, by which every copy of it is known.
    pub digest: String,
    /// Their bytes.
    pub bytes: u64,
    /// The hash of its manifest: of how it is used, by which what is said of it before its files is known.
    pub manifest: String,
}

/// Branches of one source and policy that are ready on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The source.
    pub source: String,
    /// The policy, as users write it.
    pub policy: String,
    /// How many are ready.
    pub hot: u32,
}

/// Whose home a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The identity of the home.
    pub home: String,
    /// When it was registered last.
    pub registered_at: Timestamp,
    /// By which start of its daemon: a home that does not know of it is a copy of before.
    #[serde(default)]
    pub start: String,
    /// Where the home was: on which boot of which machine, and in which directory.
    #[serde(default)]
    pub place: String,
}

/// That a node drains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {
    /// Since when.
    pub since: Timestamp,
}

/// The claim of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRecord {
    /// The node that has it.
    pub node: String,
    /// The id of the branch.
    pub id: String,
    /// Its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The id of the token by which it was created, if it was by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// When it was claimed.
    pub claimed_at: Timestamp,
}
