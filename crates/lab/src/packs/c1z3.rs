//! `.c1z` files of version 3: what the tools of the access-governance world exchange.

use std::ops::ControlFlow;
use std::path::Path;

use duramen_access::c1z::{C1z3, C1z3Writer, C1zError, ReadOptions, WriteOptions};
use duramen_access::graph::{GrantRef, GraphSink, GraphSource, Sync, Timestamp};

use super::engine::{Engine, Put, Read};
use super::pack::grant;
use super::workload::{Workload, SEEN_SECONDS};
use duramen_reports::suite::Cause;

/// Version 3, with tables of rows: what this project writes.
pub(crate) struct C1z3Engine;

const SYNC: &str = "2aGyRUbxAdE4MTzLqMxgsT1HNjq";

impl C1z3Engine {
    fn each(path: &Path, visit: &mut dyn FnMut(GrantRef<'_>)) -> Result<(), C1zError> {
        let file = C1z3::open(path, &ReadOptions::default())?;
        file.for_each_grant_ref(SYNC, &mut |grant| {
            visit(grant);
            ControlFlow::Continue(())
        })
    }
}

impl Engine for C1z3Engine {
    fn write(&self, path: &Path, workload: &Workload) -> Result<(), Cause> {
        let mut writer = C1z3Writer::create(path, &WriteOptions::default())?;
        let seen = Timestamp { seconds: SEEN_SECONDS, nanos: 0 };
        writer.begin_sync(&Sync {
            id: SYNC.to_owned(),
            started_at: seen,
            ended_at: Some(seen),
            ..Sync::default()
        })?;
        for row in workload.rows() {
            writer.put_grant(&grant(row))?;
        }
        writer.end_sync()?;
        writer.finish()?;
        Ok(())
    }

    fn read(&self, path: &Path, visit: &mut dyn FnMut(Read<'_>)) -> Result<(), Cause> {
        Self::each(path, &mut |grant| {
            visit(Read {
                id: grant.id,
                entitlement: grant.entitlement,
                resource_type: grant.resource_type,
                resource: grant.resource,
                principal_type: grant.principal_type,
                principal: grant.principal,
                seen_seconds: grant.discovered_at.map_or(0, |time| time.seconds),
            });
        })?;
        Ok(())
    }

    fn lookup(&self, path: &Path, user: &str) -> Result<usize, Cause> {
        let mut rows = 0;
        Self::each(path, &mut |grant| rows += usize::from(grant.principal == user))?;
        Ok(rows)
    }

    /// Each reads the whole file.
    fn lookups(&self) -> usize {
        2
    }

    /// Nothing is put into such a file: it is written whole.
    fn put(&self, _: &Path, _: &[(String, String)], _: &mut dyn FnMut(Put<'_>)) -> Result<(), Cause> {
        Ok(())
    }
}
