//! Packs in object storage: S3, Google Cloud Storage, Azure Blob Storage, and whatever else answers ranges over HTTP.
//!
//! The first request brings the end of the object, where a pack has its table, with the length and the tag of the whole. All
//! later ones ask for ranges of exactly that object: if it is replaced meanwhile, reading fails instead of mixing the two.

use std::io;
use std::sync::mpsc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientConfigKey, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    ObjectStoreScheme, RetryConfig,
};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use url::Url;

use crate::container::source::RangeRead;

/// What the first request brings: enough for the table of a pack, its manifest, and often the last index.
const TAIL_BYTES: u64 = 64 << 10;
/// Reads that follow each other ask for more each time, up to so much: a whole section costs few requests.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// How often a request is repeated that failed in a way that may pass.
const RETRIES_MAX: usize = 3;
/// No request is begun again after so long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(45);
/// One connection attempt, and one request with its answer.
const CONNECT_TIMEOUT: &str = "5 seconds";
const REQUEST_TIMEOUT: &str = "30 seconds";
/// Whatever happens, a read has ended after this.
const READ_DEADLINE: Duration = Duration::from_secs(90);
/// Characters of an error of a store that are passed on.
const ERROR_CHARS_MAX: usize = 300;

/// A URL as messages call it: without a user, a password or a query, which may be a signature.
pub(super) fn public_name(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    // In `abfss://container@account/...` it is the container that stands before the @.
    let host = if scheme.starts_with("abfs") { rest.split('/').next().unwrap_or_default() } else { host };
    format!("{scheme}://{host}{path}")
}

/// What happens on the way to an object, without anything that is secret.
#[derive(Debug, thiserror::Error)]
enum RemoteError {
    #[error("it is no URL of an object: {0}")]
    Url(String),
    #[error("there is no such object")]
    NotFound,
    #[error(
        "the store refuses access: check the credentials in the environment, and who may read the object"
    )]
    Refused,
    #[error("the object was replaced since it was opened; open it again")]
    Changed,
    #[error("the server does not answer ranges of bytes, so nothing can be read in place: copy the file")]
    NoRanges,
    #[error("no answer within {} s", READ_DEADLINE.as_secs())]
    Deadline,
    #[error("{0}")]
    Other(String),
}

impl From<RemoteError> for io::Error {
    fn from(error: RemoteError) -> io::Error {
        let kind = match &error {
            RemoteError::Url(_) => io::ErrorKind::InvalidInput,
            RemoteError::NotFound => io::ErrorKind::NotFound,
            RemoteError::Refused => io::ErrorKind::PermissionDenied,
            RemoteError::Deadline => io::ErrorKind::TimedOut,
            RemoteError::NoRanges => io::ErrorKind::Unsupported,
            RemoteError::Changed | RemoteError::Other(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl From<object_store::Error> for RemoteError {
    fn from(error: object_store::Error) -> RemoteError {
        match error {
            object_store::Error::NotFound { .. } => RemoteError::NotFound,
            object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
                RemoteError::Refused
            }
            object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => {
                RemoteError::Changed
            }
            object_store::Error::NotSupported { .. } => RemoteError::NoRanges,
            other => {
                // Sources of an error say more than it does, and none of them says it again.
                let text = other.to_string();
                match text.contains("does not support range") || text.contains("non-partial") {
                    true => RemoteError::NoRanges,
                    false => RemoteError::Other(redact(&text)),
                }
            }
        }
    }
}

/// The text of an error without what may be secret: queries of URLs, and what a server answered, which may repeat
/// headers.
fn redact(text: &str) -> String {
    let text = text.split(['<', '{', '\n']).next().unwrap_or_default();
    let words = text.split(' ').map(|word| {
        let open: usize = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        let (before, url) = word.split_at(open);
        match url.contains("://") {
            true => format!("{before}{}", public_name(url.trim_end_matches([')', ',', '"', '\'']))),
            false => word.to_owned(),
        }
    });
    let text = words.collect::<Vec<_>>().join(" ");
    text.chars().take(ERROR_CHARS_MAX).collect::<String>().trim_end_matches([' ', ':', ',', '-']).to_owned()
}

/// An object in a store, read by ranges.
pub(super) struct RemoteSource {
    store: Arc<dyn ObjectStore>,
    key: Key,
    size: u64,
    tag: Option<String>,
    /// The end of the object, from the byte on.
    tail: (u64, Bytes),
    ahead: Mutex<Ahead>,
    /// Last, because its tasks use the others.
    runtime: Runtime,
}

/// What was read beyond what was asked for.
#[derive(Default)]
struct Ahead {
    /// The byte at which `bytes` begins.
    from: u64,
    bytes: Bytes,
    /// Where the last read ended, and how much it asked the store for.
    end: u64,
    asked: u64,
}

impl RemoteSource {
    /// Opens an object: one request.
    ///
    /// # Errors
    /// When the URL is none, or the object cannot be read.
    pub(super) fn open(url: &str) -> io::Result<RemoteSource> {
        let (store, key) = store_of(url)?;
        // One thread that only waits for answers.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (first, first_key) = (store.clone(), key.clone());
        let (meta, tail) = wait(&runtime, async move {
            let suffix = GetOptions { range: Some(GetRange::Suffix(TAIL_BYTES)), ..GetOptions::default() };
            let got = match first.get_opts(&first_key, suffix).await {
                // Some stores know no ranges that count from the end.
                Err(object_store::Error::NotSupported { .. }) => {
                    let meta = first.head(&first_key).await?;
                    let from = meta.size.saturating_sub(TAIL_BYTES);
                    let range = Some(GetRange::Bounded(from..meta.size));
                    first.get_opts(&first_key, GetOptions { range, ..GetOptions::default() }).await?
                }
                other => other?,
            };
            let meta = got.meta.clone();
            Ok((meta, got.bytes().await?))
        })?;
        let from = meta.size.saturating_sub(tail.len() as u64);
        let (size, tag) = (meta.size, meta.e_tag);
        Ok(RemoteSource { store, key, size, tag, tail: (from, tail), ahead: Mutex::default(), runtime })
    }

    /// Asks the store for a range of the object that was opened.
    fn fetch(&self, range: std::ops::Range<u64>) -> io::Result<Bytes> {
        let (store, key, if_match) = (self.store.clone(), self.key.clone(), self.tag.clone());
        let wanted = range.end - range.start;
        let options = GetOptions { range: Some(GetRange::Bounded(range)), if_match, ..GetOptions::default() };
        let (meta, bytes) = wait(&self.runtime, async move {
            let got = store.get_opts(&key, options).await?;
            let meta: ObjectMeta = got.meta.clone();
            Ok((meta, got.bytes().await?))
        })?;
        // Not every server heeds the condition.
        if meta.size != self.size || meta.e_tag != self.tag {
            return Err(RemoteError::Changed.into());
        }
        if bytes.len() as u64 != wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }
}

impl RangeRead for RemoteSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let len = buffer.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if copy(&self.tail, offset, buffer) || len == 0 {
            return Ok(());
        }
        let ahead = {
            let mut ahead = self.ahead.lock();
            let goes_on = ahead.end == offset && ahead.asked > 0;
            ahead.end = end;
            if copy(&(ahead.from, ahead.bytes.clone()), offset, buffer) {
                return Ok(());
            }
            let ask = if goes_on { ahead.asked.saturating_mul(2).min(AHEAD_BYTES_MAX) } else { 0 };
            ahead.asked = ask.max(len);
            ahead.asked
        };
        let bytes = self.fetch(offset..(offset + ahead).min(self.size))?;
        buffer.copy_from_slice(&bytes[..buffer.len()]);
        let mut kept = self.ahead.lock();
        (kept.from, kept.bytes) = if ahead > len { (offset, bytes) } else { (0, Bytes::new()) };
        Ok(())
    }
}

/// Fills `buffer` from bytes that are here, if all of it is.
fn copy((from, bytes): &(u64, Bytes), offset: u64, buffer: &mut [u8]) -> bool {
    let begin = offset.checked_sub(*from).and_then(|at| usize::try_from(at).ok());
    let here = begin.and_then(|begin| bytes.get(begin..begin.checked_add(buffer.len())?));
    here.map(|here| buffer.copy_from_slice(here)).is_some()
}

/// Waits for the answer to a request, but not for ever. The caller may itself be a task of a runtime.
fn wait<T: Send + 'static>(
    runtime: &Runtime,
    request: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        // Nobody waits any more if this fails.
        let _ = answer.send(request.await);
    });
    match answered.recv_timeout(READ_DEADLINE) {
        Ok(answer) => answer.map_err(|error| RemoteError::from(error).into()),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            task.abort();
            Err(RemoteError::Deadline.into())
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(RemoteError::Other("the request was broken off".to_owned()).into())
        }
    }
}

/// The store of an object, and what the object is called there. Credentials come from the environment, by the names that
/// the tools of the store use.
fn store_of(url: &str) -> Result<(Arc<dyn ObjectStore>, Key), RemoteError> {
    // A provider may have been chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parsed = Url::parse(url).map_err(|error| RemoteError::Url(error.to_string()))?;
    let retry = RetryConfig {
        backoff: BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() },
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_TIMEOUT,
    };
    let timeouts =
        [(ClientConfigKey::ConnectTimeout, CONNECT_TIMEOUT), (ClientConfigKey::Timeout, REQUEST_TIMEOUT)];
    if matches!(parsed.scheme(), "http" | "https") {
        let key = Key::from_url_path(parsed.path()).map_err(|error| RemoteError::Url(error.to_string()))?;
        let mut root = parsed.clone();
        root.set_path("/");
        let mut builder = HttpBuilder::new().with_url(root).with_retry(retry);
        for (key, value) in timeouts {
            builder = builder.with_config(key, value);
        }
        // Whoever writes http:// means it.
        let builder = builder.with_config(ClientConfigKey::AllowHttp, "true");
        return Ok((Arc::new(builder.build()?), key));
    }
    let (scheme, key) =
        ObjectStoreScheme::parse(&parsed).map_err(|error| RemoteError::Url(error.to_string()))?;
    let store: Arc<dyn ObjectStore> = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let mut builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
            for (key, value) in timeouts {
                builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
            }
            Arc::new(builder.build()?)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retry);
            for (key, value) in timeouts {
                builder = builder.with_config(GoogleConfigKey::Client(key), value);
            }
            Arc::new(builder.build()?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry);
            for (key, value) in timeouts {
                builder = builder.with_config(AzureConfigKey::Client(key), value);
            }
            Arc::new(builder.build()?)
        }
        _ => return Err(RemoteError::Url(format!("{:?} is no known store", parsed.scheme()))),
    };
    Ok((store, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_in_names_and_messages() {
        let secret = "https://ada:hunter2@host:9000/bucket/a.dpack?X-Amz-Signature=f00d#x";
        assert_eq!(public_name(secret), "https://host:9000/bucket/a.dpack");
        assert_eq!(public_name("s3://bucket/key"), "s3://bucket/key");
        assert_eq!(
            public_name("abfss://box@account.dfs.core.windows.net/a?sig=1"),
            "abfss://box@account.dfs.core.windows.net/a"
        );
        let said = redact(&format!(
            "Error performing GET \"{secret}\" in 3ms - 400: <Error><AWSAccessKeyId>AKIA</AWSAccessKeyId>"
        ));
        assert_eq!(said, "Error performing GET \"https://host:9000/bucket/a.dpack in 3ms - 400");
    }
}
