//! Whether the indexes and digests of a file say what its rows say.
//!
//! Both sides of an index are counted, and hashes of their rows summed under a seed that nobody outside knows: two sets with
//! one sum are equal. Digests are recomputed: what a grant adds to one is taken off again, and nothing may be left over.

use std::collections::HashMap;

use duramen_base::entropy;
use xxhash_rust::xxh3::xxh3_128_with_seed;
use xxhash_rust::xxh64::xxh64;

use super::of_row;
use super::scopes::expect_key;
use crate::c1z::error::Bad;
use crate::c1z::storage;
use crate::c1z::stored_grant::GrantReader;
use crate::c1z::v3::key::{self, family, Edge};
use crate::c1z::v3::lsm::{Fault, Tree};
use crate::graph::GrantRef;

/// The hash of a grant in a digest: that of its key without what all have in common, and of its sources.
const COMMON: usize = 3;

/// A set of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    sum: u128,
}

impl Sum {
    fn add(&mut self, seed: u64, key: &[u8], value: &[u8]) {
        let hash = xxh3_128_with_seed(key, seed);
        let hash = if value.is_empty() { hash } else { hash ^ xxh3_128_with_seed(value, hash as u64) };
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// How many rows, and their hashes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Folded {
    rows: u64,
    hashes: u64,
}

impl Folded {
    fn read(value: &[u8]) -> Option<Folded> {
        let (rows, hashes) = value.split_first_chunk()?;
        Some(Folded { rows: u64::from_be_bytes(*rows), hashes: u64::from_be_bytes(hashes.try_into().ok()?) })
    }

    fn take_off(&mut self, hash: u64) {
        self.rows = self.rows.wrapping_sub(1);
        self.hashes ^= hash;
    }
}

/// What the digests say of the grants of one entitlement, less what was found of it.
#[derive(Debug, Default)]
struct Digest {
    /// None: only leaves, without what they belong to.
    root: Option<(u8, Folded)>,
    leaves: HashMap<u16, Folded>,
    /// The rows of the index of hashes that the grants make, and those that are there.
    made: Sum,
    listed: Sum,
}

/// The indexes whose rows are keys alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    ByParent,
    ByPrincipal,
    NeedsExpansion,
}

struct Check {
    seed: u64,
    /// Rows that the graph makes, and those that are there, of each [`Index`].
    made: [Sum; 3],
    listed: [Sum; 3],
    /// By the part that an entitlement has in keys, which begins behind a separator.
    digests: HashMap<Vec<u8>, Digest>,
    all: Option<Folded>,
    reader: GrantReader,
    scratch: Vec<u8>,
}

/// What is not held against the rows, because the file says itself that it is not whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owed {
    pub(super) by_principal: bool,
    pub(super) digests: bool,
}

/// Reads all rows in their order, and refuses a file whose rows are not under their keys, or whose indexes or digests say
/// anything else than they do.
///
/// Digests that are not there say nothing, as the format has it; nor do rows of the index of hashes without a digest.
pub(super) fn check(tree: &Tree, owed: Owed) -> Result<(), Fault> {
    let mut check = Check {
        seed: u64::from_le_bytes(entropy::random_bytes()),
        made: Default::default(),
        listed: Default::default(),
        digests: HashMap::new(),
        all: None,
        reader: GrantReader::default(),
        scratch: Vec::new(),
    };
    let go_on = std::ops::ControlFlow::Continue(());
    // How many leaves a digest has is known before the grants come.
    tree.each(
        &[key::VERSION, family::DIGEST],
        Some(&[key::VERSION, family::DIGEST + 1]),
        &mut |key, value| {
            if !owed.digests {
                check.digest(key, value)?;
            }
            Ok(go_on)
        },
    )?;
    tree.each(&[], None, &mut |key, value| check.row(key, value).map(|()| go_on))?;
    check.end(owed)
}

impl Check {
    fn digest(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let bad = |reason: &'static str| of_row("digest", key, Bad::new(0, reason));
        let Some(rest) = key.strip_prefix(&key::DIGEST_OF_GRANTS) else { return Ok(()) };
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(|| bad("its key has no level"))?;
        let (partition, place) = (key::unescaped(&rest[..end]), &rest[end + 1..]);
        match place {
            [0] => {
                let (width, folded) = value.split_first().ok_or_else(|| bad("it is empty"))?;
                let folded = Folded::read(folded).ok_or_else(|| bad("it has another length"))?;
                if *width > 16 {
                    return Err(bad("it has more leaves than there can be"));
                }
                self.digests.entry(partition).or_default().root = Some((*width, folded));
            }
            [1, prefix @ ..] => {
                let prefix = prefix.try_into().map_err(|_| bad("its key has another length"))?;
                let folded = Folded::read(value).ok_or_else(|| bad("it has another length"))?;
                let digest = self.digests.entry(partition).or_default();
                digest.leaves.insert(u16::from_be_bytes(prefix), folded);
            }
            [2] if partition.is_empty() => {
                let folded = value.get(value.len().saturating_sub(16)..).and_then(Folded::read);
                self.all = Some(folded.ok_or_else(|| bad("it has another length"))?);
            }
            _ => return Err(bad("its key has a level that is not known")),
        }
        Ok(())
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        match key {
            [key::VERSION, family::GRANT, ..] => self.grant(key, value),
            [key::VERSION, family::RESOURCE, ..] => self.resource(key, value),
            [key::VERSION, family::RESOURCE_TYPE, ..] => {
                let row = storage::resource_type(value).map_err(|bad| of_row("resource type", key, bad))?;
                let mut own = Vec::new();
                key::resource_type(&mut own, &row.id);
                expect_key("resource type", key, &own)
            }
            [key::VERSION, family::ENTITLEMENT, ..] => {
                let row = storage::entitlement(value).map_err(|bad| of_row("entitlement", key, bad))?;
                let mut own = Vec::new();
                key::entitlement(&mut own, &row.resource.resource_type, &row.resource.resource, &row.id);
                expect_key("entitlement", key, &own)
            }
            [key::VERSION, family::ASSET, ..] => {
                let row = storage::asset(value).map_err(|bad| of_row("asset", key, bad))?;
                let mut own = Vec::new();
                key::asset(&mut own, &row.id);
                expect_key("asset", key, &own)
            }
            [key::VERSION, family::INDEX, ..] => {
                self.index(key, value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn resource(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let row = storage::resource(value).map_err(|bad| of_row("resource", key, bad))?;
        let mut own = Vec::new();
        key::resource(&mut own, &row.id.resource_type, &row.id.resource);
        expect_key("resource", key, &own)?;
        if let Some(parent) = row.parent.as_ref().filter(|parent| !parent.resource.is_empty()) {
            own.clear();
            let of = |id: &'_ crate::graph::ResourceId| (id.resource_type.clone(), id.resource.clone());
            let ((parent_type, parent), (child_type, child)) = (of(parent), of(&row.id));
            key::by_parent(&mut own, (&parent_type, &parent), (&child_type, &child));
            self.made[Index::ByParent as usize].add(self.seed, &own, &[]);
        }
        Ok(())
    }

    fn grant(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let row = self.reader.borrowed(value).map_err(|bad| of_row("grant", key, bad))?;
        let (edge, own) = (Edge::of(&row), &mut self.scratch);
        own.clear();
        own.extend_from_slice(&key::GRANTS);
        edge.push_entitlement(own);
        let entitlement_end = own.len();
        edge.push_principal(own);
        expect_key("grant", key, own)?;
        if row.rest.is_some_and(|rest| rest.needs_expansion) {
            let index = [key::NEEDS_EXPANSION.as_slice(), &own[key::GRANTS.len()..]].concat();
            self.made[Index::NeedsExpansion as usize].add(self.seed, &index, &[]);
        }
        let (entitlement, principal) = own[COMMON - 1..].split_at(entitlement_end - (COMMON - 1));
        let digest = self.digests.get_mut(&entitlement[1..]);
        if digest.is_some() || self.all.is_some() {
            let hash = content_hash(&row, &own[COMMON..]);
            if let Some(all) = &mut self.all {
                all.take_off(hash);
            }
            if let Some(digest) = digest {
                digest.take_off(self.seed, entitlement, principal, hash);
            }
        }
        // The principal first.
        let index = [&key::BY_PRINCIPAL, principal, entitlement].concat();
        self.made[Index::ByPrincipal as usize].add(self.seed, &index, &[]);
        Ok(())
    }

    fn index(&mut self, key: &[u8], value: &[u8]) {
        for (index, start) in [
            (Index::ByParent, &key::BY_PARENT),
            (Index::ByPrincipal, &key::BY_PRINCIPAL),
            (Index::NeedsExpansion, &key::NEEDS_EXPANSION),
        ] {
            if key.starts_with(start) {
                self.listed[index as usize].add(self.seed, key, value);
            }
        }
        if let Some(rest) = key.strip_prefix(&key::HASHES) {
            // Four components behind a separator each, and then a separator.
            let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
            let digest = ends.skip(4).take(1).last().and_then(|end| self.digests.get_mut(&rest[1..end]));
            if let Some(digest) = digest {
                digest.listed.add(self.seed, key, value);
            }
        }
    }

    fn end(self, owed: Owed) -> Result<(), Fault> {
        let refused =
            |part: &str, reason: String| Err(Fault::In { part: part.to_owned(), bad: Bad::new(0, reason) });
        for (index, name, is_owed) in [
            (Index::ByParent, "the index of resources by parent", false),
            (Index::ByPrincipal, "the index of grants by principal", owed.by_principal),
            (Index::NeedsExpansion, "the index of grants that need expansion", false),
        ] {
            let (made, listed) = (self.made[index as usize], self.listed[index as usize]);
            if !is_owed && made != listed {
                let counts = format!("{} rows, and the graph makes {}", listed.rows, made.rows);
                return refused(name, format!("it does not say what the graph does: it has {counts}"));
            }
        }
        let none = Folded::default();
        if self.all.is_some_and(|all| all != none) {
            return refused("the digest of all grants", "it is not that of the grants".to_owned());
        }
        for (partition, digest) in &self.digests {
            let of = || partition.escape_ascii();
            let root = digest.root.map(|(_, root)| root);
            if root != Some(none) || digest.leaves.values().any(|leaf| *leaf != none) {
                return refused("the digests", format!("that of {} is not that of its grants", of()));
            }
            if digest.made != digest.listed {
                let reason = format!("it does not say what the grants of {} do", of());
                return refused("the index of hashes of grants", reason);
            }
        }
        Ok(())
    }
}

impl Digest {
    /// Takes off a grant, whose entitlement and principal stand in keys behind a separator each.
    fn take_off(&mut self, seed: u64, entitlement: &[u8], principal: &[u8], hash: u64) {
        let of_principal = xxh64(&principal[1..], 0);
        let bucket = (of_principal >> 48) as u16;
        if let Some((width, root)) = &mut self.root {
            root.take_off(hash);
            if *width > 0 {
                let leaf = bucket & !(u16::MAX.checked_shr(u32::from(*width)).unwrap_or(0));
                self.leaves.entry(leaf).or_default().take_off(hash);
            }
        }
        let key = [&key::HASHES, entitlement, &[0], &bucket.to_be_bytes(), &principal[1..]].concat();
        self.made.add(seed, &key, &hash.to_be_bytes());
    }
}

/// The hash of a grant with the key `tail`, without what all keys have in common.
fn content_hash(row: &GrantRef<'_>, tail: &[u8]) -> u64 {
    let sources = row.rest.map_or(&[][..], |rest| &rest.sources);
    if sources.is_empty() {
        return xxh64(tail, 0);
    }
    let mut ids: Vec<&str> = sources.iter().map(|(id, _)| id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut bytes = tail.to_vec();
    for id in ids {
        bytes.push(0);
        bytes.extend_from_slice(&key::escaped(id));
    }
    xxh64(&bytes, 0)
}

#[cfg(test)]
#[path = "indexes/tests.rs"]
mod tests;
