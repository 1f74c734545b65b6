//! The values that keys, cells and events hold, and how they are written as bytes.
//!
//! There are eight kinds and no coercion between them: `Int(1)` and `Float(1.0)` are different values. [`Value`] owns
//! its parts; [`ValueRef`] reads them in place, so that a scan allocates nothing.

mod base64;
mod encoding;
mod error;
mod interchange;
mod owned;
mod reference;

pub(crate) use encoding::check_encoded;
pub use encoding::Encode;
pub use error::{ValueError, MAX_ELEMENTS, MAX_ENCODED_BYTES, MAX_NESTING, MAX_STRING_BYTES};
pub use owned::Value;
pub use reference::{RawArray, RawArrayIter, RawObject, RawObjectIter, ValueRef};

#[cfg(test)]
#[path = "../tests/unit/value.rs"]
mod tests;
