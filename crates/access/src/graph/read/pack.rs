//! A graph that is open for reading.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::view::{EntitlementScope, GrantScope, Page, PageRequest, ResourceScope, SyncView};
use crate::graph::error::GraphError;
use crate::graph::format::manifest::{Kept, Manifest};
use crate::graph::format::segment::Segment;
use crate::graph::format::stats::SyncStats;
use crate::graph::model::{Asset, Entitlement, Grant, Resource, ResourceType, Sync};
use crate::graph::model::{GraphSource, Visit};
use duramen_pack::container::{Kind, Pack, RangeRead};

/// A graph in a pack, open for reading by any number of threads. Clones are the same one.
///
/// Opening reads the two ends of the file and its manifest; a query reads the blocks that it needs.
///
/// ```
/// use duramen_access::graph::{Grant, GraphPack, GraphStore, GrantScope, PageRequest, ResourceId, SyncKind};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("access.dpack");
/// let mut store = GraphStore::open(&path)?;
/// store.start_sync(SyncKind::Full, None)?;
/// let mut grant = Grant::default();
/// grant.id = "repo:duramen:read:user:ada".to_owned();
/// grant.entitlement.id = "repo:duramen:read".to_owned();
/// grant.entitlement.resource = ResourceId::new("repo", "duramen");
/// grant.principal.id = ResourceId::new("user", "ada");
/// store.put_grants([&grant])?;
/// store.end_sync()?;
///
/// let graph = GraphPack::open(&path)?;
/// let view = graph.view(None)?;
/// let ada = ResourceId::new("user", "ada");
/// let page = view.grants(GrantScope::Principal(&ada), PageRequest::default())?;
/// assert_eq!(page.to_grants()?, [grant]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct GraphPack {
    inner: Arc<Inner>,
}

struct Inner {
    pack: Pack,
    manifest: Manifest,
    segments: Vec<OnceLock<Arc<Segment>>>,
}

impl std::fmt::Debug for GraphPack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphPack").field("pack", &self.inner.pack).finish_non_exhaustive()
    }
}

impl GraphPack {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read, is not a pack, holds no graph, or is damaged where opening looks.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GraphError> {
        Self::from_pack(Pack::open(path)?)
    }

    /// Opens a graph that lies anywhere. `name` is what messages call it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_source(source: Arc<dyn RangeRead>, name: &str) -> Result<Self, GraphError> {
        Self::from_pack(Pack::open_source(source, name)?)
    }

    /// The graph in an open pack.
    ///
    /// # Errors
    /// When the pack holds something else, or its manifest is damaged.
    pub fn from_pack(pack: Pack) -> Result<Self, GraphError> {
        let pack = pack.expect_kind(Kind::Graph)?;
        let manifest = Manifest::decode(&pack.manifest()?)?;
        let segments = manifest.syncs.iter().map(|_| OnceLock::new()).collect();
        Ok(GraphPack { inner: Arc::new(Inner { pack, manifest, segments }) })
    }

    /// The file.
    pub fn pack(&self) -> &Pack {
        &self.inner.pack
    }

    pub(crate) fn manifest(&self) -> &Manifest {
        &self.inner.manifest
    }

    /// All syncs of the file, in the order in which they were begun.
    pub fn syncs(&self) -> impl ExactSizeIterator<Item = &Sync> {
        self.inner.manifest.syncs.iter().map(|kept| &kept.sync)
    }

    /// The sync that is read when none is named: the latest finished full one; without one the latest that is not
    /// finished, else the latest of any kind.
    pub fn default_sync(&self) -> Option<&Sync> {
        self.inner.manifest.to_read().map(|kept| &kept.sync)
    }

    /// How much a sync holds, as counted when it was written.
    pub fn stats(&self, sync: &str) -> Option<&SyncStats> {
        self.inner.manifest.find(sync).map(|kept| &kept.stats)
    }

    /// One sync for reading: that of an id, or the [default](Self::default_sync).
    ///
    /// # Errors
    /// When there is no such sync, or its sections cannot be read.
    pub fn view(&self, sync: Option<&str>) -> Result<SyncView, GraphError> {
        let kept = match sync {
            Some(id) => {
                self.inner.manifest.find(id).ok_or_else(|| GraphError::NoSync { id: id.to_owned() })?
            }
            None => self.inner.manifest.to_read().ok_or(GraphError::NothingToRead)?,
        };
        Ok(SyncView {
            sync: kept.sync.clone(),
            stats: Some(kept.stats.clone()),
            segment: Some(self.segment(kept)?),
            overlay: None,
        })
    }

    pub(crate) fn segment(&self, kept: &Kept) -> Result<Arc<Segment>, GraphError> {
        let at = self.inner.manifest.syncs.iter().position(|each| each.number == kept.number);
        let slot = at.and_then(|at| self.inner.segments.get(at));
        if let Some(segment) = slot.and_then(OnceLock::get) {
            return Ok(segment.clone());
        }
        let segment = Arc::new(Segment::open(&self.inner.pack, kept.number, kept.ambiguous)?);
        Ok(match slot {
            Some(slot) => slot.get_or_init(|| segment).clone(),
            None => segment,
        })
    }
}

/// Visits the rows of a query page by page.
fn each<Row>(
    mut page: impl FnMut(PageRequest<'_>) -> Result<Page<Row>, GraphError>,
    visit: Visit<'_, Row>,
) -> Result<(), GraphError> {
    let mut token: Option<String> = None;
    loop {
        let Page { rows, next } = page(PageRequest { size: 0, token: token.as_deref() })?;
        for row in rows {
            if visit(row).is_break() {
                return Ok(());
            }
        }
        match next {
            Some(next) => token = Some(next),
            None => return Ok(()),
        }
    }
}

impl SyncView {
    /// Calls `visit` with every resource type.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged, as with the other kinds of rows.
    pub fn for_each_resource_type(&self, visit: Visit<'_, ResourceType>) -> Result<(), GraphError> {
        each(|page| self.resource_types(page), visit)
    }

    /// Calls `visit` with every resource.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn for_each_resource(&self, visit: Visit<'_, Resource>) -> Result<(), GraphError> {
        each(|page| self.resources(ResourceScope::All, page), visit)
    }

    /// Calls `visit` with every entitlement.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn for_each_entitlement(&self, visit: Visit<'_, Entitlement>) -> Result<(), GraphError> {
        each(|page| self.entitlements(EntitlementScope::All, page), visit)
    }

    /// Calls `visit` with every grant of a scope.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn for_each_grant(&self, scope: GrantScope<'_>, visit: Visit<'_, Grant>) -> Result<(), GraphError> {
        let mut failed = None;
        self.for_each_grant_page(scope, |page| {
            for view in page.iter() {
                match view.to_grant() {
                    Ok(grant) => visit(grant)?,
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Calls `visit` with every asset.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn for_each_asset(&self, visit: Visit<'_, Asset>) -> Result<(), GraphError> {
        each(|page| self.assets(page), visit)
    }

    /// The grants of a scope one after another. They are read a page at a time.
    pub fn iter_grants<'a>(
        &'a self,
        scope: GrantScope<'a>,
    ) -> impl Iterator<Item = Result<Grant, GraphError>> + 'a {
        let mut token: Option<String> = None;
        let mut done = false;
        std::iter::from_fn(move || {
            if done {
                return None;
            }
            let page = self.grants(scope, PageRequest { size: 0, token: token.as_deref() });
            let grants = page.and_then(|page| {
                token = page.next_token().map(str::to_owned);
                page.to_grants()
            });
            done = token.is_none() || grants.is_err();
            Some(match grants {
                Ok(grants) => grants.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            })
        })
        .flatten()
    }
}

impl GraphSource for GraphPack {
    type Error = GraphError;

    fn syncs(&self) -> Result<Vec<Sync>, GraphError> {
        Ok(GraphPack::syncs(self).cloned().collect())
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), GraphError> {
        self.view(Some(sync))?.for_each_resource_type(visit)
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), GraphError> {
        self.view(Some(sync))?.for_each_resource(visit)
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), GraphError> {
        self.view(Some(sync))?.for_each_entitlement(visit)
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), GraphError> {
        self.view(Some(sync))?.for_each_grant(GrantScope::All, visit)
    }

    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), GraphError> {
        self.view(Some(sync))?.for_each_asset(visit)
    }
}
