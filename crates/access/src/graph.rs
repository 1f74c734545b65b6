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

mod error;
pub(crate) mod format;
pub mod model;
pub(crate) mod read;
pub(crate) mod tail;
#[cfg(test)]
mod tests;
mod write;

pub use self::error::GraphError;
pub use self::format::key::MAX_ID_BYTES;
pub(crate) use self::format::ksuid::new as new_sync_id;
pub use self::format::manifest::MAX_SYNCS;
pub use self::format::stats::SyncStats;
pub use self::model::{
    Any, Asset, Entitlement, EntitlementRef, Expansion, Extra, Grant, GrantRef, GraphSink, GraphSource, Loss,
    PrincipalRef, Purpose, Resource, ResourceId, ResourceType, Sync, SyncKind, Timestamp, Trait, Visit,
};
pub use self::read::csv::{write_csv, write_csv_rows, CsvTable};
pub use self::read::diff::{diff, Change, Diff, DiffCounts};
pub use self::read::pack::GraphPack;
pub use self::read::page::{GrantPage, GrantView};
pub use self::read::view::{
    EntitlementScope, GrantScope, Page, PageRequest, ResourceScope, SyncView, MAX_ENTITLEMENTS, MAX_PAGE_ROWS,
};
pub use self::tail::MAX_RECORD_BYTES;
pub use self::write::diff::write_diff;
pub(crate) use self::write::journal::journal_of;
pub use self::write::store::{GraphStore, StoreOptions, MAX_BATCH_ROWS, RESUME_SECONDS};
