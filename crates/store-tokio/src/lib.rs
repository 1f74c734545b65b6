//! The store for asynchronous programs on `tokio`: nothing that may wait blocks a thread of the runtime.
//!
//! An [`AsyncStore`] and an [`AsyncBranch`] do work with [`run`](AsyncBranch::run): a closure that gets the handle of
//! [`duramen_store`], and runs as a whole on a thread that may block. All that the store can do is done in it. What is asked
//! for most has a method of its own, such as [`kv_get`](AsyncBranch::kv_get).
//!
//! ```
//! use duramen_store::{Options, Part, Scope, StoreError};
//! use duramen_store_tokio::AsyncStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().to_owned();
//! let store = AsyncStore::open(path, Options::default()).await?;
//! let main = store.branch("main").await?;
//! main.kv_put("greeting", "hello").await?;
//!
//! // Several reads, or writes, in one go.
//! let (found, count) = main.run(|branch| Ok((branch.kv().get("greeting")?, branch.kv().count("")?))).await?;
//! assert_eq!((found, count), (Some("hello".into()), 1));
//!
//! // A transaction runs as a whole, again if another commit was first.
//! let tries = main
//!     .transact(|tx| {
//!         let tries = tx.kv().add("tries", 1)?;
//!         tx.events().append("try", serde_json::json!({ "number": tries }))?;
//!         Ok(tries)
//!     })
//!     .await?;
//! assert_eq!(tries, 1);
//!
//! let mut watch = main.watch(Part::default(), None).await?;
//! main.kv_put("leaf", "fallen").await?;
//! let (_, changes) = watch.next().await.expect("it goes on")?;
//! assert_eq!(changes[0].key, "leaf");
//!
//! store.close().await?;
//! assert!(matches!(main.kv_get("leaf").await, Err(StoreError::Closed)));
//! # Ok(())
//! # }
//! ```
//!
//! # What runs where
//!
//! Work runs on the blocking threads of the runtime that polls it: [`THREADS_DEFAULT`] at a time for each store, unless it is
//! opened with [`open_on`](AsyncStore::open_on). Further work waits for its turn, in order, without a thread.
//! [`OPERATIONS_MAX`] are begun at most. One store may be used from several runtimes.
//!
//! **Reads do not run inline**, not even of what is in memory. Whether a node is in memory is known when it is looked for,
//! and else a disk is waited for; a look at a branch waits while a commit is applied to it, which may read from a disk as
//! well. So no read can be said never to block. The way to a thread and back is some ten microseconds: put several reads
//! into one [`run`](AsyncBranch::run).
//!
//! **A strict commit holds no thread while it waits for the disk.** [`commit`](AsyncBranch::commit),
//! [`transact`](AsyncBranch::transact) and the methods that write apply the commit on a thread, give that back, and then wait
//! together with all others for one sync, for which there is one thread more. So a thousand tasks may wait for the same sync.
//!
//! # Cancellation
//!
//! A future that is dropped, by `select!` or a timeout, does half of nothing. If its work was waiting for a thread, nothing
//! happens. If it has begun, it is done to its end, and only its result is lost. So a commit whose future was dropped is there
//! as a whole, or not at all, and whoever needs to know looks. Only work with several commits of its own may be cut off before
//! it begins, never between two of them; for commits that belong together there is `transact`. A strict commit that was dropped in its wait is made
//! durable all the same.
//!
//! A future that is alive and not polled, as one that `select!` borrows while another branch of it runs, keeps nobody waiting: what it asked for
//! begins and ends without it. Only where more than [`OPERATIONS_MAX`] operations are asked for at once must those be polled that wait for their place.
//!
//! # The end
//!
//! [`AsyncStore::close`] waits for all that has begun, and makes it durable. What begins after that is refused with
//! [`StoreError::Closed`](duramen_store::StoreError::Closed), and so are watches. A store whose handles are all dropped is closed in the background.

/// The programs of the cookbook run: they need all that this crate is tested with.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cookbook.md")]
struct Cookbook;

mod branch;
mod data;
mod flush;
mod pool;
mod snapshot;
mod store;
mod watch;

pub use branch::AsyncBranch;
pub use pool::{OPERATIONS_MAX, THREADS_DEFAULT, THREADS_MAX};
pub use snapshot::AsyncSnapshot;
pub use store::AsyncStore;
pub use watch::AsyncWatch;
