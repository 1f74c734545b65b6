//! Putting rows into the sync that is open, and deleting grants from it.

use super::{check_size, GraphStore};
use crate::graph::error::GraphError;
use crate::graph::format::details::Record;
use crate::graph::format::key;
use crate::graph::format::table::Table;
use crate::graph::model::{Asset, Entitlement, GrantRef, Resource, ResourceType};
use crate::graph::tail::{check_id, check_key, MAX_GRANT_ID_BYTES};

/// The most grants of one batch; more are several batches, each of which is there whole or not at all.
pub const MAX_BATCH_ROWS: usize = 1 << 20;

impl GraphStore {
    /// Puts grants, as one batch: all of them or none. More than [`MAX_BATCH_ROWS`] are several batches. Of several
    /// grants with one id, the last stays, whatever batch or run they came with. Returns how many were put.
    ///
    /// # Errors
    /// When no sync is open, a grant is not allowed, or the journal cannot be written. The batch is then not there.
    pub fn put_grants<'a, G: Into<GrantRef<'a>>>(
        &mut self,
        grants: impl IntoIterator<Item = G>,
    ) -> Result<u64, GraphError> {
        self.usable()?;
        let mut grants = grants.into_iter().peekable();
        let mut total = 0;
        while grants.peek().is_some() {
            self.make_room()?;
            let open = self.open.as_mut().ok_or(GraphError::NoOpenSync)?;
            let from = open.tail.rows.len();
            let mark = open.tail.mark();
            for grant in grants.by_ref().take(MAX_BATCH_ROWS) {
                if let Err(error) = open.tail.push(&grant.into()) {
                    open.tail.roll_back(&mark);
                    return Err(error);
                }
            }
            total += (open.tail.rows.len() - from) as u64;
            let tail = &open.tail;
            let journal = self.journal.as_mut().ok_or(GraphError::Poisoned)?;
            if let Err(error) = journal.grants(tail, from) {
                open.tail.roll_back(&mark);
                self.poisoned = true;
                return Err(error);
            }
        }
        Ok(total)
    }

    /// Puts resource types, as one batch.
    ///
    /// # Errors
    /// As [`put_grants`](Self::put_grants), as with the other kinds of rows.
    pub fn put_resource_types<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a ResourceType>,
    ) -> Result<(), GraphError> {
        self.put_records(Table::ResourceTypes, rows)
    }

    /// Puts resources, as one batch.
    ///
    /// # Errors
    /// As [`put_grants`](Self::put_grants).
    pub fn put_resources<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Resource>,
    ) -> Result<(), GraphError> {
        self.put_records(Table::Resources, rows)
    }

    /// Puts entitlements, as one batch.
    ///
    /// # Errors
    /// As [`put_grants`](Self::put_grants).
    pub fn put_entitlements<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Entitlement>,
    ) -> Result<(), GraphError> {
        self.put_records(Table::Entitlements, rows)
    }

    /// Puts assets, as one batch.
    ///
    /// # Errors
    /// As [`put_grants`](Self::put_grants).
    pub fn put_assets<'a>(&mut self, rows: impl IntoIterator<Item = &'a Asset>) -> Result<(), GraphError> {
        self.put_records(Table::Assets, rows)
    }

    pub(super) fn put_records<'a, R: Record + 'a>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = &'a R>,
    ) -> Result<(), GraphError> {
        let mut batch = Vec::new();
        for row in rows {
            let components = row.key();
            check_key(R::WHAT, &components)?;
            row.references().into_iter().try_for_each(|id| check_id("what a row refers to", id))?;
            let mut value = Vec::new();
            row.encode(&mut value);
            check_size(R::WHAT, value.len())?;
            batch.push((key::join(&components), Some(value)));
        }
        self.change_records(table, batch)
    }

    pub(super) fn change_records(
        &mut self,
        table: Table,
        batch: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<(), GraphError> {
        self.usable()?;
        if self.open.is_none() {
            return Err(GraphError::NoOpenSync);
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        self.write(|journal| journal.records(table, &batch))?;
        if let Some(open) = &mut self.open {
            batch.into_iter().for_each(|(key, value)| open.tail.put(table, key, value));
        }
        Ok(())
    }

    /// Deletes grants by their ids, as one batch. Ids that no grant has are not an error.
    ///
    /// # Errors
    /// When no sync is open, or the journal cannot be written.
    pub fn delete_grants(&mut self, ids: &[&str]) -> Result<(), GraphError> {
        self.usable()?;
        if self.open.is_none() {
            return Err(GraphError::NoOpenSync);
        }
        // No grant has an id that is longer.
        let ids: Vec<&str> = ids.iter().copied().filter(|id| id.len() <= MAX_GRANT_ID_BYTES).collect();
        if ids.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        self.write(|journal| journal.delete_grants(&ids))?;
        if let Some(open) = &mut self.open {
            ids.iter().for_each(|id| open.tail.delete_grant(id));
        }
        Ok(())
    }
}
