//! Reading the grants of a query in order: from a segment, and from what was put since.

use std::ops::Range;

use super::overlay::Placed;
use super::page::GrantPage;
use super::view::{continues, GrantScope, SyncView, MAX_ENTITLEMENTS};
use crate::graph::error::GraphError;
use crate::graph::format::key;
use crate::graph::format::payload;
use crate::graph::format::records::Records;
use crate::graph::format::segment::{RowCursor, Segment};
use crate::graph::format::terms::TermCursor;
use crate::graph::format::token;
use crate::graph::model::{EntitlementRef, Timestamp};

/// A scope with its keys made.
pub(crate) enum Scope {
    All,
    EntitlementId(String),
    Entitlements(Vec<Vec<u8>>),
    Prefix(Vec<u8>),
    Principal(Vec<u8>),
}

impl Scope {
    pub(crate) fn new(scope: GrantScope<'_>) -> Result<Self, GraphError> {
        Ok(match scope {
            GrantScope::All => Scope::All,
            GrantScope::Entitlement(id) => Scope::EntitlementId(id.to_owned()),
            GrantScope::Entitlements(several) => {
                if several.len() > MAX_ENTITLEMENTS {
                    return Err(GraphError::TooManyEntitlements {
                        count: several.len(),
                        limit: MAX_ENTITLEMENTS,
                    });
                }
                let key = |each: &EntitlementRef| {
                    key::join(&[&each.resource.resource_type, &each.resource.resource, &each.id])
                };
                let mut keys: Vec<_> = several.iter().map(key).collect();
                keys.sort_unstable();
                keys.dedup();
                Scope::Entitlements(keys)
            }
            GrantScope::Resource(id) => Scope::Prefix(key::join(&[&id.resource_type, &id.resource])),
            GrantScope::ResourceType(id) => Scope::Prefix(key::join(&[id])),
            GrantScope::Principal(id) => Scope::Principal(key::join(&[&id.resource_type, &id.resource])),
        })
    }

    pub(crate) fn hash(&self, sync: &str) -> u64 {
        let (kind, parts): (&[u8], Vec<&[u8]>) = match self {
            Scope::All => (b"all", Vec::new()),
            Scope::EntitlementId(id) => (b"id", vec![id.as_bytes()]),
            Scope::Entitlements(keys) => (b"several", keys.iter().map(Vec::as_slice).collect()),
            Scope::Prefix(key) => (b"prefix", vec![key]),
            Scope::Principal(key) => (b"principal", vec![key]),
        };
        let mut all = vec![sync.as_bytes(), b"grants", kind];
        all.extend(parts);
        token::query_hash(&all)
    }

    pub(crate) fn by_principal(&self) -> bool {
        matches!(self, Scope::Principal(_))
    }

    /// The major numbers that are meant, ascending.
    pub(crate) fn ranges(&self, segment: &Segment) -> Result<Vec<Range<u32>>, GraphError> {
        let of_prefix = |records: &Records, prefix: &[u8]| -> Result<Range<u32>, GraphError> {
            let range = records.prefix(prefix)?;
            Ok(range.start as u32..range.end as u32)
        };
        let entitlements = segment.entitlements()?.records();
        Ok(match self {
            Scope::All => Vec::from_iter(std::iter::once(0..entitlements.len() as u32)),
            Scope::EntitlementId(id) => {
                segment.entitlements_of(id)?.into_iter().map(|number| number..number + 1).collect()
            }
            Scope::Entitlements(keys) => {
                let ranges = keys.iter().map(|key| of_prefix(entitlements, key));
                ranges.collect::<Result<_, _>>()?
            }
            Scope::Prefix(prefix) => vec![of_prefix(entitlements, prefix)?],
            Scope::Principal(prefix) => vec![of_prefix(segment.principals()?.records(), prefix)?],
        })
    }

    pub(crate) fn contains(&self, placed: &Placed) -> bool {
        match self {
            Scope::All => true,
            Scope::EntitlementId(id) => placed.grant.entitlement.id == *id,
            Scope::Entitlements(keys) => keys.binary_search(&placed.entitlement).is_ok(),
            Scope::Prefix(prefix) => continues(&placed.entitlement, prefix),
            Scope::Principal(prefix) => continues(&placed.principal, prefix),
        }
    }
}

/// The row that the page before ended with.
pub(crate) struct After {
    entitlement: Vec<u8>,
    principal: Vec<u8>,
    pub(crate) id: String,
}

/// Where a key lies among sorted ones: how many are below it, and whether it is there.
type Place = (u32, bool);

fn place(records: &Records, key: &[u8]) -> Result<Place, GraphError> {
    Ok((records.lower_bound(key)? as u32, records.ordinal(key)?.is_some()))
}

/// Whether a key at `place` is below the key that has a number.
fn is_below((below, there): Place, number: u32) -> bool {
    below < number || (below == number && !there)
}

impl After {
    pub(crate) fn new([entitlement, principal, id]: [Vec<u8>; 3]) -> Result<Self, GraphError> {
        let id = String::from_utf8(id).map_err(|_| GraphError::InvalidPageToken)?;
        Ok(After { entitlement, principal, id })
    }

    /// Major and minor place.
    pub(crate) fn places(&self, segment: &Segment, by_principal: bool) -> Result<[Place; 2], GraphError> {
        let entitlement = place(segment.entitlements()?.records(), &self.entitlement)?;
        let principal = place(segment.principals()?.records(), &self.principal)?;
        Ok(if by_principal { [principal, entitlement] } else { [entitlement, principal] })
    }
}

/// A row of the overlay with its place among those of the segment.
pub(crate) struct Newer<'a> {
    pub(crate) placed: &'a Placed,
    places: Option<[Place; 2]>,
}

impl<'a> Newer<'a> {
    /// The rows of the overlay that a scope holds and that come after a place.
    pub(crate) fn in_scope(
        view: &'a SyncView,
        scope: &Scope,
        after: Option<&After>,
    ) -> Result<Vec<Self>, GraphError> {
        let Some(overlay) = &view.overlay else { return Ok(Vec::new()) };
        let by_principal = scope.by_principal();
        let mut found = Vec::new();
        for at in 0..overlay.grants.len() {
            let at = if by_principal { overlay.by_principal[at] } else { at };
            let placed = &overlay.grants[at];
            let is_behind = after.is_some_and(|after| {
                let ours = (&placed.entitlement, &placed.principal);
                let last = (&after.entitlement, &after.principal);
                let ordering =
                    if by_principal { (ours.1, ours.0).cmp(&(last.1, last.0)) } else { ours.cmp(&last) };
                ordering.then_with(|| placed.grant.id.cmp(&after.id)).is_le()
            });
            if is_behind || !scope.contains(placed) {
                continue;
            }
            let places = match &view.segment {
                Some(segment) => {
                    let entitlement = place(segment.entitlements()?.records(), &placed.entitlement)?;
                    let principal = place(segment.principals()?.records(), &placed.principal)?;
                    Some(if by_principal { [principal, entitlement] } else { [entitlement, principal] })
                }
                None => None,
            };
            found.push(Newer { placed, places });
        }
        Ok(found)
    }

    pub(crate) fn is_before_edge(&self, (major, minor): (u32, u32)) -> bool {
        self.places.is_some_and(|[first, second]| {
            is_below(first, major) || (first == (major, true) && is_below(second, minor))
        })
    }

    pub(crate) fn is_same_edge(&self, (major, minor): (u32, u32)) -> bool {
        self.places == Some([(major, true), (minor, true)])
    }
}

/// Reads the rows of a query from a segment, by edges in ascending order.
pub(crate) struct Scan<'a> {
    reader: SegmentReader<'a>,
    /// The index by principal, where that is what is read.
    index: Option<RowCursor<'a>>,
    ranges: std::iter::Peekable<std::vec::IntoIter<Range<u32>>>,
    /// Whether the cursor stands in the first of `ranges`.
    begun: bool,
    /// The edge whose rows are being read from the section of grants, because the index does not hold them whole.
    expanding: Option<(u32, u32)>,
    /// Where the page before ended.
    after: Option<[Place; 2]>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        segment: &'a Segment,
        scope: &Scope,
        after: Option<&After>,
    ) -> Result<Self, GraphError> {
        let by_principal = scope.by_principal();
        let after = after.map(|after| after.places(segment, by_principal)).transpose()?;
        let mut ranges = scope.ranges(segment)?;
        let index = if by_principal { Some(RowCursor::new(segment.by_principal()?)) } else { None };
        if let Some([(major, _), _]) = after {
            ranges.retain(|range| range.end > major);
        }
        Ok(Scan {
            reader: SegmentReader::new(segment)?,
            index,
            ranges: ranges.into_iter().peekable(),
            begun: false,
            expanding: None,
            after,
        })
    }

    /// Whether the page before ended within this edge.
    pub(crate) fn resumes_at(&self, edge: (u32, u32)) -> bool {
        self.after == Some([(edge.0, true), (edge.1, true)])
    }

    /// The edge of the next row, major number first.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<(u32, u32)>, GraphError> {
        if let Some((entitlement, principal)) = self.expanding {
            if self.reader.is_at(entitlement, principal)? {
                return Ok(Some((principal, entitlement)));
            }
            self.expanding = None;
            if let Some(index) = &mut self.index {
                index.step();
            }
        }
        while let Some(range) = self.ranges.peek().cloned() {
            let cursor = match &mut self.index {
                Some(index) => index,
                None => self.reader.rows()?,
            };
            if !self.begun {
                let begin = match self.after {
                    Some([(major, there), (minor, _)]) if major >= range.start => {
                        (major, if there { minor } else { 0 })
                    }
                    _ => (range.start, 0),
                };
                cursor.seek(begin.0, begin.1)?;
                self.begun = true;
            }
            let row = cursor.peek()?.map(|(row, _)| row).filter(|row| row.major < range.end);
            let Some(row) = row else {
                self.ranges.next();
                self.begun = false;
                continue;
            };
            if self.index.is_some() && row.payload != 0 {
                self.reader.rows()?.seek(row.minor, row.major)?;
                if self.reader.is_at(row.minor, row.major)? {
                    self.expanding = Some((row.minor, row.major));
                } else {
                    return Err(GraphError::Malformed {
                        what: "the index by principal",
                        at: row.major as usize,
                    });
                }
            }
            return Ok(Some((row.major, row.minor)));
        }
        Ok(None)
    }

    /// Adds the row that [`peek`](Self::peek) found to a page.
    #[inline]
    pub(crate) fn push(&mut self, out: &mut GrantPage) -> Result<(), GraphError> {
        if self.expanding.is_none() {
            if let Some(index) = &mut self.index {
                let Some((row, rows)) = index.peek()? else { return Ok(()) };
                let time = rows.time(&row);
                return self.reader.put_plain(out, row.minor, row.major, time);
            }
        }
        self.reader.put(out)
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        match (&mut self.index, self.expanding) {
            (Some(index), None) => index.step(),
            _ => self.reader.step(),
        }
    }
}

/// Reads grants of a segment, with their terms.
pub(crate) struct SegmentReader<'a> {
    segment: &'a Segment,
    /// None until it is needed: an index often holds all that is asked for.
    rows: Option<RowCursor<'a>>,
    entitlements: TermCursor<'a>,
    principals: TermCursor<'a>,
}

impl<'a> SegmentReader<'a> {
    pub(crate) fn new(segment: &'a Segment) -> Result<Self, GraphError> {
        Ok(SegmentReader {
            segment,
            rows: None,
            entitlements: TermCursor::new(segment.entitlements()?),
            principals: TermCursor::new(segment.principals()?),
        })
    }

    /// The rows of the section of grants.
    #[inline]
    pub(crate) fn rows(&mut self) -> Result<&mut RowCursor<'a>, GraphError> {
        match &mut self.rows {
            Some(rows) => Ok(rows),
            none => Ok(none.insert(RowCursor::new(self.segment.grants()?))),
        }
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.step();
        }
    }

    pub(crate) fn is_at(&mut self, entitlement: u32, principal: u32) -> Result<bool, GraphError> {
        let row = self.rows()?.peek()?;
        Ok(row.is_some_and(|(row, _)| (row.major, row.minor) == (entitlement, principal)))
    }

    pub(crate) fn put(&mut self, out: &mut GrantPage) -> Result<(), GraphError> {
        let Some(cursor) = &mut self.rows else { return Ok(()) };
        let Some((row, rows)) = cursor.peek()? else { return Ok(()) };
        let parts = match rows.payload(&row) {
            Some(payload) => payload::parts(payload)?,
            None => (None, None),
        };
        let entitlement = self.entitlements.seek(row.major)?;
        let principal = self.principals.seek(row.minor)?;
        out.push(row.major, entitlement, principal, rows.time(&row), parts);
        Ok(())
    }

    /// Adds a row that the index holds whole.
    pub(crate) fn put_plain(
        &mut self,
        out: &mut GrantPage,
        entitlement: u32,
        principal: u32,
        time: Option<Timestamp>,
    ) -> Result<(), GraphError> {
        let number = entitlement;
        let entitlement = self.entitlements.seek(entitlement)?;
        let principal = self.principals.seek(principal)?;
        out.push(number, entitlement, principal, time, (None, None));
        Ok(())
    }
}
