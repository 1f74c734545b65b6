//! JSON documents.
mod canonical;
mod document;
mod documents;
mod error;
mod merge;
mod path;
mod scan;
mod text;

pub use document::Json;
pub use documents::{Documents, ToJson, ToPath};
pub use error::JsonError;
pub(crate) use merge::{three_way, ThreeWay};
pub use path::{Path, PathError, Segment, MAX_PATH_SEGMENTS};
pub use text::{MAX_DOCUMENT_ARRAY, MAX_DOCUMENT_BYTES, MAX_DOCUMENT_DEPTH};
