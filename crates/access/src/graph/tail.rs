//! What was put into a sync since its last sorted run, in memory.

pub(crate) mod intern;
pub(crate) mod radix;

use std::collections::{BTreeMap, HashMap};

use xxhash_rust::xxh3::xxh3_128;

use self::intern::Interner;
use self::radix::Keyed;
use crate::graph::error::GraphError;
use crate::graph::format::key::{self, MAX_ID_BYTES};
use crate::graph::format::payload;
use crate::graph::format::rows::Rows;
use crate::graph::format::table::Table;
use crate::graph::model::{GrantRef, Timestamp};

/// The most bytes that one record may have beside its key: 8 MiB.
pub const MAX_RECORD_BYTES: usize = 8 << 20;

/// The most bytes that the id of a grant may have: 12 KiB, or what follows from its edge.
pub(crate) const MAX_GRANT_ID_BYTES: usize = 3 * MAX_ID_BYTES + 2;

/// Records by key; none means deleted.
pub(crate) type Pending = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Clone, Copy)]
pub(crate) struct TailRow {
    pub(crate) entitlement: u32,
    pub(crate) principal: u32,
    /// 0: none; else one more than the place in `times`.
    pub(crate) time: u32,
    /// 0: none; else one more than the place in `payloads`.
    pub(crate) payload: u32,
}

/// Rows in the order in which they were put. A grant takes 16 bytes and nothing of its own from the allocator.
#[derive(Default)]
pub(crate) struct Tail {
    pub(crate) entitlements: Interner,
    pub(crate) principals: Interner,
    pub(crate) rows: Vec<TailRow>,
    pub(crate) times: Vec<Timestamp>,
    payloads: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    stated_ids: usize,
    /// Ids of grants that were deleted, with the number of rows that were there then.
    pub(crate) deleted: HashMap<String, usize>,
    deleted_bytes: usize,
    tables: [Pending; 4],
    table_bytes: usize,
    /// Records that replaced another of this tail.
    pub(crate) replaced_records: u64,
    key: Vec<u8>,
    last_entitlement: u32,
    last_principal: u32,
}

/// A place to go back to when a batch fails.
pub(crate) struct Mark {
    rows: usize,
    payloads: usize,
    bytes: usize,
    stated_ids: usize,
}

pub(crate) fn check_id(what: &'static str, id: &str) -> Result<(), GraphError> {
    if id.len() > MAX_ID_BYTES {
        return Err(GraphError::TooLarge { what, size: id.len() as u64, limit: MAX_ID_BYTES as u64 });
    }
    Ok(())
}

/// Refuses a key that has an id beyond the limit, or no id at all.
pub(crate) fn check_key(what: &'static str, components: &[&str]) -> Result<(), GraphError> {
    if components.last().is_none_or(|id| id.is_empty()) {
        return Err(GraphError::NoId { what });
    }
    components.iter().try_for_each(|id| check_id(what, id))
}

impl Tail {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.deleted.is_empty() && self.tables.iter().all(BTreeMap::is_empty)
    }

    /// How many changes it holds.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.deleted.len() + self.tables.iter().map(BTreeMap::len).sum::<usize>()
    }

    /// How much memory it takes, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.rows.len() * 16
            + self.bytes.len()
            + self.payloads.len() * 8
            + self.times.len() * 16
            + self.deleted_bytes
            + self.table_bytes
            + self.entitlements.memory()
            + self.principals.memory()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            rows: self.rows.len(),
            payloads: self.payloads.len(),
            bytes: self.bytes.len(),
            stated_ids: self.stated_ids,
        }
    }

    /// Forgets the grants since a mark. Terms that only they had stay, which does no harm.
    pub(crate) fn roll_back(&mut self, mark: &Mark) {
        self.rows.truncate(mark.rows);
        self.payloads.truncate(mark.payloads);
        self.bytes.truncate(mark.bytes);
        self.stated_ids = mark.stated_ids;
    }

    /// Adds a grant.
    pub(crate) fn push(&mut self, grant: &GrantRef<'_>) -> Result<(), GraphError> {
        if grant.id.is_empty() {
            return Err(GraphError::NoId { what: "grant" });
        }
        let derived = payload::is_derived(grant);
        let parts =
            [grant.resource_type, grant.resource, grant.entitlement, grant.principal_type, grant.principal];
        if parts.iter().any(|id| id.len() > MAX_ID_BYTES) || grant.id.len() > MAX_GRANT_ID_BYTES {
            parts.iter().try_for_each(|id| check_id("an id of a grant", id))?;
            let (size, limit) = (grant.id.len() as u64, MAX_GRANT_ID_BYTES as u64);
            return Err(GraphError::TooLarge { what: "the id of a grant", size, limit });
        }
        key::join_into(&mut self.key, &[grant.resource_type, grant.resource, grant.entitlement]);
        let entitlement = intern(&mut self.entitlements, &self.key, &mut self.last_entitlement);
        key::join_into(&mut self.key, &[grant.principal_type, grant.principal]);
        if let Some(parent) = grant.rest.and_then(|rest| rest.principal.parent.as_ref()) {
            check_id("the parent of a principal", &parent.resource_type)?;
            check_id("the parent of a principal", &parent.resource)?;
            key::push_next(&mut self.key, &parent.resource_type);
            key::push_next(&mut self.key, &parent.resource);
        }
        let principal = intern(&mut self.principals, &self.key, &mut self.last_principal);
        let time = match grant.discovered_at {
            None => 0,
            Some(time) => {
                if self.times.last() != Some(&time) {
                    self.times.push(time);
                }
                self.times.len() as u32
            }
        };
        let begin = self.bytes.len();
        let mut payload = 0;
        if (!derived || grant.rest.is_some()) && payload::encode(&mut self.bytes, grant, derived) {
            if self.bytes.len() - begin > MAX_RECORD_BYTES || self.bytes.len() > u32::MAX as usize {
                let size = (self.bytes.len() - begin) as u64;
                self.bytes.truncate(begin);
                return Err(GraphError::TooLarge { what: "a grant", size, limit: MAX_RECORD_BYTES as u64 });
            }
            self.payloads.push((begin as u32, self.bytes.len() as u32));
            payload = self.payloads.len() as u32;
            self.stated_ids += usize::from(!derived);
        }
        self.rows.push(TailRow { entitlement, principal, time, payload });
        Ok(())
    }

    pub(crate) fn time(&self, row: &TailRow) -> Option<Timestamp> {
        self.times.get((row.time as usize).checked_sub(1)?).copied()
    }

    pub(crate) fn payload(&self, row: &TailRow) -> Option<&[u8]> {
        let (begin, end) = *self.payloads.get((row.payload as usize).checked_sub(1)?)?;
        self.bytes.get(begin as usize..end as usize)
    }

    /// Deletes the grant of an id, if there will be one.
    pub(crate) fn delete_grant(&mut self, id: &str) {
        let rows = self.rows.len();
        if self.deleted.insert(id.to_owned(), rows).is_none() {
            self.deleted_bytes += id.len() + 96;
        }
    }

    /// Puts a record, or with `None` deletes it.
    pub(crate) fn put(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.table_bytes += key.len() + value.as_ref().map_or(0, Vec::len) + 96;
        let replaced = self.tables[table as usize].insert(key, value);
        self.replaced_records += u64::from(replaced.flatten().is_some());
    }

    pub(crate) fn table(&self, table: Table) -> &Pending {
        &self.tables[table as usize]
    }

    /// Puts the id of a row into `out`.
    pub(crate) fn id(&self, row: &TailRow, out: &mut String) -> Result<(), GraphError> {
        out.clear();
        if let Some((Some(id), _)) = self.payload(row).map(payload::parts).transpose()? {
            out.push_str(id);
            return Ok(());
        }
        derived_id(self.entitlements.get(row.entitlement), self.principals.get(row.principal), out)
    }

    /// The grants in the order of the section `grants`, the last of several with one id.
    pub(crate) fn sorted(&self) -> Result<Sorted, GraphError> {
        let entitlements = self.entitlements.sorted();
        let principals = self.principals.sorted();
        let (entitlement_ranks, principal_ranks) = (ranks(&entitlements), ranks(&principals));
        let principal_bits = radix::bits_below(principals.len());
        let bits = principal_bits + radix::bits_below(entitlements.len());
        let mut order: Vec<Keyed> = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            let entitlement = u64::from(entitlement_ranks[row.entitlement as usize]);
            let principal = u64::from(principal_ranks[row.principal as usize]);
            order.push(Keyed { key: entitlement << principal_bits | principal, item: at as u32 });
        }
        let mut spare = Vec::new();
        radix::sort(&mut order, &mut spare, bits);
        drop(spare);
        let before = order.len();
        self.last_of_edge(&mut order)?;
        let ambiguous = self.stated_ids > 0
            || are_ambiguous(
                entitlements.iter().map(|each| self.entitlements.get(*each)),
                principals.iter().map(|each| self.principals.get(*each)),
            );
        if ambiguous || !self.deleted.is_empty() {
            self.last_of_id(&mut order)?;
        }
        let replaced = (before - order.len()) as u64;
        Ok(Sorted { entitlements, principals, entitlement_ranks, principal_ranks, order, replaced })
    }

    /// Of rows with one edge and one id, keeps the last; rows of one edge come in the order of their ids.
    fn last_of_edge(&self, order: &mut Vec<Keyed>) -> Result<(), GraphError> {
        if !order.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(order.len());
        let mut id = String::new();
        for edge in order.chunk_by(|a, b| a.key == b.key) {
            if let [only] = edge {
                kept.push(*only);
                continue;
            }
            let mut last: BTreeMap<String, Keyed> = BTreeMap::new();
            for each in edge {
                self.id(&self.rows[each.item as usize], &mut id)?;
                last.insert(id.clone(), *each);
            }
            kept.extend(last.into_values());
        }
        *order = kept;
        Ok(())
    }

    /// Of rows with one id, keeps the last, and none if it was deleted after.
    fn last_of_id(&self, order: &mut Vec<Keyed>) -> Result<(), GraphError> {
        let mut hashes: Vec<(u128, u32)> = Vec::with_capacity(order.len());
        let mut id = String::new();
        for each in order.iter() {
            self.id(&self.rows[each.item as usize], &mut id)?;
            hashes.push((xxh3_128(id.as_bytes()), each.item));
        }
        let deleted: HashMap<u128, usize> =
            self.deleted.iter().map(|(id, rows)| (xxh3_128(id.as_bytes()), *rows)).collect();
        hashes.sort_unstable();
        let mut dead = std::collections::HashSet::new();
        for same in hashes.chunk_by(|a, b| a.0 == b.0) {
            let Some(((hash, newest), older)) = same.split_last() else { continue };
            dead.extend(older.iter().map(|(_, item)| *item));
            if deleted.get(hash).is_some_and(|rows| (*newest as usize) < *rows) {
                dead.insert(*newest);
            }
        }
        if !dead.is_empty() {
            order.retain(|each| !dead.contains(&each.item));
        }
        Ok(())
    }
}

/// The number of a key; the one before it is looked at first, because rows come in groups.
fn intern(interner: &mut Interner, key: &[u8], last: &mut u32) -> u32 {
    if (*last as usize) < interner.len() && interner.get(*last) == key {
        return *last;
    }
    *last = interner.intern(key);
    *last
}

/// For each number, its place in an order of all numbers.
pub(crate) fn ranks(order: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; order.len()];
    for (rank, number) in order.iter().enumerate() {
        ranks[*number as usize] = rank as u32;
    }
    ranks
}

/// Puts the id that follows from an edge into `out`.
pub(crate) fn derived_id(entitlement: &[u8], principal: &[u8], out: &mut String) -> Result<(), GraphError> {
    let mut parts = principal.split(|byte| *byte == 0);
    let id = entitlement.splitn(3, |byte| *byte == 0).nth(2);
    for (at, part) in [id, parts.next(), parts.next()].into_iter().enumerate() {
        if at > 0 {
            out.push(':');
        }
        let part = part.ok_or(GraphError::Malformed { what: "a term", at: 0 })?;
        match std::str::from_utf8(part) {
            Ok(plain) if !part.contains(&1) => out.push_str(plain),
            _ => out.push_str(&key::component(part)?),
        }
    }
    Ok(())
}

/// Whether the id of one edge could be that of another. Both lists are sorted. It cannot, unless an entitlement's id
/// is that of another resource's entitlement too, or begins with that of another and a colon; a resource type begins
/// with another and a colon; or a principal has several parents.
pub(crate) fn are_ambiguous<'a>(
    entitlements: impl Iterator<Item = &'a [u8]>,
    principals: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let mut ids: Vec<&[u8]> =
        entitlements.filter_map(|key| key.splitn(3, |byte| *byte == 0).nth(2)).collect();
    ids.sort_unstable();
    let mut types: Vec<&[u8]> = Vec::new();
    let mut last: &[u8] = &[];
    let mut first = true;
    for principal in principals {
        if !first
            && principal.starts_with(last)
            && principal.get(last.len()) == Some(&0)
            && components(last) == 2
        {
            return true;
        }
        if components(principal) == 4 && !first && prefix(last, 2) == prefix(principal, 2) {
            return true;
        }
        let kind = prefix(principal, 1);
        if types.last() != Some(&kind) {
            types.push(kind);
        }
        (first, last) = (false, principal);
    }
    ids.windows(2).any(|pair| pair[0] == pair[1]) || continue_another(&ids) || continue_another(&types)
}

fn components(key: &[u8]) -> usize {
    1 + key.iter().filter(|byte| **byte == 0).count()
}

/// The first components of a key, as they lie.
fn prefix(key: &[u8], components: usize) -> &[u8] {
    let end = key.iter().enumerate().filter(|(_, byte)| **byte == 0).nth(components - 1);
    &key[..end.map_or(key.len(), |(at, _)| at)]
}

/// Whether one of the sorted strings is another one, a colon, and more.
pub(crate) fn continue_another(sorted: &[&[u8]]) -> bool {
    sorted.iter().any(|long| {
        let colons = long.iter().enumerate().filter(|(_, byte)| **byte == b':');
        // Only what has a colon can continue another, and most ids have two or three.
        colons.into_iter().any(|(at, _)| sorted.binary_search(&&long[..at]).is_ok())
    })
}

/// The grants of a tail in order.
pub(crate) struct Sorted {
    /// The numbers of entitlements in the order of their keys, and the same for principals.
    pub(crate) entitlements: Vec<u32>,
    pub(crate) principals: Vec<u32>,
    entitlement_ranks: Vec<u32>,
    principal_ranks: Vec<u32>,
    pub(crate) order: Vec<Keyed>,
    /// How many rows gave way to a later one, or were deleted.
    pub(crate) replaced: u64,
}

impl Sorted {
    /// Fills a block with the rows from `from` on, in terms of ranks; returns the next row.
    pub(crate) fn fill(&self, tail: &Tail, from: usize, out: &mut Rows) -> usize {
        out.clear();
        let mut at = from;
        while let Some(each) = self.order.get(at).filter(|_| !out.is_full()) {
            let row = &tail.rows[each.item as usize];
            let entitlement = self.entitlement_ranks[row.entitlement as usize];
            let principal = self.principal_ranks[row.principal as usize];
            out.push(entitlement, principal, tail.time(row), tail.payload(row));
            at += 1;
        }
        at
    }
}

impl Tail {
    pub(crate) fn has_stated_ids(&self) -> bool {
        self.stated_ids > 0
    }
}

impl Tail {
    /// Adds a grant as the journal has it: keys of its terms, and its encoded payload.
    pub(crate) fn push_raw(
        &mut self,
        entitlement: &[u8],
        principal: &[u8],
        time: Option<Timestamp>,
        encoded: Option<&[u8]>,
    ) -> Result<(), GraphError> {
        let entitlement = intern(&mut self.entitlements, entitlement, &mut self.last_entitlement);
        let principal = intern(&mut self.principals, principal, &mut self.last_principal);
        let time = match time {
            None => 0,
            Some(time) => {
                if self.times.last() != Some(&time) {
                    self.times.push(time);
                }
                self.times.len() as u32
            }
        };
        let mut payload = 0;
        if let Some(encoded) = encoded {
            let (id, _) = payload::parts(encoded)?;
            self.stated_ids += usize::from(id.is_some());
            let begin = self.bytes.len() as u32;
            self.bytes.extend_from_slice(encoded);
            self.payloads.push((begin, self.bytes.len() as u32));
            payload = self.payloads.len() as u32;
        }
        self.rows.push(TailRow { entitlement, principal, time, payload });
        Ok(())
    }
}
