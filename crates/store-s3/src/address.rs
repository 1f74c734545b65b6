//! URLs of stores, and the clients that reach what they name.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ClientConfigKey, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;

use crate::error::{of_store, public_name, RemoteError};

/// One attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A bucket, and where in it a store is.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Key,
    /// What messages call it.
    pub(crate) name: String,
    /// Whether an object can be replaced on the condition that it is the one that was read.
    pub(crate) replaces: bool,
}

/// What a URL names. Credentials come from the environment, by the names that the tools of the store use.
pub(crate) fn parse(url: &str, request_timeout: Duration) -> Result<Address, RemoteError> {
    // A provider may have been chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let name = public_name(url);
    let no_place = |reason: String| RemoteError::Url { url: name.clone(), reason };
    let parsed = Url::parse(url).map_err(|error| no_place(error.to_string()))?;
    let (scheme, prefix) = ObjectStoreScheme::parse(&parsed).map_err(|error| no_place(error.to_string()))?;
    let client = [
        (ClientConfigKey::ConnectTimeout, format!("{} seconds", CONNECT_TIMEOUT.as_secs())),
        (ClientConfigKey::Timeout, format!("{}ms", request_timeout.as_millis())),
    ];
    // Whoever asks repeats, and knows what may be repeated.
    let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let failed = |error: object_store::Error| of_store("open the bucket", &error);
    let mut replaces = true;
    let store: Arc<dyn ObjectStore> = match scheme {
        ObjectStoreScheme::AmazonS3 => {
            let mut builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
            for (key, value) in client {
                builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        ObjectStoreScheme::GoogleCloudStorage => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retry);
            for (key, value) in client {
                builder = builder.with_config(GoogleConfigKey::Client(key), value);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry);
            for (key, value) in client {
                builder = builder.with_config(AzureConfigKey::Client(key), value);
            }
            Arc::new(builder.build().map_err(failed)?)
        }
        ObjectStoreScheme::Local => {
            replaces = false;
            Arc::new(LocalFileSystem::new().with_fsync(true))
        }
        ObjectStoreScheme::Memory => memory(),
        _ => return Err(no_place(format!("{:?} is no known kind of store", parsed.scheme()))),
    };
    if prefix.as_ref().is_empty() {
        return Err(no_place("it has no path, and a store does not share a bucket with anything".to_owned()));
    }
    Ok(Address { store, prefix, name, replaces })
}

/// The bucket in memory, which is one for the whole process.
fn memory() -> Arc<dyn ObjectStore> {
    static MEMORY: OnceLock<Arc<InMemory>> = OnceLock::new();
    MEMORY.get_or_init(|| Arc::new(InMemory::new())).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_name_no_place_are_refused() {
        for url in
            ["s3://", "s3://bucket", "s3://bucket/", "ftp://x/y", "nonsense", "memory:///", "http://x/y"]
        {
            let error = parse(url, Duration::from_secs(1)).map(|_| ()).unwrap_err();
            assert!(matches!(error, RemoteError::Url { .. }), "{url}: {error}");
        }
        let place = parse("memory:///a/b", Duration::from_secs(1)).unwrap();
        assert_eq!((place.prefix.as_ref(), place.name.as_str()), ("a/b", "memory:///a/b"));
    }
}
