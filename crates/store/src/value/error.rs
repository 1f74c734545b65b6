//! What values are refused for, and the limits on them.

/// The most bytes that one string, one byte string or one key of an object may have: 16 MiB.
pub const MAX_STRING_BYTES: usize = 16 << 20;
/// The most bytes that a whole value may have once encoded: 32 MiB.
pub const MAX_ENCODED_BYTES: usize = 32 << 20;
/// The most elements of one array, and the most members of one object: a million.
pub const MAX_ELEMENTS: usize = 1_000_000;
/// The most arrays and objects that may stand inside one another. A scalar has none, `[1]` has one.
pub const MAX_NESTING: usize = 128;

/// Why a value was refused or could not be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// A string, byte string or object key is over [`MAX_STRING_BYTES`].
    #[error("a {what} of {len} bytes is over the limit of {max}; split it over several keys")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// An array or object has more than [`MAX_ELEMENTS`] elements.
    #[error("an {what} of {count} elements is over the limit of {max}; store the elements under keys of their own")]
    TooManyElements {
        /// What it is.
        what: &'static str,
        /// How many it has.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// Arrays and objects stand inside one another more than [`MAX_NESTING`] deep.
    #[error("the value nests arrays and objects more than {max} deep; flatten it")]
    TooDeep {
        /// The limit.
        max: usize,
    },
    /// The encoded value is over [`MAX_ENCODED_BYTES`].
    #[error("the value takes at least {len} bytes, over the limit of {max}; split it over several keys")]
    TooLarge {
        /// The bytes counted so far.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The bytes are not an encoded value.
    #[error("the stored value is damaged at byte {position}: {what}; verify the store and restore an earlier version")]
    Corrupt {
        /// The offset in the encoded value, in bytes.
        position: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// JSON has no number for a NaN or an infinity.
    #[error("JSON has no number for {number}; store it as a string, or read the value as it is")]
    NotFinite {
        /// The number.
        number: f64,
    },
    /// A JSON number is neither a 64-bit signed integer nor a float.
    #[error("{number} does not fit a signed 64-bit integer; write it as a float or as a string")]
    OutOfRange {
        /// The number as the JSON has it.
        number: String,
    },
    /// Something cannot be made a value, or a value is something else than was asked for.
    #[error("it is no such value: {reason}")]
    Serde {
        /// What serde said.
        reason: String,
    },
    /// A JSON object `{"$bytes": ...}` holds something else than base64.
    #[error("\"$bytes\" must hold padded base64 text: {reason}; to store such an object itself, name its key \"$$bytes\"")]
    BadBytes {
        /// What is wrong with it.
        reason: String,
    },
}
