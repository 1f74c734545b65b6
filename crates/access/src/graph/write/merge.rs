//! The k-way merge: terms of several inputs into one list, and their grants into one order.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use crate::graph::error::GraphError;
use crate::graph::format::payload;
use crate::graph::format::records::{RecordsCursor, RecordsWriter};
use crate::graph::format::rows::{Row, Rows};
use crate::graph::format::segment::{id_of, Segment};
use crate::graph::model::Timestamp;
use crate::graph::tail::{derived_id, Sorted, Tail};
use duramen_pack::container::PackWriter;

/// Something with grants in order.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    Segment(&'a Segment),
    Tail(&'a Tail, &'a Sorted),
}

impl<'a> Input<'a> {
    fn terms(&self, entitlements: bool) -> Result<TermStream<'a>, GraphError> {
        Ok(match self {
            Input::Segment(segment) => {
                let terms = if entitlements { segment.entitlements()? } else { segment.principals()? };
                TermStream::Segment(RecordsCursor::at(terms.records(), 0)?)
            }
            Input::Tail(tail, sorted) => TermStream::Tail { tail, sorted, entitlements, at: 0 },
        })
    }

    fn term_count(&self, entitlements: bool) -> Result<usize, GraphError> {
        Ok(match (self, entitlements) {
            (Input::Segment(segment), true) => segment.entitlements()?.records().len() as usize,
            (Input::Segment(segment), false) => segment.principals()?.records().len() as usize,
            (Input::Tail(_, sorted), true) => sorted.entitlements.len(),
            (Input::Tail(_, sorted), false) => sorted.principals.len(),
        })
    }

    /// Fills `out` with the next rows; false at the end. `next` counts blocks of a segment, or rows of a tail.
    fn fill(&self, next: &mut usize, raw: &mut Vec<u8>, out: &mut Rows) -> Result<bool, GraphError> {
        match self {
            Input::Segment(segment) => {
                if *next >= segment.grants()?.blocks() {
                    return Ok(false);
                }
                segment.grants()?.read(*next, raw)?;
                out.decode(raw)?;
                *next += 1;
            }
            Input::Tail(tail, sorted) => *next = sorted.fill(tail, *next, out),
        }
        Ok(!out.rows.is_empty())
    }
}

enum TermStream<'a> {
    Segment(RecordsCursor<'a>),
    Tail { tail: &'a Tail, sorted: &'a Sorted, entitlements: bool, at: usize },
}

impl TermStream<'_> {
    fn peek(&self) -> Option<&[u8]> {
        match self {
            TermStream::Segment(cursor) => cursor.peek().map(|(key, _)| key),
            TermStream::Tail { tail, sorted, entitlements: true, at } => {
                sorted.entitlements.get(*at).map(|number| tail.entitlements.get(*number))
            }
            TermStream::Tail { tail, sorted, entitlements: false, at } => {
                sorted.principals.get(*at).map(|number| tail.principals.get(*number))
            }
        }
    }

    fn next(&mut self) -> Result<(), GraphError> {
        match self {
            TermStream::Segment(cursor) => cursor.next(),
            TermStream::Tail { at, .. } => {
                *at += 1;
                Ok(())
            }
        }
    }
}

/// The merged list of terms.
pub(crate) struct MergedTerms {
    /// For each input, the new number of each of its terms; empty if they are the same.
    pub(crate) places: Vec<Vec<u32>>,
    pub(crate) count: u64,
    /// The terms themselves: of entitlements, which are few.
    pub(crate) keys: Vec<Vec<u8>>,
    /// One term of each first component, and where those with that component end: of principals.
    pub(crate) types: Vec<Vec<u8>>,
    pub(crate) type_ends: Vec<u32>,
    /// Whether one principal has several parents.
    pub(crate) ambiguous: bool,
}

/// Writes the terms of all inputs as one sorted list.
pub(crate) fn merge_terms(
    writer: &mut PackWriter,
    name: &str,
    inputs: &[Input<'_>],
    entitlements: bool,
) -> Result<MergedTerms, GraphError> {
    let mut out = RecordsWriter::begin(writer, name)?;
    let mut streams = Vec::with_capacity(inputs.len());
    let mut places = Vec::with_capacity(inputs.len());
    for input in inputs {
        streams.push(input.terms(entitlements)?);
        places.push(Vec::with_capacity(input.term_count(entitlements)?));
    }
    let mut merged = MergedTerms {
        places: Vec::new(),
        count: 0,
        keys: Vec::new(),
        types: Vec::new(),
        type_ends: Vec::new(),
        ambiguous: false,
    };
    let mut key = Vec::new();
    let mut last = Vec::new();
    while let Some(least) = streams.iter().filter_map(TermStream::peek).min() {
        if merged.count == u64::from(u32::MAX) {
            let limit = u64::from(u32::MAX);
            return Err(GraphError::TooLarge {
                what: "the list of terms (in terms)",
                size: limit + 1,
                limit,
            });
        }
        key.clear();
        key.extend_from_slice(least);
        for (stream, places) in streams.iter_mut().zip(&mut places) {
            if stream.peek() == Some(key.as_slice()) {
                places.push(merged.count as u32);
                stream.next()?;
            }
        }
        out.push(writer, &key, &[])?;
        merged.count += 1;
        if entitlements {
            merged.keys.push(key.clone());
        } else {
            merged.note_principal(&key, &last);
            last.clone_from(&key);
        }
    }
    out.finish(writer)?;
    merged.places = places;
    Ok(merged)
}

impl MergedTerms {
    fn note_principal(&mut self, key: &[u8], last: &[u8]) {
        let components = |key: &[u8], count: usize| -> usize {
            let mut zeros = key.iter().enumerate().filter(|(_, byte)| **byte == 0);
            zeros.nth(count - 1).map_or(key.len(), |(at, _)| at)
        };
        let same =
            |count: usize| self.count > 1 && key[..components(key, count)] == last[..components(last, count)];
        if same(2) {
            self.ambiguous = true;
        }
        if same(1) {
            if let Some(end) = self.type_ends.last_mut() {
                *end = self.count as u32;
            }
        } else {
            self.types.push(key[..components(key, 2)].to_vec());
            self.type_ends.push(self.count as u32);
        }
    }
}

/// The rows that a newer input replaces although they are of another edge, and those that were deleted: for each input,
/// their places in its order. Works in as many passes as the budget asks for.
pub(crate) fn dead_rows(
    inputs: &[Input<'_>],
    deleted: &HashMap<String, usize>,
    budget: usize,
) -> Result<Vec<Vec<u64>>, GraphError> {
    let mut total = 0_u64;
    for input in inputs {
        total += match input {
            Input::Segment(segment) => segment.grants()?.info().records,
            Input::Tail(_, sorted) => sorted.order.len() as u64,
        };
    }
    let passes = (total.saturating_mul(32) / budget.max(1) as u64 + 1).next_power_of_two();
    let deleted: Vec<u128> = deleted.keys().map(|id| xxh3_128(id.as_bytes())).collect();
    let mut dead = vec![Vec::new(); inputs.len()];
    for pass in 0..passes {
        let of_pass = |hash: u128| (hash as u64) & (passes - 1) == pass;
        let mut ids: Vec<(u128, u32, u64)> = Vec::new();
        for (number, input) in inputs.iter().enumerate() {
            for_each_id(input, |place, id| {
                let hash = xxh3_128(id.as_bytes());
                if of_pass(hash) {
                    ids.push((hash, number as u32, place));
                }
            })?;
        }
        // A deletion stands before the rows of the tail: those that it meets were dropped when the tail was sorted.
        let tail = inputs.len().saturating_sub(1) as u32;
        ids.extend(deleted.iter().filter(|hash| of_pass(**hash)).map(|hash| (*hash, tail, u64::MAX)));
        ids.sort_unstable();
        for same in ids.chunk_by(|a, b| a.0 == b.0) {
            let Some((_, newest, _)) = same.last() else { continue };
            for (_, input, place) in same.iter().filter(|(_, input, _)| input < newest) {
                dead[*input as usize].push(*place);
            }
        }
    }
    dead.iter_mut().for_each(|places| places.sort_unstable());
    Ok(dead)
}

fn for_each_id(input: &Input<'_>, mut visit: impl FnMut(u64, &str)) -> Result<(), GraphError> {
    let (mut next, mut raw, mut rows) = (0, Vec::new(), Rows::default());
    let mut place = 0;
    let mut id = String::new();
    while input.fill(&mut next, &mut raw, &mut rows)? {
        for row in &rows.rows {
            match input {
                Input::Segment(segment) => id_of(segment, row, &rows, &mut id)?,
                Input::Tail(tail, sorted) => id_of_tail(tail, sorted, row, &rows, &mut id)?,
            }
            visit(place, &id);
            place += 1;
        }
    }
    Ok(())
}

fn id_of_tail(
    tail: &Tail,
    sorted: &Sorted,
    row: &Row,
    rows: &Rows,
    id: &mut String,
) -> Result<(), GraphError> {
    id.clear();
    if let Some((Some(stated), _)) = rows.payload(row).map(payload::parts).transpose()? {
        id.push_str(stated);
        return Ok(());
    }
    let entitlement = tail.entitlements.get(sorted.entitlements[row.major as usize]);
    derived_id(entitlement, tail.principals.get(sorted.principals[row.minor as usize]), id)
}

/// One input of the merge, with the block of it that is being read.
struct Source<'a> {
    input: Input<'a>,
    entitlements: &'a [u32],
    principals: &'a [u32],
    dead: std::iter::Peekable<std::vec::IntoIter<u64>>,
    rows: Rows,
    raw: Vec<u8>,
    next: usize,
    at: usize,
    place: u64,
    /// The edge in terms of the merged lists.
    edge: Option<(u32, u32)>,
}

impl Source<'_> {
    /// Goes to the next row that lives.
    fn seek_live(&mut self) -> Result<(), GraphError> {
        loop {
            if self.at >= self.rows.rows.len() {
                self.at = 0;
                self.rows.clear();
                if !self.input.fill(&mut self.next, &mut self.raw, &mut self.rows)? {
                    self.edge = None;
                    return Ok(());
                }
            }
            if self.dead.peek() == Some(&self.place) {
                self.dead.next();
                self.step();
                continue;
            }
            let row = &self.rows.rows[self.at];
            let wrong = || GraphError::Malformed { what: "the number of a term", at: row.major as usize };
            let entitlement = *self.entitlements.get(row.major as usize).ok_or_else(wrong)?;
            let principal = *self.principals.get(row.minor as usize).ok_or_else(wrong)?;
            self.edge = Some((entitlement, principal));
            return Ok(());
        }
    }

    fn step(&mut self) {
        self.at += 1;
        self.place += 1;
    }
}

/// The grants of several inputs in one order.
pub(crate) struct GrantMerge<'a> {
    sources: Vec<Source<'a>>,
    /// Rows that gave way to a newer one of the same edge and id.
    pub(crate) replaced: u64,
}

impl<'a> GrantMerge<'a> {
    pub(crate) fn new(
        inputs: &[Input<'a>],
        entitlements: &'a [Vec<u32>],
        principals: &'a [Vec<u32>],
        dead: Vec<Vec<u64>>,
    ) -> Result<Self, GraphError> {
        let mut sources = Vec::with_capacity(inputs.len());
        for (((input, entitlements), principals), dead) in
            inputs.iter().zip(entitlements).zip(principals).zip(dead)
        {
            let mut source = Source {
                input: *input,
                entitlements,
                principals,
                dead: dead.into_iter().peekable(),
                rows: Rows::default(),
                raw: Vec::new(),
                next: 0,
                at: 0,
                place: 0,
                edge: None,
            };
            source.seek_live()?;
            if source.edge.is_some() {
                sources.push(source);
            }
        }
        Ok(GrantMerge { sources, replaced: 0 })
    }

    /// Calls `emit` with every grant: entitlement, principal, time and payload.
    pub(crate) fn run(
        &mut self,
        mut emit: impl FnMut(u32, u32, Option<Timestamp>, Option<&[u8]>) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        if let [only] = self.sources.as_mut_slice() {
            while let Some((entitlement, principal)) = only.edge {
                let row = only.rows.rows[only.at];
                emit(entitlement, principal, only.rows.time(&row), only.rows.payload(&row))?;
                only.step();
                only.seek_live()?;
            }
            return Ok(());
        }
        while let Some(edge) = self.sources.iter().filter_map(|source| source.edge).min() {
            let mut holders = self.sources.iter_mut().filter(|source| source.edge == Some(edge));
            match (holders.next(), holders.next()) {
                (Some(only), None) => {
                    while only.edge == Some(edge) {
                        let row = only.rows.rows[only.at];
                        emit(edge.0, edge.1, only.rows.time(&row), only.rows.payload(&row))?;
                        only.step();
                        only.seek_live()?;
                    }
                }
                _ => self.emit_edge(edge, &mut emit)?,
            }
        }
        Ok(())
    }

    /// All rows of one edge, of each id the newest, in the order of their ids. Ids are only compared where there are
    /// several rows.
    fn emit_edge(
        &mut self,
        edge: (u32, u32),
        emit: &mut impl FnMut(u32, u32, Option<Timestamp>, Option<&[u8]>) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        type Kept = (Option<Timestamp>, Option<Vec<u8>>);
        let mut several: std::collections::BTreeMap<String, Kept> = std::collections::BTreeMap::new();
        let mut held = 0;
        for source in &mut self.sources {
            while source.edge == Some(edge) {
                let row = source.rows.rows[source.at];
                let mut id = String::new();
                match &source.input {
                    Input::Segment(segment) => id_of(segment, &row, &source.rows, &mut id)?,
                    Input::Tail(tail, sorted) => id_of_tail(tail, sorted, &row, &source.rows, &mut id)?,
                }
                let payload = source.rows.payload(&row).map(<[u8]>::to_vec);
                several.insert(id, (source.rows.time(&row), payload));
                held += 1;
                source.step();
                source.seek_live()?;
            }
        }
        self.replaced += (held - several.len()) as u64;
        several.values().try_for_each(|(time, payload)| emit(edge.0, edge.1, *time, payload.as_deref()))
    }
}
