//! One search of a collection: over the codes of what is committed, and over what the reader itself wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codes::{check_row, parts, Coding, Rows};
use super::row::decode_row;
use super::search::{Hit, Query, Searcher};
use crate::access::View;
use crate::error::StoreError;
use crate::filter::Filter;

/// A row that was found: the whole key of the tree, and the metadata as stored.
pub(super) struct Found {
    pub(super) key: Vec<u8>,
    pub(super) metadata: Option<Vec<u8>>,
    pub(super) score: f64,
    pub(super) distance: f64,
}

/// What the reader wrote and did not commit: none for a deletion.
type Written = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The best matches, best first, equal scores in the order of keys; if `only_written`, among what the reader itself
/// wrote.
pub(super) fn search(
    view: &dyn View,
    coding: &Coding<'_>,
    query: &Query,
    filter: &Filter,
    only_written: bool,
) -> Result<Vec<Found>, StoreError> {
    let mut written = Written::new();
    view.written(&coding.range, &mut |key, value| {
        written.insert(key.to_vec(), value.map(<[u8]>::to_vec));
    })?;
    let search = Search { view, coding, query, filter, written: &written };
    let mut found = if only_written { Vec::new() } else { search.committed()? };
    if !written.is_empty() {
        found.extend(search.written()?);
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
        found.truncate(query.k());
    }
    Ok(found)
}

struct Search<'s> {
    view: &'s dyn View,
    coding: &'s Coding<'s>,
    query: &'s Query,
    filter: &'s Filter,
    written: &'s Written,
}

impl Search<'_> {
    fn accepts(&self, rows: &Rows, row: usize) -> Result<bool, StoreError> {
        rows.show(self.view, self.coding, row, |key, value| {
            let is_own = self.written.contains_key(key);
            Ok(!is_own && decode_row(value)?.fulfils(self.filter)?)
        })
    }

    /// The best of what is committed and not written anew.
    fn committed(&self) -> Result<Vec<Found>, StoreError> {
        let all = self.filter.is_empty() && self.written.is_empty();
        let mut failed = None;
        let mut searcher = Searcher::new(self.query);
        let mut shown: Vec<Arc<Rows>> = Vec::new();
        parts(self.view, self.coding, |part| {
            searcher.offer(&part.block, shown.len() as u64, |row| {
                all || self.accepts(&part.rows, row).unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    false
                })
            })?;
            shown.push(part.rows.clone());
            failed.take().map_or(Ok(()), Err)
        })?;
        let vector = |part: u64, row| {
            let rows = &shown[part as usize];
            rows.show(self.view, self.coding, row, |_, value| Ok(decode_row(value)?.vector_bytes().to_vec()))
        };
        let found = |hit: Hit| {
            let rows = &shown[hit.leaf as usize];
            rows.show(self.view, self.coding, hit.row, |key, value| {
                found(key, value, hit.score, hit.distance)
            })
        };
        searcher.finish(vector)?.into_iter().map(found).collect()
    }

    /// Every match of what the reader itself wrote, in no order.
    fn written(&self) -> Result<Vec<Found>, StoreError> {
        let mut all = Vec::new();
        for (key, value) in self.written {
            let Some(value) = value else { continue };
            let row = decode_row(value)?;
            check_row(key, &row, self.coding)?;
            if row.fulfils(self.filter)? {
                let score = self.query.score(row.vector_bytes())?;
                all.push(found(key, value, score, self.query.metric().distance(score))?);
            }
        }
        Ok(all)
    }
}

fn found(key: &[u8], value: &[u8], score: f64, distance: f64) -> Result<Found, StoreError> {
    let metadata = decode_row(value)?.metadata_bytes().map(<[u8]>::to_vec);
    Ok(Found { key: key.to_vec(), metadata, score, distance })
}
