//! Clients of the server of the tests.

use std::sync::Arc;
use std::time::Duration;

use duramen_store_s3::object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use duramen_store_s3::object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use crate::server::{Server, BUCKET, KEY, SECRET};

impl Server {
    /// A client that goes straight to it.
    pub(crate) fn client(&self) -> Arc<dyn ObjectStore> {
        client(self.address())
    }
}

/// A client of an S3 server, or of a proxy before one.
pub(crate) fn client(address: &str) -> Arc<dyn ObjectStore> {
    client_with(address, Duration::from_secs(10))
}

pub(crate) fn client_with(address: &str, timeout: Duration) -> Arc<dyn ObjectStore> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let timeout = format!("{}ms", timeout.as_millis());
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name(BUCKET)
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), timeout)
        .build()
        .unwrap();
    Arc::new(store)
}
