//! Tables, their columns, and which of their rows are meant.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::cells::{Cell, Kind};
use crate::expand::{Effective, ExpandError, Origin};
use crate::file::{FileError, GraphFile};
use crate::graph::{
    Entitlement, EntitlementScope, GrantRef, GrantScope, GraphError, GraphSource, Resource, ResourceId,
    ResourceScope, ResourceType, Sync,
};

/// A kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Resource types.
    ResourceTypes,
    /// Resources.
    Resources,
    /// Entitlements.
    Entitlements,
    /// Grants of the sync.
    Grants,
    /// Grants of the sync and those that follow from them.
    EffectiveGrants,
    /// Whoever has a grant of the sync, with how many.
    Principals,
}

const RESOURCE_TYPES: [(&str, Kind); 6] = [
    ("id", Kind::Text),
    ("display_name", Kind::Text),
    ("description", Kind::Text),
    ("traits", Kind::Texts),
    ("sourced_externally", Kind::Flag),
    ("discovered_at", Kind::Time),
];
const RESOURCES: [(&str, Kind); 8] = [
    ("resource_type", Kind::Text),
    ("resource", Kind::Text),
    ("parent_type", Kind::Text),
    ("parent", Kind::Text),
    ("display_name", Kind::Text),
    ("description", Kind::Text),
    ("created_at", Kind::Time),
    ("discovered_at", Kind::Time),
];
const ENTITLEMENTS: [(&str, Kind); 9] = [
    ("id", Kind::Text),
    ("resource_type", Kind::Text),
    ("resource", Kind::Text),
    ("display_name", Kind::Text),
    ("description", Kind::Text),
    ("slug", Kind::Text),
    ("purpose", Kind::Text),
    ("grantable_to", Kind::Texts),
    ("discovered_at", Kind::Time),
];
const GRANTS: [(&str, Kind); 13] = [
    ("id", Kind::Text),
    ("entitlement", Kind::Text),
    ("resource_type", Kind::Text),
    ("resource", Kind::Text),
    ("principal_type", Kind::Text),
    ("principal", Kind::Text),
    ("sources", Kind::Texts),
    ("direct_sources", Kind::Texts),
    ("expands", Kind::Texts),
    ("expands_types", Kind::Texts),
    ("shallow", Kind::Flag),
    ("needs_expansion", Kind::Flag),
    ("discovered_at", Kind::Time),
];
const EFFECTIVE_GRANTS: [(&str, Kind); 9] = [
    ("id", Kind::Text),
    ("entitlement", Kind::Text),
    ("resource_type", Kind::Text),
    ("resource", Kind::Text),
    ("principal_type", Kind::Text),
    ("principal", Kind::Text),
    ("direct", Kind::Flag),
    ("derived", Kind::Flag),
    ("sources", Kind::Texts),
];
const PRINCIPALS: [(&str, Kind); 3] =
    [("resource_type", Kind::Text), ("resource", Kind::Text), ("grants", Kind::Count)];

impl Table {
    /// All tables.
    pub const ALL: [Table; 6] = [
        Table::ResourceTypes,
        Table::Resources,
        Table::Entitlements,
        Table::Grants,
        Table::EffectiveGrants,
        Table::Principals,
    ];

    /// The name, such as `effective_grants`.
    pub fn name(self) -> &'static str {
        match self {
            Table::ResourceTypes => "resource_types",
            Table::Resources => "resources",
            Table::Entitlements => "entitlements",
            Table::Grants => "grants",
            Table::EffectiveGrants => "effective_grants",
            Table::Principals => "principals",
        }
    }

    /// The names of the columns, and what their cells are.
    pub fn columns(self) -> &'static [(&'static str, Kind)] {
        match self {
            Table::ResourceTypes => &RESOURCE_TYPES,
            Table::Resources => &RESOURCES,
            Table::Entitlements => &ENTITLEMENTS,
            Table::Grants => &GRANTS,
            Table::EffectiveGrants => &EFFECTIVE_GRANTS,
            Table::Principals => &PRINCIPALS,
        }
    }
}

/// Which rows are meant: those for which all that is said holds. What a table has no column for means nothing for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Grants of the entitlements that have this id, and their principals; the entitlements themselves.
    pub entitlement: Option<String>,
    /// Grants of entitlements of this resource; its entitlements; the resource itself.
    pub resource: Option<ResourceId>,
    /// The same of all resources of this type.
    pub resource_type: Option<String>,
    /// Grants of this principal; the principal itself.
    pub principal: Option<ResourceId>,
    /// The same of all principals of this type.
    pub principal_type: Option<String>,
    /// Resources that lie in this one.
    pub parent: Option<ResourceId>,
}

impl Filter {
    fn is_of_resource(&self, resource_type: &str, resource: &str) -> bool {
        is_one(&self.resource, resource_type, resource)
            && self.resource_type.as_deref().is_none_or(|wanted| wanted == resource_type)
    }

    fn is_of_principal(&self, principal_type: &str, principal: &str) -> bool {
        is_one(&self.principal, principal_type, principal)
            && self.principal_type.as_deref().is_none_or(|wanted| wanted == principal_type)
    }

    fn is_of_entitlement(&self, id: &str) -> bool {
        self.entitlement.as_deref().is_none_or(|wanted| wanted == id)
    }

    /// The index by which a file finds the fewest grants.
    fn scope(&self) -> GrantScope<'_> {
        match self {
            Filter { principal: Some(id), .. } => GrantScope::Principal(id),
            Filter { entitlement: Some(id), .. } => GrantScope::Entitlement(id),
            Filter { resource: Some(id), .. } => GrantScope::Resource(id),
            Filter { resource_type: Some(id), .. } => GrantScope::ResourceType(id),
            _ => GrantScope::All,
        }
    }
}

fn is_one(wanted: &Option<ResourceId>, resource_type: &str, resource: &str) -> bool {
    wanted.as_ref().is_none_or(|id| id.resource_type == resource_type && id.resource == resource)
}

/// Why rows were not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// There are too many grants.
    #[error("{0}")]
    TooLarge(String),
    /// What they are written to takes no more.
    #[error("cannot write rows: {0}")]
    Write(#[from] std::io::Error),
}

impl From<GraphError> for RowsError {
    fn from(error: GraphError) -> RowsError {
        RowsError::File(error.into())
    }
}

/// What takes the rows of a table: a cell for each column.
type VisitRow<'a> = &'a mut dyn FnMut(&[Cell<'_>]) -> ControlFlow<()>;

/// Calls `visit` with each row that is meant, in an order of the file's own.
///
/// # Errors
/// When the file cannot be read.
pub fn for_each_row(
    file: &GraphFile,
    sync: &Sync,
    (table, filter): (Table, &Filter),
    visit: VisitRow<'_>,
) -> Result<(), RowsError> {
    match table {
        Table::ResourceTypes => {
            Ok(file.for_each_resource_type(&sync.id, &mut |row| resource_type(&row, visit))?)
        }
        Table::Resources => resources(file, sync, filter, visit),
        Table::Entitlements => entitlements(file, sync, filter, visit),
        Table::Grants => grants(file, sync, filter, &mut |row| grant(row, visit)),
        Table::EffectiveGrants => effective(file, sync, filter, visit),
        Table::Principals => principals(file, sync, filter, visit),
    }
}

fn resource_type(row: &ResourceType, visit: VisitRow<'_>) -> ControlFlow<()> {
    let numbers: Vec<String> = row.traits.iter().map(|each| each.number().to_string()).collect();
    let traits =
        row.traits.iter().zip(&numbers).map(|(each, number)| each.name().unwrap_or(number)).collect();
    visit(&[
        Cell::Text(&row.id),
        Cell::Text(&row.display_name),
        Cell::Text(&row.description),
        Cell::Texts(traits),
        Cell::Flag(row.sourced_externally),
        Cell::Time(row.discovered_at),
    ])
}

fn resources(file: &GraphFile, sync: &Sync, filter: &Filter, visit: VisitRow<'_>) -> Result<(), RowsError> {
    let mut one = |row: &Resource| {
        let is_child = filter.parent.is_none() || row.parent == filter.parent;
        if !is_child || !filter.is_of_resource(&row.id.resource_type, &row.id.resource) {
            return ControlFlow::Continue(());
        }
        let parent = row.parent.as_ref();
        visit(&[
            Cell::Text(&row.id.resource_type),
            Cell::Text(&row.id.resource),
            Cell::Text(parent.map_or("", |parent| &parent.resource_type)),
            Cell::Text(parent.map_or("", |parent| &parent.resource)),
            Cell::Text(&row.display_name),
            Cell::Text(&row.description),
            Cell::Time(row.created_at),
            Cell::Time(row.discovered_at),
        ])
    };
    if let Some(id) = &filter.resource {
        let _ = file.resource(&sync.id, id)?.as_ref().map(one);
        return Ok(());
    }
    let scope = match filter {
        Filter { parent: Some(id), .. } => ResourceScope::Parent(id),
        Filter { resource_type: Some(id), .. } => ResourceScope::ResourceType(id),
        _ => ResourceScope::All,
    };
    Ok(file.for_each_resource_of(&sync.id, scope, &mut |row| one(&row))?)
}

fn entitlements(
    file: &GraphFile,
    sync: &Sync,
    filter: &Filter,
    visit: VisitRow<'_>,
) -> Result<(), RowsError> {
    let mut one = |row: &Entitlement| {
        let resource = &row.resource;
        let is_of = filter.is_of_resource(&resource.resource_type, &resource.resource);
        if !is_of || !filter.is_of_entitlement(&row.id) {
            return ControlFlow::Continue(());
        }
        let number = row.purpose.number().to_string();
        visit(&[
            Cell::Text(&row.id),
            Cell::Text(&resource.resource_type),
            Cell::Text(&resource.resource),
            Cell::Text(&row.display_name),
            Cell::Text(&row.description),
            Cell::Text(&row.slug),
            Cell::Text(row.purpose.name().unwrap_or(&number)),
            Cell::Texts(row.grantable_to.iter().map(String::as_str).collect()),
            Cell::Time(row.discovered_at),
        ])
    };
    let scope = match filter {
        Filter { resource: Some(id), .. } => EntitlementScope::Resource(id),
        Filter { resource_type: Some(id), .. } => EntitlementScope::ResourceType(id),
        _ => EntitlementScope::All,
    };
    Ok(file.for_each_entitlement_of(&sync.id, scope, &mut |row| one(&row))?)
}

fn grants(
    file: &GraphFile,
    sync: &Sync,
    filter: &Filter,
    visit: &mut dyn FnMut(&GrantRef<'_>) -> ControlFlow<()>,
) -> Result<(), RowsError> {
    let mut one = |row: &GrantRef<'_>| {
        let is_meant = filter.is_of_resource(row.resource_type, row.resource)
            && filter.is_of_principal(row.principal_type, row.principal)
            && filter.is_of_entitlement(row.entitlement);
        if is_meant {
            visit(row)
        } else {
            ControlFlow::Continue(())
        }
    };
    Ok(file.for_each_grant_of(&sync.id, filter.scope(), &mut |row| one(&row))?)
}

fn grant(row: &GrantRef<'_>, visit: VisitRow<'_>) -> ControlFlow<()> {
    let sources = row.rest.map_or(&[][..], |rest| &rest.sources);
    let expansion = row.rest.and_then(|rest| rest.expansion.as_ref());
    let expands = expansion.map_or(&[][..], |expansion| &expansion.entitlement_ids);
    let types = expansion.map_or(&[][..], |expansion| &expansion.resource_type_ids);
    visit(&[
        Cell::Text(row.id),
        Cell::Text(row.entitlement),
        Cell::Text(row.resource_type),
        Cell::Text(row.resource),
        Cell::Text(row.principal_type),
        Cell::Text(row.principal),
        Cell::Texts(sources.iter().map(|(id, _)| id.as_str()).collect()),
        Cell::Texts(sources.iter().filter(|(_, is_direct)| *is_direct).map(|(id, _)| id.as_str()).collect()),
        Cell::Texts(expands.iter().map(String::as_str).collect()),
        Cell::Texts(types.iter().map(String::as_str).collect()),
        Cell::Flag(expansion.is_some_and(|expansion| expansion.shallow)),
        Cell::Flag(row.rest.is_some_and(|rest| rest.needs_expansion)),
        Cell::Time(row.discovered_at),
    ])
}

fn effective(file: &GraphFile, sync: &Sync, filter: &Filter, visit: VisitRow<'_>) -> Result<(), RowsError> {
    let effective = Effective::load(file, &sync.id).map_err(|error| match error {
        ExpandError::Read(error) => RowsError::File(error),
        ExpandError::TooLarge => RowsError::TooLarge(error.to_string()),
    })?;
    let one: &mut dyn FnMut(&crate::expand::EffectiveGrant<'_>) -> ControlFlow<()> = &mut |grant| {
        let (of, holder) = (grant.entitlement, grant.principal);
        let is_meant = filter.is_of_resource(of.resource_type, of.resource)
            && filter.is_of_principal(holder.resource_type, holder.resource)
            && filter.is_of_entitlement(of.id);
        if !is_meant {
            return ControlFlow::Continue(());
        }
        visit(&[
            Cell::Text(grant.id),
            Cell::Text(of.id),
            Cell::Text(of.resource_type),
            Cell::Text(of.resource),
            Cell::Text(holder.resource_type),
            Cell::Text(holder.resource),
            Cell::Flag(grant.is_direct),
            Cell::Flag(grant.origin == Origin::Derived),
            Cell::Texts(grant.sources.iter().map(|source| source.entitlement).collect()),
        ])
    };
    match filter {
        Filter { principal: Some(id), .. } => effective.what(id, one),
        Filter { entitlement: Some(id), .. } => effective.who(id, one),
        _ => effective.for_each(one),
    }
    Ok(())
}

fn principals(file: &GraphFile, sync: &Sync, filter: &Filter, visit: VisitRow<'_>) -> Result<(), RowsError> {
    let mut counts: BTreeMap<ResourceId, u64> = BTreeMap::new();
    grants(file, sync, filter, &mut |row| {
        *counts.entry(ResourceId::new(row.principal_type, row.principal)).or_default() += 1;
        ControlFlow::Continue(())
    })?;
    let _ = counts.iter().try_for_each(|(id, count)| {
        visit(&[Cell::Text(&id.resource_type), Cell::Text(&id.resource), Cell::Count(*count)])
    });
    Ok(())
}
