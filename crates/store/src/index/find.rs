//! Doing a query.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use duramen_tree::KeyRange;
use serde_json::Value;

use super::declared::{All, Declared};
use super::encoding::encode;
use super::plan::{choose, without_index, Plan, Way};
use super::query::{Cursor, Found, Query};
use super::value_of;
use crate::access::View;
use crate::error::StoreError;
use crate::expiry;
use crate::filter;
use crate::keys::{self, KeyBuf, Primitive};
use crate::kv::end_of;

/// Entries of an index that are read before the rows that they are of, at most.
const PAGE_MAX: usize = 256;

/// A row as it lies: its key in the space, and its value.
pub(crate) type RawRow = (Vec<u8>, Vec<u8>);

/// How a query of a kind of data in a space would be done.
pub(crate) fn explain(
    view: &dyn View,
    primitive: Primitive,
    space: &str,
    query: &Query,
) -> Result<Plan, StoreError> {
    let all = usable(view, primitive, space)?;
    let mut plan = choose(query, &all).map_or_else(|| without_index(query), |way| way.plan);
    if plan.index.is_some() {
        let start = [&keys::prefix(primitive, space)[..], &query.prefix].concat();
        view.written(&KeyRange::new(&start, Some(&end_of(&start))), &mut |_, _| plan.is_sorted = true)?;
    }
    Ok(plan)
}

/// The indexes of a kind of data in a space that have entries. One that the reader itself declared has none yet.
fn usable(view: &dyn View, primitive: Primitive, space: &str) -> Result<Vec<Declared>, StoreError> {
    let mut all = All::find(view, Some(space))?.readable()?;
    let indexes = keys::prefix(Primitive::Index, space);
    view.written(&KeyRange::new(&indexes, Some(&end_of(&indexes))), &mut |key, _| {
        all.retain(|one| one.name.as_bytes() != &key[indexes.len()..]);
    })?;
    all.retain(|one| one.index.on == primitive);
    Ok(all)
}

/// Finds at most `limit` rows of a kind of data in a space.
pub(crate) fn find(
    view: &dyn View,
    primitive: Primitive,
    space: &str,
    query: &Query,
    limit: usize,
) -> Result<Found<RawRow>, StoreError> {
    let root = keys::prefix(primitive, space);
    let mut start = root.clone();
    start.extend_from_slice(&query.prefix);
    let end = end_of(&start);
    let mut search = Search {
        view,
        primitive,
        query,
        root: &root,
        range: (&start, &end),
        written: BTreeMap::new(),
        rows: BTreeMap::new(),
        limit,
        examined: 0,
    };
    view.written(&KeyRange::new(&start, Some(&end)), &mut |key, value| {
        search.written.insert(key[root.len()..].to_vec(), value.map(<[u8]>::to_vec));
    })?;
    match choose(query, &usable(view, primitive, space)?) {
        Some(way) => search.through(&way)?,
        None => search.all()?,
    }
    Ok(search.finish())
}

struct Search<'s> {
    view: &'s dyn View,
    primitive: Primitive,
    query: &'s Query,
    /// What the keys of the rows begin with.
    root: &'s KeyBuf,
    /// Where the rows are that may be found.
    range: (&'s [u8], &'s [u8]),
    /// What the reader wrote and did not commit: none for a deletion.
    written: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The best rows until now, by their place in the order of the query: one more than are wanted.
    rows: BTreeMap<Vec<u8>, RawRow>,
    limit: usize,
    examined: u64,
}

impl Search<'_> {
    /// Looks at a row. Returns whether it is among the best until now.
    fn offer(&mut self, key: &[u8], bytes: &[u8]) -> Result<bool, StoreError> {
        self.examined += 1;
        if self.primitive == Primitive::Kv && expiry::live(self.view, bytes).is_none() {
            return Ok(true);
        }
        let value = value_of(self.primitive, &[&self.root[..], key].concat(), bytes)?;
        if !self.query.filter.matches(&value) {
            return Ok(true);
        }
        let place = self.place(key, &value);
        if let Some(Cursor(after)) = &self.query.after {
            let is_behind = if self.query.is_backwards() { place < *after } else { place > *after };
            if !is_behind {
                return Ok(true);
            }
        }
        self.rows.insert(place, (key.to_vec(), bytes.to_vec()));
        if self.rows.len() <= self.limit.saturating_add(1) {
            return Ok(true);
        }
        match self.query.is_backwards() {
            true => self.rows.pop_first(),
            false => self.rows.pop_last(),
        };
        Ok(false)
    }

    /// The place of a row in the order of the query.
    fn place(&self, key: &[u8], value: &Value) -> Vec<u8> {
        let mut place = Vec::with_capacity(key.len() + 16 * self.query.order.len());
        for field in &self.query.order {
            encode(filter::field(value, field), &mut place);
        }
        place.extend_from_slice(key);
        place
    }

    fn is_full(&self) -> bool {
        self.rows.len() > self.limit
    }

    /// Looks at all rows.
    fn all(&mut self) -> Result<(), StoreError> {
        let is_ordered = self.query.order.is_empty();
        let (mut start, mut end) = (self.range.0.to_vec(), self.range.1.to_vec());
        if let Some(Cursor(after)) = self.query.after.as_ref().filter(|_| is_ordered) {
            match self.query.is_backwards() {
                true => end = end.min(behind(self.root, after, false)),
                false => start = start.max(behind(self.root, after, true)),
            }
        }
        if start >= end {
            return Ok(());
        }
        let range = KeyRange { start: &start, end: Some(&end), backwards: self.query.is_backwards() };
        let (view, root, mut failed) = (self.view, self.root.len(), None);
        view.scan(&range, &mut |key, _, bytes| {
            match self.offer(&key[root..], bytes) {
                Ok(_) if is_ordered && self.is_full() => return ControlFlow::Break(()),
                Ok(_) => return ControlFlow::Continue(()),
                Err(error) => failed = Some(error),
            }
            ControlFlow::Break(())
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Looks at the rows that an index leads to.
    fn through(&mut self, way: &Way<'_>) -> Result<(), StoreError> {
        // What is not committed is looked at first: the best of it is not known before all is seen.
        let is_ordered = way.ordered_behind.is_some() && self.written.is_empty();
        let own: Vec<RawRow> =
            self.written.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        for (key, bytes) in own {
            self.offer(&key, &bytes)?;
        }
        let mut stretches = way.stretches.clone();
        if self.query.is_backwards() {
            stretches.reverse();
        }
        for (mut start, mut end) in stretches {
            if let (Some(before), Some(Cursor(after))) = (&way.ordered_behind, &self.query.after) {
                match self.query.is_backwards() {
                    true => end = end.min(behind(before, after, false)),
                    false => start = start.max(behind(before, after, true)),
                }
            }
            while start < end {
                let page = self.page(way, &start, &end)?;
                let Some(last) = page.last().map(|(entry, _)| entry.clone()) else { break };
                for (_, key) in page {
                    self.look_up(way, &key)?;
                    if is_ordered && self.is_full() {
                        return Ok(());
                    }
                }
                match self.query.is_backwards() {
                    true => end = last,
                    false => start = behind(&last, &[], true),
                }
            }
        }
        Ok(())
    }

    /// The next entries of a stretch, and the keys of their rows.
    fn page(&self, way: &Way<'_>, start: &[u8], end: &[u8]) -> Result<Vec<RawRow>, StoreError> {
        let (mut page, mut failed) = (Vec::new(), None);
        // Where the first entries are those that are wanted, no more are read.
        let wanted = match way.ordered_behind {
            Some(_) => self.limit.saturating_add(1).min(PAGE_MAX),
            None => PAGE_MAX,
        };
        let range = KeyRange { start, end: Some(end), backwards: self.query.is_backwards() };
        self.view.scan(&range, &mut |entry, _, _| {
            match way.declared.values_end(entry) {
                Ok((at, _)) => page.push((entry.to_vec(), entry[at..].to_vec())),
                Err(error) => failed = Some(error),
            }
            if failed.is_some() || page.len() == wanted {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(page), Err)
    }

    /// Looks at the row of an entry.
    fn look_up(&mut self, way: &Way<'_>, key: &[u8]) -> Result<(), StoreError> {
        if !key.starts_with(&self.query.prefix) || self.written.contains_key(key) {
            self.examined += 1;
            return Ok(());
        }
        let (view, at) = (self.view, [&self.root[..], key].concat());
        let mut bytes = None;
        view.get(&at, &mut |_, found| bytes = Some(found.to_vec()))?;
        let bytes = bytes.ok_or_else(|| {
            let (name, key) = (&way.declared.name, keys::display(&at));
            StoreError::Damaged(format!("index {name:?} names {key}, which is not there"))
        })?;
        self.offer(key, &bytes).map(drop)
    }

    fn finish(self) -> Found<RawRow> {
        let has_more = self.is_full();
        let mut places: Vec<(Vec<u8>, RawRow)> = self.rows.into_iter().collect();
        if self.query.is_backwards() {
            places.reverse();
        }
        places.truncate(self.limit);
        let next = places.last().filter(|_| has_more).map(|(place, _)| Cursor(place.clone()));
        Found { rows: places.into_iter().map(|(_, row)| row).collect(), next, examined: self.examined }
    }
}

/// A key of the tree, or the one right after it.
fn behind(before: &[u8], rest: &[u8], after: bool) -> Vec<u8> {
    [before, rest, if after { &[0] } else { &[] }].concat()
}
