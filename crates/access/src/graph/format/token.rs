//! Page tokens: where a query goes on. To callers they are opaque text.
//!
//! A token holds the last row that was returned by its strings, not by a place in a file: it stays good when rows come
//! and go, and after the file was written anew. It also holds a hash of the query, so that it is refused elsewhere.

use base64::prelude::{Engine as _, BASE64_URL_SAFE_NO_PAD};
use xxhash_rust::xxh3::Xxh3;

use super::bytes::{put_bytes, Reader};
use crate::graph::error::GraphError;

const VERSION: u8 = 1;
/// Three keys of the longest ids, as base64.
const MAX_TOKEN_BYTES: usize = 256 << 10;

/// Makes the hash that identifies a query.
pub(crate) fn query_hash(parts: &[&[u8]]) -> u64 {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.digest()
}

/// A token of the last row's keys.
pub(crate) fn encode(query: u64, keys: &[&[u8]]) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&query.to_le_bytes());
    keys.iter().for_each(|key| put_bytes(&mut bytes, key));
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The keys that a token of this query holds.
pub(crate) fn decode<const N: usize>(query: u64, token: &str) -> Result<[Vec<u8>; N], GraphError> {
    let read = || {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        let mut reader = Reader::new(&bytes, "a page token");
        if reader.u8().ok()? != VERSION || reader.take(8).ok()? != query.to_le_bytes() {
            return None;
        }
        let mut keys = [const { Vec::new() }; N];
        for key in &mut keys {
            *key = reader.bytes().ok()?.to_vec();
        }
        reader.end().ok()?;
        Some(keys)
    };
    read().ok_or(GraphError::InvalidPageToken)
}
