//! What others may do to a bucket, and what bucket may be offered: nothing is taken for what it is not.

use std::sync::Arc;
use std::time::Duration;

use duramen_store_s3::object_store::memory::InMemory;
use duramen_store_s3::object_store::path::Path as Key;
use duramen_store_s3::object_store::{ObjectStore, ObjectStoreExt as _};
use duramen_store_s3::{open, open_on, RemoteError, RemoteOptions};
use real::{Durability, Options, Scope as _, Store, StoreError};

use crate::server::Server;

fn options() -> Options {
    Options { durability: Durability::Strict, ..Options::default() }
}

/// Does something to a bucket.
fn on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// The names of the log's objects, in order.
fn log_of(bucket: &Arc<dyn ObjectStore>) -> Vec<Key> {
    use futures_util::TryStreamExt as _;
    let mut keys: Vec<Key> = on(bucket.list(Some(&Key::from("s/log"))).try_collect::<Vec<_>>())
        .unwrap()
        .into_iter()
        .map(|meta| meta.location)
        .collect();
    keys.sort();
    keys
}

fn bucket() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

fn open_in(bucket: &Arc<dyn ObjectStore>) -> Result<Store, RemoteError> {
    open_on(bucket.clone(), true, "s", options(), RemoteOptions::default())
}

fn fill(bucket: &Arc<dyn ObjectStore>, commits: i64) {
    let store = open_in(bucket).unwrap();
    for number in 0..commits {
        store.branch("main").unwrap().kv().put(format!("{number:04}"), number).unwrap();
    }
    std::mem::forget(store);
}

/// L6: what is missing in the middle, or changed, is told, and nothing is acknowledged on top of it.
#[test]
fn an_object_of_the_log_that_is_changed_or_gone_is_told() {
    let whole = bucket();
    fill(&whole, 10);
    let keys = log_of(&whole);
    assert!(keys.len() >= 11, "{keys:?}");
    // The first is the mark of the first writer, on which nothing follows.
    for index in 1..keys.len() {
        for what in ["flip", "cut", "empty", "gone", "other"] {
            let bucket = bucket();
            fill(&bucket, 10);
            let key = &log_of(&bucket)[index];
            let bytes = on(async { bucket.get(key).await.unwrap().bytes().await.unwrap() }).to_vec();
            let is_last = index + 1 == keys.len();
            match what {
                "flip" => {
                    let mut bytes = bytes;
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                    on(bucket.put(key, bytes.into())).unwrap();
                }
                "cut" => drop(on(bucket.put(key, bytes[..bytes.len() - 1].to_vec().into())).unwrap()),
                "empty" => drop(on(bucket.put(key, Vec::new().into())).unwrap()),
                // Of the last one, nobody can know that it was there.
                "gone" if is_last => continue,
                "gone" => on(bucket.delete(key)).unwrap(),
                _ => {
                    let other = &log_of(&bucket)[if index > 3 { 3 } else { index + 1 }];
                    let bytes = on(async { bucket.get(other).await.unwrap().bytes().await.unwrap() });
                    drop(on(bucket.put(key, bytes.into())).unwrap());
                }
            }
            let error = open_in(&bucket).map(drop).unwrap_err();
            let told = match &error {
                RemoteError::Damaged(..) => true,
                RemoteError::Store(error) => error.to_string().contains("missing"),
                _ => false,
            };
            assert!(told, "{what} at {index} ({key}): {error}");
        }
    }
}

/// L3, L4: a writer that slept while others came and went, and while all objects that are not needed were deleted.
#[test]
fn a_number_that_was_freed_fools_nobody() {
    let bucket = bucket();
    let old = open_in(&bucket).unwrap();
    old.branch("main").unwrap().kv().put("old", 1).unwrap();
    for round in 0..5 {
        let store = open_in(&bucket).unwrap();
        store.branch("main").unwrap().kv().put("round", round).unwrap();
        store.checkpoint().unwrap();
        store.branch("main").unwrap().kv().put("round", round).unwrap();
        store.compact().unwrap();
        store.close().unwrap();
    }
    let error = old.branch("main").unwrap().kv().put("old", 2).unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    let store = open_in(&bucket).unwrap();
    assert_eq!(store.branch("main").unwrap().kv().get("old").unwrap(), Some(1.into()));
    // One fence for each that had not ended, and what the last checkpoint needs.
    assert!(log_of(&bucket).len() < 12, "{:?}", log_of(&bucket));
}

#[test]
fn strange_objects_beside_the_log_are_left_alone() {
    let bucket = bucket();
    fill(&bucket, 5);
    for name in
        ["s/log/readme.txt", "s/log/00", "s/log/zzzzzzzzzzzzzzzz", "s/other", "s/log/ffffffffffffffff"]
    {
        on(bucket.put(&Key::from(name), b"a stranger's".to_vec().into())).unwrap();
    }
    let store = open_in(&bucket).unwrap();
    assert_eq!(store.branch("main").unwrap().kv().get("0004").unwrap(), Some(4.into()));
    store.checkpoint().unwrap();
    store.close().unwrap();
    drop(store);
    assert!(on(bucket.head(&Key::from("s/log/readme.txt"))).is_ok());
    assert!(open_in(&bucket).is_ok());
}

#[test]
fn a_place_that_another_version_or_program_has_is_refused() {
    for text in ["duramen store\nformat 2\nlog bucket\n", "something else", ""] {
        let bucket = bucket();
        on(bucket.put(&Key::from("s/store"), text.as_bytes().to_vec().into())).unwrap();
        let error = open_in(&bucket).map(drop).unwrap_err();
        assert!(matches!(error, RemoteError::Damaged(..)), "{error}");
        assert!(log_of(&bucket).is_empty());
    }
}

#[test]
fn a_bucket_that_is_not_there_or_refuses_is_told_at_once_and_without_secrets() {
    let Some(server) = Server::start() else { return };
    let begin = duramen_base::clock::now();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let with = |bucket: &str, secret: &str| -> Arc<dyn ObjectStore> {
        let store = duramen_store_s3::object_store::aws::AmazonS3Builder::new()
            .with_endpoint(format!("http://{}", server.address()))
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name(bucket)
            .with_access_key_id(crate::server::KEY)
            .with_secret_access_key(secret);
        Arc::new(store.build().unwrap())
    };
    for (name, secret) in [("nowhere", crate::server::SECRET), ("bucket", "hunter2-is-wrong")] {
        let error = open_in(&with(name, secret)).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(!text.contains("hunter2") && !text.contains(crate::server::SECRET), "{text}");
        assert!(matches!(error, RemoteError::Refused(_) | RemoteError::NotFound(_)), "{text}");
    }
    assert!(begin.elapsed() < Duration::from_secs(10));
    let error = open("s3://bucket", options(), RemoteOptions::default()).map(drop).unwrap_err();
    assert!(matches!(error, RemoteError::Url { .. }), "{error}");
}
