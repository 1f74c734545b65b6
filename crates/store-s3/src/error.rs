//! What can go wrong on the way to a bucket.

use std::io;
use std::time::Duration;

use duramen_store::log::Fenced;
use duramen_store::StoreError;
use duramen_tree::NodeStoreError;

/// Characters of an error of somebody else's that are passed on.
const TEXT_CHARS_MAX: usize = 300;

/// Why a store in object storage could not be opened, or a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The URL names no place for a store.
    #[error("{url} names no place for a store: {reason}; use s3://bucket/path, gs://bucket/path, az://container/path, file:///folder or memory:///name")]
    Url {
        /// The URL, without what may be secret.
        url: String,
        /// Why.
        reason: String,
    },
    /// Somebody else may write the store, and was not to be stopped.
    #[error("{url} is open in {by}, or was not closed there; wait until it is, or take the store over from it (`--take-over`): it then writes no more")]
    InUse {
        /// The store.
        url: String,
        /// Who has it.
        by: String,
    },
    /// The store keeps its log elsewhere.
    #[error("{url} keeps its commit log {there}, and was to be opened with one {here}; open it with its own, or give that up, which loses what was committed since the last checkpoint")]
    LogElsewhere {
        /// The store.
        url: String,
        /// Where its log is.
        there: String,
        /// Where it was looked for.
        here: String,
    },
    /// Another writer has taken the store over.
    #[error("another writer has taken the store over: {by}")]
    Fenced {
        /// Who.
        by: String,
    },
    /// A bucket that refuses access.
    #[error(
        "the bucket refuses access ({0}): check the credentials in the environment, and what they allow"
    )]
    Refused(String),
    /// A bucket that lacks something which a store needs.
    #[error("the bucket cannot do what a store needs: {0}; it must know conditional puts (If-None-Match)")]
    Unsupported(String),
    /// There is no such bucket.
    #[error("there is no such bucket, or nothing in it by that name: {0}")]
    NotFound(String),
    /// A wait came to its deadline.
    #[error("{what} did not come to an end within {after:?}; the last that was heard: {last}")]
    Deadline {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
        /// The last error on the way, if there was one.
        last: String,
    },
    /// An object of the log is not what it should be.
    #[error("{0} in the bucket is damaged: {1}; nothing was changed: restore it from a copy")]
    Damaged(String, String),
    /// Anything else that the bucket, or the way to it, said.
    #[error("{what}: {said}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        said: String,
    },
    /// A folder on this host failed.
    #[error("cannot {action} {path}: {error}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: String,
        /// What the operating system said.
        error: io::Error,
    },
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RemoteError {
    /// Whether it may be otherwise when it is tried again.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Deadline { .. })
    }
}

/// An error of the object store, by what can be done about it.
pub(crate) fn of_store(what: &'static str, error: &object_store::Error) -> RemoteError {
    let said = redact(&error.to_string());
    match error {
        object_store::Error::NotFound { .. } => RemoteError::NotFound(said),
        object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
            RemoteError::Refused(said)
        }
        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => {
            RemoteError::Unsupported(said)
        }
        _ => RemoteError::Failed { what, said },
    }
}

/// An error of SlateDB.
pub(crate) fn of_slate(what: &'static str, error: &slatedb::Error) -> RemoteError {
    match error.kind() {
        slatedb::ErrorKind::Closed(slatedb::CloseReason::Fenced) => {
            RemoteError::Fenced { by: "one that opened its nodes later".to_owned() }
        }
        _ => RemoteError::Failed { what, said: redact(&error.to_string()) },
    }
}

impl From<RemoteError> for io::Error {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Fenced { by } => io::Error::new(io::ErrorKind::PermissionDenied, Fenced { by }),
            RemoteError::NotFound(_) => io::Error::new(io::ErrorKind::NotFound, error),
            RemoteError::Deadline { .. } => io::Error::new(io::ErrorKind::TimedOut, error),
            RemoteError::Refused(_) => io::Error::new(io::ErrorKind::PermissionDenied, error),
            RemoteError::Io { error, .. } => error,
            error => io::Error::other(error),
        }
    }
}

impl From<RemoteError> for NodeStoreError {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Fenced { by } => Self::Fenced(by),
            RemoteError::Damaged(what, reason) => Self::Damaged(format!("{what}: {reason}")),
            error => io::Error::from(error).into(),
        }
    }
}

/// The text of an error without what may be secret: queries of URLs, and what a server answered, which may repeat headers.
pub(crate) fn redact(text: &str) -> String {
    let text = text.split(['<', '{', '\n']).next().unwrap_or_default();
    let words = text.split(' ').map(|word| match word.contains("://") {
        true => public_name(word),
        false => word.to_owned(),
    });
    let text = words.collect::<Vec<_>>().join(" ");
    text.chars().take(TEXT_CHARS_MAX).collect::<String>().trim_end_matches([' ', ':', ',', '-']).to_owned()
}

/// A URL as messages call it: without a user, a password or a query, which may be a signature.
pub(crate) fn public_name(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    // In `abfss://container@account/...` it is the container that stands before the @.
    let host = if scheme.starts_with("abfs") { host } else { host.rsplit('@').next().unwrap_or_default() };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_passed_on() {
        assert_eq!(
            public_name("https://ada:hunter2@host:9000/b/a?X-Amz-Signature=f00d"),
            "https://host:9000/b/a"
        );
        assert_eq!(public_name("abfss://box@account.dfs/a?sig=1"), "abfss://box@account.dfs/a");
        let said = redact(
            "error sending request for url (https://ada:hunter2@host/b?sig=1)\n<Error>hunter2</Error>",
        );
        assert_eq!(said, "error sending request for url https://host/b".replace("https", "(https"));
        assert!(redact(&"x".repeat(1000)).len() <= TEXT_CHARS_MAX);
    }
}
