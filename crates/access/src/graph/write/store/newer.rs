//! Putting rows that are newer than those that are there, for tools that send a recent part of a source again.

use std::collections::HashMap;

use super::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::format::details::Record;
use crate::graph::format::key;
use crate::graph::format::table::Table;
use crate::graph::model::{Entitlement, Grant, GrantRef, Resource, ResourceType, Timestamp};

/// Whether a row is put: it has no time, or a later one than the row that is there, if one is.
fn is_newer(row: Option<Timestamp>, known: Option<Option<Timestamp>>) -> bool {
    row.is_none() || known.is_none_or(|known| row > known)
}

impl GraphStore {
    /// Puts those grants, as one batch, that are newer than the one of their id that is there, or that have none; of several in
    /// the batch as if they came one after another. A grant without a time is always put, and any time is newer than none. Returns how
    /// many were put. Unlike [`put_grants`](Self::put_grants), this reads what is there.
    ///
    /// ```
    /// use duramen_access::graph::{Grant, GraphStore, ResourceId, SyncKind, Timestamp};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let mut store = GraphStore::open(dir.path().join("access.dpack"))?;
    /// store.start_sync(SyncKind::Partial, None)?;
    /// let mut grant = Grant { id: "a".to_owned(), ..Grant::default() };
    /// grant.entitlement.id = "app:github:admin".to_owned();
    /// grant.entitlement.resource = ResourceId::new("app", "github");
    /// grant.principal.id = ResourceId::new("user", "ada");
    /// grant.discovered_at = Some(Timestamp { seconds: 20, nanos: 0 });
    /// assert_eq!(store.put_grants_if_newer([&grant])?, 1);
    /// grant.discovered_at = Some(Timestamp { seconds: 10, nanos: 0 });
    /// assert_eq!(store.put_grants_if_newer([&grant])?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`put_grants`](Self::put_grants), and when the file cannot be read.
    pub fn put_grants_if_newer<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Grant>,
    ) -> Result<u64, GraphError> {
        let view = self.view_of_open()?;
        let mut put: HashMap<&str, Option<Timestamp>> = HashMap::new();
        let mut batch = Vec::new();
        for row in rows {
            let known = match put.get(row.id.as_str()) {
                Some(time) => Some(*time),
                None => view.grant(&row.id)?.map(|known| known.discovered_at),
            };
            if is_newer(row.discovered_at, known) {
                put.insert(&row.id, row.discovered_at);
                batch.push(row);
            }
        }
        drop(view);
        self.put_grants(batch.into_iter().map(GrantRef::from))
    }

    /// Puts those resource types that are newer, as [`put_grants_if_newer`](Self::put_grants_if_newer) does grants.
    ///
    /// # Errors
    /// As there.
    pub fn put_resource_types_if_newer<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a ResourceType>,
    ) -> Result<u64, GraphError> {
        self.put_records_if_newer(Table::ResourceTypes, rows, |row| row.discovered_at)
    }

    /// Puts those resources that are newer, as [`put_grants_if_newer`](Self::put_grants_if_newer) does grants.
    ///
    /// # Errors
    /// As there.
    pub fn put_resources_if_newer<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Resource>,
    ) -> Result<u64, GraphError> {
        self.put_records_if_newer(Table::Resources, rows, |row| row.discovered_at)
    }

    /// Puts those entitlements that are newer than the one of their resource and id, as
    /// [`put_grants_if_newer`](Self::put_grants_if_newer) does grants.
    ///
    /// # Errors
    /// As there.
    pub fn put_entitlements_if_newer<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Entitlement>,
    ) -> Result<u64, GraphError> {
        self.put_records_if_newer(Table::Entitlements, rows, |row| row.discovered_at)
    }

    fn put_records_if_newer<'a, R: Record + 'a>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = &'a R>,
        time: impl Fn(&R) -> Option<Timestamp>,
    ) -> Result<u64, GraphError> {
        let view = self.view_of_open()?;
        let mut put: HashMap<Vec<u8>, Option<Timestamp>> = HashMap::new();
        let mut batch = Vec::new();
        for row in rows {
            let key = key::join(&row.key());
            let known = match put.get(&key) {
                Some(time) => Some(*time),
                None => view.record::<R>(table, &key)?.map(|known| time(&known)),
            };
            if is_newer(time(row), known) {
                put.insert(key, time(row));
                batch.push(row);
            }
        }
        drop(view);
        let count = batch.len() as u64;
        self.put_records(table, batch)?;
        Ok(count)
    }

    /// The sync that rows are put into, as far as it has come.
    fn view_of_open(&mut self) -> Result<crate::graph::read::view::SyncView, GraphError> {
        let open = self.current_sync().map(|sync| sync.id.clone()).ok_or(GraphError::NoOpenSync)?;
        self.view(Some(&open))
    }
}
