//! What is counted of a sync while it is written.

use std::collections::BTreeMap;

use super::bytes::{put_text, put_u64, Reader};
use crate::graph::error::GraphError;

/// How much a sync holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncStats {
    /// Resource types.
    pub resource_types: u64,
    /// Resources.
    pub resources: u64,
    /// Entitlements.
    pub entitlements: u64,
    /// Grants.
    pub grants: u64,
    /// Assets.
    pub assets: u64,
    /// Different entitlements that grants refer to, with or without a row of their own.
    pub granted_entitlements: u64,
    /// Different principals that grants refer to, with or without a row of their own.
    pub principals: u64,
    /// Rows that gave way to a later row with the same id, or were deleted, since the sync was begun.
    pub replaced: u64,
    /// Resources by their type.
    pub resources_by_type: BTreeMap<String, u64>,
    /// Entitlements by the type of their resource.
    pub entitlements_by_type: BTreeMap<String, u64>,
    /// Grants by the type of their entitlement's resource.
    pub grants_by_type: BTreeMap<String, u64>,
    /// Grants by the type of their principal.
    pub grants_by_principal_type: BTreeMap<String, u64>,
}

impl SyncStats {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for count in [
            self.resource_types,
            self.resources,
            self.entitlements,
            self.grants,
            self.assets,
            self.granted_entitlements,
            self.principals,
            self.replaced,
        ] {
            put_u64(out, count);
        }
        for by_type in [
            &self.resources_by_type,
            &self.entitlements_by_type,
            &self.grants_by_type,
            &self.grants_by_principal_type,
        ] {
            put_u64(out, by_type.len() as u64);
            for (name, count) in by_type {
                put_text(out, name);
                put_u64(out, *count);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, GraphError> {
        let mut stats = SyncStats {
            resource_types: reader.u64()?,
            resources: reader.u64()?,
            entitlements: reader.u64()?,
            grants: reader.u64()?,
            assets: reader.u64()?,
            granted_entitlements: reader.u64()?,
            principals: reader.u64()?,
            replaced: reader.u64()?,
            ..SyncStats::default()
        };
        for by_type in [
            &mut stats.resources_by_type,
            &mut stats.entitlements_by_type,
            &mut stats.grants_by_type,
            &mut stats.grants_by_principal_type,
        ] {
            for _ in 0..reader.count(2)? {
                by_type.insert(reader.string()?, reader.u64()?);
            }
        }
        Ok(stats)
    }
}
