//! A store as the end of a copy from another format.

use super::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::model::{Asset, Entitlement, GrantRef, Resource, ResourceType, Sync};
use crate::graph::model::{GraphSink, Loss};

/// A store holds all of the model, so it reports no losses. Every put is a batch of its own here; whoever has many
/// grants at once puts them with [`GraphStore::put_grants`].
impl GraphSink for GraphStore {
    type Error = GraphError;

    fn begin_sync(&mut self, sync: &Sync) -> Result<(), GraphError> {
        self.begin(sync.clone())
    }

    fn put_resource_type(&mut self, row: &ResourceType) -> Result<(), GraphError> {
        self.put_resource_types([row])
    }

    fn put_resource(&mut self, row: &Resource) -> Result<(), GraphError> {
        self.put_resources([row])
    }

    fn put_entitlement(&mut self, row: &Entitlement) -> Result<(), GraphError> {
        self.put_entitlements([row])
    }

    fn put_grant(&mut self, row: &GrantRef<'_>) -> Result<(), GraphError> {
        self.put_grants([*row]).map(|_| ())
    }

    fn put_asset(&mut self, row: &Asset) -> Result<(), GraphError> {
        self.put_assets([row])
    }

    fn end_sync(&mut self) -> Result<(), GraphError> {
        // The sync came with its own time of end, or with none: then it stays unfinished.
        match self.current_sync().ok_or(GraphError::NoOpenSync)?.ended_at {
            Some(ended_at) => self.end_sync_at(ended_at).map(|_| ()),
            None => self.suspend(),
        }
    }

    fn losses(&self) -> &[Loss] {
        &[]
    }
}
