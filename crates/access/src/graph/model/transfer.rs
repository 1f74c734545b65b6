//! What a graph is read from and written to, whatever the format.

use std::ops::ControlFlow;

use super::{Asset, Entitlement, Grant, GrantRef, Resource, ResourceType, Sync};

/// What is called for each row: continue, or stop here.
pub type Visit<'a, Row> = &'a mut dyn FnMut(Row) -> ControlFlow<()>;

/// What a graph can be read from. The rows of one sync come in an order of the source's own.
///
/// `sync` is the id of a sync that [`syncs`](Self::syncs) names; another is an error.
pub trait GraphSource {
    /// Why reading failed.
    type Error: std::error::Error + Send + std::marker::Sync + 'static;

    /// All syncs, in the order in which they were begun.
    fn syncs(&self) -> Result<Vec<Sync>, Self::Error>;
    /// Visits the resource types of a sync.
    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), Self::Error>;
    /// Visits the resources of a sync.
    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), Self::Error>;
    /// Visits the entitlements of a sync.
    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), Self::Error>;
    /// Visits the grants of a sync.
    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), Self::Error>;
    /// Visits the grants of a sync without making values of them: what bulk readers take. The rows are those of
    /// [`for_each_grant`](Self::for_each_grant), in the same order.
    fn for_each_grant_ref(
        &self,
        sync: &str,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), Self::Error> {
        self.for_each_grant(sync, &mut |grant| visit(GrantRef::from(&grant)))
    }
    /// Visits the assets of a sync.
    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), Self::Error>;
}

/// What a format could not hold of what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The kind of row, such as `grant`.
    pub row: &'static str,
    /// The field or property that was lost, such as `sources.is_direct`.
    pub what: String,
    /// How many rows lost it.
    pub rows: u64,
    /// The id of the first of them.
    pub example: String,
}

/// What a graph can be written to: one sync after another, rows in any order, the last of several with one id wins.
///
/// Nothing of a sync is there before [`end_sync`](Self::end_sync); when the format is one file, it is complete only
/// after the format's own `finish`.
pub trait GraphSink {
    /// Why writing failed.
    type Error: std::error::Error + Send + std::marker::Sync + 'static;

    /// Begins a sync, whose rows follow. Its id, times, token and marks are taken as they are; a sync without
    /// `ended_at` stays unfinished in the file.
    fn begin_sync(&mut self, sync: &Sync) -> Result<(), Self::Error>;
    /// Takes a resource type.
    fn put_resource_type(&mut self, row: &ResourceType) -> Result<(), Self::Error>;
    /// Takes a resource.
    fn put_resource(&mut self, row: &Resource) -> Result<(), Self::Error>;
    /// Takes an entitlement.
    fn put_entitlement(&mut self, row: &Entitlement) -> Result<(), Self::Error>;
    /// Takes a grant.
    fn put_grant(&mut self, row: &GrantRef<'_>) -> Result<(), Self::Error>;
    /// Takes an asset.
    fn put_asset(&mut self, row: &Asset) -> Result<(), Self::Error>;
    /// Ends the sync that was begun.
    fn end_sync(&mut self) -> Result<(), Self::Error>;
    /// What could not be held so far, and how often.
    fn losses(&self) -> &[Loss];
}
