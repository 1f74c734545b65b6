//! What differs between two syncs, kept as two syncs.

use super::store::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::model::{Grant, GrantRef, SyncKind};
use crate::graph::read::diff::{diff, Change, Diff};

/// Writes what differs between two syncs of a store as two new syncs, one of what came or changed and one of what went,
/// which name each other. Returns their ids.
///
/// # Errors
/// When one of the syncs is not there, or the file cannot be written.
pub fn write_diff(store: &mut GraphStore, older: &str, newer: &str) -> Result<[String; 2], GraphError> {
    let (old, new) = (store.view(Some(older))?, store.view(Some(newer))?);
    let mut ids: Vec<String> = Vec::new();
    for kind in [SyncKind::PartialUpserts, SyncKind::PartialDeletions] {
        let id = store.start_sync(kind, Some(older))?;
        let mut grants: Vec<Grant> = Vec::new();
        diff(&old, &new, |change| {
            let upserts = kind == SyncKind::PartialUpserts;
            match change {
                Diff::ResourceType(change) => {
                    kept(change, upserts).map_or(Ok(()), |row| store.put_resource_types([&row]))
                }
                Diff::Resource(change) => {
                    kept(change, upserts).map_or(Ok(()), |row| store.put_resources([&row]))
                }
                Diff::Entitlement(change) => {
                    kept(change, upserts).map_or(Ok(()), |row| store.put_entitlements([&row]))
                }
                Diff::Asset(change) => kept(change, upserts).map_or(Ok(()), |row| store.put_assets([&row])),
                Diff::Grant(change) => {
                    grants.extend(kept(change, upserts));
                    if grants.len() < 1024 {
                        return Ok(());
                    }
                    let put = store.put_grants(grants.iter().map(GrantRef::from));
                    grants.clear();
                    put.map(|_| ())
                }
            }
        })?;
        store.put_grants(grants.iter().map(GrantRef::from))?;
        if let Some(upserts) = ids.first() {
            store.link(upserts)?;
        }
        store.end_sync()?;
        ids.push(id);
    }
    let [upserts, deletions] = <[String; 2]>::try_from(ids).map_err(|_| GraphError::NoOpenSync)?;
    store.open_sync(&upserts)?;
    store.link(&deletions)?;
    store.end_sync()?;
    Ok([upserts, deletions])
}

fn kept<Row>(change: Change<Row>, upserts: bool) -> Option<Row> {
    match change {
        Change::Added(row) | Change::Changed(row) => upserts.then_some(row),
        Change::Removed(row) => (!upserts).then_some(row),
    }
}
