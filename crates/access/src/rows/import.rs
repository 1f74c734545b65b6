//! Tables in Parquet files, as [`export_parquet`](super::export_parquet) or a tool of the user's wrote them, made into a graph.
//!
//! The columns are found by their names, in any order; those that not every row needs may be missing, and cells of them null.
//! What a file says of itself is not believed before it was held against a limit.

mod columns;
mod error;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use duramen_base::clock;

pub use self::error::TableError;

use self::columns::{Batch, Of, TableFile};
use super::Table;
use crate::check::check;
use crate::convert::{write_file, ConvertError, Copied, Format};
use crate::expand::ExpandError;
use crate::file::FileError;
use crate::graph::{
    new_sync_id, Asset, Entitlement, EntitlementRef, Expansion, Grant, GraphSource, Loss, PrincipalRef,
    Purpose, Resource, ResourceId, ResourceType, Sync, SyncKind, Timestamp, Trait, Visit,
};

/// Why a folder was not imported. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A table cannot be read, or the file not be written.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// There are too many grants to look at them.
    #[error("{0}")]
    TooLarge(String),
}

impl From<TableError> for ImportError {
    fn from(error: TableError) -> ImportError {
        ConvertError::Read(error.into()).into()
    }
}

/// What was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The sync that the file holds: a full one, which ended now.
    pub sync: Sync,
    /// How many rows it has.
    pub copied: Copied,
    /// What is in the tables and not in the file.
    pub losses: Vec<Loss>,
    /// What does not fit together in the tables, such as grants of entitlements that are not there.
    pub findings: Vec<Loss>,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Makes a file of the tables in a folder: `resource_types.parquet`, `resources.parquet`, `entitlements.parquet` and
/// `grants.parquet`. Tables that follow from these are not read. The file is written on the terms of a
/// [conversion](crate::convert::Conversion): completely or not at all, and never over a pack.
///
/// ```
/// use duramen_access::c1z::ReadOptions;
/// use duramen_access::convert::Format;
/// use duramen_access::file::GraphFile;
/// use duramen_access::graph::{GraphStore, ResourceType, SyncKind};
/// use duramen_access::rows::{export_parquet, import_parquet};
///
/// # let dir = tempfile::tempdir()?;
/// let (path, tables) = (dir.path().join("access.dpack"), dir.path().join("tables"));
/// let mut store = GraphStore::open(&path)?;
/// store.start_sync(SyncKind::Full, None)?;
/// store.put_resource_types([&ResourceType { id: "user".to_owned(), ..ResourceType::default() }])?;
/// store.end_sync()?;
/// let file = GraphFile::open(&path, &ReadOptions::default())?;
/// export_parquet(&file, &file.sync(None)?, &tables)?;
///
/// let imported = import_parquet(&tables, &dir.path().join("again.c1z"), Format::C1z3)?;
/// assert_eq!(imported.copied.resource_types, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When a table or a column is missing, of another type, damaged, or beyond a limit; when the file cannot be written.
pub fn import_parquet(folder: &Path, to: &Path, format: Format) -> Result<Imported, ImportError> {
    let tables = Tables::open(folder)?;
    let findings = check(&tables, &tables.sync.id).map_err(|error| match error {
        ExpandError::Read(error) => ConvertError::Read(error).into(),
        ExpandError::TooLarge => ImportError::TooLarge(error.to_string()),
    })?;
    let (copied, mut losses) = write_file(&tables, to, format, None, std::slice::from_ref(&tables.sync))?;
    losses.extend(tables.unknown_columns());
    let file = std::fs::metadata(to).map_err(ConvertError::io("look at", to))?;
    Ok(Imported { sync: tables.sync, copied, losses, findings, file_bytes: file.len() })
}

/// A folder of tables as a source of rows.
struct Tables {
    folder: PathBuf,
    resource_types: TableFile,
    resources: TableFile,
    entitlements: TableFile,
    grants: TableFile,
    sync: Sync,
}

impl Tables {
    fn open(folder: &Path) -> Result<Tables, TableError> {
        let now = clock::utc_now();
        let now = Timestamp { seconds: now.as_second(), nanos: now.subsec_nanosecond() };
        let of_grants = ["entitlement", "resource_type", "resource", "principal_type", "principal"];
        Ok(Tables {
            folder: folder.to_owned(),
            resource_types: TableFile::open(folder, Table::ResourceTypes, &["id"])?,
            resources: TableFile::open(folder, Table::Resources, &["resource_type", "resource"])?,
            entitlements: TableFile::open(folder, Table::Entitlements, &["id", "resource_type", "resource"])?,
            grants: TableFile::open(folder, Table::Grants, &of_grants)?,
            sync: Sync {
                id: new_sync_id(),
                kind: SyncKind::Full,
                started_at: now,
                ended_at: Some(now),
                ..Sync::default()
            },
        })
    }

    /// Columns that mean nothing here.
    fn unknown_columns(&self) -> impl Iterator<Item = Loss> + '_ {
        let tables = [&self.resource_types, &self.resources, &self.entitlements, &self.grants];
        tables.into_iter().flat_map(|file| {
            let row = match file.table {
                Table::ResourceTypes => "resource type",
                Table::Resources => "resource",
                Table::Entitlements => "entitlement",
                _ => "grant",
            };
            file.unknown.iter().map(move |column| Loss {
                row,
                what: "a column that the table does not have".to_owned(),
                rows: file.rows(),
                example: column.clone(),
            })
        })
    }

    fn known(&self, sync: &str) -> Result<(), FileError> {
        match sync == self.sync.id {
            true => Ok(()),
            false => Err(FileError::NoSuchSync {
                file: self.folder.clone(),
                sync: sync.to_owned(),
                known: vec![self.sync.id.clone()],
            }),
        }
    }
}

/// Calls `visit` with each row of a table. `reader` looks up the columns of a batch, and says how a row is read from them.
fn rows<Row>(
    file: &TableFile,
    visit: Visit<'_, Row>,
    read: impl Fn(&Batch<'_>, usize) -> Result<Row, TableError>,
) -> Result<(), FileError> {
    Ok(file.for_each_batch(&mut |batch| {
        for row in 0..batch.rows {
            if visit(read(batch, row)?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?)
}

impl GraphSource for Tables {
    type Error = FileError;

    fn syncs(&self) -> Result<Vec<Sync>, FileError> {
        Ok(vec![self.sync.clone()])
    }

    fn for_each_resource_type(&self, sync: &str, visit: Visit<'_, ResourceType>) -> Result<(), FileError> {
        self.known(sync)?;
        rows(&self.resource_types, visit, resource_type)
    }

    fn for_each_resource(&self, sync: &str, visit: Visit<'_, Resource>) -> Result<(), FileError> {
        self.known(sync)?;
        rows(&self.resources, visit, resource)
    }

    fn for_each_entitlement(&self, sync: &str, visit: Visit<'_, Entitlement>) -> Result<(), FileError> {
        self.known(sync)?;
        rows(&self.entitlements, visit, entitlement)
    }

    fn for_each_grant(&self, sync: &str, visit: Visit<'_, Grant>) -> Result<(), FileError> {
        self.known(sync)?;
        rows(&self.grants, visit, grant)
    }

    fn for_each_asset(&self, sync: &str, _: Visit<'_, Asset>) -> Result<(), FileError> {
        self.known(sync)
    }
}

fn resource_type(batch: &Batch<'_>, row: usize) -> Result<ResourceType, TableError> {
    let text = |name| batch.column(name).text(row).map(str::to_owned);
    let traits = batch.column("traits");
    let named = traits
        .texts(row)?
        .into_iter()
        .map(|name| named(&traits, row, name, Trait::from_name(name), Trait::from_number));
    Ok(ResourceType {
        id: batch.column("id").needed(row)?.to_owned(),
        display_name: text("display_name")?,
        description: text("description")?,
        traits: named.collect::<Result<_, _>>()?,
        sourced_externally: batch.column("sourced_externally").flag(row),
        discovered_at: batch.column("discovered_at").time(row),
        ..ResourceType::default()
    })
}

fn resource(batch: &Batch<'_>, row: usize) -> Result<Resource, TableError> {
    let text = |name| batch.column(name).text(row).map(str::to_owned);
    let parent = ResourceId::new(text("parent_type")?, text("parent")?);
    Ok(Resource {
        id: resource_id(batch, row, "resource_type", "resource")?,
        parent: (parent != ResourceId::default()).then_some(parent),
        display_name: text("display_name")?,
        description: text("description")?,
        created_at: batch.column("created_at").time(row),
        discovered_at: batch.column("discovered_at").time(row),
        ..Resource::default()
    })
}

fn entitlement(batch: &Batch<'_>, row: usize) -> Result<Entitlement, TableError> {
    let text = |name| batch.column(name).text(row).map(str::to_owned);
    let purpose = batch.column("purpose");
    Ok(Entitlement {
        id: batch.column("id").needed(row)?.to_owned(),
        resource: resource_id(batch, row, "resource_type", "resource")?,
        display_name: text("display_name")?,
        description: text("description")?,
        slug: text("slug")?,
        purpose: match purpose.text(row)? {
            "" => Purpose::default(),
            name => named(&purpose, row, name, Purpose::from_name(name), Purpose::from_number)?,
        },
        grantable_to: owned(batch.column("grantable_to").texts(row)?),
        discovered_at: batch.column("discovered_at").time(row),
        ..Entitlement::default()
    })
}

fn grant(batch: &Batch<'_>, row: usize) -> Result<Grant, TableError> {
    let entitlement = batch.column("entitlement").needed(row)?;
    let principal = resource_id(batch, row, "principal_type", "principal")?;
    let id = match batch.column("id").text(row)? {
        "" => format!("{entitlement}:{}:{}", principal.resource_type, principal.resource),
        id => id.to_owned(),
    };
    let direct = batch.column("direct_sources");
    let are_direct = direct.texts(row)?;
    let named = batch.column("sources").texts(row)?;
    if let Some(odd) = are_direct.iter().find(|id| !named.contains(id)) {
        return Err(direct.wrong(row, format!("names {odd:?}, which is not among the sources of the row")));
    }
    let mut sources: Vec<(String, bool)> =
        named.into_iter().map(|id| (id.to_owned(), are_direct.contains(&id))).collect();
    sources.sort();
    let expansion = Expansion {
        entitlement_ids: owned(batch.column("expands").texts(row)?),
        shallow: batch.column("shallow").flag(row),
        resource_type_ids: owned(batch.column("expands_types").texts(row)?),
    };
    Ok(Grant {
        id,
        entitlement: EntitlementRef {
            resource: resource_id(batch, row, "resource_type", "resource")?,
            id: entitlement.to_owned(),
        },
        principal: PrincipalRef { id: principal, parent: None },
        sources,
        expansion: (expansion != Expansion::default()).then_some(expansion),
        needs_expansion: batch.column("needs_expansion").flag(row),
        discovered_at: batch.column("discovered_at").time(row),
        ..Grant::default()
    })
}

fn resource_id(
    batch: &Batch<'_>,
    row: usize,
    kind: &'static str,
    name: &'static str,
) -> Result<ResourceId, TableError> {
    Ok(ResourceId::new(batch.column(kind).needed(row)?, batch.column(name).needed(row)?))
}

/// What has a name, or else is a number.
fn named<T>(
    column: &Of<'_>,
    row: usize,
    name: &str,
    known: Option<T>,
    numbered: impl Fn(i32) -> T,
) -> Result<T, TableError> {
    let number = || name.parse().ok().map(numbered);
    known
        .or_else(number)
        .ok_or_else(|| column.wrong(row, format!("has {name:?}, which is neither a known name nor a number")))
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}
