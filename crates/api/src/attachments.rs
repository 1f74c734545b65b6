//! What the daemon shows beside its branches: databases with durable functions, stores, packs, and evidence of measurements.
//!
//! Somebody on the machine attaches them by a name: they are files that the daemon reads and servers that it reaches with its own rights.

pub mod functions;
pub mod lab;
pub mod pack;
pub mod store;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentKind {
    /// A database with durable functions, by its URL.
    Functions,
    /// The directory of a store, which is only read.
    Store,
    /// A pack, or a `.c1z` file.
    Pack,
    /// A directory with evidence documents and logs of experiments.
    Lab,
}

impl AttachmentKind {
    /// All of them.
    pub const ALL: [AttachmentKind; 4] =
        [AttachmentKind::Functions, AttachmentKind::Store, AttachmentKind::Pack, AttachmentKind::Lab];

    /// Its word.
    ///
    /// # Examples
    /// ```
    /// use duramen_api::attachments::AttachmentKind;
    /// assert_eq!(AttachmentKind::Functions.word(), "functions");
    /// ```
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            AttachmentKind::Functions => "functions",
            AttachmentKind::Store => "store",
            AttachmentKind::Pack => "pack",
            AttachmentKind::Lab => "lab",
        }
    }
}

impl std::fmt::Display for AttachmentKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// `POST /v1/attachments`
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddAttachment {
    /// The name that it has from then on.
    pub name: String,
    /// What it is.
    pub kind: AttachmentKind,
    /// Where it is: a URL for functions, an absolute path for the others.
    pub at: String,
}

// A URL may hold a password.
impl std::fmt::Debug for AddAttachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddAttachment")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Something that is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: AttachmentKind,
    /// Where it is; a URL without its password.
    pub at: String,
    /// Since when.
    pub attached_at: Timestamp,
}
