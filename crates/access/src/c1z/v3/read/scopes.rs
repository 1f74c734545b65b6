//! Rows of a part of a file, by the indexes that the file holds.
//!
//! Keys of grants begin with their entitlement, so grants of a resource or an entitlement lie together. Those of a principal
//! are listed by an index, as are resources of a parent. What an index says is taken as it is: that it says what the rows
//! say is checked by [`ReadOptions::check_rows`](crate::c1z::ReadOptions::check_rows). A row that an index names and that
//! is not there, or says something else than its key, is refused.

use std::ops::ControlFlow;

use super::{of_row, C1z3};
use crate::c1z::error::{Bad, C1zError};
use crate::c1z::storage;
use crate::c1z::stored_grant::GrantReader;
use crate::c1z::v3::key::{self, family, GrantKey};
use crate::c1z::v3::lsm::{self, Fault, Step};
use crate::graph::{
    Entitlement, EntitlementRef, EntitlementScope, GrantRef, GrantScope, Resource, ResourceId, ResourceScope,
    Visit,
};

/// So many rows one after another that are not meant are stepped over; then the next ones are looked for.
const STEPS_MAX: usize = 32;

/// So many rows are looked up at once: few at first, because who reads a page needs no more.
const LOOKED_UP_MIN: usize = 1024;
const LOOKED_UP_MAX: usize = 65_536;

pub(super) type VisitGrant<'a> = &'a mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>;

impl C1z3 {
    /// Visits the grants of a part of the sync, in the order of their entitlements and then of their principals.
    ///
    /// What is meant is found by the file's own indexes, and little else is read. If a file has no index of grants by
    /// principal that is whole, because it has logs, or because what wrote it was interrupted, all grants are read.
    ///
    /// # Errors
    /// When the file has no such sync, cannot be read, or is damaged where it is read.
    pub fn for_each_grant_of(
        &self,
        sync: &str,
        scope: GrantScope<'_>,
        visit: VisitGrant<'_>,
    ) -> Result<(), C1zError> {
        self.expect(sync)?;
        let under = |parts: &[&str]| key::prefix(&key::GRANTS, parts);
        let prefixes = match scope {
            GrantScope::All => vec![[key::GRANTS.as_slice(), &[0]].concat()],
            GrantScope::ResourceType(id) => vec![under(&[id])],
            GrantScope::Resource(id) => vec![under(&[&id.resource_type, &id.resource])],
            GrantScope::Entitlements(all) => all.iter().map(key::grants_of).collect(),
            GrantScope::Entitlement(id) => return self.located(self.grants_of_entitlement(id, visit)),
            GrantScope::Principal(id) => return self.located(self.grants_of_principal(id, None, visit)),
        };
        let mut rows = GrantRows { reader: GrantReader::default(), visit };
        for prefix in prefixes {
            let mut flow = ControlFlow::Continue(());
            self.located(self.tree.each(&prefix, Some(&key::behind(&prefix)), &mut |key, value| {
                flow = rows.take(key, value)?;
                Ok(flow)
            }))?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Visits the resources of a part of the sync, in the order of their keys; see [`C1z3::for_each_grant_of`].
    ///
    /// # Errors
    /// When the file has no such sync, cannot be read, or is damaged where it is read.
    pub fn for_each_resource_of(
        &self,
        sync: &str,
        scope: ResourceScope<'_>,
        visit: Visit<'_, Resource>,
    ) -> Result<(), C1zError> {
        self.expect(sync)?;
        let start = [key::VERSION, family::RESOURCE];
        let prefix = match scope {
            ResourceScope::Parent(id) => return self.located(self.children(id, visit)),
            ResourceScope::ResourceType(id) => key::prefix(&start, &[id]),
            ResourceScope::All => key::prefix(&start, &[]),
        };
        self.located(self.tree.each(&prefix, Some(&key::behind(&prefix)), &mut |key, value| {
            resource(key, value).map(&mut *visit)
        }))
    }

    /// A resource by its id; none if there is none.
    ///
    /// # Errors
    /// When the file has no such sync, cannot be read, or is damaged where it is read.
    pub fn resource(&self, sync: &str, id: &ResourceId) -> Result<Option<Resource>, C1zError> {
        self.expect(sync)?;
        let mut wanted = Vec::new();
        key::resource(&mut wanted, &id.resource_type, &id.resource);
        let mut found = None;
        let walked = self.tree.each(&wanted, Some(&key::next(&wanted)), &mut |key, value| {
            found = Some(resource(key, value)?);
            Ok(ControlFlow::Break(()))
        });
        self.located(walked).map(|()| found)
    }

    /// Visits the entitlements of a part of the sync, in the order of their keys; see [`C1z3::for_each_grant_of`].
    ///
    /// # Errors
    /// When the file has no such sync, cannot be read, or is damaged where it is read.
    pub fn for_each_entitlement_of(
        &self,
        sync: &str,
        scope: EntitlementScope<'_>,
        visit: Visit<'_, Entitlement>,
    ) -> Result<(), C1zError> {
        self.expect(sync)?;
        let start = [key::VERSION, family::ENTITLEMENT];
        let prefix = match scope {
            EntitlementScope::Resource(id) => key::prefix(&start, &[&id.resource_type, &id.resource]),
            EntitlementScope::ResourceType(id) => key::prefix(&start, &[id]),
            EntitlementScope::All => key::prefix(&start, &[]),
        };
        self.located(self.tree.each(&prefix, Some(&key::behind(&prefix)), &mut |key, value| {
            let row = storage::entitlement(value).map_err(|bad| of_row("entitlement", key, bad))?;
            let mut own = Vec::new();
            key::entitlement(&mut own, &row.resource.resource_type, &row.resource.resource, &row.id);
            expect_key("entitlement", key, &own)?;
            Ok(visit(row))
        }))
    }

    pub(super) fn located<T>(&self, result: Result<T, Fault>) -> Result<T, C1zError> {
        result.map_err(|fault| fault.located(&self.path))
    }

    /// Keys begin with the resource of the entitlement, which an id does not say: of each entitlement a few grants are
    /// looked at.
    fn grants_of_entitlement(&self, id: &str, visit: VisitGrant<'_>) -> Result<(), Fault> {
        let wanted = key::escaped(id);
        let mut rows = GrantRows { reader: GrantReader::default(), visit };
        let mut steps = 0;
        let (from, to) = (key::GRANTS, [key::VERSION, family::GRANT + 1]);
        self.tree.walk(&from, Some(&to), &mut |key, value| {
            let Some(of) = GrantKey::read(key) else { return Err(of_row("grant", key, not_a_key())) };
            if of.is_of(&wanted) {
                return Ok(if rows.take(key, value)?.is_break() { Step::End } else { Step::Next });
            }
            steps += 1;
            if steps < STEPS_MAX {
                return Ok(Step::Next);
            }
            steps = 0;
            Ok(Step::Seek(of.behind_entitlement(key)))
        })
    }

    /// Grants of a principal, of entitlements behind `after`.
    pub(super) fn grants_of_principal(
        &self,
        id: &ResourceId,
        after: Option<&EntitlementRef>,
        visit: VisitGrant<'_>,
    ) -> Result<(), Fault> {
        let prefix = key::prefix(&key::BY_PRINCIPAL, &[&id.resource_type, &id.resource]);
        // The part of an entitlement begins with a separator, with which the prefix ends.
        let after = after.map(key::grants_of).map(|of| of[key::GRANTS.len() + 1..of.len() - 1].to_vec());
        let from =
            after.as_ref().map_or_else(|| prefix.clone(), |of| key::next(&[&prefix, of.as_slice()].concat()));
        // With a separator before it, as it stands behind the entitlement in the key of a grant.
        let principal = &prefix[key::BY_PRINCIPAL.len()..prefix.len() - 1];
        let mut rows = GrantRows { reader: GrantReader::default(), visit };
        let key_of = |rest: &[u8]| [&key::GRANTS, [0].as_slice(), rest, principal].concat();
        if self.indexed(&key::BY_PRINCIPAL, &prefix, from, &key_of, "grant", &mut |key, value| {
            rows.take(key, value)
        })? {
            return Ok(());
        }
        let from = after.map_or_else(
            || key::GRANTS.to_vec(),
            |of| key::next(&[&key::GRANTS, [0].as_slice(), &of, principal].concat()),
        );
        self.tree.each(&from, Some(&[key::VERSION, family::GRANT + 1]), &mut |key, value| {
            if key.ends_with(principal) {
                rows.take(key, value)
            } else {
                Ok(ControlFlow::Continue(()))
            }
        })
    }

    fn children(&self, parent: &ResourceId, visit: Visit<'_, Resource>) -> Result<(), Fault> {
        let prefix = key::prefix(&key::BY_PARENT, &[&parent.resource_type, &parent.resource]);
        let start = [key::VERSION, family::RESOURCE];
        let key_of = |rest: &[u8]| [&start, [0].as_slice(), rest].concat();
        let known = self.indexed(
            &key::BY_PARENT,
            &prefix,
            prefix.clone(),
            &key_of,
            "resource",
            &mut |key, value| {
                let row = resource(key, value)?;
                if row.parent.as_ref() != Some(parent) {
                    let reason = "an index lists it under another parent than its own";
                    return Err(of_row("resource", key, Bad::new(0, reason)));
                }
                Ok(visit(row))
            },
        )?;
        if known {
            return Ok(());
        }
        self.tree.each(&start, Some(&[key::VERSION, family::RESOURCE + 1]), &mut |key, value| {
            let row = resource(key, value)?;
            let is_child = row.parent.as_ref() == Some(parent);
            Ok(if is_child { visit(row) } else { ControlFlow::Continue(()) })
        })
    }

    /// Visits the rows that an index lists under `prefix` from `from` on, in the order in which it does. `key_of` makes the key of a row of
    /// what stands behind. False if nothing was visited because the file has no such index that is whole: something is owed
    /// to it, or rows of it may lie in logs, or it has no row at all.
    fn indexed(
        &self,
        index: &[u8; 3],
        prefix: &[u8],
        mut from: Vec<u8>,
        key_of: &dyn Fn(&[u8]) -> Vec<u8>,
        what: &str,
        visit: lsm::Visit<'_>,
    ) -> Result<bool, Fault> {
        if self.owed.by_principal || self.tree.has_logs {
            return Ok(false);
        }
        let (mut is_first, mut most) = (true, LOOKED_UP_MIN);
        loop {
            let (mut keys, mut last) = (Vec::new(), None);
            self.tree.each(&from, Some(&key::behind(prefix)), &mut |key, _| {
                keys.push(key_of(&key[prefix.len()..]));
                if keys.len() < most {
                    return Ok(ControlFlow::Continue(()));
                }
                last = Some(key::next(key));
                Ok(ControlFlow::Break(()))
            })?;
            if is_first && keys.is_empty() {
                let [version, family, number] = *index;
                return self.tree.has_any(index, &[version, family, number + 1]);
            }
            is_first = false;
            most = LOOKED_UP_MAX.min(most * 8);
            for (key, value) in keys.iter().zip(self.tree.get(&keys)?) {
                let Some(value) = value else {
                    let reason = "an index lists it, and it is not there";
                    return Err(of_row(what, key, Bad::new(0, reason)));
                };
                if visit(key, &value)?.is_break() {
                    return Ok(true);
                }
            }
            match last {
                Some(next) => from = next,
                None => return Ok(true),
            }
        }
    }
}

/// Grants on their way to whoever asked for them.
struct GrantRows<'a> {
    reader: GrantReader,
    visit: VisitGrant<'a>,
}

impl GrantRows<'_> {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<ControlFlow<()>, Fault> {
        let row = self.reader.borrowed(value).map_err(|bad| of_row("grant", key, bad))?;
        let mut own = key::GRANTS.to_vec();
        let edge = key::Edge::of(&row);
        edge.push_entitlement(&mut own);
        edge.push_principal(&mut own);
        expect_key("grant", key, &own)?;
        Ok((self.visit)(row))
    }
}

fn resource(key: &[u8], value: &[u8]) -> Result<Resource, Fault> {
    let row = storage::resource(value).map_err(|bad| of_row("resource", key, bad))?;
    let mut own = Vec::new();
    key::resource(&mut own, &row.id.resource_type, &row.id.resource);
    expect_key("resource", key, &own)?;
    Ok(row)
}

/// A row whose key is another than that of what it says would be found where it does not belong.
pub(super) fn expect_key(what: &str, key: &[u8], own: &[u8]) -> Result<(), Fault> {
    if key == own {
        return Ok(());
    }
    Err(of_row(what, key, Bad::new(0, "what it says belongs under another key")))
}

fn not_a_key() -> Bad {
    Bad::new(0, "the key is not one of a grant")
}
