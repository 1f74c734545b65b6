//! Rows by their keys.

use super::cursor::Cursor;
use super::listed::{in_parallel, Listed};
use super::lsm::{Fault, Tree};

/// The change of a key that one table holds: the number of the key, the place of the change among those of the key, and
/// the value.
struct Found {
    key: usize,
    order: u64,
    value: Vec<u8>,
}

impl Tree {
    /// The values of rows by their `keys`, which ascend; none for a key that there is no row of. Logs are not looked into:
    /// there are none.
    ///
    /// Only tables that can hold one of the keys are read, on several threads, and of these only the blocks that can.
    pub(crate) fn get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        let mut jobs: Vec<(&Listed, Vec<usize>)> = Vec::new();
        for listed in self.runs.iter().flatten() {
            let wanted: Vec<usize> = (0..keys.len()).filter(|at| listed.can_hold(&keys[*at])).collect();
            if !wanted.is_empty() {
                jobs.push((listed, wanted));
            }
        }
        // The longest first, so that none is left for the end.
        jobs.sort_by_key(|(listed, _)| std::cmp::Reverse(listed.unread()));
        let unread = jobs.iter().map(|(listed, _)| listed.unread()).sum();
        let done = in_parallel(&jobs, unread, |(listed, wanted)| {
            let table = listed.open()?;
            let fault = |bad| Fault::In { part: table.name.clone(), bad };
            let mut found = Vec::new();
            let tables = std::slice::from_ref(&table);
            let mut cursor = Cursor::before(tables, wanted.first().map_or(&[], |at| &keys[*at]));
            for at in wanted {
                let mut is_there = cursor.seek(&keys[*at]).map_err(fault)?;
                // Of several changes of a key, the newest comes first.
                if is_there && cursor.key() == keys[*at] {
                    found.push(Found { key: *at, order: cursor.order(), value: cursor.value().to_vec() });
                }
                while is_there && cursor.key() == keys[*at] {
                    is_there = cursor.advance().map_err(fault)?;
                }
            }
            Ok((table, found))
        })?;
        let mut deletions = self.deletions.clone();
        let mut newest: Vec<Option<(u64, Vec<u8>)>> = vec![None; keys.len()];
        for (table, found) in done {
            table
                .push_deletions(&mut deletions)
                .map_err(|bad| Fault::In { part: table.name.clone(), bad })?;
            for Found { key, order, value } in found {
                if newest[key].as_ref().is_none_or(|(known, _)| *known < order) {
                    newest[key] = Some((order, value));
                }
            }
        }
        deletions.finish();
        let stands = |(at, newest): (usize, Option<(u64, Vec<u8>)>)| {
            newest.and_then(|(order, value)| {
                (order & 1 == 0 && !deletions.hide(&keys[at], order >> 1)).then_some(value)
            })
        };
        Ok(newest.into_iter().enumerate().map(stands).collect())
    }
}
