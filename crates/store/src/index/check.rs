//! Holding the entries of indexes against the rows that they are of.

use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use super::declared::{All, Declared};
use super::value_of;
use crate::access::View;
use crate::error::StoreError;
use crate::keys;
use crate::kv::end_of;

/// The first thing that is wrong with the indexes; none if each has the entries of its rows and no others, and a unique one
/// has none twice. It takes a look at each row and at its entry.
///
/// # Errors
/// When the tree cannot be read.
pub(crate) fn check(view: &dyn View) -> Result<Option<String>, StoreError> {
    let all = All::find(view, None)?;
    if let Some((_, error)) = all.unreadable.first() {
        return Ok(Some(error.to_string()));
    }
    let mut entries = 0;
    for one in &all.indexes {
        match check_one(view, one)? {
            Ok(found) => entries += found,
            Err(wrong) => {
                let (space, name) = (&one.space, &one.name);
                let what = format!("index {name:?} of space {space:?} {wrong}; drop it and create it again");
                return Ok(Some(what));
            }
        }
    }
    let (start, end) = keys::ALL_ENTRIES;
    let found = count(view, &KeyRange::new(&start, Some(&end)))?;
    Ok((found != entries).then(|| format!("{} entries belong to no index", found.abs_diff(entries))))
}

fn count(view: &dyn View, range: &KeyRange<'_>) -> Result<u64, StoreError> {
    let mut entries = 0;
    view.leaves(range, &mut |leaf| {
        entries += leaf.len() as u64;
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// The entries of an index, or what is wrong with it.
fn check_one(view: &dyn View, one: &Declared) -> Result<Result<u64, String>, StoreError> {
    let prefix = keys::prefix(one.index.on, &one.space);
    let (mut rows, mut wrong, mut failed) = (0_u64, None, None);
    view.scan(&KeyRange::new(&prefix, Some(&end_of(&prefix))), &mut |key, _, bytes| {
        let entry =
            value_of(one.index.on, key, bytes).and_then(|value| one.entry(&key[prefix.len()..], &value));
        let entry = match entry {
            Ok(Some(entry)) => entry,
            Ok(None) => return ControlFlow::Continue(()),
            Err(error) => {
                wrong = Some(format!("cannot have an entry of {}: {error}", keys::display(key)));
                return ControlFlow::Break(());
            }
        };
        rows += 1;
        match view.get(&entry, &mut |_, _| {}) {
            Ok(true) => return ControlFlow::Continue(()),
            Ok(false) => wrong = Some(format!("has no entry of {}", keys::display(key))),
            Err(error) => failed = Some(error),
        }
        ControlFlow::Break(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let (start, end) = (one.entries(), end_of(&one.entries()));
    let range = KeyRange::new(&start, Some(&end));
    let entries = count(view, &range)?;
    if wrong.is_none() && entries != rows {
        wrong = Some(format!("has {entries} entries of {rows} rows"));
    }
    if wrong.is_none() && one.index.unique {
        let mut last = Vec::new();
        view.scan(&range, &mut |entry, _, _| {
            match one.values_end(entry) {
                Ok((_, true)) => {}
                Ok((end, false)) if entry[..end] == last[..] => {
                    wrong = Some(format!("has the values of {} twice", entry[end..].escape_ascii()));
                }
                Ok((end, false)) => {
                    last.clear();
                    last.extend_from_slice(&entry[..end]);
                }
                Err(error) => wrong = Some(error.to_string()),
            }
            if wrong.is_some() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    Ok(wrong.map_or(Ok(entries), Err))
}
