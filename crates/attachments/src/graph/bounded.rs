//! A file of a graph of which no more is read than there is room for, whatever it says.

use super::directory::Directory;
use crate::{
    error::ReadError,
    limits::{ENTITIES_MAX, GRANTS_MAX, GRAPH_TEXT_BYTES_MAX, ID_BYTES_MAX, NAME_BYTES_MAX},
};
use duramen_access::{
    file::GraphFile,
    graph::{
        Asset, Entitlement, Grant, GrantRef, GraphSource, Resource, ResourceId, ResourceType, Sync, Visit,
    },
};
use std::{cell::Cell, ops::ControlFlow};

/// Memory that a grant takes beside its text, and that an entity does, in bytes, about.
const GRANT_BYTES: u64 = 40;
const ENTITY_BYTES: u64 = 120;

/// A source that ends with an error where there is too much.
pub(super) struct Bounded<'f> {
    file: &'f GraphFile,
    at: String,
    /// What is in memory already.
    known: Cell<Option<&'f Directory>>,
    grants: Cell<u64>,
    entities: Cell<u64>,
    text: Cell<u64>,
    /// The most of each that there was in any reading.
    bytes: Cell<u64>,
}

/// Why it was too much: what, how much, and how much there may be.
struct Over(&'static str, u64, u64);

impl<'f> Bounded<'f> {
    pub(super) fn new(file: &'f GraphFile, at: String) -> Bounded<'f> {
        let [grants, entities, text, bytes] = std::array::from_fn(|_| Cell::new(0));
        Bounded { file, at, known: Cell::new(None), grants, entities, text, bytes }
    }

    /// Counts from nothing: what comes is read into something else. Of names that are known no more is counted.
    pub(super) fn begin_again(&self, known: &'f Directory) {
        self.known.set(Some(known));
        self.bytes.set(self.bytes());
        self.grants.set(0);
        self.entities.set(0);
        self.text.set(0);
    }

    /// About how much memory takes what was read, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
            + self.text.get()
            + self.grants.get() * GRANT_BYTES
            + self.entities.get() * ENTITY_BYTES
    }

    fn count(&self, counter: &Cell<u64>, more: u64, limit: u64, what: &'static str) -> Result<(), Over> {
        counter.set(counter.get() + more);
        if counter.get() > limit {
            return Err(Over(what, counter.get(), limit));
        }
        Ok(())
    }

    fn ids<'i>(&self, ids: impl IntoIterator<Item = &'i str>, longest: usize) -> Result<(), Over> {
        for id in ids {
            if id.len() > longest {
                return Err(Over("bytes in an id", id.len() as u64, longest as u64));
            }
            self.count(&self.text, id.len() as u64, GRAPH_TEXT_BYTES_MAX, "bytes of ids and names")?;
        }
        Ok(())
    }

    fn entity<'i>(&self, ids: impl IntoIterator<Item = &'i str>, name: &str) -> Result<(), Over> {
        self.count(&self.entities, 1, ENTITIES_MAX, "resources and entitlements")?;
        self.ids(ids, ID_BYTES_MAX)?;
        let name = name.len().min(NAME_BYTES_MAX) as u64;
        self.count(&self.text, name, GRAPH_TEXT_BYTES_MAX, "bytes of ids and names")
    }

    fn grant(&self, grant: &GrantRef<'_>) -> Result<(), Over> {
        self.count(&self.grants, 1, GRANTS_MAX, "grants")?;
        let GrantRef { id, entitlement, resource_type, resource, principal_type, principal, .. } = *grant;
        for id in [entitlement, resource_type, resource, principal_type, principal] {
            if id.len() > ID_BYTES_MAX {
                return Err(Over("bytes in an id", id.len() as u64, ID_BYTES_MAX as u64));
            }
        }
        // An id that follows from the others is not kept.
        let parts = [entitlement, principal_type, principal];
        let is_made = id.len() == entitlement.len() + principal_type.len() + principal.len() + 2
            && id.split(':').eq(parts.iter().flat_map(|part| part.split(':')));
        if !is_made {
            self.ids([id], 3 * ID_BYTES_MAX + 2)?;
        }
        let known = self.known.get();
        if !known.is_some_and(|known| known.has_right(resource_type, resource, entitlement)) {
            self.ids([entitlement, resource_type, resource], ID_BYTES_MAX)?;
        }
        if !known.is_some_and(|known| known.has(principal_type, principal)) {
            self.ids([principal_type, principal], ID_BYTES_MAX)?;
        }
        let Some(rest) = grant.rest else { return Ok(()) };
        // What a grant names takes room and time as grants do.
        let named = rest.sources.len()
            + rest
                .expansion
                .as_ref()
                .map_or(0, |expansion| expansion.entitlement_ids.len() + expansion.resource_type_ids.len());
        self.count(&self.grants, named as u64, GRANTS_MAX, "grants, with what they name")?;
        self.ids(rest.sources.iter().map(|(id, _)| id.as_str()), ID_BYTES_MAX)?;
        let expansion = rest.expansion.as_ref();
        let ids = expansion.into_iter().flat_map(|expansion| {
            expansion.entitlement_ids.iter().chain(&expansion.resource_type_ids).map(String::as_str)
        });
        self.ids(ids, ID_BYTES_MAX)
    }

    /// Reads rows as long as there is room.
    fn read(
        &self,
        read: impl FnOnce(&mut Option<Over>) -> Result<(), duramen_access::file::FileError>,
    ) -> Result<(), ReadError> {
        let mut over = None;
        read(&mut over)?;
        match over {
            None => Ok(()),
            Some(Over(what, found, limit)) => {
                Err(ReadError::TooLarge { at: self.at.clone(), what, found, limit })
            }
        }
    }
}

/// Goes on if there is room, and else keeps why not.
fn on(
    counted: Result<(), Over>,
    over: &mut Option<Over>,
    visit: impl FnOnce() -> ControlFlow<()>,
) -> ControlFlow<()> {
    match counted {
        Ok(()) => visit(),
        Err(too_much) => {
            *over = Some(too_much);
            ControlFlow::Break(())
        }
    }
}

fn of(id: &ResourceId) -> [&str; 2] {
    [&id.resource_type, &id.resource]
}

impl GraphSource for Bounded<'_> {
    type Error = ReadError;

    fn syncs(&self) -> Result<Vec<Sync>, ReadError> {
        Ok(self.file.syncs()?)
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), ReadError> {
        self.read(|over| {
            self.file.for_each_resource_type(sync, &mut |row| {
                let counted = self.entity([row.id.as_str()], &row.display_name);
                on(counted, over, || visit(row))
            })
        })
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), ReadError> {
        self.read(|over| {
            self.file.for_each_resource(sync, &mut |row| {
                let counted = self.entity(of(&row.id), &row.display_name);
                on(counted, over, || visit(row))
            })
        })
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), ReadError> {
        self.read(|over| {
            self.file.for_each_entitlement(sync, &mut |row| {
                let [kind, resource] = of(&row.resource);
                let counted = self.entity([kind, resource, row.id.as_str()], &row.display_name);
                on(counted, over, || visit(row))
            })
        })
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), ReadError> {
        self.for_each_grant_ref(sync, &mut |row| visit(row.to_grant()))
    }

    fn for_each_grant_ref(
        &self,
        sync: &str,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        self.read(|over| {
            self.file.for_each_grant_ref(sync, &mut |row| {
                let counted = self.grant(&row);
                on(counted, over, || visit(row))
            })
        })
    }

    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), ReadError> {
        Ok(self.file.for_each_asset(sync, visit)?)
    }
}
