//! Writing the rows of one sync into a pack: sorted runs and what is in memory, merged in one pass.
//!
//! Inputs are ordered by age. The lists of terms are merged first, which gives the new number of every term of every
//! input; from then on grants are compared as integers. Nothing is looked up in what is there already.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::merge::{dead_rows, merge_terms, GrantMerge, Input};
use super::spill::Spill;
use crate::graph::error::GraphError;
use crate::graph::format::details::Record;
use crate::graph::format::key;
use crate::graph::format::payload;
use crate::graph::format::records::{options, RecordsCursor, RecordsWriter};
use crate::graph::format::rows::{block_key, Rows};
use crate::graph::format::segment::{
    section_name, Segment, BY_PRINCIPAL, CHILDREN, ENTITLEMENT_IDS, ENTITLEMENT_TERMS, ENTITLEMENT_TERM_IDS,
    GRANTS, GRANT_IDS, PRINCIPAL_TERMS, SECTIONS,
};
use crate::graph::format::stats::SyncStats;
use crate::graph::format::table::Table;
use crate::graph::model::{Resource, Timestamp};
use crate::graph::tail::radix::{self, Keyed};
use crate::graph::tail::{are_ambiguous, Pending, Sorted, Tail};
use duramen_pack::container::{Pack, PackWriter};

/// What becomes one sync, the oldest first; the tail is the newest.
pub(crate) struct Parts<'a> {
    pub(crate) segments: &'a [Arc<Segment>],
    pub(crate) tail: &'a Tail,
    /// Where sorted runs go that do not fit into memory, and how much memory that is.
    pub(crate) folder: &'a Path,
    pub(crate) budget: usize,
    /// Whether this is the whole sync: only then are deletions forgotten.
    pub(crate) replaced_before: u64,
}

/// What was written.
pub(crate) struct Written {
    pub(crate) stats: SyncStats,
    pub(crate) ambiguous: bool,
}

/// Writes the sections of a sync.
pub(crate) fn write_sync(
    writer: &mut PackWriter,
    sync: u32,
    parts: &Parts<'_>,
) -> Result<Written, GraphError> {
    let mut stats = SyncStats { replaced: parts.replaced_before, ..SyncStats::default() };
    stats.replaced += parts.tail.replaced_records;
    write_tables(writer, sync, parts, &mut stats)?;
    let sorted = parts.tail.sorted()?;
    stats.replaced += sorted.replaced;
    let ambiguous = write_grants(writer, sync, parts, &sorted, &mut stats)?;
    Ok(Written { stats, ambiguous })
}

/// Copies the sections of a finished sync from one pack into another.
pub(crate) fn copy_sync(writer: &mut PackWriter, to: u32, pack: &Pack, from: u32) -> Result<(), GraphError> {
    let mut raw = Vec::new();
    for name in SECTIONS {
        let Some(section) = pack.section(&section_name(from, name))? else { continue };
        writer.begin_section(&section_name(to, name), options())?;
        for block in 0..section.blocks() {
            section.read(block, &mut raw)?;
            writer.block(section.first_key(block), section.records(block), &raw)?;
        }
    }
    Ok(())
}

fn write_tables(
    writer: &mut PackWriter,
    sync: u32,
    parts: &Parts<'_>,
    stats: &mut SyncStats,
) -> Result<(), GraphError> {
    let first_component = |key: &[u8]| -> Result<String, GraphError> {
        key::component(key.split(|byte| *byte == 0).next().unwrap_or_default())
    };
    stats.resource_types = write_table(writer, sync, Table::ResourceTypes, parts, stats, |_, _| Ok(()))?;
    let mut children = Spill::new(parts.folder, parts.budget);
    let mut by_type = BTreeMap::new();
    stats.resources = write_table(writer, sync, Table::Resources, parts, stats, |key, value| {
        *by_type.entry(first_component(key)?).or_insert(0) += 1;
        let resource = Resource::from_stored(key, value)?;
        if let Some(parent) = &resource.parent {
            children.push(&[&key::join(&[&parent.resource_type, &parent.resource]), &[0], key])?;
        }
        Ok(())
    })?;
    stats.resources_by_type = by_type;
    let mut out = RecordsWriter::begin(writer, &section_name(sync, CHILDREN))?;
    children.finish(|key| out.push(writer, key, &[]))?;
    out.finish(writer)?;
    let mut ids = Spill::new(parts.folder, parts.budget);
    let mut by_type = BTreeMap::new();
    stats.entitlements = write_table(writer, sync, Table::Entitlements, parts, stats, |key, _| {
        *by_type.entry(first_component(key)?).or_insert(0) += 1;
        let mut components = key.splitn(3, |byte| *byte == 0);
        let id = components.nth(2).unwrap_or_default();
        ids.push(&[id, &[0], key])
    })?;
    stats.entitlements_by_type = by_type;
    let mut out = RecordsWriter::begin(writer, &section_name(sync, ENTITLEMENT_IDS))?;
    ids.finish(|key| out.push(writer, key, &[]))?;
    out.finish(writer)?;
    stats.assets = write_table(writer, sync, Table::Assets, parts, stats, |_, _| Ok(()))?;
    Ok(())
}

/// Merges one kind of records, the newest of each key.
fn write_table(
    writer: &mut PackWriter,
    sync: u32,
    table: Table,
    parts: &Parts<'_>,
    stats: &mut SyncStats,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), GraphError>,
) -> Result<u64, GraphError> {
    let mut out = RecordsWriter::begin(writer, &section_name(sync, table.section()))?;
    let mut older = Vec::with_capacity(parts.segments.len());
    for segment in parts.segments {
        older.push(RecordsCursor::at(segment.table(table)?, 0)?);
    }
    let pending: &Pending = parts.tail.table(table);
    let mut newest = pending.iter().peekable();
    let mut key = Vec::new();
    loop {
        let least = older.iter().filter_map(|cursor| cursor.peek().map(|(key, _)| key));
        let least = least.chain(newest.peek().map(|(key, _)| key.as_slice())).min();
        let Some(least) = least else { break };
        key.clear();
        key.extend_from_slice(least);
        let mut seen = 0_u64;
        let mut value: Option<Vec<u8>> = None;
        for cursor in &mut older {
            if let Some((_, found)) = cursor.peek().filter(|(found, _)| *found == key.as_slice()) {
                value = Some(found.to_vec());
                seen += 1;
                cursor.next()?;
            }
        }
        if newest.peek().is_some_and(|(found, _)| **found == key) {
            if let Some((_, found)) = newest.next() {
                value.clone_from(found);
                seen += u64::from(found.is_some());
            }
        }
        stats.replaced += seen.saturating_sub(u64::from(value.is_some()));
        if let Some(value) = value {
            each(&key, &value)?;
            out.push(writer, &key, &value)?;
        }
    }
    out.finish(writer)
}

fn write_grants(
    writer: &mut PackWriter,
    sync: u32,
    parts: &Parts<'_>,
    sorted: &Sorted,
    stats: &mut SyncStats,
) -> Result<bool, GraphError> {
    let mut inputs: Vec<Input<'_>> = parts.segments.iter().map(|segment| Input::Segment(segment)).collect();
    inputs.push(Input::Tail(parts.tail, sorted));
    let entitlements = merge_terms(writer, &section_name(sync, ENTITLEMENT_TERMS), &inputs, true)?;
    let principals = merge_terms(writer, &section_name(sync, PRINCIPAL_TERMS), &inputs, false)?;
    // A single input has no two rows of one id: its maker saw to that.
    let stated = parts.segments.iter().any(|segment| segment.ambiguous) || parts.tail.has_stated_ids();
    let ambiguous = stated
        || principals.ambiguous
        || are_ambiguous(
            entitlements.keys.iter().map(Vec::as_slice),
            principals.types.iter().map(Vec::as_slice),
        );
    let several = parts.segments.len() > 1 || (!parts.segments.is_empty() && !parts.tail.is_empty());
    let dead = if several && (ambiguous || !parts.tail.deleted.is_empty()) {
        dead_rows(&inputs, &parts.tail.deleted, parts.budget)?
    } else {
        vec![Vec::new(); inputs.len()]
    };
    stats.replaced += dead.iter().map(Vec::len).sum::<usize>() as u64;

    writer.begin_section(&section_name(sync, GRANTS), options())?;
    let mut merge = GrantMerge::new(&inputs, &entitlements.places, &principals.places, dead)?;
    let mut out = GrantsOut::new(parts, entitlements.keys.len(), principals.count as usize);
    merge.run(|entitlement, principal, time, payload| {
        out.push(writer, entitlement, principal, time, payload)
    })?;
    stats.replaced += merge.replaced;
    out.flush(writer)?;
    stats.grants = out.total;
    // Not all terms are in use: grants may have been deleted, or refused with their batch.
    stats.granted_entitlements = out.by_entitlement.iter().filter(|count| **count > 0).count() as u64;
    stats.principals = out.by_principal.iter().filter(|count| **count > 0).count() as u64;
    out.count_types(&entitlements.keys, &principals.type_ends, &principals.types, stats)?;
    write_entitlement_ids(writer, sync, &entitlements.keys)?;
    write_by_principal(writer, sync, out.pairs)?;
    let mut ids = RecordsWriter::begin(writer, &section_name(sync, GRANT_IDS))?;
    let mut last: Vec<u8> = Vec::new();
    out.ids.finish(|record| {
        let (id, edge) = record.split_at(record.len() - 8);
        let id = &id[..id.len() - 1];
        if id == last {
            return Ok(());
        }
        last = id.to_vec();
        ids.push(writer, key::component(id)?.as_bytes(), edge)
    })?;
    ids.finish(writer)?;
    Ok(ambiguous)
}

/// The numbers of entitlements by their id alone.
fn write_entitlement_ids(writer: &mut PackWriter, sync: u32, keys: &[Vec<u8>]) -> Result<(), GraphError> {
    let id = |key: &'_ Vec<u8>| -> Vec<u8> {
        key.splitn(3, |byte| *byte == 0).nth(2).unwrap_or_default().to_vec()
    };
    let mut by_id: Vec<(Vec<u8>, u32)> =
        keys.iter().zip(0..).map(|(key, number)| (id(key), number)).collect();
    by_id.sort_unstable();
    let mut out = RecordsWriter::begin(writer, &section_name(sync, ENTITLEMENT_TERM_IDS))?;
    let mut numbers = Vec::new();
    for same in by_id.chunk_by(|a, b| a.0 == b.0) {
        numbers.clear();
        same.iter().for_each(|(_, number)| numbers.extend_from_slice(&number.to_be_bytes()));
        out.push(writer, &same[0].0, &numbers)?;
    }
    out.finish(writer)?;
    Ok(())
}

/// Takes grants in order, and writes the section of them while it collects what the indexes need.
struct GrantsOut {
    rows: Rows,
    raw: Vec<u8>,
    first_nth: u32,
    last: Option<(u32, u32)>,
    nth: u32,
    pairs: Pairs,
    ids: Spill,
    total: u64,
    by_entitlement: Vec<u64>,
    by_principal: Vec<u32>,
}

impl GrantsOut {
    fn new(parts: &Parts<'_>, entitlements: usize, principals: usize) -> Self {
        GrantsOut {
            rows: Rows::default(),
            raw: Vec::new(),
            first_nth: 0,
            last: None,
            nth: 0,
            pairs: Pairs::new(parts, principals),
            ids: Spill::new(parts.folder, parts.budget / 2),
            total: 0,
            by_entitlement: vec![0; entitlements],
            by_principal: vec![0; principals],
        }
    }

    #[inline]
    fn push(
        &mut self,
        writer: &mut PackWriter,
        entitlement: u32,
        principal: u32,
        time: Option<Timestamp>,
        payload: Option<&[u8]>,
    ) -> Result<(), GraphError> {
        if self.rows.is_full() {
            self.flush(writer)?;
        }
        let same_edge = self.last == Some((entitlement, principal));
        self.nth = if same_edge { self.nth + 1 } else { 0 };
        self.last = Some((entitlement, principal));
        if self.rows.rows.is_empty() {
            self.first_nth = self.nth;
        }
        self.rows.push(entitlement, principal, time, payload);
        self.total += 1;
        self.by_entitlement[entitlement as usize] += 1;
        self.by_principal[principal as usize] += 1;
        if let Some(payload) = payload {
            if let (Some(id), _) = payload::parts(payload)? {
                let (entitlement, principal) = (entitlement.to_be_bytes(), principal.to_be_bytes());
                // Escaped, so that an id that ends with 00 sorts behind the one that it continues.
                self.ids.push(&[&key::join(&[id]), &[0], &entitlement, &principal])?;
            }
        }
        if same_edge {
            self.pairs.look_there();
        } else {
            self.pairs.push(entitlement, principal, time, payload.is_some())?;
        }
        Ok(())
    }

    fn flush(&mut self, writer: &mut PackWriter) -> Result<(), GraphError> {
        if let Some(first) = self.rows.rows.first() {
            let key = block_key(first.major, first.minor, self.first_nth);
            self.rows.encode(&mut self.raw);
            writer.block(&key, self.rows.rows.len() as u32, &self.raw)?;
            self.rows.clear();
        }
        Ok(())
    }

    fn count_types(
        &self,
        entitlements: &[Vec<u8>],
        type_ends: &[u32],
        types: &[Vec<u8>],
        stats: &mut SyncStats,
    ) -> Result<(), GraphError> {
        for (key, count) in entitlements.iter().zip(&self.by_entitlement) {
            let kind = key.split(|byte| *byte == 0).next().unwrap_or_default();
            if *count > 0 {
                *stats.grants_by_type.entry(key::component(kind)?).or_insert(0) += count;
            }
        }
        let mut begin = 0;
        for (end, kind) in type_ends.iter().zip(types) {
            let counts = self.by_principal.get(begin as usize..*end as usize).unwrap_or_default();
            let count: u64 = counts.iter().map(|count| u64::from(*count)).sum();
            let kind = key::component(kind.split(|byte| *byte == 0).next().unwrap_or_default())?;
            if count > 0 {
                *stats.grants_by_principal_type.entry(kind).or_insert(0) += count;
            }
            begin = *end;
        }
        Ok(())
    }
}

/// Edges to be sorted by their principal. They come sorted by entitlement, and the sort is stable, so it only has to
/// look at the principal.
struct Pairs {
    pairs: Vec<Keyed>,
    times: Vec<Timestamp>,
    spare: Vec<Keyed>,
    bits: u32,
    most: usize,
    runs: Spill,
    spilled: bool,
}

/// The payload of an edge that says more in the section `grants`.
const LOOK_THERE: &[u8] = &[];

impl Pairs {
    fn new(parts: &Parts<'_>, principals: usize) -> Self {
        Pairs {
            pairs: Vec::new(),
            times: Vec::new(),
            spare: Vec::new(),
            bits: radix::bits_below(principals),
            most: (parts.budget / 32).max(1 << 12),
            runs: Spill::new(parts.folder, parts.budget / 2),
            spilled: false,
        }
    }

    #[inline]
    fn push(
        &mut self,
        entitlement: u32,
        principal: u32,
        time: Option<Timestamp>,
        more: bool,
    ) -> Result<(), GraphError> {
        if self.pairs.len() == self.most {
            self.write_run()?;
        }
        let time = match time {
            None => 0,
            Some(time) => {
                if self.times.last() != Some(&time) {
                    self.times.push(time);
                }
                self.times.len() as u32
            }
        };
        let key = u64::from(entitlement) << 32 | u64::from(principal);
        self.pairs.push(Keyed { key, item: time << 1 | u32::from(more) });
        Ok(())
    }

    /// Marks the edge that came last as one that says more.
    fn look_there(&mut self) {
        if let Some(last) = self.pairs.last_mut() {
            last.item |= 1;
        }
    }

    fn time(&self, item: u32) -> Option<Timestamp> {
        self.times.get((item as usize >> 1).checked_sub(1)?).copied()
    }

    /// 8 bytes of edge, 1 of marks, 12 of time: in this order they sort as edges do.
    fn record(&self, pair: &Keyed) -> [u8; 21] {
        let mut record = [0; 21];
        record[..4].copy_from_slice(&(pair.key as u32).to_be_bytes());
        record[4..8].copy_from_slice(&((pair.key >> 32) as u32).to_be_bytes());
        let time = self.time(pair.item);
        record[8] = (pair.item as u8 & 1) | u8::from(time.is_some()) << 1;
        let time = time.unwrap_or_default();
        record[9..17].copy_from_slice(&time.seconds.to_be_bytes());
        record[17..].copy_from_slice(&time.nanos.to_be_bytes());
        record
    }

    fn write_run(&mut self) -> Result<(), GraphError> {
        // The last edge may still be marked: it stays for the next run.
        let last = self.pairs.pop();
        radix::sort(&mut self.pairs, &mut self.spare, self.bits);
        let mut runs = std::mem::replace(&mut self.runs, Spill::new(Path::new(""), 0));
        runs.push_run(self.pairs.iter().map(|pair| self.record(pair)))?;
        self.runs = runs;
        let time = last.and_then(|last| self.time(last.item));
        self.pairs.clear();
        self.times.clear();
        if let Some(mut last) = last {
            self.times.extend(time);
            last.item = (time.is_some() as u32) << 1 | (last.item & 1);
            self.pairs.push(last);
        }
        self.spilled = true;
        Ok(())
    }
}

fn write_by_principal(writer: &mut PackWriter, sync: u32, mut pairs: Pairs) -> Result<(), GraphError> {
    writer.begin_section(&section_name(sync, BY_PRINCIPAL), options())?;
    let mut rows = Rows::default();
    let mut raw = Vec::new();
    let mut push =
        |rows: &mut Rows, principal: u32, entitlement: u32, time: Option<Timestamp>, more: bool| {
            rows.push(principal, entitlement, time, more.then_some(LOOK_THERE));
            if rows.is_full() {
                flush_pairs(writer, rows, &mut raw)
            } else {
                Ok(())
            }
        };
    if pairs.spilled {
        pairs.write_run()?;
        if let Some(last) = pairs.pairs.pop() {
            let record = pairs.record(&last);
            pairs.runs.push_run(std::iter::once(record))?;
        }
        let read = |record: &[u8], range: std::ops::Range<usize>| {
            let mut bytes = [0; 8];
            if let Some(part) = record.get(range) {
                bytes[8 - part.len()..].copy_from_slice(part);
            }
            u64::from_be_bytes(bytes)
        };
        pairs.runs.finish(|record| {
            let marks = read(record, 8..9);
            let time = Timestamp { seconds: read(record, 9..17) as i64, nanos: read(record, 17..21) as i32 };
            let time = (marks & 2 != 0).then_some(time);
            push(&mut rows, read(record, 0..4) as u32, read(record, 4..8) as u32, time, marks & 1 != 0)
        })?;
    } else {
        radix::sort(&mut pairs.pairs, &mut pairs.spare, pairs.bits);
        pairs.spare = Vec::new();
        for pair in &pairs.pairs {
            let (principal, entitlement) = (pair.key as u32, (pair.key >> 32) as u32);
            push(&mut rows, principal, entitlement, pairs.time(pair.item), pair.item & 1 != 0)?;
        }
    }
    flush_pairs(writer, &mut rows, &mut raw)
}

fn flush_pairs(writer: &mut PackWriter, rows: &mut Rows, raw: &mut Vec<u8>) -> Result<(), GraphError> {
    if let Some(first) = rows.rows.first() {
        let key = block_key(first.major, first.minor, 0);
        rows.encode(raw);
        writer.block(&key, rows.rows.len() as u32, raw)?;
        rows.clear();
    }
    Ok(())
}
