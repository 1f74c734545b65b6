//! Whether the rows of a sync fit together: what they refer to is there, and ids stand for one row each.
//!
//! A file whose rows do not is whole all the same: its tools wrote it so. Reports are in the words of
//! [`Loss`]: which rows, what about them, how many, and one of them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::xxh3_128;

use crate::c1z::losses::Losses;
use crate::expand::{Effective, ExpandError};
use crate::graph::format::key;
use crate::graph::{GraphSource, Loss, ResourceId};

/// Names that are there, or were seen: hashes of them.
#[derive(Default)]
struct Seen {
    hashes: HashSet<u128>,
    key: Vec<u8>,
}

impl Seen {
    fn hash(&mut self, parts: &[&str]) -> u128 {
        key::join_into(&mut self.key, parts);
        xxh3_128(&self.key)
    }

    /// Notes a name; whether it is new.
    fn add(&mut self, parts: &[&str]) -> bool {
        let hash = self.hash(parts);
        self.hashes.insert(hash)
    }

    fn has(&mut self, parts: &[&str]) -> bool {
        let hash = self.hash(parts);
        self.hashes.contains(&hash)
    }
}

/// What does not fit together in a sync. Takes about 20 bytes for each row, beside what [`Effective`] takes.
///
/// ```
/// use duramen_access::check::check;
/// use duramen_access::graph::{Entitlement, GraphPack, GraphStore, ResourceId, SyncKind};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("access.dpack");
/// let mut store = GraphStore::open(&path)?;
/// let sync = store.start_sync(SyncKind::Full, None)?;
/// let of_nothing = Entitlement { id: "a".to_owned(), resource: ResourceId::new("app", "b"), ..Entitlement::default() };
/// store.put_entitlements([&of_nothing])?;
/// store.end_sync()?;
/// let found = check(&GraphPack::open(&path)?, &sync)?;
/// assert_eq!((found[0].row, found[0].rows), ("entitlement", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the source cannot be read or has no such sync.
pub fn check<S: GraphSource>(source: &S, sync: &str) -> Result<Vec<Loss>, ExpandError<S::Error>> {
    let mut losses = Losses::default();
    let mut types = Seen::default();
    source
        .for_each_resource_type(sync, &mut |row| {
            types.add(&[&row.id]);
            ControlFlow::Continue(())
        })
        .map_err(ExpandError::Read)?;
    let (mut resources, mut parents): (Seen, Vec<(ResourceId, ResourceId)>) = Default::default();
    source
        .for_each_resource(sync, &mut |row| {
            if !types.has(&[&row.id.resource_type]) {
                losses.note("resource", "of a type that is not there", &name(&row.id));
            }
            resources.add(&[&row.id.resource_type, &row.id.resource]);
            parents.extend(row.parent.map(|parent| (row.id, parent)));
            ControlFlow::Continue(())
        })
        .map_err(ExpandError::Read)?;
    for (child, parent) in parents {
        if !resources.has(&[&parent.resource_type, &parent.resource]) {
            losses.note("resource", "in a resource that is not there", &name(&child));
        }
    }
    let (mut entitlements, mut ids) = (Seen::default(), Seen::default());
    source
        .for_each_entitlement(sync, &mut |row| {
            let resource = &row.resource;
            if !resources.has(&[&resource.resource_type, &resource.resource]) {
                losses.note("entitlement", "of a resource that is not there", &row.id);
            }
            if !ids.add(&[&row.id]) {
                losses.note("entitlement", "with the id of another", &row.id);
            }
            entitlements.add(&[&resource.resource_type, &resource.resource, &row.id]);
            ControlFlow::Continue(())
        })
        .map_err(ExpandError::Read)?;
    let (mut grants, mut edges) = (Seen::default(), Seen::default());
    source
        .for_each_grant_ref(sync, &mut |row| {
            if !entitlements.has(&[row.resource_type, row.resource, row.entitlement]) {
                losses.note("grant", "of an entitlement that is not there", row.id);
            }
            if !resources.has(&[row.principal_type, row.principal]) {
                losses.note("grant", "of a principal that is not there", row.id);
            }
            if !grants.add(&[row.id]) {
                losses.note("grant", "with the id of another", row.id);
            }
            let edge = [row.resource_type, row.resource, row.entitlement, row.principal_type, row.principal];
            if !edges.add(&edge) {
                losses.note("grant", "with the entitlement and the principal of another", row.id);
            }
            ControlFlow::Continue(())
        })
        .map_err(ExpandError::Read)?;
    let effective = Effective::load(source, sync)?;
    for loss in effective.left_out() {
        losses.note_many(loss.row, &loss.what, loss.rows, &loss.example);
    }
    for circle in effective.circles() {
        let first = circle.first().copied().unwrap_or_default();
        losses.note_many(
            "entitlement",
            "that follow from each other in a circle",
            circle.len() as u64,
            first,
        );
    }
    Ok(losses.all().to_vec())
}

fn name(id: &ResourceId) -> String {
    format!("{}:{}", id.resource_type, id.resource)
}
