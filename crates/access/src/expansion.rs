//! What follows from the grants of a sync, written into its file: each derived grant as a row of its own, as the ecosystem's
//! expander leaves it.
//!
//! All that follows is found again, and only rows that are not there or say less than they should are made. With
//! [`Scope::Marked`] only entitlements are looked at to which grants lead that are marked as yet to be expanded, or entitlements that
//! the caller names; that is the same for a file that was expanded once and has got grants since. Marks are taken away. A file to
//! which nothing is to be added stays as it is, byte by byte; else the new file takes its place when it is complete.
//!
//! ```
//! use duramen_access::c1z::ReadOptions;
//! use duramen_access::expansion::{Expansion, Scope};
//! use duramen_access::graph::{self, *};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("access.dpack");
//! let mut store = GraphStore::open(&path)?;
//! store.start_sync(SyncKind::Full, None)?;
//! let (member, admin) = (("group", "staff", "group:staff:member"), ("app", "github", "app:github:admin"));
//! for (kind, name, id) in [member, admin] {
//!     let resource = ResourceId::new(kind, name);
//!     store.put_entitlements([&Entitlement { id: id.to_owned(), resource, ..Entitlement::default() }])?;
//! }
//! for ((kind, name, id), holder, expands) in [(member, ("user", "ada"), None), (admin, ("group", "staff"), Some(member.2))] {
//!     let mut grant = Grant { id: format!("{id}:{}:{}", holder.0, holder.1), ..Grant::default() };
//!     grant.entitlement = EntitlementRef { resource: ResourceId::new(kind, name), id: id.to_owned() };
//!     grant.principal.id = ResourceId::new(holder.0, holder.1);
//!     grant.expansion = expands
//!         .map(|id| graph::Expansion { entitlement_ids: vec![id.to_owned()], ..graph::Expansion::default() });
//!     grant.needs_expansion = expands.is_some();
//!     store.put_grants([&grant])?;
//! }
//! store.end_sync()?;
//! store.close()?;
//!
//! let expansion = Expansion { file: path, sync: None, scope: Scope::All, read: ReadOptions::default() };
//! let expanded = expansion.run()?;
//! assert_eq!((expanded.derived, expanded.unmarked), (1, 1)); // ada is an administrator
//! assert!(!expansion.run()?.is_written);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_128;

use crate::c1z::ReadOptions;
use crate::convert::{lock_pack, replace_file, ConvertError, Format};
use crate::expand::{Effective, EffectiveGrant, ExpandError, Origin, VisitGrant};
use crate::file::{FileError, GraphFile};
use crate::graph::format::key;
use crate::graph::{
    Any, Asset, Entitlement, EntitlementRef, Grant, GrantRef, GraphError, GraphSource, GraphStore, Loss,
    PrincipalRef, Resource, ResourceId, ResourceType, Sync, Timestamp, Visit,
};

/// How the ecosystem's tools know a grant that follows from others.
const IMMUTABLE: &str = "type.googleapis.com/c1.connector.v2.GrantImmutable";

/// Why nothing was expanded. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpansionError {
    /// The file could not be read, or not be written.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// There are too many grants.
    #[error("{0}")]
    TooLarge(String),
    /// A grant would have the id of another.
    #[error(
        "in {}, the grant that follows for {principal} of {entitlement} would have the id {id:?}, which another grant has: \
         give that one another id",
        file.display()
    )]
    SameId {
        /// The file.
        file: PathBuf,
        /// The id.
        id: String,
        /// What would be held.
        entitlement: String,
        /// Who would hold it.
        principal: String,
    },
}

impl From<FileError> for ExpansionError {
    fn from(error: FileError) -> Self {
        ConvertError::Read(error).into()
    }
}

impl From<GraphError> for ExpansionError {
    fn from(error: GraphError) -> Self {
        FileError::from(error).into()
    }
}

/// Which entitlements are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    All,
    /// Those to which grants lead that are marked as yet to be expanded, and those to which these lead on, or entitlements of the
    /// ids that are named here, because they have got plain grants since the sync was expanded.
    Marked(Vec<String>),
}

/// Which sync of which file is expanded.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The file: a pack of a graph, or a `.c1z` file of either version. It is replaced.
    pub file: PathBuf,
    /// The id of the sync. None: that which is [read by default](Sync::to_read). Other syncs stay as they are.
    pub sync: Option<String>,
    /// Which entitlements are looked at.
    pub scope: Scope,
    /// How a `.c1z` file is read. Its rows are always checked.
    pub read: ReadOptions,
}

/// What was expanded.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// The sync.
    pub sync: Sync,
    /// How many grants follow that were not there.
    pub derived: u64,
    /// How many grants that are there follow from more than they said.
    pub updated: u64,
    /// How many grants were marked as yet to be expanded.
    pub unmarked: u64,
    /// Whether the file was replaced.
    pub is_written: bool,
    /// What could not be expanded.
    pub left_out: Vec<Loss>,
    /// What the old file held and the new one does not.
    pub losses: Vec<Loss>,
}

/// The sources of a grant.
type Sources = Vec<(String, bool)>;

impl Expansion {
    /// Does it. Takes what [`Effective`] takes, and 20 bytes for each grant, recorded or derived; the sources of those that are
    /// updated beside that.
    ///
    /// # Errors
    /// When the file cannot be read or written, a sync of the pack goes on, or a derived grant would have the id of another one.
    pub fn run(&self) -> Result<Expanded, ExpansionError> {
        let options = ReadOptions { check_rows: true, ..self.read.clone() };
        let opened = GraphFile::open(&self.file, &options)?;
        let format = Format::of_file(&opened);
        let lock = (format == Format::Pack).then(|| lock_pack(&self.file)).transpose()?;
        let source = match &lock {
            // What is locked may be another file than that which was opened.
            Some(_) => GraphFile::open(&self.file, &options)?,
            None => opened,
        };
        if let Some(pack) = source.pack() {
            pack.verify(&mut |_, _| {})?;
        }
        let sync = source.sync(self.sync.as_deref())?;
        let effective = Effective::load(&source, &sync.id).map_err(|error| match error {
            ExpandError::Read(error) => ExpansionError::from(error),
            ExpandError::TooLarge => ExpansionError::TooLarge(error.to_string()),
        })?;
        let mut expanded = Expanded {
            sync,
            derived: 0,
            updated: 0,
            unmarked: 0,
            is_written: false,
            left_out: effective.left_out().to_vec(),
            losses: Vec::new(),
        };
        let updates = self.find(&source, &effective, &mut expanded)?;
        if expanded.derived + expanded.updated + expanded.unmarked > 0 {
            let recorded = Recorded {
                of: &source,
                sync: &expanded.sync.id,
                // In version 1 every row has a time.
                time: (format == Format::C1z1).then_some(expanded.sync.started_at),
                effective: &effective,
                scope: &self.scope,
                updates,
            };
            let (zone, syncs) = (self.read.zone.as_ref(), source.syncs()?);
            expanded.losses = replace_file(&recorded, &self.file, format, zone, &syncs)?.1;
            expanded.losses.extend(source.left_out().iter().cloned());
            expanded.is_written = true;
        }
        lock.map_or(Ok(()), GraphStore::close)?;
        Ok(expanded)
    }

    /// Counts what is to be done, and finds the grants that are there and need other sources.
    fn find(
        &self,
        source: &GraphFile,
        effective: &Effective,
        expanded: &mut Expanded,
    ) -> Result<HashMap<u128, Sources>, ExpansionError> {
        let mut ids = HashSet::new();
        source.for_each_grant_ref(&expanded.sync.id, &mut |row| {
            ids.insert(xxh3_128(row.id.as_bytes()));
            expanded.unmarked += u64::from(row.rest.is_some_and(|rest| rest.needs_expansion));
            ControlFlow::Continue(())
        })?;
        let (mut updates, mut same) = (HashMap::new(), None);
        self.scope.visit(effective, &mut |grant| {
            match grant.origin {
                Origin::Recorded => {}
                Origin::Updated => {
                    updates.insert(key_of(grant), sources(grant));
                    expanded.updated += 1;
                }
                Origin::Derived => {
                    if !ids.insert(xxh3_128(grant.id.as_bytes())) {
                        let holder = grant.principal;
                        same = Some(ExpansionError::SameId {
                            file: self.file.clone(),
                            id: grant.id.to_owned(),
                            entitlement: grant.entitlement.id.to_owned(),
                            principal: format!("{}:{}", holder.resource_type, holder.resource),
                        });
                        return ControlFlow::Break(());
                    }
                    expanded.derived += 1;
                }
            }
            ControlFlow::Continue(())
        });
        same.map_or(Ok(updates), Err)
    }
}

impl Scope {
    fn visit(&self, effective: &Effective, visit: VisitGrant<'_>) {
        match self {
            Scope::All => effective.for_each(visit),
            Scope::Marked(changed) => {
                let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
                effective.for_each_pending(&changed, visit);
            }
        }
    }
}

fn key_of(grant: &EffectiveGrant<'_>) -> u128 {
    let (of, holder) = (grant.entitlement, grant.principal);
    hash([grant.id, of.resource_type, of.resource, of.id, holder.resource_type, holder.resource])
}

fn key_of_row(row: &GrantRef<'_>) -> u128 {
    hash([row.id, row.resource_type, row.resource, row.entitlement, row.principal_type, row.principal])
}

fn hash(parts: [&str; 6]) -> u128 {
    let mut joined = Vec::new();
    key::join_into(&mut joined, &parts);
    xxh3_128(&joined)
}

fn sources(grant: &EffectiveGrant<'_>) -> Sources {
    grant.sources.iter().map(|source| (source.entitlement.to_owned(), source.is_direct)).collect()
}

/// A file with what follows from the grants of one sync.
struct Recorded<'a> {
    of: &'a GraphFile,
    sync: &'a str,
    /// When derived grants were discovered.
    time: Option<Timestamp>,
    effective: &'a Effective,
    scope: &'a Scope,
    updates: HashMap<u128, Sources>,
}

impl GraphSource for Recorded<'_> {
    type Error = FileError;

    fn syncs(&self) -> Result<Vec<Sync>, FileError> {
        self.of.syncs()
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), FileError> {
        self.of.for_each_resource_type(sync, visit)
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), FileError> {
        self.of.for_each_resource(sync, visit)
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), FileError> {
        self.of.for_each_entitlement(sync, visit)
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), FileError> {
        self.for_each_grant_ref(sync, &mut |row| visit(row.to_grant()))
    }

    fn for_each_grant_ref(
        &self,
        sync: &str,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), FileError> {
        if sync != self.sync {
            return self.of.for_each_grant_ref(sync, visit);
        }
        let mut stopped = false;
        self.of.for_each_grant_ref(sync, &mut |row| {
            let update = if self.updates.is_empty() { None } else { self.updates.get(&key_of_row(&row)) };
            let flow = if update.is_some() || row.rest.is_some_and(|rest| rest.needs_expansion) {
                let mut grant = row.to_grant();
                grant.needs_expansion = false;
                grant.sources = update.cloned().unwrap_or(grant.sources);
                visit(GrantRef::from(&grant))
            } else {
                visit(row)
            };
            stopped = flow.is_break();
            flow
        })?;
        if stopped {
            return Ok(());
        }
        self.scope.visit(self.effective, &mut |grant| match grant.origin {
            Origin::Derived => visit(GrantRef::from(&derived(grant, self.time))),
            Origin::Recorded | Origin::Updated => ControlFlow::Continue(()),
        });
        Ok(())
    }

    fn for_each_asset(&self, sync: &str, visit: Visit<'_, Asset>) -> Result<(), FileError> {
        self.of.for_each_asset(sync, visit)
    }
}

/// A grant that follows from others, as a row.
fn derived(grant: &EffectiveGrant<'_>, discovered_at: Option<Timestamp>) -> Grant {
    let (of, holder) = (grant.entitlement, grant.principal);
    Grant {
        id: grant.id.to_owned(),
        entitlement: EntitlementRef {
            resource: ResourceId::new(of.resource_type, of.resource),
            id: of.id.to_owned(),
        },
        principal: PrincipalRef { id: ResourceId::new(holder.resource_type, holder.resource), parent: None },
        annotations: vec![Any { type_url: IMMUTABLE.to_owned(), value: Vec::new() }],
        sources: sources(grant),
        discovered_at,
        ..Grant::default()
    }
}
