//! A graph in a file of any format: what the file is, its bytes say.

use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::c1z::{C1z1, C1z3, C1zError, ReadOptions, Version};
use crate::graph::{
    Asset, Entitlement, EntitlementScope, Grant, GrantRef, GrantScope, GraphError, GraphPack, GraphSource,
    Loss, PageRequest, Resource, ResourceId, ResourceScope, ResourceType, Sync, Visit,
};
use duramen_pack::container::is_url;

/// What can go wrong with a file of any format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// With a pack.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// With a `.c1z` file.
    #[error(transparent)]
    C1z(#[from] C1zError),
    /// With a table in a Parquet file.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Table(#[from] crate::rows::TableError),
    /// The sync that was asked for is not in the file.
    #[error("{} has no sync {sync:?}; {}", file.display(), holds(known))]
    NoSuchSync {
        /// The file.
        file: PathBuf,
        /// The id that was asked for.
        sync: String,
        /// The ids that there are.
        known: Vec<String>,
    },
    /// There is nothing to read.
    #[error("{} holds no sync: there is nothing to read", file.display())]
    NoSync {
        /// The file.
        file: PathBuf,
    },
}

fn holds(syncs: &[String]) -> String {
    match syncs {
        [] => "it holds none".to_owned(),
        syncs => format!("it holds {}", syncs.join(", ")),
    }
}

/// A file with a graph, open for reading.
///
/// ```
/// use duramen_access::c1z::ReadOptions;
/// use duramen_access::file::GraphFile;
/// use duramen_access::graph::{GraphStore, SyncKind};
///
/// # let dir = tempfile::tempdir()?;
/// let path = dir.path().join("access.dpack");
/// let mut store = GraphStore::open(&path)?;
/// let sync = store.start_sync(SyncKind::Full, None)?;
/// store.end_sync()?;
///
/// let file = GraphFile::open(&path, &ReadOptions::default())?;
/// assert_eq!(file.sync(None)?.id, sync);
/// assert!(file.sync(Some("another")).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GraphFile {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Pack(GraphPack),
    C1z1(Box<C1z1>),
    C1z3(Box<C1z3>),
}

/// Does the same with a file of any kind.
macro_rules! with {
    ($kind:expr, $source:ident => $does:expr) => {
        match $kind {
            Kind::Pack($source) => $does.map_err(FileError::from),
            Kind::C1z1($source) => $does.map_err(FileError::from),
            Kind::C1z3($source) => $does.map_err(FileError::from),
        }
    };
}

impl GraphFile {
    /// Opens a pack of a graph, or a `.c1z` file of either version, whatever its name; with the feature `remote` also the
    /// pack at a URL.
    ///
    /// # Errors
    /// When it cannot be read, is none of these, or is damaged where opening looks.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<GraphFile, FileError> {
        let kind = match is_pack(path)? {
            true => Kind::Pack(GraphPack::open(path)?),
            false => match Version::detect(path)? {
                Version::V1 => Kind::C1z1(Box::new(C1z1::open(path, options)?)),
                Version::V3 => Kind::C1z3(Box::new(C1z3::open(path, options)?)),
            },
        };
        Ok(GraphFile { path: path.to_owned(), kind })
    }

    /// The file as a pack, whose indexes answer questions about parts of it.
    pub fn pack(&self) -> Option<&GraphPack> {
        match &self.kind {
            Kind::Pack(pack) => Some(pack),
            _ => None,
        }
    }

    /// The file as a version 1 file.
    pub fn c1z1(&self) -> Option<&C1z1> {
        match &self.kind {
            Kind::C1z1(file) => Some(file),
            _ => None,
        }
    }

    /// The file as a version 3 file.
    pub fn c1z3(&self) -> Option<&C1z3> {
        match &self.kind {
            Kind::C1z3(file) => Some(file),
            _ => None,
        }
    }

    /// What the file holds that is not a row of a graph.
    pub fn left_out(&self) -> &[Loss] {
        match &self.kind {
            Kind::Pack(_) => &[],
            Kind::C1z1(file) => file.left_out(),
            Kind::C1z3(file) => file.left_out(),
        }
    }

    /// Visits the grants of a part of a sync. A pack and a version 3 file find them by their indexes; of a version 1 file
    /// all are read.
    ///
    /// # Errors
    /// When there is no such sync, or the file cannot be read or is damaged where it is read.
    pub fn for_each_grant_of(
        &self,
        sync: &str,
        scope: GrantScope<'_>,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), FileError> {
        match &self.kind {
            Kind::Pack(pack) => {
                let view = pack.view(Some(sync))?;
                Ok(view.for_each_grant(scope, &mut |row| visit(GrantRef::from(&row)))?)
            }
            Kind::C1z3(file) => Ok(file.for_each_grant_of(sync, scope, visit)?),
            Kind::C1z1(file) => Ok(file.for_each_grant_ref(sync, &mut |row| {
                if scope.is_of(&row) {
                    visit(row)
                } else {
                    ControlFlow::Continue(())
                }
            })?),
        }
    }

    /// Visits the resources of a part of a sync; see [`GraphFile::for_each_grant_of`].
    ///
    /// # Errors
    /// When there is no such sync, or the file cannot be read or is damaged where it is read.
    pub fn for_each_resource_of(
        &self,
        sync: &str,
        scope: ResourceScope<'_>,
        visit: Visit<'_, Resource>,
    ) -> Result<(), FileError> {
        match &self.kind {
            Kind::Pack(pack) => {
                let view = pack.view(Some(sync))?;
                paged(visit, |token| {
                    let page = view.resources(scope, PageRequest { size: 0, token })?;
                    Ok((page.rows, page.next))
                })
            }
            Kind::C1z3(file) => Ok(file.for_each_resource_of(sync, scope, visit)?),
            Kind::C1z1(file) => Ok(file.for_each_resource(sync, &mut |row| {
                if scope.is_of(&row) {
                    visit(row)
                } else {
                    ControlFlow::Continue(())
                }
            })?),
        }
    }

    /// A resource by its id; none if there is none. See [`GraphFile::for_each_grant_of`].
    ///
    /// # Errors
    /// When there is no such sync, or the file cannot be read or is damaged where it is read.
    pub fn resource(&self, sync: &str, id: &ResourceId) -> Result<Option<Resource>, FileError> {
        match &self.kind {
            Kind::Pack(pack) => Ok(pack.view(Some(sync))?.resource(id)?),
            Kind::C1z3(file) => Ok(file.resource(sync, id)?),
            Kind::C1z1(file) => {
                let mut found = None;
                file.for_each_resource(sync, &mut |row| {
                    if row.id == *id {
                        found = Some(row);
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                })?;
                Ok(found)
            }
        }
    }

    /// Visits the entitlements of a part of a sync; see [`GraphFile::for_each_grant_of`].
    ///
    /// # Errors
    /// When there is no such sync, or the file cannot be read or is damaged where it is read.
    pub fn for_each_entitlement_of(
        &self,
        sync: &str,
        scope: EntitlementScope<'_>,
        visit: Visit<'_, Entitlement>,
    ) -> Result<(), FileError> {
        match &self.kind {
            Kind::Pack(pack) => {
                let view = pack.view(Some(sync))?;
                paged(visit, |token| {
                    let page = view.entitlements(scope, PageRequest { size: 0, token })?;
                    Ok((page.rows, page.next))
                })
            }
            Kind::C1z3(file) => Ok(file.for_each_entitlement_of(sync, scope, visit)?),
            Kind::C1z1(file) => Ok(file.for_each_entitlement(sync, &mut |row| {
                if scope.is_of(&row) {
                    visit(row)
                } else {
                    ControlFlow::Continue(())
                }
            })?),
        }
    }

    /// A sync of the file: that of an id, or the one that is [read by default](Sync::to_read).
    ///
    /// # Errors
    /// [`FileError::NoSuchSync`] when there is none of that id, [`FileError::NoSync`] when there is none at all; when the
    /// file cannot be read.
    pub fn sync(&self, id: Option<&str>) -> Result<Sync, FileError> {
        let syncs = self.syncs()?;
        let found = match id {
            Some(id) => syncs.iter().find(|sync| sync.id == id),
            None => Sync::to_read(&syncs),
        };
        match (found, id) {
            (Some(sync), _) => Ok(sync.clone()),
            (None, None) => Err(FileError::NoSync { file: self.path.clone() }),
            (None, Some(id)) => {
                let known = syncs.into_iter().map(|sync| sync.id).collect();
                Err(FileError::NoSuchSync { file: self.path.clone(), sync: id.to_owned(), known })
            }
        }
    }
}

impl GraphSource for GraphFile {
    type Error = FileError;

    fn syncs(&self) -> Result<Vec<Sync>, FileError> {
        match &self.kind {
            Kind::Pack(source) => Ok(source.syncs().cloned().collect()),
            Kind::C1z1(source) => Ok(source.syncs()?),
            Kind::C1z3(source) => Ok(source.syncs()?),
        }
    }
    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), FileError> {
        with!(&self.kind, source => source.for_each_resource_type(sync, visit))
    }
    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), FileError> {
        with!(&self.kind, source => source.for_each_resource(sync, visit))
    }
    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), FileError> {
        with!(&self.kind, source => source.for_each_entitlement(sync, visit))
    }
    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), FileError> {
        with!(&self.kind, source => source.for_each_grant(sync, visit))
    }
    fn for_each_grant_ref(
        &self,
        sync: &str,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), FileError> {
        with!(&self.kind, source => source.for_each_grant_ref(sync, visit))
    }
    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), FileError> {
        with!(&self.kind, source => source.for_each_asset(sync, visit))
    }
}

impl std::fmt::Debug for GraphFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Visits the rows of all pages, each of which `page` gives with the token of the next.
fn paged<Row>(
    visit: Visit<'_, Row>,
    page: impl Fn(Option<&str>) -> Result<(Vec<Row>, Option<String>), FileError>,
) -> Result<(), FileError> {
    let mut token: Option<String> = None;
    loop {
        let (rows, next) = page(token.as_deref())?;
        if rows.into_iter().try_for_each(&mut *visit).is_break() || next.is_none() {
            return Ok(());
        }
        token = next;
    }
}

/// Whether a file is neither of the versions of `.c1z`: what it is then, the reader of packs says.
fn is_pack(path: &Path) -> Result<bool, C1zError> {
    // Only packs are read by ranges.
    if is_url(path) {
        return Ok(true);
    }
    // Opening a pipe would block until somebody writes to it. Whatever is not a regular file is left to the detection of
    // versions, which reports it.
    let kind = std::fs::metadata(path).map_err(C1zError::io("opening", path))?;
    if !kind.is_file() && !kind.is_dir() {
        return Ok(false);
    }
    let mut head = Vec::new();
    let file = File::open(path).and_then(|file| file.take(4).read_to_end(&mut head));
    file.map_err(C1zError::io("reading", path))?;
    Ok(!head.starts_with(b"C1Z"))
}
