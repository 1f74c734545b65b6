//! Grants as files of version 3 hold them, read in bulk.
//!
//! Rows lie in the order of their entitlements, and most say nothing but who holds what since when. Such a row is
//! borrowed, not copied, and what it repeats of the row before is not read again. Any other row is read by
//! [`storage::grant`], which this agrees with.

use super::error::Bad;
use super::{connector, storage, wire};
use crate::graph::{EntitlementRef, Grant, GrantRef, PrincipalRef, ResourceId, Timestamp};

/// Tags of the fields of a plain grant: number, and that bytes follow.
mod tag {
    pub(super) const ID: u8 = 2 << 3 | 2;
    pub(super) const ENTITLEMENT: u8 = 3 << 3 | 2;
    pub(super) const PRINCIPAL: u8 = 4 << 3 | 2;
    pub(super) const DISCOVERED_AT: u8 = 5 << 3 | 2;
}

/// Tags of the fields of a reference: up to three texts.
const TEXTS: [u8; 3] = [1 << 3 | 2, 2 << 3 | 2, 3 << 3 | 2];

/// Reads grants, one after another.
#[derive(Default)]
pub(crate) struct GrantReader {
    /// The entitlement of the row that was read last, as it lay there and as it was read.
    entitlement: Vec<u8>,
    of: EntitlementRef,
    principal_type: String,
    /// The time of the row that was read last, as it lay there and as it was read.
    time: Vec<u8>,
    discovered_at: Option<Timestamp>,
    /// The last row that was not plain.
    whole: Grant,
}

/// The parts of a plain grant that it does not share with others.
struct Plain<'a> {
    id: &'a str,
    principal: &'a str,
}

impl GrantReader {
    /// The grant in a record, borrowed from it or from the reader.
    #[inline]
    pub(crate) fn borrowed<'a>(&'a mut self, record: &'a [u8]) -> Result<GrantRef<'a>, Bad> {
        match self.plain(record) {
            Some(Plain { id, principal }) => Ok(GrantRef {
                id,
                entitlement: &self.of.id,
                resource_type: &self.of.resource.resource_type,
                resource: &self.of.resource.resource,
                principal_type: &self.principal_type,
                principal,
                discovered_at: self.discovered_at,
                rest: None,
            }),
            None => {
                self.whole = storage::grant(record)?;
                Ok(GrantRef::from(&self.whole))
            }
        }
    }

    /// The grant in a record, as a value of its own.
    #[inline]
    pub(crate) fn grant(&mut self, record: &[u8]) -> Result<Grant, Bad> {
        match self.plain(record) {
            Some(Plain { id, principal }) => Ok(Grant {
                id: id.to_owned(),
                entitlement: self.of.clone(),
                principal: PrincipalRef {
                    id: ResourceId {
                        resource_type: self.principal_type.clone(),
                        resource: principal.to_owned(),
                    },
                    parent: None,
                },
                discovered_at: self.discovered_at,
                ..Grant::default()
            }),
            None => storage::grant(record),
        }
    }

    /// Reads a record that holds each field of a plain grant once, and no other; none of any other record, damaged ones
    /// among them.
    #[inline]
    fn plain<'a>(&mut self, record: &'a [u8]) -> Option<Plain<'a>> {
        let (mut id, mut entitlement, mut principal, mut time) = (None, None, None, None);
        let mut at = 0;
        // Writers put fields in the order of their numbers: what stands there is taken without a search.
        for (expected, place) in [
            (tag::ID, &mut id),
            (tag::ENTITLEMENT, &mut entitlement),
            (tag::PRINCIPAL, &mut principal),
            (tag::DISCOVERED_AT, &mut time),
        ] {
            if record.get(at) == Some(&expected) {
                at += 1;
                *place = Some(content(record, &mut at)?);
            }
        }
        while at < record.len() {
            let place = match record[at] {
                tag::ID => &mut id,
                tag::ENTITLEMENT => &mut entitlement,
                tag::PRINCIPAL => &mut principal,
                tag::DISCOVERED_AT => &mut time,
                _ => return None,
            };
            at += 1;
            if place.replace(content(record, &mut at)?).is_some() {
                return None;
            }
        }
        let id = text(id.filter(|id| !id.is_empty())?)?;
        let entitlement = entitlement?;
        if entitlement != self.entitlement {
            let [resource_type, resource, id] = texts(entitlement)?;
            let [resource_type, resource, id] = [text(resource_type)?, text(resource)?, text(id)?];
            // Filled again, not made again: rows of other sources come in another order.
            resource_type.clone_into(&mut self.of.resource.resource_type);
            resource.clone_into(&mut self.of.resource.resource);
            id.clone_into(&mut self.of.id);
            entitlement.clone_into(&mut self.entitlement);
        }
        let [principal_type, principal, parent] = texts(principal?)?;
        if !parent.is_empty() {
            return None;
        }
        if principal_type != self.principal_type.as_bytes() {
            text(principal_type)?.clone_into(&mut self.principal_type);
        }
        match time {
            None => self.discovered_at = None,
            Some(time) if self.discovered_at.is_some() && self.time == time => {}
            Some(time) => {
                self.discovered_at = Some(connector::time(time).ok()?);
                time.clone_into(&mut self.time);
            }
        }
        Some(Plain { id, principal: text(principal)? })
    }
}

#[inline]
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The bytes of a field whose tag was read.
#[inline]
fn content<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = usize::try_from(wire::varint(bytes, at).ok()?).ok()?;
    let content = bytes.get(*at..at.checked_add(length)?)?;
    *at += length;
    Some(content)
}

/// The texts of a message that has at most fields 1 to 3, each once. A field that is missing is empty; one that is there
/// and empty makes no plain message.
#[inline]
fn texts(message: &[u8]) -> Option<[&[u8]; 3]> {
    let mut found: [&[u8]; 3] = [&[]; 3];
    let mut at = 0;
    while at < message.len() {
        let field = TEXTS.iter().position(|tag| *tag == message[at])?;
        at += 1;
        let text = content(message, &mut at)?;
        if text.is_empty() || !found[field].is_empty() {
            return None;
        }
        found[field] = text;
    }
    Some(found)
}

#[cfg(test)]
#[path = "stored_grant/tests.rs"]
mod tests;
