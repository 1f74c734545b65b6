//! Access graphs: who may do what, where from, as rows in one verified file.
//!
//! A graph holds *syncs*, passes over a source. Each has resource types, resources, entitlements (something about a
//! resource that can be held), grants (a principal holds an entitlement) and assets.
//!
//! | type | what it is for |
//! | --- | --- |
//! | [`GraphStore`] | writing: the life of a sync, puts, deletions, checkpoints |
//! | [`GraphPack`] | reading a finished file, by any number of threads |
//! | [`SyncView`] | the queries of one sync |
//! | [`GraphSource`], [`GraphSink`] | what graphs are copied from and to, whatever the format |
//!
//! The format, the states and the invariants are in `docs/design/access-graph.md`.

mod build;
mod bytes;
mod cleanup;
mod csv;
mod deletions;
mod details;
mod diff;
mod error;
pub(crate) mod intern;
mod journal;
mod key;
mod ksuid;
mod manifest;
mod merge;
pub mod model;
mod overlay;
mod pack;
mod page;
pub(crate) mod payload;
pub(crate) mod radix;
mod records;
mod rows;
mod scan;
mod segment;
mod sink;
mod spill;
mod stats;
mod store;
pub(crate) mod tail;
mod terms;
#[cfg(test)]
mod tests;
mod token;
mod traits;
mod verify;
mod view;

pub use self::csv::{write_csv, write_csv_rows, CsvTable};
pub use diff::{diff, write_diff, Change, Diff, DiffCounts};
pub use error::GraphError;
pub use key::MAX_ID_BYTES;
pub use manifest::MAX_SYNCS;
pub use model::{
    Any, Asset, Entitlement, EntitlementRef, Expansion, Extra, Grant, GrantRef, PrincipalRef, Purpose,
    Resource, ResourceId, ResourceType, Sync, SyncKind, Timestamp, Trait,
};
pub use pack::GraphPack;
pub use page::{GrantPage, GrantView};
pub use stats::SyncStats;
pub use store::{GraphStore, StoreOptions, MAX_BATCH_ROWS, RESUME_SECONDS};
pub use tail::MAX_RECORD_BYTES;
pub use traits::{GraphSink, GraphSource, Loss, Visit};
pub use view::{
    EntitlementScope, GrantScope, Page, PageRequest, ResourceScope, SyncView, MAX_ENTITLEMENTS, MAX_PAGE_ROWS,
};
