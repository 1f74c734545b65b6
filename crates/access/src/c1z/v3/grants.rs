//! Grants until they are written: pairs of numbers, which sort in time that grows with their count alone.
//!
//! Keys and records of grants repeat their entitlement and their principal. So each of these is kept once under a number,
//! with the parts of keys and records that follow from it, and a grant takes 16 bytes. A grant that says more than its
//! edge and its time has its record kept beside.

use xxhash_rust::xxh3::xxh3_128;

use super::key::{self, Edge};
use super::one_edge;
use super::values::{Place, Values};
use crate::c1z::error::C1zError;
use crate::c1z::limits::RECORD_BYTES_MAX;
use crate::c1z::losses::Losses;
use crate::c1z::{connector, storage, wire};
use crate::graph::format::payload::is_derived;
use crate::graph::tail::intern::Interner;
use crate::graph::tail::radix::{self, Keyed};
use crate::graph::tail::{continue_another, ranks};
use crate::graph::{GrantRef, Timestamp};

/// The most grants of one file: they are counted in 32 bits.
pub(crate) const GRANTS_MAX: usize = u32::MAX as usize;

/// How much memory finding ids that come twice may take, in bytes: with more ids, it takes several passes.
const IDS_BYTES: usize = 128 << 20;

/// Entitlements, or principals: what keys have of them, and what records do.
#[derive(Default)]
struct Terms {
    /// The part of a key.
    keys: Interner,
    /// Behind each other for each term: the field of a record, and the part of a grant's id.
    facts: Vec<u8>,
    /// Where each of the two ends.
    ends: Vec<(usize, usize)>,
    /// The one that came last: rows come in groups.
    last: u32,
}

impl Terms {
    #[inline]
    fn number(&mut self, key: &[u8], facts: impl FnOnce(&mut Vec<u8>) -> usize) -> u32 {
        if (self.last as usize) < self.keys.len() && self.keys.get(self.last) == key {
            return self.last;
        }
        self.last = self.keys.intern(key);
        if self.last as usize == self.ends.len() {
            let field_end = facts(&mut self.facts);
            self.ends.push((field_end, self.facts.len()));
        }
        self.last
    }

    fn start(&self, number: u32) -> usize {
        (number as usize).checked_sub(1).map_or(0, |before| self.ends[before].1)
    }

    fn field(&self, number: u32) -> &[u8] {
        &self.facts[self.start(number)..self.ends[number as usize].0]
    }

    fn id(&self, number: u32) -> &[u8] {
        let (start, end) = self.ends[number as usize];
        &self.facts[start..end]
    }
}

#[derive(Clone, Copy, Debug)]
struct Row {
    entitlement: u32,
    principal: u32,
    /// 0: no time; else one more than its place in the list of times.
    time: u32,
    /// 0: nothing beside edge and time; else one more than the place of its record.
    record: u32,
}

/// The record of a grant that says more than its edge and its time.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The hash of the grant's id, in two parts so that a record takes no more room than it has to.
    id: (u64, u64),
    value: Place,
    needs_expansion: bool,
}

/// Grants in the order in which they were put.
#[derive(Default)]
pub(crate) struct Grants {
    entitlements: Terms,
    principals: Terms,
    rows: Vec<Row>,
    times: Vec<Timestamp>,
    records: Vec<Record>,
    /// Whether the id of a grant is another than that which its edge makes.
    has_stated_ids: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Grants {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a grant. There are fewer than [`GRANTS_MAX`].
    pub(crate) fn push(
        &mut self,
        grant: &GrantRef<'_>,
        values: &mut Values,
        losses: &mut Losses,
    ) -> Result<(), C1zError> {
        let edge = Edge::of(grant);
        self.key.clear();
        edge.push_entitlement(&mut self.key);
        let entitlement = self.entitlements.number(&self.key, |facts| {
            storage::put_grant_entitlement(facts, grant);
            let end = facts.len();
            facts.extend_from_slice(grant.entitlement.as_bytes());
            end
        });
        self.key.clear();
        edge.push_principal(&mut self.key);
        let principal = self.principals.number(&self.key, |facts| {
            storage::put_grant_principal(facts, grant, None);
            let end = facts.len();
            for part in [grant.principal_type, grant.principal] {
                facts.push(b':');
                facts.extend_from_slice(part.as_bytes());
            }
            end
        });
        let derived = is_derived(grant);
        let mut record = 0;
        if !derived || grant.rest.is_some() {
            self.value.clear();
            storage::put_grant(&mut self.value, grant, losses);
            check_length("grant", grant.id, &self.value)?;
            self.has_stated_ids |= !derived;
            let needs_expansion = grant.rest.is_some_and(|rest| rest.needs_expansion);
            let value = values.push(&self.value)?;
            self.records.push(Record { id: hash(grant.id.as_bytes()), value, needs_expansion });
            record = self.records.len() as u32;
        }
        let mut time = 0;
        if let Some(found) = grant.discovered_at.filter(|_| record == 0) {
            if self.times.last() != Some(&found) {
                self.times.push(found);
            }
            time = self.times.len() as u32;
        }
        self.rows.push(Row { entitlement, principal, time, record });
        Ok(())
    }

    /// Puts the grants in order. Of several with one id the last one stays; several of one edge become one, and the ids
    /// of the others are counted as losses.
    ///
    /// # Errors
    ///
    /// [`C1zError::Row`] when one id stands for two edges.
    pub(crate) fn sorted(mut self, values: &mut Values, losses: &mut Losses) -> Result<Sorted, C1zError> {
        let (entitlements, principals) = (self.entitlements.keys.sorted(), self.principals.keys.sorted());
        let edges = Edges {
            entitlement_ranks: ranks(&entitlements),
            principal_ranks: ranks(&principals),
            principal_bits: radix::bits_below(principals.len()),
        };
        let bits = edges.principal_bits + radix::bits_below(entitlements.len());
        let mut order: Vec<Keyed> =
            self.rows.iter().zip(0..).map(|(row, item)| Keyed { key: edges.number(row), item }).collect();
        radix::sort(&mut order, &mut Vec::new(), bits);
        if self.is_ambiguous(&principals) {
            self.refuse_moved(&edges, values)?;
        }
        if order.windows(2).any(|pair| pair[0].key == pair[1].key) {
            self.fold_edges(&mut order, values, losses)?;
        }
        let principal_bits = edges.principal_bits;
        Ok(Sorted { grants: self, entitlements, principals, principal_bits, order })
    }

    /// Whether the id of one edge could be that of another. It cannot, unless an id is stated, an entitlement's id is that
    /// of another one or begins with that and a colon, or a resource type begins with another and a colon.
    fn is_ambiguous(&self, principals: &[u32]) -> bool {
        let numbers = 0..self.entitlements.keys.len() as u32;
        let mut ids: Vec<&[u8]> = numbers.map(|number| self.entitlements.id(number)).collect();
        ids.sort_unstable();
        let of_principal = |number: &u32| self.principals.keys.get(*number).split(|byte| *byte == 0).nth(1);
        let mut types: Vec<&[u8]> = principals.iter().filter_map(of_principal).collect();
        types.dedup();
        self.has_stated_ids
            || ids.windows(2).any(|pair| pair[0] == pair[1])
            || continue_another(&ids)
            || continue_another(&types)
    }

    /// Refuses ids that stand for two edges.
    fn refuse_moved(&self, edges: &Edges, values: &Values) -> Result<(), C1zError> {
        let passes =
            (self.rows.len() * size_of::<((u64, u64), u64, u32)>() / IDS_BYTES + 1).next_power_of_two();
        let (mut ids, mut text) = (Vec::new(), Vec::new());
        for pass in 0..passes as u64 {
            ids.clear();
            for (row, item) in self.rows.iter().zip(0_u32..) {
                let id = self.id_hash(row, &mut text);
                if id.1 & (passes as u64 - 1) == pass {
                    ids.push((id, edges.number(row), item));
                }
            }
            ids.sort_unstable();
            if let Some(pair) = ids.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1) {
                let later = pair[0].2.max(pair[1].2);
                return Err(moved("grant", &self.id(&self.rows[later as usize], values)?));
            }
        }
        Ok(())
    }

    /// Leaves one grant of each edge.
    fn fold_edges(
        &mut self,
        order: &mut Vec<Keyed>,
        values: &mut Values,
        losses: &mut Losses,
    ) -> Result<(), C1zError> {
        let (mut kept, mut text) = (Vec::with_capacity(order.len()), Vec::new());
        for edge in order.chunk_by(|a, b| a.key == b.key) {
            // The last of each id: they come in the order in which they were put.
            let mut last: Vec<((u64, u64), Keyed)> = Vec::new();
            for each in edge.iter().rev() {
                let id = self.id_hash(&self.rows[each.item as usize], &mut text);
                if last.iter().all(|(known, _)| *known != id) {
                    last.push((id, *each));
                }
            }
            if let [(_, only)] = last[..] {
                kept.push(only);
                continue;
            }
            let mut grants = Vec::with_capacity(last.len());
            for (_, each) in &last {
                let row = self.rows[each.item as usize];
                text.clear();
                self.put_value(&row, values, &mut text)?;
                // What was written here is read again.
                let grant = storage::grant(&text).map_err(|_| {
                    let reason = "its record cannot be read again".to_owned();
                    C1zError::Row { row: "grant", id: String::new(), reason }
                })?;
                grants.push(grant);
            }
            let ids: Vec<String> = grants.iter().map(|grant| grant.id.clone()).collect();
            let Some(folded) = one_edge::folded(grants) else { continue };
            let lost = || ids.iter().filter(|id| **id != folded.id);
            let example = lost().min().map_or("", String::as_str);
            losses.note_many(
                "grant",
                "all ids but one of several grants of one edge",
                lost().count() as u64,
                example,
            );
            let place = edge[edge.len() - 1];
            text.clear();
            storage::put_grant(&mut text, &GrantRef::from(&folded), &mut Losses::default());
            check_length("grant", &folded.id, &text)?;
            let needs_expansion = folded.needs_expansion;
            self.records.push(Record {
                id: hash(folded.id.as_bytes()),
                value: values.push(&text)?,
                needs_expansion,
            });
            self.rows[place.item as usize].record = self.records.len() as u32;
            kept.push(place);
        }
        *order = kept;
        Ok(())
    }

    /// Writes the record of a grant.
    fn put_value(&self, row: &Row, values: &Values, value: &mut Vec<u8>) -> Result<(), C1zError> {
        if let Some(record) = self.record(row) {
            return values.read(record.value, value);
        }
        self.put_edge(row, value);
        if let Some(at) = (row.time as usize).checked_sub(1) {
            connector::put_timestamp(value, 5, self.times[at]);
        }
        Ok(())
    }

    /// Writes what the record of a plain grant begins with: all but its time.
    fn put_edge(&self, row: &Row, value: &mut Vec<u8>) {
        let (first, second) = (self.entitlements.id(row.entitlement), self.principals.id(row.principal));
        wire::put_varint(value, 2 << 3 | 2);
        wire::put_varint(value, (first.len() + second.len()) as u64);
        value.extend_from_slice(first);
        value.extend_from_slice(second);
        value.extend_from_slice(self.entitlements.field(row.entitlement));
        value.extend_from_slice(self.principals.field(row.principal));
    }

    fn record(&self, row: &Row) -> Option<&Record> {
        self.records.get((row.record as usize).checked_sub(1)?)
    }

    /// The hash of a grant's id, which is put together in `id` if it has to be.
    fn id_hash(&self, row: &Row, id: &mut Vec<u8>) -> (u64, u64) {
        if let Some(record) = self.record(row) {
            return record.id;
        }
        id.clear();
        id.extend_from_slice(self.entitlements.id(row.entitlement));
        id.extend_from_slice(self.principals.id(row.principal));
        hash(id)
    }

    /// The id of a grant, for messages.
    fn id(&self, row: &Row, values: &Values) -> Result<String, C1zError> {
        let mut id = Vec::new();
        match self.record(row) {
            Some(record) => {
                let mut value = Vec::new();
                values.read(record.value, &mut value)?;
                // The id is the first field.
                let mut fields = wire::Fields::new(&value);
                if let Some(bytes) = fields.next().ok().flatten().and_then(|field| field.bytes().ok()) {
                    id.extend_from_slice(bytes);
                }
            }
            None => {
                id.extend_from_slice(self.entitlements.id(row.entitlement));
                id.extend_from_slice(self.principals.id(row.principal));
            }
        }
        Ok(String::from_utf8_lossy(&id).into_owned())
    }
}

/// Refuses a record that readers would refuse.
pub(crate) fn check_length(row: &'static str, id: &str, record: &[u8]) -> Result<(), C1zError> {
    if record.len() <= RECORD_BYTES_MAX {
        return Ok(());
    }
    let reason = format!("it takes {} bytes, and at most {RECORD_BYTES_MAX} are written", record.len());
    Err(C1zError::Row { row, id: id.to_owned(), reason })
}

/// Refuses a row whose id was put before with other parts.
pub(crate) fn moved(row: &'static str, id: &str) -> C1zError {
    let reason =
        "it was put with different parts, and a version 3 file cannot take that back; put the last one only";
    C1zError::Row { row, id: id.to_owned(), reason: reason.to_owned() }
}

fn hash(id: &[u8]) -> (u64, u64) {
    let hash = xxh3_128(id);
    ((hash >> 64) as u64, hash as u64)
}

/// Edges as numbers that sort as their keys do.
struct Edges {
    entitlement_ranks: Vec<u32>,
    principal_ranks: Vec<u32>,
    principal_bits: u32,
}

impl Edges {
    #[inline]
    fn number(&self, row: &Row) -> u64 {
        let entitlement = u64::from(self.entitlement_ranks[row.entitlement as usize]);
        entitlement << self.principal_bits | u64::from(self.principal_ranks[row.principal as usize])
    }
}

/// Grants in the order of their keys, one of each edge.
pub(crate) struct Sorted {
    grants: Grants,
    /// The numbers of entitlements in the order of their keys, and of principals.
    entitlements: Vec<u32>,
    principals: Vec<u32>,
    principal_bits: u32,
    order: Vec<Keyed>,
}

impl Sorted {
    /// The ranks of entitlement and principal in a key.
    #[inline]
    fn edge(&self, each: &Keyed) -> (usize, usize) {
        let mask = (1_u64 << self.principal_bits) - 1;
        ((each.key >> self.principal_bits) as usize, (each.key & mask) as usize)
    }

    /// Calls `visit` with key and record of each grant.
    pub(crate) fn each(
        &self,
        values: &Values,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), C1zError>,
    ) -> Result<(), C1zError> {
        let grants = &self.grants;
        let (mut key, mut value) = (EdgeKey::new(&key::GRANTS), Vec::new());
        let (mut time, mut time_field) = (0, Vec::new());
        for each in &self.order {
            let (entitlement, principal) = self.edge(each);
            let (entitlement, principal) = (self.entitlements[entitlement], self.principals[principal]);
            let row = &grants.rows[each.item as usize];
            value.clear();
            if let Some(record) = grants.record(row) {
                values.read(record.value, &mut value)?;
            } else {
                grants.put_edge(row, &mut value);
                if row.time != time {
                    time = row.time;
                    time_field.clear();
                    if let Some(at) = (time as usize).checked_sub(1) {
                        connector::put_timestamp(&mut time_field, 5, grants.times[at]);
                    }
                }
                value.extend_from_slice(&time_field);
            }
            let key = key.with(
                (entitlement, grants.entitlements.keys.get(entitlement)),
                grants.principals.keys.get(principal),
            );
            visit(key, &value)?;
        }
        Ok(())
    }

    /// Calls `visit` with the keys by which grants of a principal are found, in order.
    pub(crate) fn each_by_principal(
        &self,
        mut visit: impl FnMut(&[u8]) -> Result<(), C1zError>,
    ) -> Result<(), C1zError> {
        // Where the entitlements of each principal begin, and behind those that are in place already.
        let mut places = vec![0_u32; self.principals.len() + 1];
        for each in &self.order {
            places[self.edge(each).1 + 1] += 1;
        }
        let mut sum = 0;
        for place in &mut places {
            sum += *place;
            *place = sum;
        }
        let mut entitlements = vec![0_u32; self.order.len()];
        for each in &self.order {
            let (entitlement, principal) = self.edge(each);
            let place = &mut places[principal];
            entitlements[*place as usize] = entitlement as u32;
            *place += 1;
        }
        let (mut key, mut start) = (EdgeKey::new(&key::BY_PRINCIPAL), 0);
        for (principal, end) in self.principals.iter().zip(&places) {
            let first = (*principal, self.grants.principals.keys.get(*principal));
            for entitlement in &entitlements[start..*end as usize] {
                let number = self.entitlements[*entitlement as usize];
                visit(key.with(first, self.grants.entitlements.keys.get(number)))?;
            }
            start = *end as usize;
        }
        Ok(())
    }

    /// Calls `visit` with the keys by which grants that have yet to be expanded are found, in order.
    pub(crate) fn each_needs_expansion(
        &self,
        mut visit: impl FnMut(&[u8]) -> Result<(), C1zError>,
    ) -> Result<(), C1zError> {
        if !self.grants.records.iter().any(|record| record.needs_expansion) {
            return Ok(());
        }
        let grants = &self.grants;
        let mut key = EdgeKey::new(&key::NEEDS_EXPANSION);
        for each in &self.order {
            let row = &grants.rows[each.item as usize];
            if grants.record(row).is_some_and(|record| record.needs_expansion) {
                let first = (row.entitlement, grants.entitlements.keys.get(row.entitlement));
                visit(key.with(first, grants.principals.keys.get(row.principal)))?;
            }
        }
        Ok(())
    }
}

/// A key of two terms, of which the first one stays the same for many rows.
struct EdgeKey {
    bytes: Vec<u8>,
    family: usize,
    first: Option<u32>,
    first_end: usize,
}

impl EdgeKey {
    fn new(family: &[u8]) -> EdgeKey {
        EdgeKey { bytes: family.to_vec(), family: family.len(), first: None, first_end: 0 }
    }

    #[inline]
    fn with(&mut self, (number, first): (u32, &[u8]), second: &[u8]) -> &[u8] {
        if self.first != Some(number) {
            self.first = Some(number);
            self.bytes.truncate(self.family);
            self.bytes.extend_from_slice(first);
            self.first_end = self.bytes.len();
        }
        self.bytes.truncate(self.first_end);
        self.bytes.extend_from_slice(second);
        &self.bytes
    }
}

#[cfg(test)]
#[path = "grants/tests.rs"]
mod tests;
