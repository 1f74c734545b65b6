//! Grants in memory: who holds what is two numbers, so that a plain grant takes some 50 bytes.
//!
//! A grant is known by its edge, as the ecosystem's Pebble engine and files of version 3 know it: of several grants of one
//! entitlement to one principal the last stays. Of several with one id that is not made of their edge the last stays too.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use duramen_access::graph::{EntitlementRef, Grant, GrantRef, PrincipalRef, ResourceId, Timestamp};
use duramen_access::messages;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher as _;

use crate::error::Error;
use crate::records::EntitlementKey;

/// A grant as it crosses the boundary. Details are a message with what is rare: annotations, sources, the principal's parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flat<'a> {
    pub(crate) id: &'a str,
    pub(crate) entitlement: &'a str,
    pub(crate) resource_type: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) principal_type: &'a str,
    pub(crate) principal: &'a str,
    pub(crate) details: &'a [u8],
    pub(crate) needs_expansion: bool,
    /// Whether it is of the same entitlement as the grant before it on its page.
    pub(crate) is_of_same: bool,
}

/// How a grant that is put treats one of the same edge that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It takes its place.
    Replace,
    /// It takes its place, but what the other says of its expansion stays, and when it was seen. It says nothing of that itself.
    KeepExpansion,
}

#[derive(Clone, Copy, Default)]
struct Row {
    entitlement: u32,
    principal: u32,
    /// 0: none; else one more than the place in the list of times, of ids or of details.
    time: u32,
    id: u32,
    details: u32,
    is_gone: bool,
    needs_expansion: bool,
}

struct Entitlement {
    resource_type: String,
    resource: String,
    id: String,
    /// Its rows, by principal if `is_sorted`. Rows that are gone may be among them.
    rows: Vec<u32>,
    is_sorted: bool,
}

struct Principal {
    resource_type: String,
    resource: String,
}

/// The grants of a sync.
#[derive(Default)]
pub(crate) struct Grants {
    rows: Vec<Row>,
    alive: usize,
    entitlements: Vec<Entitlement>,
    principals: Vec<Principal>,
    order: BTreeMap<EntitlementKey, u32>,
    hasher: DefaultHashBuilder,
    entitlement_numbers: HashTable<u32>,
    principal_numbers: HashTable<u32>,
    edges: HashTable<u32>,
    by_entitlement_id: HashMap<String, Vec<u32>>,
    /// Rows whose id is not made of their edge.
    by_id: HashMap<String, u32>,
    ids: Vec<String>,
    details: Vec<Box<[u8]>>,
    times: Vec<Timestamp>,
    /// The rows of principals, of the first `by_principal_until` rows.
    by_principal: Vec<Vec<u32>>,
    by_principal_until: usize,
    last_entitlement: u32,
    last_principal: u32,
}

impl Grants {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.alive
    }

    /// How many there are, by the type of their entitlement's resource.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        let alive = |row: &&u32| !self.rows[**row as usize].is_gone;
        self.entitlements.iter().map(move |of| (&*of.resource_type, of.rows.iter().filter(alive).count()))
    }

    /// Puts a grant that comes from beyond the boundary.
    pub(crate) fn put(&mut self, flat: &Flat<'_>, time: Option<Timestamp>, how: Put) -> Result<(), Error> {
        if flat.details.is_empty() && how == Put::Replace {
            return self.place(flat, time);
        }
        let mut whole = messages::grant(flat.details)?;
        let mut time = time;
        if how == Put::KeepExpansion {
            let old = self.find_edge(flat);
            let said = match old.map(|row| self.details_of(row)) {
                Some(details) if !details.is_empty() => messages::grant(details)?,
                _ => Grant::default(),
            };
            whole.expansion = said.expansion;
            whole.needs_expansion = old.is_some_and(|row| self.rows[row as usize].needs_expansion);
            time = old.map_or(time, |row| self.time_of(row));
        }
        self.put_grant(flat, &whole, time)
    }

    /// Puts a grant that comes from a file.
    pub(crate) fn put_row(&mut self, row: &GrantRef<'_>) -> Result<(), Error> {
        let flat = Flat {
            id: row.id,
            entitlement: row.entitlement,
            resource_type: row.resource_type,
            resource: row.resource,
            principal_type: row.principal_type,
            principal: row.principal,
            ..Flat::default()
        };
        match row.rest {
            None => self.place(&flat, row.discovered_at),
            Some(rest) => self.put_grant(&flat, rest, row.discovered_at),
        }
    }

    fn put_grant(&mut self, flat: &Flat<'_>, whole: &Grant, time: Option<Timestamp>) -> Result<(), Error> {
        let mut details = Vec::new();
        messages::put_grant_details(&mut details, whole);
        self.place(&Flat { details: &details, needs_expansion: whole.needs_expansion, ..*flat }, time)
    }

    fn place(&mut self, flat: &Flat<'_>, time: Option<Timestamp>) -> Result<(), Error> {
        let parts = [
            flat.id,
            flat.entitlement,
            flat.resource_type,
            flat.resource,
            flat.principal_type,
            flat.principal,
        ];
        if parts.iter().any(|part| part.is_empty()) {
            return Err(Error::Invalid(format!("a grant with an empty id in it ({parts:?}) cannot be kept")));
        }
        let (entitlement, principal) = (self.entitlement_number(flat), self.principal_number(flat));
        let mut row = Row { entitlement, principal, needs_expansion: flat.needs_expansion, ..Row::default() };
        if let Some(time) = time {
            if self.times.last() != Some(&time) {
                self.times.push(time);
            }
            row.time = self.times.len() as u32;
        }
        if !flat.details.is_empty() {
            self.details.push(flat.details.into());
            row.details = self.details.len() as u32;
        }
        let hash = self.hasher.hash_one((entitlement, principal));
        let rows = &self.rows;
        let is_edge = |at: &u32| {
            let row = &rows[*at as usize];
            (row.entitlement, row.principal) == (entitlement, principal)
        };
        let known = self.edges.find(hash, is_edge).copied();
        let at = known.unwrap_or(self.rows.len() as u32);
        if let Some(known) = known {
            self.forget_id(known);
        }
        let is_stated = !is_made_of_edge(flat);
        if is_stated || !self.by_id.is_empty() {
            if let Some(other) = self.find_id(flat.id).filter(|other| *other != at) {
                self.forget_id(other);
                self.forget(other);
            }
        }
        if is_stated {
            self.by_id.insert(flat.id.to_owned(), at);
            self.ids.push(flat.id.to_owned());
            row.id = self.ids.len() as u32;
        }
        match known {
            Some(known) => {
                let old = self.rows[known as usize];
                // Its place among details is not needed any more.
                if let Some(details) = old.details.checked_sub(1) {
                    self.details[details as usize] = Box::default();
                }
                self.rows[known as usize] = row;
            }
            None => {
                self.rows.push(row);
                self.alive += 1;
                let (rows, hasher) = (&self.rows, &self.hasher);
                let hash_of = |at: &u32| {
                    let row = &rows[*at as usize];
                    hasher.hash_one((row.entitlement, row.principal))
                };
                self.edges.insert_unique(hash, at, hash_of);
                let principals = &self.principals;
                let key = |number: u32| {
                    let it = &principals[number as usize];
                    (it.resource_type.as_str(), it.resource.as_str())
                };
                let of = &mut self.entitlements[entitlement as usize];
                if let Some(last) = of.rows.last().filter(|_| of.is_sorted) {
                    of.is_sorted = key(self.rows[*last as usize].principal) < key(principal);
                }
                of.rows.push(at);
            }
        }
        Ok(())
    }

    /// Deletes the grant of an edge; nothing if there is none.
    pub(crate) fn delete_edge(&mut self, flat: &Flat<'_>) {
        if let Some(row) = self.find_edge(flat) {
            self.forget_id(row);
            self.forget(row);
        }
    }

    /// Deletes the grant of an id; nothing if there is none.
    pub(crate) fn delete_id(&mut self, id: &str) {
        if let Some(row) = self.find_id(id) {
            self.forget_id(row);
            self.forget(row);
        }
    }

    fn forget_id(&mut self, at: u32) {
        if let Some(id) = self.rows[at as usize].id.checked_sub(1) {
            self.by_id.remove(&std::mem::take(&mut self.ids[id as usize]));
        }
    }

    fn forget(&mut self, at: u32) {
        let row = &mut self.rows[at as usize];
        row.is_gone = true;
        self.alive -= 1;
        let hash = self.hasher.hash_one((row.entitlement, row.principal));
        if let Ok(entry) = self.edges.find_entry(hash, |each| *each == at) {
            entry.remove();
        }
    }

    /// Whether a grant has yet to be expanded.
    pub(crate) fn needs_expansion(&self, row: u32) -> bool {
        self.rows[row as usize].needs_expansion
    }

    /// The grant of an edge.
    pub(crate) fn find_edge(&self, flat: &Flat<'_>) -> Option<u32> {
        let entitlement = self.known_entitlement(flat.resource_type, flat.resource, flat.entitlement)?;
        self.row_of_edge(entitlement, self.known_principal(flat.principal_type, flat.principal)?)
    }

    /// The grant of an id.
    pub(crate) fn find_id(&self, id: &str) -> Option<u32> {
        if let Some(row) = self.by_id.get(id) {
            return Some(*row);
        }
        // An id that is made of an edge has entitlement, type and name of the principal, with colons between them; each of
        // these may have colons itself.
        for (first, _) in id.match_indices(':') {
            let (entitlement, principal) = (&id[..first], &id[first + 1..]);
            for (second, _) in principal.match_indices(':') {
                let Some(principal) = self.known_principal(&principal[..second], &principal[second + 1..])
                else {
                    continue;
                };
                for number in self.entitlements_of_id(entitlement) {
                    let found = self.row_of_edge(number, principal);
                    if found.is_some_and(|row| self.rows[row as usize].id == 0) {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// The numbers of all entitlements of grants that have an id, whatever their resources are.
    fn entitlements_of_id(&self, id: &str) -> impl Iterator<Item = u32> {
        self.by_entitlement_id.get(id).into_iter().flatten().copied()
    }

    /// The entitlements of grants that have an id and a grant.
    pub(crate) fn entitlements_with_id(&self, id: &str) -> Vec<EntitlementRef> {
        let numbers = self.entitlements_of_id(id).map(|number| &self.entitlements[number as usize]);
        numbers
            .filter(|of| of.rows.iter().any(|row| !self.rows[*row as usize].is_gone))
            .map(|of| EntitlementRef {
                resource: ResourceId::new(&*of.resource_type, &*of.resource),
                id: of.id.clone(),
            })
            .collect()
    }

    fn row_of_edge(&self, entitlement: u32, principal: u32) -> Option<u32> {
        let is_edge = |at: &u32| {
            let row = &self.rows[*at as usize];
            (row.entitlement, row.principal) == (entitlement, principal)
        };
        self.edges.find(self.hasher.hash_one((entitlement, principal)), is_edge).copied()
    }

    fn known_entitlement(&self, resource_type: &str, resource: &str, id: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            let it = &self.entitlements[*number as usize];
            it.id == id && it.resource == resource && it.resource_type == resource_type
        };
        self.entitlement_numbers.find(self.hasher.hash_one((resource_type, resource, id)), is_it).copied()
    }

    fn known_principal(&self, resource_type: &str, resource: &str) -> Option<u32> {
        let is_it = |number: &u32| {
            let it = &self.principals[*number as usize];
            it.resource == resource && it.resource_type == resource_type
        };
        self.principal_numbers.find(self.hasher.hash_one((resource_type, resource)), is_it).copied()
    }

    #[inline]
    fn entitlement_number(&mut self, flat: &Flat<'_>) -> u32 {
        // Rows come in groups.
        if let Some(last) = self.entitlements.get(self.last_entitlement as usize) {
            if last.id == flat.entitlement
                && last.resource == flat.resource
                && last.resource_type == flat.resource_type
            {
                return self.last_entitlement;
            }
        }
        let known = self.known_entitlement(flat.resource_type, flat.resource, flat.entitlement);
        self.last_entitlement = known.unwrap_or_else(|| {
            let number = self.entitlements.len() as u32;
            self.entitlements.push(Entitlement {
                resource_type: flat.resource_type.to_owned(),
                resource: flat.resource.to_owned(),
                id: flat.entitlement.to_owned(),
                rows: Vec::new(),
                is_sorted: true,
            });
            let key = EntitlementKey::new(flat.resource_type, flat.resource, flat.entitlement);
            self.order.insert(key, number);
            self.by_entitlement_id.entry(flat.entitlement.to_owned()).or_default().push(number);
            let (all, hasher) = (&self.entitlements, &self.hasher);
            let hash_of = |number: &u32| {
                let it = &all[*number as usize];
                hasher.hash_one((it.resource_type.as_str(), it.resource.as_str(), it.id.as_str()))
            };
            self.entitlement_numbers.insert_unique(hash_of(&number), number, hash_of);
            number
        });
        self.last_entitlement
    }

    #[inline]
    fn principal_number(&mut self, flat: &Flat<'_>) -> u32 {
        if let Some(last) = self.principals.get(self.last_principal as usize) {
            if last.resource == flat.principal && last.resource_type == flat.principal_type {
                return self.last_principal;
            }
        }
        let known = self.known_principal(flat.principal_type, flat.principal);
        self.last_principal = known.unwrap_or_else(|| {
            let number = self.principals.len() as u32;
            self.principals.push(Principal {
                resource_type: flat.principal_type.to_owned(),
                resource: flat.principal.to_owned(),
            });
            let (all, hasher) = (&self.principals, &self.hasher);
            let hash_of = |number: &u32| {
                let it = &all[*number as usize];
                hasher.hash_one((it.resource_type.as_str(), it.resource.as_str()))
            };
            self.principal_numbers.insert_unique(hash_of(&number), number, hash_of);
            number
        });
        self.last_principal
    }

    fn details_of(&self, at: u32) -> &[u8] {
        let details = self.rows[at as usize].details.checked_sub(1);
        details.map_or(&[], |details| &self.details[details as usize])
    }

    fn time_of(&self, at: u32) -> Option<Timestamp> {
        self.rows[at as usize].time.checked_sub(1).map(|time| self.times[time as usize])
    }

    /// Whether two grants are of one entitlement.
    pub(crate) fn are_of_one(&self, a: u32, b: u32) -> bool {
        self.rows[a as usize].entitlement == self.rows[b as usize].entitlement
    }

    /// A grant as it crosses the boundary; `id` is room for an id that is made of its edge.
    #[inline]
    pub(crate) fn flat<'a>(&'a self, at: u32, id: &'a mut String) -> Flat<'a> {
        let row = &self.rows[at as usize];
        let entitlement = &self.entitlements[row.entitlement as usize];
        let principal = &self.principals[row.principal as usize];
        let id = match row.id.checked_sub(1) {
            Some(stated) => self.ids[stated as usize].as_str(),
            None => {
                id.clear();
                for part in [&*entitlement.id, ":", &principal.resource_type, ":", &principal.resource] {
                    id.push_str(part);
                }
                id
            }
        };
        Flat {
            id,
            entitlement: &entitlement.id,
            resource_type: &entitlement.resource_type,
            resource: &entitlement.resource,
            principal_type: &principal.resource_type,
            principal: &principal.resource,
            details: self.details_of(at),
            needs_expansion: row.needs_expansion,
            is_of_same: false,
        }
    }

    /// Calls `visit` with every grant, in no order.
    pub(crate) fn each(&self, mut visit: impl FnMut(GrantRef<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut room = String::new();
        for at in (0..self.rows.len() as u32).filter(|at| !self.rows[*at as usize].is_gone) {
            let flat = self.flat(at, &mut room);
            let whole = match flat.details {
                [] => None,
                details => {
                    let said = messages::grant(details)?;
                    Some(Grant {
                        id: flat.id.to_owned(),
                        entitlement: EntitlementRef {
                            resource: ResourceId::new(flat.resource_type, flat.resource),
                            id: flat.entitlement.to_owned(),
                        },
                        principal: PrincipalRef {
                            id: ResourceId::new(flat.principal_type, flat.principal),
                            parent: said.principal.parent.clone(),
                        },
                        discovered_at: self.time_of(at),
                        needs_expansion: flat.needs_expansion,
                        ..said
                    })
                }
            };
            visit(GrantRef {
                id: flat.id,
                entitlement: flat.entitlement,
                resource_type: flat.resource_type,
                resource: flat.resource,
                principal_type: flat.principal_type,
                principal: flat.principal,
                discovered_at: self.time_of(at),
                rest: whole.as_ref(),
            })?;
        }
        Ok(())
    }

    /// Calls `visit` with the rows of grants of the entitlements from `from` on, as long as `is_meant` says so and `visit`
    /// says to go on: by entitlement and then by principal. Of the first entitlement only those behind `after`, if it is the
    /// one of `from`.
    pub(crate) fn walk(
        &mut self,
        from: &EntitlementKey,
        after: Option<(&str, &str)>,
        is_meant: impl Fn(&EntitlementKey) -> bool,
        mut visit: impl FnMut(&Grants, u32) -> bool,
    ) {
        let mut start = Bound::Included(from.clone());
        while let Some((key, number)) = self.order.range((start, Bound::Unbounded)).next() {
            if !is_meant(key) {
                return;
            }
            let (key, number) = (key.clone(), *number);
            self.sort(number);
            let rows = &self.entitlements[number as usize].rows;
            let first = match after.filter(|_| key == *from) {
                Some(after) => rows.partition_point(|row| self.principal_of(*row) <= after),
                None => 0,
            };
            for row in &rows[first..] {
                if !self.rows[*row as usize].is_gone && !visit(self, *row) {
                    return;
                }
            }
            start = Bound::Excluded(key);
        }
    }

    /// Type and name of who holds a grant.
    pub(crate) fn principal_of(&self, row: u32) -> (&str, &str) {
        let it = &self.principals[self.rows[row as usize].principal as usize];
        (&it.resource_type, &it.resource)
    }

    fn sort(&mut self, entitlement: u32) {
        if self.entitlements[entitlement as usize].is_sorted {
            return;
        }
        let mut rows = std::mem::take(&mut self.entitlements[entitlement as usize].rows);
        rows.retain(|row| !self.rows[*row as usize].is_gone);
        rows.sort_by(|a, b| self.principal_of(*a).cmp(&self.principal_of(*b)));
        let of = &mut self.entitlements[entitlement as usize];
        (of.rows, of.is_sorted) = (rows, true);
    }

    /// The rows of grants of one principal, by entitlement.
    pub(crate) fn of_principal(&mut self, resource_type: &str, resource: &str) -> Vec<(EntitlementKey, u32)> {
        let Some(principal) = self.known_principal(resource_type, resource) else { return Vec::new() };
        self.index_principals();
        let rows = self.by_principal[principal as usize].iter().copied();
        let rows = rows.filter(|row| !self.rows[*row as usize].is_gone);
        let mut found: Vec<_> = rows
            .map(|row| {
                let of = &self.entitlements[self.rows[row as usize].entitlement as usize];
                (EntitlementKey::new(&of.resource_type, &of.resource, &of.id), row)
            })
            .collect();
        found.sort_unstable();
        found
    }

    fn index_principals(&mut self) {
        self.by_principal.resize_with(self.principals.len(), Vec::new);
        for at in self.by_principal_until..self.rows.len() {
            self.by_principal[self.rows[at].principal as usize].push(at as u32);
        }
        self.by_principal_until = self.rows.len();
    }
}

#[inline]
fn is_made_of_edge(flat: &Flat<'_>) -> bool {
    let rest = flat.id.strip_prefix(flat.entitlement).and_then(|rest| rest.strip_prefix(':'));
    let rest = rest.and_then(|rest| rest.strip_prefix(flat.principal_type));
    rest.and_then(|rest| rest.strip_prefix(':')) == Some(flat.principal)
}

#[cfg(test)]
#[path = "grants/tests.rs"]
mod tests;
