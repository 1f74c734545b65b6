//! The engine under test: an access graph in a pack.

use std::ops::ControlFlow;
use std::path::Path;

use duramen_access::graph::{
    Grant, GrantRef, GrantScope, GraphPack, GraphStore, PageRequest, ResourceId, SyncKind, Timestamp,
};

use super::engine::{Engine, Put, Read, PAGE_ROWS};
use super::workload::{Row, Workload, PRINCIPAL_TYPE, RESOURCE, RESOURCE_TYPE, SEEN_SECONDS};
use duramen_reports::suite::Cause;

/// Access graphs as this project writes them: with the index by principal, journal and digests.
pub(crate) struct PackEngine;

const SEEN: Option<Timestamp> = Some(Timestamp { seconds: SEEN_SECONDS, nanos: 0 });

/// A row as the engines of this project take it.
pub(crate) fn grant(row: Row<'_>) -> GrantRef<'_> {
    GrantRef {
        id: row.id,
        entitlement: row.entitlement,
        resource_type: RESOURCE_TYPE,
        resource: RESOURCE,
        principal_type: PRINCIPAL_TYPE,
        principal: row.user,
        discovered_at: SEEN,
        rest: None,
    }
}

impl Engine for PackEngine {
    fn write(&self, path: &Path, workload: &Workload) -> Result<(), Cause> {
        let mut store = GraphStore::open(path)?;
        store.start_sync(SyncKind::Full, None)?;
        store.put_grants(workload.rows().map(grant))?;
        store.end_sync()?;
        store.close()?;
        Ok(())
    }

    fn read(&self, path: &Path, visit: &mut dyn FnMut(Read<'_>)) -> Result<(), Cause> {
        let view = GraphPack::open(path)?.view(None)?;
        let mut token: Option<String> = None;
        loop {
            let page =
                view.grants(GrantScope::All, PageRequest { size: PAGE_ROWS, token: token.as_deref() })?;
            for row in page.iter() {
                visit(Read {
                    id: row.id(),
                    entitlement: row.entitlement(),
                    resource_type: row.resource_type(),
                    resource: row.resource(),
                    principal_type: row.principal_type(),
                    principal: row.principal(),
                    seen_seconds: row.discovered_at().map_or(0, |time| time.seconds),
                });
            }
            match page.next_token() {
                Some(next) => token = Some(next.to_owned()),
                None => return Ok(()),
            }
        }
    }

    fn lookup(&self, path: &Path, user: &str) -> Result<usize, Cause> {
        let view = GraphPack::open(path)?.view(None)?;
        let user = ResourceId::new(PRINCIPAL_TYPE, user);
        let mut rows = 0;
        view.for_each_grant_page(GrantScope::Principal(&user), |page| {
            rows += page.iter().filter(|row| !row.id().is_empty()).count();
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    fn put(
        &self,
        path: &Path,
        ids: &[(String, String)],
        timed: &mut dyn FnMut(Put<'_>),
    ) -> Result<(), Cause> {
        let mut store = GraphStore::open(path)?;
        let id = store.syncs().first().map(|sync| sync.id.clone()).unwrap_or_default();
        store.open_sync(&id)?;
        let entitlement = "app:github:entitlement-0001";
        let grants: Vec<Grant> =
            ids.iter().map(|(id, user)| grant(Row { id, entitlement, user }).to_grant()).collect();
        for grant in &grants {
            let mut put = Ok(0);
            timed(&mut || put = store.put_grants([grant]));
            put?;
        }
        store.abandon()?;
        store.close()?;
        Ok(())
    }
}
