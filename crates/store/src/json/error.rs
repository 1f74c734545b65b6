//! What can go wrong with a document.

use super::path::PathError;

/// Why an operation on a JSON document was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The path itself is wrong.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A text given as JSON is none.
    #[error("the text is not JSON: {reason}")]
    Syntax {
        /// What the parser found, and where.
        reason: String,
    },
    /// The stored text is not what a document is stored as.
    #[error(
        "the stored document is damaged at byte {position}; verify the store and restore an earlier version"
    )]
    Corrupt {
        /// The offset in the text, in bytes.
        position: usize,
    },
    /// An object has two members of the same name.
    #[error("an object has the key {key:?} twice; keep one of the two")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The path leads through a value that has no such parts.
    #[error("{place} is {found}, not {expected}; set {place} to {expected} first, or choose another path")]
    WrongType {
        /// The path of the value in the way.
        place: String,
        /// What it is.
        found: &'static str,
        /// What the path needs there.
        expected: &'static str,
    },
    /// An element was to be set beyond the end of its array.
    #[error("{place} has {len} elements, so element {index} cannot be set; index {len} appends")]
    IndexOutOfRange {
        /// The path of the array.
        place: String,
        /// The index asked for.
        index: usize,
        /// How many elements there are.
        len: usize,
    },
    /// The whole document cannot be cut out of itself.
    #[error("the path is the whole document; delete the document instead")]
    Root,
    /// Arrays and objects stand inside one another too deep.
    #[error("the document nests arrays and objects more than {max} deep; flatten it")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// The document has too many bytes.
    #[error("the document takes at least {len} bytes, over the limit of {max}; split it over several keys")]
    TooLarge {
        /// The bytes counted.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// An array has too many elements.
    #[error(
        "an array of {count} elements is over the limit of {max}; store the elements as documents or events"
    )]
    ArrayTooLong {
        /// How many it has or would have.
        count: usize,
        /// The limit.
        max: usize,
    },
}
