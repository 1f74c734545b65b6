//! Deleting records from the sync that is open.

use super::error::GraphError;
use super::key;
use super::model::ResourceId;
use super::store::GraphStore;
use super::tail::Table;

impl GraphStore {
    /// Deletes a resource type.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants), as with the other kinds of rows.
    pub fn delete_resource_type(&mut self, id: &str) -> Result<(), GraphError> {
        self.change_records(Table::ResourceTypes, vec![(key::of(&[id]), None)])
    }

    /// Deletes a resource. Its grants and entitlements stay.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants).
    pub fn delete_resource(&mut self, id: &ResourceId) -> Result<(), GraphError> {
        self.change_records(Table::Resources, vec![(key::of(&[&id.resource_type, &id.resource]), None)])
    }

    /// Deletes an entitlement of a resource. Its grants stay.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants).
    pub fn delete_entitlement(&mut self, resource: &ResourceId, id: &str) -> Result<(), GraphError> {
        let key = key::of(&[&resource.resource_type, &resource.resource, id]);
        self.change_records(Table::Entitlements, vec![(key, None)])
    }

    /// Deletes an asset.
    ///
    /// # Errors
    /// As [`delete_grants`](Self::delete_grants).
    pub fn delete_asset(&mut self, id: &str) -> Result<(), GraphError> {
        self.change_records(Table::Assets, vec![(key::of(&[id]), None)])
    }
}
