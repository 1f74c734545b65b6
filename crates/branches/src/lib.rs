//! PostgreSQL branches: isolated, writable copies of a source, served from a prepared pool.
//!
//! [`Engine`] is the whole of it: it owns the sources, the pool and the leases of one home directory. The
//! design, with states and numbered invariants, is in `docs/design/branches.md`.

mod audit;
mod branch;
mod engine;
mod error;
mod generation;
mod home;
mod journal;
mod leases;
mod maintenance;
mod measuring;
pub mod model;
mod names;
mod pool;
mod query;
mod recovery;
mod source;
mod sources;
mod watch;

pub use duramen_postgres::GROUP;
pub use engine::{Engine, OpenOptions};
pub use error::{EngineError, Kind};
pub use home::exposed;
pub use query::QueryAnswer;
pub use source::fingerprint::compare;
