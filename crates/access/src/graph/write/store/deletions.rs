//! Deleting records from the sync that is open.

use super::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::format::key;
use crate::graph::format::table::Table;
use crate::graph::model::ResourceId;

impl GraphStore {
    /// Deletes a resource type.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants), as with the other kinds of rows.
    pub fn delete_resource_type(&mut self, id: &str) -> Result<(), GraphError> {
        self.change_records(Table::ResourceTypes, vec![(key::join(&[id]), None)])
    }

    /// Deletes a resource. Its grants and entitlements stay.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants).
    pub fn delete_resource(&mut self, id: &ResourceId) -> Result<(), GraphError> {
        self.change_records(Table::Resources, vec![(key::join(&[&id.resource_type, &id.resource]), None)])
    }

    /// Deletes an entitlement of a resource. Its grants stay.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants).
    pub fn delete_entitlement(&mut self, resource: &ResourceId, id: &str) -> Result<(), GraphError> {
        let key = key::join(&[&resource.resource_type, &resource.resource, id]);
        self.change_records(Table::Entitlements, vec![(key, None)])
    }

    /// Deletes an asset.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants).
    pub fn delete_asset(&mut self, id: &str) -> Result<(), GraphError> {
        self.change_records(Table::Assets, vec![(key::join(&[id]), None)])
    }
}
