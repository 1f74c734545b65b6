//! What a migration does to real data: run in a branch, under load, and told on one page.
//!
//! [`rehearse`] leases a branch, runs a command in it while sessions of a load work and a sampler looks at locks, and returns a
//! [`Report`]: who waited for what and how long, what was rewritten, what changed in plans and definitions. [`page`](fn@page),
//! [`markdown`](fn@markdown) and [`text`](fn@text) draw it. States, invariants and what is known how exactly are in
//! `docs/design/rehearse.md`.

mod error;
mod figures;
mod findings;
mod load;
mod log_lines;
mod markdown;
mod migration;
mod options;
mod page;
mod parts;
mod plans;
mod recording;
mod rehearsal;
mod relations;
mod replay;
mod report;
mod sampler;
mod script;
mod secrets;
mod text;
mod upgrade;
mod watch;

pub use error::RehearseError;
pub use figures::{
    Bucket, Keeps, Latencies, LoadError, LoadReport, ModeHeld, RecordingReport, Statement,
    StatementLatencies, TableLocks, WaitOf,
};
pub use load::{CLIENTS_MAX, RATE_MAX};
pub use markdown::markdown;
pub use migration::{Ending, DEADLINE};
pub use options::{LoadFile, Options};
pub use page::page;
pub use plans::{Estimate, Plan, QueryPlans};
pub use rehearsal::{rehearse, Event};
pub use relations::{Kind, RelationChange, What};
pub use report::{Gate, Looks, Migration, Outcome, Report, Upgrade, Wal, SCHEMA};
pub use text::text;
