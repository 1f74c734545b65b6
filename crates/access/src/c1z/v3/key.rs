//! Keys of rows in a version 3 file.
//!
//! `03 | family | tuple`: components joined by `00`, with `00` and `01` escaped, so that bytes compare as components do.

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

impl Edge<'_> {
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

#[cfg(test)]
#[path = "key/tests.rs"]
mod tests;
