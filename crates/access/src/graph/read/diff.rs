//! What differs between two syncs.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::page::{GrantPage, GrantView};
use super::view::{EntitlementScope, GrantScope, Page, PageRequest, ResourceScope, SyncView};
use crate::graph::error::GraphError;
use crate::graph::model::{Asset, Entitlement, Grant, Resource, ResourceType};

/// One row that differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<Row> {
    /// Only the newer sync has it.
    Added(Row),
    /// Both have it, and not alike: this is the newer.
    Changed(Row),
    /// Only the older sync has it.
    Removed(Row),
}

/// A row of any kind that differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Diff {
    /// A resource type.
    ResourceType(Change<ResourceType>),
    /// A resource.
    Resource(Change<Resource>),
    /// An entitlement.
    Entitlement(Change<Entitlement>),
    /// A grant.
    Grant(Change<Grant>),
    /// An asset.
    Asset(Change<Asset>),
}

/// How many rows differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffCounts {
    /// Rows that only the newer sync has.
    pub added: u64,
    /// Rows that both have, and not alike.
    pub changed: u64,
    /// Rows that only the older sync has.
    pub removed: u64,
}

impl DiffCounts {
    fn count<Row>(&mut self, change: &Change<Row>) {
        match change {
            Change::Added(_) => self.added += 1,
            Change::Changed(_) => self.changed += 1,
            Change::Removed(_) => self.removed += 1,
        }
    }
}

/// Asks for a page.
type Ask<'a, Row> = Box<dyn FnMut(PageRequest<'_>) -> Result<Page<Row>, GraphError> + 'a>;

/// Rows of a query one after another.
struct Rows<'a, Row> {
    page: Ask<'a, Row>,
    rows: std::iter::Peekable<std::vec::IntoIter<Row>>,
    token: Option<String>,
    done: bool,
}

impl<'a, Row> Rows<'a, Row> {
    fn new(
        page: impl FnMut(PageRequest<'_>) -> Result<Page<Row>, GraphError> + 'a,
    ) -> Result<Self, GraphError> {
        let mut rows =
            Rows { page: Box::new(page), rows: Vec::new().into_iter().peekable(), token: None, done: false };
        rows.fill()?;
        Ok(rows)
    }

    fn fill(&mut self) -> Result<(), GraphError> {
        while self.rows.peek().is_none() && !self.done {
            let Page { rows, next } = (self.page)(PageRequest { size: 0, token: self.token.as_deref() })?;
            self.rows = rows.into_iter().peekable();
            self.done = next.is_none();
            self.token = next;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Row>, GraphError> {
        let row = self.rows.next();
        self.fill()?;
        Ok(row)
    }
}

/// Walks over two lists in the order of their keys.
fn walk<Row: PartialEq, Key: Ord>(
    mut older: Rows<'_, Row>,
    mut newer: Rows<'_, Row>,
    key: impl Fn(&Row) -> Key,
    mut visit: impl FnMut(Change<Row>) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    loop {
        let ordering = match (older.rows.peek(), newer.rows.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => key(old).cmp(&key(new)),
        };
        let old = if ordering.is_le() { older.next()? } else { None };
        let new = if ordering.is_ge() { newer.next()? } else { None };
        match (old, new) {
            (Some(old), Some(new)) if old != new => visit(Change::Changed(new))?,
            (Some(old), None) => visit(Change::Removed(old))?,
            (None, Some(new)) => visit(Change::Added(new))?,
            _ => {}
        }
    }
}

/// The grants of a sync one after another, borrowed from their page.
struct Grants<'a> {
    view: &'a SyncView,
    page: GrantPage,
    at: usize,
}

impl<'a> Grants<'a> {
    fn new(view: &'a SyncView) -> Result<Self, GraphError> {
        Ok(Grants { view, page: view.grants(GrantScope::All, PageRequest::default())?, at: 0 })
    }

    fn peek(&self) -> Option<GrantView<'_>> {
        self.page.get(self.at)
    }

    fn next(&mut self) -> Result<(), GraphError> {
        self.at += 1;
        if let Some(token) = self.page.next_token().filter(|_| self.at >= self.page.len()) {
            let token = token.to_owned();
            self.page = self.view.grants(GrantScope::All, PageRequest { size: 0, token: Some(&token) })?;
            self.at = 0;
        }
        Ok(())
    }
}

/// What a grant's edge is made of, without the parent of its principal: that is something that a grant says of it.
fn edge<'a>(view: &GrantView<'a>) -> [&'a str; 5] {
    [view.resource_type(), view.resource(), view.entitlement(), view.principal_type(), view.principal()]
}

/// Whether two grants are one and the same. When a grant was seen is not part of what it says.
fn is_same(old: &GrantView<'_>, new: &GrantView<'_>) -> bool {
    old.id() == new.id() && old.principal_parent() == new.principal_parent() && old.rest() == new.rest()
}

impl Grants<'_> {
    /// The grants of the edge at the front, which are taken.
    fn take_edge(&mut self) -> Result<Vec<Grant>, GraphError> {
        let mut taken: Vec<Grant> = Vec::new();
        while let Some(next) = self.peek() {
            let is_of_edge = taken.first().is_none_or(|first| {
                let (entitlement, principal) = (&first.entitlement, &first.principal.id);
                let resource = &entitlement.resource;
                edge(&next)
                    == [
                        &resource.resource_type,
                        &resource.resource,
                        &entitlement.id,
                        &principal.resource_type,
                        &principal.resource,
                    ]
            });
            if !is_of_edge {
                break;
            }
            let grant = next.to_grant()?;
            self.next()?;
            taken.push(grant);
        }
        Ok(taken)
    }
}

/// Compares the grants of one edge: an edge may have several, which are known by their ids.
fn diff_edge(
    old: Vec<Grant>,
    new: Vec<Grant>,
    visit: &mut impl FnMut(Change<Grant>) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    let by_id = |grants: Vec<Grant>| -> BTreeMap<String, Grant> {
        grants.into_iter().map(|grant| (grant.id.clone(), grant)).collect()
    };
    let (mut old, new) = (by_id(old), by_id(new));
    for (id, grant) in new {
        let Some(before) = old.remove(&id) else {
            visit(Change::Added(grant))?;
            continue;
        };
        if (Grant { discovered_at: grant.discovered_at, ..before }) != grant {
            visit(Change::Changed(grant))?;
        }
    }
    old.into_values().try_for_each(|grant| visit(Change::Removed(grant)))
}

fn diff_grants(
    older: &SyncView,
    newer: &SyncView,
    mut visit: impl FnMut(Change<Grant>) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    let (mut older, mut newer) = (Grants::new(older)?, Grants::new(newer)?);
    loop {
        let ordering = match (older.peek(), newer.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            // Almost all of two syncs is alike.
            (Some(old), Some(new)) if edge(&old) == edge(&new) && is_same(&old, &new) => {
                older.next()?;
                newer.next()?;
                continue;
            }
            (Some(old), Some(new)) => edge(&old).cmp(&edge(&new)),
        };
        let old = if ordering.is_le() { older.take_edge()? } else { Vec::new() };
        let new = if ordering.is_ge() { newer.take_edge()? } else { Vec::new() };
        diff_edge(old, new, &mut visit)?;
    }
}

/// Calls `visit` with every row that differs between two syncs, kind by kind, each in the order of its keys, and says how
/// many there are. When a row was seen (`discovered_at`) makes no difference. A grant whose id moved to another edge was
/// removed there and added here.
///
/// # Errors
/// When a file cannot be read or is damaged, or `visit` fails.
pub fn diff(
    older: &SyncView,
    newer: &SyncView,
    mut visit: impl FnMut(Diff) -> Result<(), GraphError>,
) -> Result<DiffCounts, GraphError> {
    let mut counts = DiffCounts::default();
    let types = |view| Rows::new(move |page| all_types(view, page));
    walk(
        types(older)?,
        types(newer)?,
        |row| row.id.clone(),
        |change| {
            counts.count(&change);
            visit(Diff::ResourceType(change))
        },
    )?;
    let resources = |view| Rows::new(move |page| all_resources(view, page));
    walk(
        resources(older)?,
        resources(newer)?,
        |row| row.id.clone(),
        |change| {
            counts.count(&change);
            visit(Diff::Resource(change))
        },
    )?;
    let entitlements = |view| Rows::new(move |page| all_entitlements(view, page));
    walk(
        entitlements(older)?,
        entitlements(newer)?,
        |row| (row.resource.clone(), row.id.clone()),
        |change| {
            counts.count(&change);
            visit(Diff::Entitlement(change))
        },
    )?;
    diff_grants(older, newer, |change| {
        counts.count(&change);
        visit(Diff::Grant(change))
    })?;
    let assets = |view| Rows::new(move |page| all_assets(view, page));
    walk(
        assets(older)?,
        assets(newer)?,
        |row| row.id.clone(),
        |change| {
            counts.count(&change);
            visit(Diff::Asset(change))
        },
    )?;
    Ok(counts)
}

fn all_types(view: &SyncView, page: PageRequest<'_>) -> Result<Page<ResourceType>, GraphError> {
    let mut page = view.resource_types(page)?;
    page.rows.iter_mut().for_each(|row| row.discovered_at = None);
    Ok(page)
}

fn all_resources(view: &SyncView, page: PageRequest<'_>) -> Result<Page<Resource>, GraphError> {
    let mut page = view.resources(ResourceScope::All, page)?;
    page.rows.iter_mut().for_each(|row| row.discovered_at = None);
    Ok(page)
}

fn all_entitlements(view: &SyncView, page: PageRequest<'_>) -> Result<Page<Entitlement>, GraphError> {
    let mut page = view.entitlements(EntitlementScope::All, page)?;
    page.rows.iter_mut().for_each(|row| row.discovered_at = None);
    Ok(page)
}

fn all_assets(view: &SyncView, page: PageRequest<'_>) -> Result<Page<Asset>, GraphError> {
    let mut page = view.assets(page)?;
    page.rows.iter_mut().for_each(|row| row.discovered_at = None);
    Ok(page)
}
