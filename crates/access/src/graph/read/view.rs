//! Reading one sync: its rows by id, by what they belong to, page by page or one after another.

use std::sync::Arc;

use super::overlay::{Overlay, Placed};
use super::page::GrantPage;
use super::scan::{After, Newer, Scan, Scope, SegmentReader};
use crate::graph::error::GraphError;
use crate::graph::format::details::Record;
use crate::graph::format::key;
use crate::graph::format::payload;
use crate::graph::format::records::{Records, RecordsCursor};
use crate::graph::format::segment::Segment;
use crate::graph::format::stats::SyncStats;
use crate::graph::format::table::Table;
use crate::graph::format::token;
use crate::graph::model::{
    Asset, Entitlement, EntitlementRef, Grant, GrantRef, Resource, ResourceId, ResourceType, Sync,
};

/// The most rows on a page, and how many there are when 0 are asked for.
pub const MAX_PAGE_ROWS: usize = 10_000;
/// With so many bytes a page ends, though more rows were asked for: 64 MiB.
pub(crate) const PAGE_BYTES: usize = 64 << 20;
/// The most entitlements that one query may name.
pub const MAX_ENTITLEMENTS: usize = 128;

/// Which grants are meant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum GrantScope<'a> {
    /// All of the sync.
    All,
    /// Those of the entitlements that have an id.
    Entitlement(&'a str),
    /// Those of several entitlements, at most [`MAX_ENTITLEMENTS`].
    Entitlements(&'a [EntitlementRef]),
    /// Those of the entitlements of one resource.
    Resource(&'a ResourceId),
    /// Those of the entitlements of all resources of a type.
    ResourceType(&'a str),
    /// Those that one principal holds.
    Principal(&'a ResourceId),
}

impl GrantScope<'_> {
    /// Whether a grant is meant.
    ///
    /// ```
    /// use duramen_access::graph::{Grant, GrantRef, GrantScope};
    ///
    /// let mut grant = Grant::default();
    /// grant.entitlement.id = "app:github:admin".to_owned();
    /// assert!(GrantScope::Entitlement("app:github:admin").is_of(&GrantRef::from(&grant)));
    /// assert!(!GrantScope::Entitlement("app:github:member").is_of(&GrantRef::from(&grant)));
    /// ```
    pub fn is_of(&self, row: &GrantRef<'_>) -> bool {
        let is = |id: &ResourceId, resource_type: &str, resource: &str| {
            id.resource_type == resource_type && id.resource == resource
        };
        match self {
            GrantScope::All => true,
            GrantScope::Entitlement(id) => row.entitlement == *id,
            GrantScope::Entitlements(all) => all
                .iter()
                .any(|of| of.id == row.entitlement && is(&of.resource, row.resource_type, row.resource)),
            GrantScope::Resource(id) => is(id, row.resource_type, row.resource),
            GrantScope::ResourceType(id) => row.resource_type == *id,
            GrantScope::Principal(id) => is(id, row.principal_type, row.principal),
        }
    }
}

/// Which resources are meant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ResourceScope<'a> {
    /// All of the sync.
    All,
    /// Those of a type.
    ResourceType(&'a str),
    /// Those that lie in another.
    Parent(&'a ResourceId),
}

impl ResourceScope<'_> {
    /// Whether a resource is meant.
    pub fn is_of(&self, row: &Resource) -> bool {
        match self {
            ResourceScope::All => true,
            ResourceScope::ResourceType(id) => row.id.resource_type == *id,
            ResourceScope::Parent(id) => row.parent.as_ref() == Some(id),
        }
    }
}

/// Which entitlements are meant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EntitlementScope<'a> {
    /// All of the sync.
    All,
    /// Those of the resources of a type.
    ResourceType(&'a str),
    /// Those of one resource.
    Resource(&'a ResourceId),
}

impl EntitlementScope<'_> {
    /// Whether an entitlement is meant.
    pub fn is_of(&self, row: &Entitlement) -> bool {
        match self {
            EntitlementScope::All => true,
            EntitlementScope::ResourceType(id) => row.resource.resource_type == *id,
            EntitlementScope::Resource(id) => row.resource == **id,
        }
    }
}

/// Which page is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRequest<'a> {
    /// How many rows: 0, or more than [`MAX_PAGE_ROWS`], means [`MAX_PAGE_ROWS`]. A page that has 64 MiB has fewer.
    pub size: usize,
    /// The token of the page before; none for the first.
    pub token: Option<&'a str>,
}

impl PageRequest<'_> {
    fn rows(&self) -> usize {
        if self.size == 0 {
            MAX_PAGE_ROWS
        } else {
            self.size.min(MAX_PAGE_ROWS)
        }
    }
}

/// Rows of a query, and the token of the next page; none after the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<Row> {
    /// The rows in the order of their keys.
    pub rows: Vec<Row>,
    /// What to ask for the next page with.
    pub next: Option<String>,
}

/// One sync as it was when the view was taken; it does not change.
#[derive(Clone)]
pub struct SyncView {
    pub(crate) sync: Sync,
    pub(crate) stats: Option<SyncStats>,
    pub(crate) segment: Option<Arc<Segment>>,
    pub(crate) overlay: Option<Arc<Overlay>>,
}

impl std::fmt::Debug for SyncView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyncView").field("sync", &self.sync).finish_non_exhaustive()
    }
}

impl SyncView {
    /// The sync.
    pub fn sync(&self) -> &Sync {
        &self.sync
    }

    /// How much the sync holds, as counted when it was written; none while it has changes since.
    pub fn stats(&self) -> Option<&SyncStats> {
        self.stats.as_ref()
    }

    /// The resource type of an id.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged, as with all queries.
    pub fn resource_type(&self, id: &str) -> Result<Option<ResourceType>, GraphError> {
        self.record(Table::ResourceTypes, &key::join(&[id]))
    }

    /// The resource of an id.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn resource(&self, id: &ResourceId) -> Result<Option<Resource>, GraphError> {
        self.record(Table::Resources, &key::join(&[&id.resource_type, &id.resource]))
    }

    /// The resources of several ids, in their order; what is not there is left out.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn resources_by_ids(&self, ids: &[ResourceId]) -> Result<Vec<Resource>, GraphError> {
        ids.iter().filter_map(|id| self.resource(id).transpose()).collect()
    }

    /// The entitlement of an id: of several resources' the first by resource.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn entitlement(&self, id: &str) -> Result<Option<Entitlement>, GraphError> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let component = key::join(&[id]);
        if let Some(segment) = &self.segment {
            let range = segment.entitlement_ids()?.prefix(&component)?;
            let mut cursor = RecordsCursor::at(segment.entitlement_ids()?, range.start)?;
            for _ in range {
                keys.extend(
                    cursor.peek().and_then(|(key, _)| key.get(component.len() + 1..)).map(<[u8]>::to_vec),
                );
                cursor.next()?;
            }
        }
        if let Some(overlay) = &self.overlay {
            let of_id =
                |key: &&Vec<u8>| key.splitn(3, |byte| *byte == 0).nth(2) == Some(component.as_slice());
            keys.extend(overlay.table(Table::Entitlements).keys().filter(of_id).cloned());
        }
        keys.sort_unstable();
        for key in keys {
            if let Some(found) = self.record(Table::Entitlements, &key)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The entitlements of several ids, in their order; what is not there is left out.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn entitlements_by_ids(&self, ids: &[&str]) -> Result<Vec<Entitlement>, GraphError> {
        ids.iter().filter_map(|id| self.entitlement(id).transpose()).collect()
    }

    /// The asset of an id.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn asset(&self, id: &str) -> Result<Option<Asset>, GraphError> {
        self.record(Table::Assets, &key::join(&[id]))
    }

    /// The grant of an id.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn grant(&self, id: &str) -> Result<Option<Grant>, GraphError> {
        if let Some(overlay) = self.overlay.as_ref().filter(|overlay| overlay.hidden.contains(id)) {
            let found = overlay.grants.iter().find(|placed| placed.grant.id == id);
            return found.map(whole).transpose();
        }
        let Some(segment) = &self.segment else { return Ok(None) };
        let mut reader = SegmentReader::new(segment)?;
        let mut page = GrantPage::default();
        for (entitlement, principal) in segment.edges_of(id)? {
            reader.rows()?.seek(entitlement, principal)?;
            while reader.is_at(entitlement, principal)? {
                reader.put(&mut page)?;
                reader.step();
                match page.last() {
                    Some(found) if found.id() == id => return found.to_grant().map(Some),
                    _ => page.pop(),
                }
            }
        }
        Ok(None)
    }

    /// Resource types by id.
    ///
    /// # Errors
    /// When the token is from another query; when the file cannot be read or is damaged.
    pub fn resource_types(&self, page: PageRequest<'_>) -> Result<Page<ResourceType>, GraphError> {
        self.record_page(Table::ResourceTypes, None, page)
    }

    /// Resources by type and name.
    ///
    /// # Errors
    /// When the token is from another query; when the file cannot be read or is damaged.
    pub fn resources(
        &self,
        scope: ResourceScope<'_>,
        page: PageRequest<'_>,
    ) -> Result<Page<Resource>, GraphError> {
        match scope {
            ResourceScope::All => self.record_page(Table::Resources, None, page),
            ResourceScope::ResourceType(id) => {
                self.record_page(Table::Resources, Some(key::join(&[id])), page)
            }
            ResourceScope::Parent(parent) => self.children(parent, page),
        }
    }

    /// Entitlements by resource and id.
    ///
    /// # Errors
    /// When the token is from another query; when the file cannot be read or is damaged.
    pub fn entitlements(
        &self,
        scope: EntitlementScope<'_>,
        page: PageRequest<'_>,
    ) -> Result<Page<Entitlement>, GraphError> {
        let prefix = match scope {
            EntitlementScope::All => None,
            EntitlementScope::ResourceType(id) => Some(key::join(&[id])),
            EntitlementScope::Resource(id) => Some(key::join(&[&id.resource_type, &id.resource])),
        };
        self.record_page(Table::Entitlements, prefix, page)
    }

    /// Assets by id.
    ///
    /// # Errors
    /// When the token is from another query; when the file cannot be read or is damaged.
    pub fn assets(&self, page: PageRequest<'_>) -> Result<Page<Asset>, GraphError> {
        self.record_page(Table::Assets, None, page)
    }

    pub(crate) fn record<R: Record>(&self, table: Table, key: &[u8]) -> Result<Option<R>, GraphError> {
        if let Some(changed) = self.overlay.as_ref().and_then(|overlay| overlay.table(table).get(key)) {
            return changed.as_ref().map(|value| R::from_stored(key, value)).transpose();
        }
        let Some(segment) = &self.segment else { return Ok(None) };
        segment.table(table)?.get(key)?.map(|value| R::from_stored(key, &value)).transpose()
    }

    fn record_page<R: Record>(
        &self,
        table: Table,
        prefix: Option<Vec<u8>>,
        page: PageRequest<'_>,
    ) -> Result<Page<R>, GraphError> {
        let scope = [u8::from(prefix.is_some())];
        let bytes = prefix.clone().unwrap_or_default();
        let query = token::query_hash(&[self.sync.id.as_bytes(), table.section().as_bytes(), &scope, &bytes]);
        let after: Option<Vec<u8>> = match page.token {
            Some(text) => token::decode::<1>(query, text).map(|[key]| Some(key))?,
            None => None,
        };
        let mut base = match &self.segment {
            Some(segment) => {
                Some(RecordRange::new(segment.table(table)?, prefix.as_deref(), after.as_deref())?)
            }
            None => None,
        };
        let within = |key: &[u8]| prefix.as_ref().is_none_or(|prefix| continues(key, prefix));
        let newer = self.overlay.iter().flat_map(|overlay| overlay.table(table));
        let mut newer = newer
            .filter(|(key, _)| within(key) && after.as_ref().is_none_or(|after| *key > after))
            .peekable();
        let mut out = Page { rows: Vec::new(), next: None };
        let mut last = Vec::new();
        let (mut rows, mut bytes) = (page.rows(), 0);
        loop {
            let old = base.as_ref().and_then(RecordRange::peek);
            let (found, changed) = match (old, newer.peek()) {
                (None, None) => break,
                (Some((key, value)), None) => ((key.to_vec(), Some(value.to_vec())), false),
                (Some((key, value)), Some((next, _))) if key < next.as_slice() => {
                    ((key.to_vec(), Some(value.to_vec())), false)
                }
                (_, Some((key, value))) => (((*key).clone(), (*value).clone()), true),
            };
            let (key, value) = found;
            if let Some(base) = base.as_mut().filter(|base| base.peek().is_some_and(|(old, _)| old == key)) {
                base.next()?;
            }
            if changed {
                newer.next();
            }
            if let Some(value) = value {
                if out.rows.len() == rows {
                    out.next = Some(token::encode(query, &[&last]));
                    break;
                }
                out.rows.push(R::from_stored(&key, &value)?);
                bytes += key.len() + value.len();
                if bytes >= PAGE_BYTES {
                    rows = out.rows.len();
                }
                last = key;
            }
        }
        Ok(out)
    }

    fn children(&self, parent: &ResourceId, page: PageRequest<'_>) -> Result<Page<Resource>, GraphError> {
        let prefix = key::join(&[&parent.resource_type, &parent.resource]);
        let query = token::query_hash(&[self.sync.id.as_bytes(), b"children", &prefix]);
        let after: Option<Vec<u8>> = match page.token {
            Some(text) => token::decode::<1>(query, text).map(|[key]| Some(key))?,
            None => None,
        };
        let mut newer = std::collections::BTreeMap::new();
        let changed = self.overlay.as_ref().map(|overlay| overlay.table(Table::Resources));
        for (key, value) in changed.into_iter().flatten() {
            if let Some(value) = value {
                let resource = Resource::from_stored(key, value)?;
                if resource.parent.as_ref() == Some(parent) && after.as_ref().is_none_or(|after| key > after)
                {
                    newer.insert(key.clone(), resource);
                }
            }
        }
        let mut newer = newer.into_iter().peekable();
        let child = |key: &[u8]| key.get(prefix.len() + 1..).unwrap_or_default().to_vec();
        let after_key = after.as_ref().map(|after| [prefix.as_slice(), &[0], after].concat());
        let mut base = match &self.segment {
            Some(segment) => {
                Some(RecordRange::new(segment.children()?, Some(&prefix), after_key.as_deref())?)
            }
            None => None,
        };
        let mut out = Page { rows: Vec::new(), next: None };
        let mut last = Vec::new();
        loop {
            let old = base.as_ref().and_then(RecordRange::peek).map(|(key, _)| child(key));
            let is_old = match (&old, newer.peek()) {
                (None, None) => break,
                (Some(old), Some((new, _))) => old < new,
                (old, _) => old.is_some(),
            };
            let found = if is_old {
                if let Some(base) = &mut base {
                    base.next()?;
                }
                let key = old.unwrap_or_default();
                // What was put again is in the overlay, perhaps with another parent.
                if changed.is_some_and(|changed| changed.contains_key(&key)) {
                    continue;
                }
                let resource = self.record::<Resource>(Table::Resources, &key)?;
                resource.map(|resource| (key, resource))
            } else {
                newer.next()
            };
            let Some((key, resource)) = found else { continue };
            if out.rows.len() == page.rows() {
                out.next = Some(token::encode(query, &[&last]));
                break;
            }
            out.rows.push(resource);
            last = key;
        }
        Ok(out)
    }

    /// Grants by entitlement and principal; those of one principal by entitlement.
    ///
    /// # Errors
    /// When the token is from another query, or too many entitlements are named; when the file cannot be read or is
    /// damaged.
    pub fn grants(&self, scope: GrantScope<'_>, page: PageRequest<'_>) -> Result<GrantPage, GraphError> {
        let scope = Scope::new(scope)?;
        let query = scope.hash(&self.sync.id);
        let after = match page.token {
            Some(text) => Some(After::new(token::decode::<3>(query, text)?)?),
            None => None,
        };
        let mut rows = page.rows();
        let mut out = GrantPage::with_capacity(rows.min(1024));
        let mut newer = Newer::in_scope(self, &scope, after.as_ref())?.into_iter().peekable();
        let hidden = self.overlay.as_ref().map(|overlay| &overlay.hidden);
        let mut base = match &self.segment {
            Some(segment) => Some(Scan::new(segment, &scope, after.as_ref())?),
            None => None,
        };
        let mut more = false;
        loop {
            if out.bytes() >= PAGE_BYTES {
                rows = rows.min(out.len().max(1));
            }
            let edge = match &mut base {
                Some(base) => base.peek()?,
                None => None,
            };
            let mut is_newer = match (edge, newer.peek()) {
                (None, None) => break,
                (None, Some(_)) => true,
                (Some(edge), Some(new)) => new.is_before_edge(edge),
                (Some(_), None) => false,
            };
            if let Some((base, edge)) = base.as_mut().zip(edge).filter(|_| !is_newer) {
                // The id decides whether the row counts, so it is added and perhaps taken back.
                base.push(&mut out)?;
                if hidden.is_some() || base.resumes_at(edge) {
                    let id = out.last().map(|row| row.id()).unwrap_or_default();
                    let was_returned =
                        base.resumes_at(edge) && after.as_ref().is_some_and(|after| *id <= *after.id);
                    if was_returned || hidden.is_some_and(|hidden| hidden.contains(id)) {
                        out.pop();
                        base.step();
                        continue;
                    }
                    is_newer =
                        newer.peek().is_some_and(|new| new.is_same_edge(edge) && *new.placed.grant.id < *id);
                    if is_newer {
                        out.pop();
                    }
                }
                if !is_newer {
                    if out.len() > rows {
                        out.pop();
                        more = true;
                        break;
                    }
                    base.step();
                    continue;
                }
            }
            if out.len() == rows {
                more = true;
                break;
            }
            if let Some(new) = newer.next() {
                out.push_grant(&new.placed.grant, new.placed.rest.as_deref());
            }
        }
        if more {
            if let Some(last) = out.last() {
                let entitlement = key::join(&[last.resource_type(), last.resource(), last.entitlement()]);
                let mut principal = key::join(&[last.principal_type(), last.principal()]);
                if let Some((kind, name)) = last.principal_parent() {
                    key::push_next(&mut principal, kind);
                    key::push_next(&mut principal, name);
                }
                let token = token::encode(query, &[&entitlement, &principal, last.id().as_bytes()]);
                out.set_next(token);
            }
        }
        Ok(out)
    }

    /// Calls `visit` with every grant of a scope, a page at a time, until it breaks off.
    ///
    /// # Errors
    /// As [`grants`](Self::grants).
    pub fn for_each_grant_page(
        &self,
        scope: GrantScope<'_>,
        mut visit: impl FnMut(&GrantPage) -> std::ops::ControlFlow<()>,
    ) -> Result<(), GraphError> {
        let mut token: Option<String> = None;
        loop {
            let page = self.grants(scope, PageRequest { size: 0, token: token.as_deref() })?;
            if visit(&page).is_break() {
                return Ok(());
            }
            match page.next_token() {
                Some(next) => token = Some(next.to_owned()),
                None => return Ok(()),
            }
        }
    }
}

/// Whether a key is a prefix, or continues it with more components.
pub(crate) fn continues(key: &[u8], prefix: &[u8]) -> bool {
    key.strip_prefix(prefix).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == 0))
}

/// A grant of the overlay with all its fields.
fn whole(placed: &Placed) -> Result<Grant, GraphError> {
    let mut grant = placed.grant.clone();
    payload::apply(placed.rest.as_deref(), &mut grant)?;
    Ok(grant)
}

/// Records within a prefix, after a key.
struct RecordRange<'a> {
    cursor: RecordsCursor<'a>,
    left: u64,
}

impl<'a> RecordRange<'a> {
    fn new(records: &'a Records, prefix: Option<&[u8]>, after: Option<&[u8]>) -> Result<Self, GraphError> {
        let mut range = match prefix {
            Some(prefix) => records.prefix(prefix)?,
            None => 0..records.len(),
        };
        if let Some(after) = after {
            let next = records.lower_bound(after)? + u64::from(records.ordinal(after)?.is_some());
            range.start = range.start.max(next);
        }
        let left = range.end.saturating_sub(range.start);
        Ok(RecordRange { cursor: RecordsCursor::at(records, range.start)?, left })
    }

    fn peek(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.peek().filter(|_| self.left > 0)
    }

    fn next(&mut self) -> Result<(), GraphError> {
        self.left = self.left.saturating_sub(1);
        self.cursor.next()
    }
}
