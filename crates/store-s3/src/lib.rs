//! The embedded store in object storage: S3, Google Cloud Storage, Azure Blob Storage, or a folder.
//!
//! The nodes of all branches, and the manifest, are kept in one SlateDB database; the commit log is kept in the bucket, or
//! on this host. One writer has a store; whoever opens it to write takes it over, and nothing that the other one still does
//! counts. Any number of readers, on any hosts, open it or follow it. What is opened is an ordinary
//! `Store`. The design, with its invariants, is in `docs/design/store-s3.md`.
//!
//! Everything but [`is_url`] stands behind the feature `s3`, which takes minutes to compile.
//!
//! | module | what it is for |
//! | --- | --- |
//! | `address` | URLs, and what credentials and time limits come with them |
//! | `waiter` | waiting for what runs on the runtime, with a deadline |
//! | `bucket` | the few requests that the log makes, repeated where that is safe |
//! | `piece` | the bytes of an object of the log |
//! | `bucket_log` | the log in the bucket: its segments, and what fences writers |
//! | `local_log` | the log in a folder on this host |
//! | `nodes` | nodes and manifest in SlateDB |
//! | `owner` | where a store says that its log is |
//! | `open` | opening: to write, to read, to follow |

/// Whether a text is a URL, and not the name of a folder.
///
/// ```
/// use duramen_store_s3::is_url;
/// assert!(is_url("s3://bucket/path") && is_url("memory:///x"));
/// assert!(!is_url("./data") && !is_url("C://x y") && !is_url("://"));
/// ```
pub fn is_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else { return false };
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    scheme.len() > 1 && scheme.starts_with(|c: char| c.is_ascii_lowercase()) && scheme.chars().all(is_letter)
}

#[cfg(feature = "s3")]
mod address;
#[cfg(feature = "s3")]
mod bucket;
#[cfg(feature = "s3")]
mod bucket_log;
#[cfg(feature = "s3")]
mod cache;
#[cfg(feature = "s3")]
mod error;
#[cfg(feature = "s3")]
mod local_log;
#[cfg(feature = "s3")]
mod nodes;
#[cfg(feature = "s3")]
mod open;
#[cfg(feature = "s3")]
mod options;
#[cfg(feature = "s3")]
mod owner;
#[cfg(feature = "s3")]
mod piece;
#[cfg(feature = "s3")]
mod waiter;

#[cfg(feature = "s3")]
pub use self::{
    error::RemoteError,
    open::{exists, follow, follow_on, open, open_on},
    options::{Cache, LogPlace, RemoteOptions, TakeOver},
};
#[cfg(feature = "s3")]
pub use object_store;
