//! Keys of rows in a version 3 file.
//!
//! `03 | family | tuple`: components joined by `00`, with `00` and `01` escaped, so that bytes compare as components do.

use crate::graph::{EntitlementRef, GrantRef};

/// The first byte of every key.
pub(crate) const VERSION: u8 = 0x03;

/// What the second byte of a key says.
pub(crate) mod family {
    pub(crate) const RESOURCE_TYPE: u8 = 0x01;
    pub(crate) const RESOURCE: u8 = 0x02;
    pub(crate) const ENTITLEMENT: u8 = 0x03;
    pub(crate) const GRANT: u8 = 0x04;
    pub(crate) const ASSET: u8 = 0x05;
    pub(crate) const SYNC_RUN: u8 = 0x06;
    pub(crate) const INDEX: u8 = 0x07;
    pub(crate) const SESSION: u8 = 0x09;
    pub(crate) const DIGEST: u8 = 0x0a;
    pub(crate) const META: u8 = 0xff;
}

/// What the third byte of a key of an index says.
mod index {
    pub(super) const BY_PARENT: u8 = 0x01;
    pub(super) const BY_PRINCIPAL: u8 = 0x04;
    pub(super) const NEEDS_EXPANSION: u8 = 0x05;
    pub(super) const HASHES: u8 = 0x08;
}

/// Appends one component of a tuple, escaped.
#[inline]
fn push(out: &mut Vec<u8>, text: &str) {
    out.push(0);
    let bytes = text.as_bytes();
    if bytes.iter().all(|byte| *byte > 1) {
        out.extend_from_slice(bytes);
        return;
    }
    for byte in bytes {
        match byte {
            0 => out.extend_from_slice(&[1, 1]),
            1 => out.extend_from_slice(&[1, 2]),
            other => out.push(*other),
        }
    }
}

/// An entitlement's id as keys have it: without the resource it is of, when it begins with that.
#[inline]
fn push_entitlement(out: &mut Vec<u8>, resource_type: &str, resource: &str, id: &str) {
    push(out, resource_type);
    push(out, resource);
    let tail = id
        .strip_prefix(resource_type)
        .and_then(|rest| rest.strip_prefix(':'))
        .and_then(|rest| rest.strip_prefix(resource))
        .and_then(|rest| rest.strip_prefix(':'));
    match tail {
        Some(tail) => {
            push(out, "1");
            push(out, tail);
        }
        None => {
            push(out, "0");
            push(out, id);
        }
    }
}

pub(crate) fn resource_type(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(&[VERSION, family::RESOURCE_TYPE]);
    push(out, id);
}

pub(crate) fn resource(out: &mut Vec<u8>, resource_type: &str, resource: &str) {
    out.extend_from_slice(&[VERSION, family::RESOURCE]);
    push(out, resource_type);
    push(out, resource);
}

pub(crate) fn entitlement(out: &mut Vec<u8>, resource_type: &str, resource: &str, id: &str) {
    out.extend_from_slice(&[VERSION, family::ENTITLEMENT]);
    push_entitlement(out, resource_type, resource, id);
}

/// What the keys of one grant are made of: its entitlement and its principal.
#[derive(Clone, Copy)]
pub(crate) struct Edge<'a> {
    pub(crate) resource_type: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) entitlement: &'a str,
    pub(crate) principal_type: &'a str,
    pub(crate) principal: &'a str,
}

impl<'a> Edge<'a> {
    pub(crate) fn of(row: &GrantRef<'a>) -> Edge<'a> {
        Edge {
            resource_type: row.resource_type,
            resource: row.resource,
            entitlement: row.entitlement,
            principal_type: row.principal_type,
            principal: row.principal,
        }
    }

    /// The part of a key that its entitlement makes.
    #[inline]
    pub(crate) fn push_entitlement(&self, out: &mut Vec<u8>) {
        push_entitlement(out, self.resource_type, self.resource, self.entitlement);
    }

    /// The part of a key that its principal makes.
    #[inline]
    pub(crate) fn push_principal(&self, out: &mut Vec<u8>) {
        push(out, self.principal_type);
        push(out, self.principal);
    }
}

/// What keys of grants begin with: entitlement and principal follow.
pub(crate) const GRANTS: [u8; 2] = [VERSION, family::GRANT];

/// What the keys begin with by which grants of a principal are found: principal and entitlement follow.
pub(crate) const BY_PRINCIPAL: [u8; 3] = [VERSION, family::INDEX, index::BY_PRINCIPAL];

/// What the keys begin with by which grants that have yet to be expanded are found: entitlement and principal follow.
pub(crate) const NEEDS_EXPANSION: [u8; 3] = [VERSION, family::INDEX, index::NEEDS_EXPANSION];

/// What the keys begin with by which resources of a parent are found: parent and child follow.
pub(crate) const BY_PARENT: [u8; 3] = [VERSION, family::INDEX, index::BY_PARENT];

/// What the keys begin with of hashes of grants: entitlement, a part of the principal's hash, and principal follow.
pub(crate) const HASHES: [u8; 3] = [VERSION, family::INDEX, index::HASHES];

/// What the keys of digests of grants begin with: an entitlement's part of keys, escaped once more, and a level follow.
pub(crate) const DIGEST_OF_GRANTS: [u8; 4] = [VERSION, family::DIGEST, index::HASHES, 0];

/// The key by which resources of a parent are found.
pub(crate) fn by_parent(out: &mut Vec<u8>, parent: (&str, &str), child: (&str, &str)) {
    out.extend_from_slice(&[VERSION, family::INDEX, index::BY_PARENT]);
    for text in [parent.0, parent.1, child.0, child.1] {
        push(out, text);
    }
}

pub(crate) fn asset(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(&[VERSION, family::ASSET]);
    push(out, id);
}

/// The key of the one sync of a file.
pub(crate) const SYNC_RUN: [u8; 2] = [VERSION, family::SYNC_RUN];

/// The key of a stamp that says in which layout the keys are.
pub(crate) fn meta(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(&[VERSION, family::META]);
    // The name of a stamp follows without a separator before it.
    out.extend_from_slice(name.as_bytes());
}

/// The stamps that a file has to have: names, and the layouts that are read.
pub(crate) const STAMPS: [(&str, u32); 2] = [("keyspace_version", 2), ("grant_entitlement_id_format", 2)];

/// The name of the mark of a file whose index of grants by principal is still owed.
pub(crate) const OWES_INDEX: &str = "deferred_grant_idx_pending";

/// The name of the mark of a file whose digests are still owed.
pub(crate) const OWES_DIGESTS: &str = "grant_digest_build_pending";

/// What the key of a grant says, its components still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrantKey<'a> {
    resource_type: &'a [u8],
    resource: &'a [u8],
    flag: &'a [u8],
    tail: &'a [u8],
    /// How long the part of its entitlement is, with what comes before it.
    entitlement_end: usize,
}

impl<'a> GrantKey<'a> {
    /// Reads the key of a grant; none of a key that is none.
    pub(crate) fn read(key: &'a [u8]) -> Option<GrantKey<'a>> {
        let tuple = key.strip_prefix(&GRANTS)?.strip_prefix(&[0])?;
        let mut parts = tuple.split(|byte| *byte == 0);
        let [resource_type, resource, flag, tail, principal_type, _principal] =
            std::array::from_fn(|_| parts.next());
        let (resource_type, resource, flag, tail) = (resource_type?, resource?, flag?, tail?);
        let (_, None) = (principal_type?, parts.next()) else { return None };
        let entitlement_end = tail.as_ptr() as usize + tail.len() - key.as_ptr() as usize;
        Some(GrantKey { resource_type, resource, flag, tail, entitlement_end })
    }

    /// Whether it is a grant of an entitlement with the id `escaped`, which is escaped.
    pub(crate) fn is_of(&self, escaped: &[u8]) -> bool {
        if self.flag == b"0" {
            return self.tail == escaped;
        }
        let mut rest = Some(escaped);
        for part in [self.resource_type, b":", self.resource, b":"] {
            rest = rest.and_then(|rest| rest.strip_prefix(part));
        }
        rest == Some(self.tail)
    }

    /// A key behind all of grants of the same entitlement, and not behind any other that follows. `key` is the one read.
    pub(crate) fn behind_entitlement(&self, key: &[u8]) -> Vec<u8> {
        [&key[..self.entitlement_end], &[1]].concat()
    }
}

/// What a component of a key stands for.
pub(crate) fn unescaped(component: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(component.len());
    let mut bytes = component.iter();
    while let Some(byte) = bytes.next() {
        out.push(if *byte == 1 { bytes.next().map_or(0, |next| next.wrapping_sub(1)) } else { *byte });
    }
    out
}

/// A text as it stands in a key.
pub(crate) fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, text);
    out.remove(0);
    out
}

/// What keys begin with that have these components behind `start`, and at least one more.
pub(crate) fn prefix(start: &[u8], components: &[&str]) -> Vec<u8> {
    let mut out = start.to_vec();
    for component in components {
        push(&mut out, component);
    }
    out.push(0);
    out
}

/// What the keys of grants of an entitlement begin with.
pub(crate) fn grants_of(of: &EntitlementRef) -> Vec<u8> {
    let mut out = GRANTS.to_vec();
    push_entitlement(&mut out, &of.resource.resource_type, &of.resource.resource, &of.id);
    out.push(0);
    out
}

/// The key that comes next after one.
pub(crate) fn next(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The key behind all that begin with `prefix`, which ends with a separator.
pub(crate) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut out = prefix.to_vec();
    if let Some(last) = out.last_mut() {
        *last = 1;
    }
    out
}

#[cfg(test)]
#[path = "key/tests.rs"]
mod tests;
