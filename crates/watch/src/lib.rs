//! Watching synchronous replication on a live pair: no load, no superuser, no change of a setting.
//!
//! The primary is looked at ten times a second: who waits for a standby, how far each standby has come. From that
//! follows at which stage a commit waits ([`attribution::attribute`]); a standby that is watched too says why its replay
//! is behind. What is seen is added up ([`ledger::Ledger`]) and told as it happens ([`watch::Event`]), as figures for
//! Prometheus ([`metrics::text`]) and as an evidence document ([`document::evidence`]).
//!
//! ```no_run
//! use duramen_watch::{Options, Watch};
//! use std::time::Duration;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), duramen_watch::WatchError> {
//! let options = Options { primary: "postgres://watcher@db1/postgres".to_owned(), standbys: Vec::new() };
//! let mut watch = Watch::begin(&options).await?;
//! watch.run(tokio::time::sleep(Duration::from_secs(60)), |event| println!("{event:?}")).await;
//! # Ok(()) }
//! ```

pub mod advice;
pub mod attribution;
pub mod document;
mod error;
pub mod ledger;
mod line;
pub mod metrics;
pub mod observation;
mod options;
mod primary;
mod standby;
pub mod synchronous;
pub mod watch;

pub use error::WatchError;
pub use options::Options;
pub use watch::Watch;
