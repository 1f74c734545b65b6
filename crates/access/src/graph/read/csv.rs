//! Rows as CSV, for spreadsheets and scripts.

use std::io::Write;
use std::ops::ControlFlow;

use super::view::{GrantScope, SyncView};
use crate::graph::error::{io_error, GraphError};
use crate::graph::model::{ResourceId, Timestamp};

/// Which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvTable {
    /// Resource types.
    ResourceTypes,
    /// Resources.
    Resources,
    /// Entitlements.
    Entitlements,
    /// Grants.
    Grants,
}

impl CsvTable {
    /// All tables.
    pub const ALL: [CsvTable; 4] =
        [CsvTable::ResourceTypes, CsvTable::Resources, CsvTable::Entitlements, CsvTable::Grants];

    /// The name, such as `grants`.
    pub fn name(self) -> &'static str {
        match self {
            CsvTable::ResourceTypes => "resource_types",
            CsvTable::Resources => "resources",
            CsvTable::Entitlements => "entitlements",
            CsvTable::Grants => "grants",
        }
    }
}

/// A time as RFC 3339 in UTC; empty if there is none, seconds if it is beyond the calendar.
fn time(time: Option<Timestamp>) -> String {
    let Some(time) = time else { return String::new() };
    match jiff::Timestamp::new(time.seconds, time.nanos) {
        Ok(known) => known.to_string(),
        Err(_) => time.seconds.to_string(),
    }
}

fn parent(parent: Option<&ResourceId>) -> [&str; 2] {
    parent.map_or(["", ""], |parent| [&parent.resource_type, &parent.resource])
}

/// Writes the rows of one kind as CSV with a header, by RFC 4180 with LF, and says how many there were. Annotations and
/// other encoded fields are left out.
///
/// ```
/// use duramen_access::graph::{write_csv, CsvTable, GraphStore, ResourceType, SyncKind};
///
/// # let dir = tempfile::tempdir()?;
/// let mut store = GraphStore::open(dir.path().join("access.dpack"))?;
/// store.start_sync(SyncKind::Full, None)?;
/// let user = ResourceType { id: "user".into(), display_name: "User, human".into(), ..ResourceType::default() };
/// store.put_resource_types([&user])?;
/// let mut text = Vec::new();
/// write_csv(&store.view(None)?, CsvTable::ResourceTypes, &mut text)?;
/// let text = String::from_utf8(text)?;
/// assert_eq!(text.lines().nth(1), Some("user,\"User, human\",,,false,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the sync cannot be read, or `out` cannot be written.
pub fn write_csv(view: &SyncView, table: CsvTable, out: impl Write) -> Result<u64, GraphError> {
    write_csv_rows(view, table, u64::MAX, out)
}

/// As [`write_csv`], with the first `limit` rows.
///
/// # Errors
/// As there.
pub fn write_csv_rows(
    view: &SyncView,
    table: CsvTable,
    limit: u64,
    out: impl Write,
) -> Result<u64, GraphError> {
    let mut csv = csv::Writer::from_writer(out);
    let mut rows = 0;
    let mut failed: Option<csv::Error> = None;
    // Rows come as long as there is room for them.
    let mut write = |out: &mut csv::Writer<_>, row: &[&str]| {
        if rows == limit {
            return ControlFlow::Break(());
        }
        rows += 1;
        match out.write_record(row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    match table {
        CsvTable::ResourceTypes => {
            csv.write_record([
                "id",
                "display_name",
                "description",
                "traits",
                "sourced_externally",
                "discovered_at",
            ])?;
            view.for_each_resource_type(&mut |row| {
                let name = |each: &crate::graph::model::Trait| {
                    each.name().map_or_else(|| each.number().to_string(), str::to_owned)
                };
                let traits: Vec<String> = row.traits.iter().map(name).collect();
                let external = row.sourced_externally.to_string();
                let (traits, seen) = (traits.join(" "), time(row.discovered_at));
                write(&mut csv, &[&row.id, &row.display_name, &row.description, &traits, &external, &seen])
            })?;
        }
        CsvTable::Resources => {
            csv.write_record([
                "resource_type",
                "resource",
                "parent_type",
                "parent",
                "display_name",
                "description",
                "created_at",
                "discovered_at",
            ])?;
            view.for_each_resource(&mut |row| {
                let [kind, name] = parent(row.parent.as_ref());
                let (created, seen) = (time(row.created_at), time(row.discovered_at));
                write(
                    &mut csv,
                    &[
                        &row.id.resource_type,
                        &row.id.resource,
                        kind,
                        name,
                        &row.display_name,
                        &row.description,
                        &created,
                        &seen,
                    ],
                )
            })?;
        }
        CsvTable::Entitlements => {
            csv.write_record([
                "id",
                "resource_type",
                "resource",
                "display_name",
                "description",
                "slug",
                "purpose",
                "grantable_to",
                "discovered_at",
            ])?;
            view.for_each_entitlement(&mut |row| {
                let purpose =
                    row.purpose.name().map_or_else(|| row.purpose.number().to_string(), str::to_owned);
                let (to, seen) = (row.grantable_to.join(" "), time(row.discovered_at));
                write(
                    &mut csv,
                    &[
                        &row.id,
                        &row.resource.resource_type,
                        &row.resource.resource,
                        &row.display_name,
                        &row.description,
                        &row.slug,
                        &purpose,
                        &to,
                        &seen,
                    ],
                )
            })?;
        }
        CsvTable::Grants => {
            csv.write_record([
                "id",
                "entitlement",
                "resource_type",
                "resource",
                "principal_type",
                "principal",
                "discovered_at",
            ])?;
            view.for_each_grant_page(GrantScope::All, |page| {
                for row in page.iter() {
                    let seen = time(row.discovered_at());
                    let row = [
                        row.id(),
                        row.entitlement(),
                        row.resource_type(),
                        row.resource(),
                        row.principal_type(),
                        row.principal(),
                        &seen,
                    ];
                    write(&mut csv, &row)?;
                }
                ControlFlow::Continue(())
            })?;
        }
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    csv.flush().map_err(io_error("write CSV to", "the output".as_ref()))?;
    Ok(rows)
}
