//! Holding the entries of indexes against the rows that they are of.

use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use super::declared::declared;
use super::value_of;
use crate::access::View;
use crate::error::StoreError;
use crate::keys;
use crate::kv::end_of;

/// The first thing that is wrong with an index; none if each has the entries of its rows and no others. It takes a look at
/// each row and at its entry.
pub(crate) fn check(view: &dyn View) -> Result<Option<String>, StoreError> {
    for one in declared(view, None)? {
        let prefix = keys::prefix(one.index.on, &one.space);
        let (mut rows, mut wrong, mut failed) = (0_u64, None, None);
        let mut look = |key: &[u8], bytes: &[u8]| -> Result<bool, StoreError> {
            let value = value_of(one.index.on, bytes)?;
            let Some(entry) = one.entry(&key[prefix.len()..], &value)? else { return Ok(true) };
            rows += 1;
            view.get(&entry, &mut |_, _| {})
        };
        view.scan(&KeyRange::new(&prefix, Some(&end_of(&prefix))), &mut |key, _, bytes| {
            match look(key, bytes) {
                Ok(true) => return ControlFlow::Continue(()),
                Ok(false) => wrong = Some(format!("has no entry of {}", keys::display(key))),
                Err(error) => failed = Some(error),
            }
            ControlFlow::Break(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let (start, mut entries) = (one.entries(), 0_u64);
        view.leaves(&KeyRange::new(&start, Some(&end_of(&start))), &mut |leaf| {
            entries += leaf.len() as u64;
            ControlFlow::Continue(())
        })?;
        if wrong.is_none() && entries != rows {
            wrong = Some(format!("has {entries} entries of {rows} rows"));
        }
        if let Some(wrong) = wrong {
            let (space, name) = (&one.space, &one.name);
            return Ok(Some(format!("index {name:?} of space {space:?} {wrong}; drop it and create it again")));
        }
    }
    Ok(None)
}
