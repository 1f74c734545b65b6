//! Keys of several strings that sort as the strings do, one after the other.
//!
//! Components are joined by a byte 00; within a component 00 becomes 01 01, and 01 becomes 01 02. A key of fewer
//! components is a prefix of, and sorts before, those that continue it.

use crate::graph::error::GraphError;

/// The most bytes that one identifier may have: 4 KiB. The wire allows 1,024.
pub const MAX_ID_BYTES: usize = 4096;

/// Adds a component without a separator before it.
pub(crate) fn push_first(out: &mut Vec<u8>, component: &str) {
    let bytes = component.as_bytes();
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

/// Adds a separator and a component.
pub(crate) fn push_next(out: &mut Vec<u8>, component: &str) {
    out.push(0);
    push_first(out, component);
}

/// A key of components.
pub(crate) fn join(components: &[&str]) -> Vec<u8> {
    let mut key = Vec::new();
    join_into(&mut key, components);
    key
}

/// Makes a key of components in a buffer.
pub(crate) fn join_into(key: &mut Vec<u8>, components: &[&str]) {
    key.clear();
    for (at, component) in components.iter().enumerate() {
        if at > 0 {
            key.push(0);
        }
        push_first(key, component);
    }
}

/// The components of a key.
pub(crate) fn split(key: &[u8]) -> Result<Vec<String>, GraphError> {
    key.split(|byte| *byte == 0).map(component).collect()
}

/// One component without its escapes.
pub(crate) fn component(escaped: &[u8]) -> Result<String, GraphError> {
    let malformed = |at| GraphError::Malformed { what: "a key", at };
    let bytes = if escaped.contains(&1) {
        let mut bytes = Vec::with_capacity(escaped.len());
        let mut each = escaped.iter().enumerate();
        while let Some((_, byte)) = each.next() {
            match byte {
                1 => match each.next() {
                    Some((_, 1)) => bytes.push(0),
                    Some((_, 2)) => bytes.push(1),
                    Some((at, _)) => return Err(malformed(at)),
                    None => return Err(malformed(escaped.len())),
                },
                other => bytes.push(*other),
            }
        }
        bytes
    } else {
        escaped.to_vec()
    };
    String::from_utf8(bytes).map_err(|error| malformed(error.utf8_error().valid_up_to()))
}
