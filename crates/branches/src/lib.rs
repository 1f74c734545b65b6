//! PostgreSQL branches: isolated, writable copies of a source, served from a prepared pool.
//!
//! [`Engine`] is the whole of it: it owns the sources, the pool and the leases of one home directory. The
//! design, with states and numbered invariants, is in `docs/design/branches.md`.

mod activity;
mod audit;
mod balance;
mod baseline;
mod branch;
mod burst;
mod capacity;
mod clean;
mod data_diff;
mod diff_digest;
mod doors;
mod engine;
mod environment;
mod error;
mod evidence;
mod export;
mod files;
mod following;
mod generation;
mod generations;
mod history;
mod home;
mod interrupt;
mod journal;
mod key;
mod leases;
mod limits;
mod lineage;
mod maintenance;
mod marker;
mod measuring;
mod merge;
mod metrics;
mod names;
mod pairs;
mod parallel;
mod promotion;
mod query;
mod recovery;
mod registry;
mod retention;
mod revival;
mod schema;
mod sealing;
mod shared;
mod sleep;
mod source;
mod sources;
mod spare;
mod statements;
pub mod steps;
mod trial;
mod users;
mod watch;

use duramen_api::model;

pub use audit::{Events, LoggedEvent, NotAPosition, Position};
pub use data_diff::WantedDiff;
pub use doors::{Door, Holder, Running};
pub use duramen_changes::Part as DiffPart;
pub use duramen_postgres::GROUP;
pub use engine::Engine;
pub use error::{EngineError, Kind};
pub use export::WantedExport;
pub use following::LOOK_EVERY as LOOK_AT_FOLLOWED_EVERY;
pub use home::{exposed, remove_groups, sockets_outside};
pub use names::check as check_name;
pub use pairs::LentPair;
pub use query::QueryAnswer;
pub use registry::volume_kind;
pub use shared::OpenOptions;
pub use source::{fingerprint::compare, masking::scratch::destroy as destroy_scratch};
pub use users::{remove_users, users_of};
