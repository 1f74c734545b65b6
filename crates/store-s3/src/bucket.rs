//! The few requests that the log makes, each repeated as long as that is safe and there is time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duramen_base::{clock, entropy};
use futures_util::stream::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions};

use crate::address::Address;
use crate::error::{of_store, RemoteError};
use crate::options::RemoteOptions;
use crate::waiter::Waiter;

/// The pause before a request is repeated: it doubles each time, up to the most, and half of it is by chance.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Requests that are under way at once when many objects are read.
const AT_ONCE: usize = 16;
/// A request that brings or takes so many bytes may take a second longer for each such piece.
const BYTES_A_SECOND: u64 = 1 << 20;

/// What came of a put of something new.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is there, and durable.
    Done,
    /// Something else has that key.
    Taken(Bytes),
}

/// A part of a bucket.
#[derive(Clone)]
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: Key,
    waiter: Arc<Waiter>,
    request_timeout: Duration,
    retries_max: u32,
}

impl Bucket {
    pub(crate) fn new(address: &Address, waiter: &Arc<Waiter>, options: &RemoteOptions) -> Self {
        Self {
            store: address.store.clone(),
            prefix: address.prefix.clone(),
            waiter: waiter.clone(),
            request_timeout: options.request_timeout,
            retries_max: options.retries_max,
        }
    }

    /// A folder in it.
    pub(crate) fn folder(&self, name: &str) -> Self {
        Self { prefix: self.prefix.clone().join(name), ..self.clone() }
    }

    fn key(&self, name: &str) -> Key {
        self.prefix.clone().join(name)
    }

    /// Puts an object that is not there yet. After an error nobody knows whether it is, now or later.
    pub(crate) fn put_new(&self, name: &str, bytes: Bytes) -> Result<Put, RemoteError> {
        let (this, key) = (self.clone(), self.key(name));
        self.waiter.wait("a put", async move { this.put_new_at(&key, bytes).await })
    }

    async fn put_new_at(&self, key: &Key, bytes: Bytes) -> Result<Put, RemoteError> {
        let what = "put an object";
        self.repeat(what, bytes.len() as u64, || async {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            match self.store.put_opts(key, bytes.clone().into(), options).await {
                Ok(_) => Ok(Put::Done),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                    // It may be an earlier attempt of ours of which the answer was lost.
                    match self.store.get(key).await {
                        Ok(got) => {
                            let there = got.bytes().await.map_err(|error| of_store(what, &error))?;
                            Ok(if there == bytes { Put::Done } else { Put::Taken(there) })
                        }
                        // Another put was under way, and came to nothing.
                        Err(object_store::Error::NotFound { .. }) => {
                            let said = "the key was contended for".to_owned();
                            Err(RemoteError::Failed { what, said })
                        }
                        Err(error) => Err(of_store(what, &error)),
                    }
                }
                Err(error) => Err(of_store(what, &error)),
            }
        })
        .await
    }

    /// Puts an object, whether there is one of that name or not.
    pub(crate) fn put(&self, name: &str, bytes: Bytes) -> Result<(), RemoteError> {
        let (this, key) = (self.clone(), self.key(name));
        let what = "put an object";
        self.waiter.wait("a put", async move {
            this.repeat(what, bytes.len() as u64, || async {
                let done = this.store.put(&key, bytes.clone().into()).await;
                done.map(drop).map_err(|error| of_store(what, &error))
            })
            .await
        })
    }

    /// An object, or none.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Bytes>, RemoteError> {
        let (this, key) = (self.clone(), self.key(name));
        self.waiter.wait("a get", async move { this.get_at(&key, 0).await })
    }

    async fn get_at(&self, key: &Key, len: u64) -> Result<Option<Bytes>, RemoteError> {
        let what = "get an object";
        self.repeat(what, len, || async {
            match self.store.get(key).await {
                Ok(got) => Ok(Some(got.bytes().await.map_err(|error| of_store(what, &error))?)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(of_store(what, &error)),
            }
        })
        .await
    }

    /// Whether there is an object.
    pub(crate) fn has(&self, name: &str) -> Result<bool, RemoteError> {
        let (this, key) = (self.clone(), self.key(name));
        let what = "look for an object";
        self.waiter.wait(what, async move {
            this.repeat(what, 0, || async {
                match this.store.head(&key).await {
                    Ok(_) => Ok(true),
                    Err(object_store::Error::NotFound { .. }) => Ok(false),
                    Err(error) => Err(of_store(what, &error)),
                }
            })
            .await
        })
    }

    /// Several objects, in the order of their names, which come with their lengths. None for those that are not there.
    pub(crate) fn get_all(&self, names: Vec<(String, u64)>) -> Result<Vec<Option<Bytes>>, RemoteError> {
        let this = self.clone();
        self.waiter.wait("reading the log", async move {
            let gets = names.into_iter().map(|(name, len)| {
                let (this, key) = (this.clone(), this.key(&name));
                async move { this.get_at(&key, len).await }
            });
            futures_util::stream::iter(gets).buffered(AT_ONCE).try_collect().await
        })
    }

    /// The names of all objects, with their lengths, in order.
    pub(crate) fn list(&self) -> Result<Vec<(String, u64)>, RemoteError> {
        let this = self.clone();
        let what = "list the bucket";
        self.waiter.wait(what, async move {
            this.repeat(what, 0, || async {
                let listed: Vec<_> = this
                    .store
                    .list(Some(&this.prefix))
                    .try_collect()
                    .await
                    .map_err(|error| of_store(what, &error))?;
                let name =
                    |meta: object_store::ObjectMeta| Some((meta.location.filename()?.to_owned(), meta.size));
                let mut names: Vec<_> = listed.into_iter().filter_map(name).collect();
                names.sort();
                Ok(names)
            })
            .await
        })
    }

    /// Deletes objects, in no order. Those that are not there are passed over.
    pub(crate) fn delete(&self, names: Vec<String>) -> Result<(), RemoteError> {
        let this = self.clone();
        let what = "delete an object";
        self.waiter.wait(what, async move {
            this.repeat(what, 0, || async {
                // Where the store can, a thousand at a time.
                let keys: Vec<_> = names.iter().map(|name| Ok(this.key(name))).collect();
                let mut deleted = this.store.delete_stream(futures_util::stream::iter(keys).boxed());
                while let Some(done) = deleted.next().await {
                    match done {
                        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => return Err(of_store(what, &error)),
                    }
                }
                Ok(())
            })
            .await
        })
    }

    /// Tries, and tries again what may pass, until there is no time.
    async fn repeat<T, F, R>(&self, what: &'static str, len: u64, mut attempt: F) -> Result<T, RemoteError>
    where
        F: FnMut() -> R,
        R: Future<Output = Result<T, RemoteError>>,
    {
        let begin = clock::now();
        // The wait for all of it ends a little later, and says less.
        let deadline = self.waiter.deadline().mul_f64(0.95);
        let limit = self.request_timeout + Duration::from_secs(len / BYTES_A_SECOND);
        let mut pause = PAUSE;
        let mut tries = 0;
        loop {
            let left = deadline.saturating_sub(begin.elapsed());
            let error = match tokio::time::timeout(limit.min(left), attempt()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) if !error.may_pass() => return Err(error),
                Ok(Err(error)) => error,
                Err(_) => RemoteError::Failed { what, said: format!("no answer within {limit:?}") },
            };
            let by_chance = u64::from_le_bytes(entropy::random_bytes()) as f64 / u64::MAX as f64;
            let rest = pause.mul_f64(0.5 + by_chance / 2.0);
            if begin.elapsed() + rest >= deadline {
                return Err(RemoteError::Deadline { what, after: deadline, last: error.to_string() });
            }
            if tries == self.retries_max {
                return Err(error);
            }
            log::debug!("a request is repeated: {error}");
            tokio::time::sleep(rest).await;
            pause = (pause * 2).min(PAUSE_MAX);
            tries += 1;
        }
    }
}
