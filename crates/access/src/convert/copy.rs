//! Copies syncs from a source to a sink, whatever their formats.

use std::ops::ControlFlow;

use crate::graph::{GrantRef, GraphSink, GraphSource, Sync};

/// Why a copy failed: on which side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError<R: std::error::Error + 'static, W: std::error::Error + 'static> {
    /// The source could not be read.
    #[error("reading failed: {0}")]
    Read(#[source] R),
    /// The sink did not take a row.
    #[error("writing failed: {0}")]
    Write(#[source] W),
}

/// How many rows were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Syncs.
    pub syncs: u64,
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
}

/// Copies `syncs` with all their rows. What the sink cannot hold is in its [`losses`](GraphSink::losses).
///
/// # Errors
///
/// The first error of either side; rows that were copied before it are in the sink.
///
/// ```
/// use duramen_access::c1z::{C1z1, C1z1Writer, C1z3, C1z3Writer, ReadOptions, WriteOptions};
/// use duramen_access::convert::copy;
/// use duramen_access::graph::{GraphSink, GraphSource, ResourceType, Sync};
///
/// # let dir = tempfile::tempdir()?;
/// let (old, new) = (dir.path().join("old.c1z"), dir.path().join("new.c1z"));
/// let mut writer = C1z1Writer::create(&old, &WriteOptions::default())?;
/// writer.begin_sync(&Sync { id: "2aGyRUbxAdE4MTzLqMxgsT1HNjq".to_owned(), ..Sync::default() })?;
/// writer.put_resource_type(&ResourceType { id: "user".to_owned(), ..ResourceType::default() })?;
/// writer.end_sync()?;
/// writer.finish()?;
///
/// let source = C1z1::open(&old, &ReadOptions::default())?;
/// let mut sink = C1z3Writer::create(&new, &WriteOptions::default())?;
/// let copied = copy(&source, &mut sink, &source.syncs()?)?;
/// sink.finish()?;
/// assert_eq!((copied.syncs, copied.resource_types), (1, 1));
/// assert_eq!(C1z3::open(&new, &ReadOptions::default())?.syncs()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn copy<S: GraphSource, T: GraphSink>(
    source: &S,
    sink: &mut T,
    syncs: &[Sync],
) -> Result<Copied, CopyError<S::Error, T::Error>> {
    let mut copied = Copied::default();
    for sync in syncs {
        let id = sync.id.as_str();
        sink.begin_sync(sync).map_err(CopyError::Write)?;
        copied.syncs += 1;
        rows(
            &mut copied.resource_types,
            |visit| source.for_each_resource_type(id, visit),
            |row| sink.put_resource_type(&row),
        )?;
        rows(
            &mut copied.resources,
            |visit| source.for_each_resource(id, visit),
            |row| sink.put_resource(&row),
        )?;
        rows(
            &mut copied.entitlements,
            |visit| source.for_each_entitlement(id, visit),
            |row| sink.put_entitlement(&row),
        )?;
        grants(&mut copied.grants, source, sink, id)?;
        rows(&mut copied.assets, |visit| source.for_each_asset(id, visit), |row| sink.put_asset(&row))?;
        sink.end_sync().map_err(CopyError::Write)?;
    }
    Ok(copied)
}

/// Copies the grants, which are many, without making values of them.
fn grants<S: GraphSource, T: GraphSink>(
    count: &mut u64,
    source: &S,
    sink: &mut T,
    sync: &str,
) -> Result<(), CopyError<S::Error, T::Error>> {
    let mut failed = None;
    let done = source.for_each_grant_ref(sync, &mut |row: GrantRef<'_>| match sink.put_grant(&row) {
        Ok(()) => {
            *count += 1;
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    outcome(failed, done)
}

/// Copies the rows of one kind.
fn rows<Row, R: std::error::Error + 'static, W: std::error::Error + 'static>(
    count: &mut u64,
    read: impl FnOnce(&mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), R>,
    mut write: impl FnMut(Row) -> Result<(), W>,
) -> Result<(), CopyError<R, W>> {
    let mut failed = None;
    let done = read(&mut |row| match write(row) {
        Ok(()) => {
            *count += 1;
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    outcome(failed, done)
}

/// A sink that failed has stopped the source, which knows of no error.
fn outcome<R: std::error::Error + 'static, W: std::error::Error + 'static>(
    failed: Option<W>,
    done: Result<(), R>,
) -> Result<(), CopyError<R, W>> {
    match failed {
        Some(error) => Err(CopyError::Write(error)),
        None => done.map_err(CopyError::Read),
    }
}
