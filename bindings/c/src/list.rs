//! Answers questions about rows in memory, page by page.

use std::ops::Bound;

use duramen_access::graph::{Entitlement, EntitlementRef, Resource, ResourceId};
use duramen_access::messages;

use crate::error::Error;
use crate::flat;
use crate::grants::{Flat, Grants};
use crate::query::{Kind, Page, Question, Scope};
use crate::records::{EntitlementKey, Records};

/// A scope that a kind of rows does not have.
fn no_such(kind: Kind, scope: Scope<'_>) -> Error {
    Error::Invalid(format!("{kind:?} cannot be asked for by {scope:?}; see the header"))
}

/// Puts a message with its length before it.
fn put_message(page: &mut Page, put: impl FnOnce(&mut Vec<u8>)) {
    let start = page.rows.len();
    page.rows.extend_from_slice(&[0; 4]);
    put(&mut page.rows);
    let len = (page.rows.len() - start - 4) as u32;
    page.rows[start..start + 4].copy_from_slice(&len.to_le_bytes());
    page.added();
}

fn pairs<'a>(ids: &[&'a str]) -> Result<Vec<(&'a str, &'a str)>, Error> {
    match ids.len() % 2 {
        0 => Ok(ids.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()),
        _ => Err(Error::Invalid("resources are named by pairs of type and name".to_owned())),
    }
}

impl Records {
    pub(crate) fn list(&self, kind: Kind, question: &Question<'_>) -> Result<Page, Error> {
        match kind {
            Kind::ResourceTypes => self.list_resource_types(question),
            Kind::Resources => self.list_resources(question),
            Kind::Entitlements => self.list_entitlements(question),
            Kind::Assets => self.list_assets(question),
            _ => Err(Error::Invalid(format!("{kind:?} are not listed"))),
        }
    }

    fn list_resource_types(&self, question: &Question<'_>) -> Result<Page, Error> {
        let mut page = question.page(Kind::ResourceTypes);
        match question.scope()? {
            Scope::Ids(ids) => {
                for row in ids.iter().filter_map(|id| self.resource_types.get(*id)) {
                    put_message(&mut page, |out| messages::put_resource_type(out, row));
                }
            }
            Scope::All => {
                let after = question.after::<1>(Kind::ResourceTypes)?;
                let from = after.map_or(Bound::Unbounded, |[id]| Bound::Excluded(id));
                let mut last = None;
                for (id, row) in self.resource_types.range::<str, _>((from, Bound::Unbounded)) {
                    if let Some(last) = last.filter(|_| page.is_full()) {
                        page.more_behind(&[last]);
                        break;
                    }
                    put_message(&mut page, |out| messages::put_resource_type(out, row));
                    last = Some(id.as_str());
                }
            }
            scope => return Err(no_such(Kind::ResourceTypes, scope)),
        }
        Ok(page)
    }

    fn list_resources(&self, question: &Question<'_>) -> Result<Page, Error> {
        let mut page = question.page(Kind::Resources);
        let scope = question.scope()?;
        let after = question.after::<2>(Kind::Resources)?;
        let after = after.map(|[kind, name]| (kind.to_owned(), name.to_owned()));
        let mut last: Option<&(String, String)> = None;
        let mut add = |key, row: &Resource| {
            if let Some((kind, name)) = last.filter(|_| page.is_full()) {
                page.more_behind(&[kind, name]);
                return false;
            }
            put_message(&mut page, |out| messages::put_resource(out, row));
            last = Some(key);
            true
        };
        match scope {
            Scope::Ids(ids) => {
                for (kind, name) in pairs(ids)? {
                    if let Some(row) = self.resources.get(&(kind.to_owned(), name.to_owned())) {
                        put_message(&mut page, |out| messages::put_resource(out, row));
                    }
                }
            }
            Scope::All | Scope::ResourceType(_) => {
                let of = if let Scope::ResourceType(of) = scope { Some(of) } else { None };
                let first = (of.unwrap_or_default().to_owned(), String::new());
                let from = after.map_or(Bound::Included(first), Bound::Excluded);
                let rows = self.resources.range((from, Bound::Unbounded));
                let rows = rows.take_while(|((kind, _), _)| of.is_none_or(|of| kind == of));
                let _ = rows.into_iter().all(|(key, row)| add(key, row));
            }
            Scope::Parent(kind, name, of) => {
                let parent = ResourceId::new(kind, name);
                let children = self.children(&parent);
                let children = children.filter(|key| after.as_ref().is_none_or(|after| *key > after));
                let children = children.filter(|(kind, _)| of.is_none_or(|of| kind == of));
                let mut rows = children.filter_map(|key| self.resources.get(key).map(|row| (key, row)));
                let _ = rows.all(|(key, row)| add(key, row));
            }
            scope => return Err(no_such(Kind::Resources, scope)),
        }
        Ok(page)
    }

    fn list_entitlements(&self, question: &Question<'_>) -> Result<Page, Error> {
        let mut page = question.page(Kind::Entitlements);
        let (first, scope) = match question.scope()? {
            Scope::Ids(ids) => {
                for row in ids.iter().filter_map(|id| self.entitlement(id)) {
                    put_message(&mut page, |out| messages::put_entitlement(out, row));
                }
                return Ok(page);
            }
            scope @ Scope::All => (EntitlementKey::before("", ""), scope),
            scope @ Scope::ResourceType(kind) => (EntitlementKey::before(kind, ""), scope),
            scope @ Scope::Resource(kind, name) => (EntitlementKey::before(kind, name), scope),
            scope => return Err(no_such(Kind::Entitlements, scope)),
        };
        let after = question.after::<3>(Kind::Entitlements)?;
        let after = after.map(|[kind, name, id]| EntitlementKey::new(kind, name, id));
        let from = after.map_or(Bound::Included(first), Bound::Excluded);
        let mut last: Option<&Entitlement> = None;
        for (key, row) in self.entitlements.range((from, Bound::Unbounded)) {
            if !is_of(key, scope) {
                break;
            }
            if let Some(last) = last.filter(|_| page.is_full()) {
                page.more_behind(&[&last.resource.resource_type, &last.resource.resource, &last.id]);
                break;
            }
            put_message(&mut page, |out| messages::put_entitlement(out, row));
            last = Some(row);
        }
        Ok(page)
    }

    /// Assets are asked for by their ids: content type and data, each with its length.
    fn list_assets(&self, question: &Question<'_>) -> Result<Page, Error> {
        let mut page = question.page(Kind::Assets);
        let Scope::Ids(ids) = question.scope()? else { return Err(no_such(Kind::Assets, question.scope()?)) };
        for row in ids.iter().filter_map(|id| self.assets.get(*id)) {
            flat::put_blob(&mut page.rows, row.content_type.as_bytes());
            flat::put_blob(&mut page.rows, &row.data);
            page.added();
        }
        Ok(page)
    }
}

/// Whether an entitlement is meant by a scope that means those of one resource, of one type or all.
fn is_of(key: &EntitlementKey, scope: Scope<'_>) -> bool {
    match scope {
        Scope::ResourceType(kind) => key.resource_type == kind,
        Scope::Resource(kind, name) => key.resource_type == kind && key.resource == name,
        _ => true,
    }
}

/// Puts a grant as it crosses the boundary: eight numbers, and the texts of which seven are the lengths. Entitlement and resource
/// are left out if the grant before it has the same.
#[inline]
pub(crate) fn put_grant(page: &mut Page, flat: &Flat<'_>) {
    let parts = [
        flat.id.as_bytes(),
        flat.entitlement.as_bytes(),
        flat.resource_type.as_bytes(),
        flat.resource.as_bytes(),
        flat.principal_type.as_bytes(),
        flat.principal.as_bytes(),
        flat.details,
    ];
    let mut head = [0; 32];
    head[0] = u8::from(flat.needs_expansion) | u8::from(flat.is_of_same) << 1;
    for (number, (slot, part)) in head[4..].chunks_exact_mut(4).zip(parts).enumerate() {
        if flat.is_of_same && (1..4).contains(&number) {
            continue;
        }
        slot.copy_from_slice(&(part.len() as u32).to_le_bytes());
        page.rows.extend_from_slice(part);
    }
    page.heads.extend_from_slice(&head);
    page.added();
}

/// Says that there are more grants behind one.
pub(crate) fn more_behind(page: &mut Page, last: &Flat<'_>) {
    page.more_behind(&[
        last.resource_type,
        last.resource,
        last.entitlement,
        last.principal_type,
        last.principal,
    ]);
}

/// Adds grants to a page, and notes that there are more when it is full.
struct Adding<'a> {
    page: &'a mut Page,
    room: String,
    last: Option<u32>,
}

impl Adding<'_> {
    fn add(&mut self, grants: &Grants, row: u32) -> bool {
        if let Some(last) = self.last.filter(|_| self.page.is_full()) {
            more_behind(self.page, &grants.flat(last, &mut self.room));
            return false;
        }
        let is_of_same = self.last.is_some_and(|last| grants.are_of_one(last, row));
        put_grant(self.page, &Flat { is_of_same, ..grants.flat(row, &mut self.room) });
        self.last = Some(row);
        true
    }
}

impl Grants {
    pub(crate) fn list(&mut self, question: &Question<'_>, records: &Records) -> Result<Page, Error> {
        let mut page = question.page(Kind::Grants);
        let after = question.after::<5>(Kind::Grants)?;
        let mut adding = Adding { page: &mut page, room: String::new(), last: None };
        let behind = after.map(|[.., kind, name]| (kind, name));
        let key_of = |[kind, name, id, ..]: [&str; 5]| EntitlementKey::new(kind, name, id);
        match question.scope()? {
            Scope::Ids(ids) => {
                for row in ids.iter().filter_map(|id| self.find_id(id)) {
                    adding.add(self, row);
                }
            }
            Scope::Edge([.., kind, _], types) if !types.is_empty() && !types.contains(&kind) => {}
            Scope::Edge([resource_type, resource, entitlement, principal_type, principal], _) => {
                let of = self.whole_entitlement(resource_type, resource, entitlement, records)?;
                let edge = of.as_ref().map(|of| Flat {
                    resource_type: &of.resource.resource_type,
                    resource: &of.resource.resource,
                    entitlement: &of.id,
                    principal_type,
                    principal,
                    ..Flat::default()
                });
                if let Some(row) = edge.and_then(|edge| self.find_edge(&edge)) {
                    adding.add(self, row);
                }
            }
            Scope::Principal(kind, name) => {
                let after = after.map(key_of);
                let rows = self.of_principal(kind, name).into_iter();
                let mut rows = rows.filter(|(key, _)| after.as_ref().is_none_or(|after| key > after));
                let _ = rows.all(|(_, row)| adding.add(self, row));
            }
            Scope::Entitlement(kind, name, id, types) => {
                if let Some(of) = self.whole_entitlement(kind, name, id, records)? {
                    let key = EntitlementKey::new(&of.resource.resource_type, &of.resource.resource, &of.id);
                    let is_meant = |each: &EntitlementKey| *each == key;
                    self.walk(&key, behind, is_meant, |grants, row| {
                        !(types.is_empty() || types.contains(&grants.principal_of(row).0))
                            || adding.add(grants, row)
                    });
                }
            }
            scope @ (Scope::All | Scope::ResourceType(_) | Scope::Resource(..)) => {
                let first = match scope {
                    Scope::ResourceType(kind) => EntitlementKey::before(kind, ""),
                    Scope::Resource(kind, name) => EntitlementKey::before(kind, name),
                    _ => EntitlementKey::before("", ""),
                };
                let from = after.map_or(first, key_of);
                self.walk(&from, behind, |key| is_of(key, scope), |grants, row| adding.add(grants, row));
            }
            Scope::PrincipalType(kind) => {
                let from = after.map_or(EntitlementKey::before("", ""), key_of);
                self.walk(
                    &from,
                    behind,
                    |_| true,
                    |grants, row| grants.principal_of(row).0 != kind || adding.add(grants, row),
                );
            }
            Scope::NeedsExpansion => {
                let from = after.map_or(EntitlementKey::before("", ""), key_of);
                self.walk(
                    &from,
                    behind,
                    |_| true,
                    |grants, row| !grants.needs_expansion(row) || adding.add(grants, row),
                );
            }
            scope @ Scope::Parent(..) => return Err(no_such(Kind::Grants, scope)),
        }
        Ok(page)
    }

    /// The entitlement that is named by its resource and id, or by its id alone: then there has to be one only. None if
    /// there is none.
    fn whole_entitlement(
        &self,
        resource_type: &str,
        resource: &str,
        id: &str,
        records: &Records,
    ) -> Result<Option<EntitlementRef>, Error> {
        if !resource_type.is_empty() && !resource.is_empty() {
            let resource = ResourceId::new(resource_type, resource);
            return Ok(Some(EntitlementRef { resource, id: id.to_owned() }));
        }
        let mut found = self.entitlements_with_id(id);
        if let Some(row) = records.entitlement(id) {
            found.retain(|of| of.resource != row.resource);
            found.push(EntitlementRef { resource: row.resource.clone(), id: id.to_owned() });
        }
        match found.as_slice() {
            [] | [_] => Ok(found.pop()),
            several => Err(Error::Invalid(format!(
                "the entitlement {id:?} is that of {} resources; name the resource too",
                several.len()
            ))),
        }
    }
}
