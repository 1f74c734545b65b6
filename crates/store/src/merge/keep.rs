//! Conflicts that are kept, and records of conflicts that go over with their rows.

use std::collections::{HashMap, HashSet};

use duramen_base::clock;
use duramen_tree::{Entry, MergeItem, OursIs};

use super::{Plan, RawWrite, Source, Trees};
use crate::access::Access;
use crate::conflict::record::Kept;
use crate::error::StoreError;
use crate::keys::{self, Primitive};

/// What the records of a merge have alike.
pub(super) struct Origin {
    source: String,
    version: u64,
    merged_ms: i64,
}

impl Origin {
    pub(super) fn of(source: &Source<'_>, trees: &Trees) -> Self {
        let source = match source {
            Source::Branch(branch) => branch.name().to_owned(),
            Source::Change { .. } => String::new(),
        };
        Self { source, version: trees.theirs.version(), merged_ms: clock::steady_unix_ms() }
    }
}

/// Writes the record of a conflict, or says why it cannot be kept.
pub(super) fn keep(
    trees: &Trees,
    origin: &Origin,
    item: &MergeItem<'_>,
    primitive: Primitive,
    plan: &mut Plan,
) -> Result<Option<&'static str>, StoreError> {
    if let Some(reason) = primitive.why_not_kept() {
        return Ok(Some(reason));
    }
    let at = keys::conflict(item.key);
    let mut open = None;
    trees.ours.peek(|view| view.get(&at, &mut |_, record| open = Some(record.to_vec())))?;
    let open = match open.as_deref().map(Kept::decode) {
        None => None,
        Some(Ok(open)) => Some(open),
        Some(Err(_)) => return Ok(Some("it has an open conflict that cannot be read: settle that first")),
    };
    let [base, ours, theirs] =
        [item.base, item.ours, item.theirs].map(|entry| entry.map(|it: Entry<'_>| it.value));
    let mut kept = Kept {
        merged_ms: origin.merged_ms,
        version: origin.version,
        source: &origin.source,
        base,
        ours,
        theirs,
    };
    if let Some(open) = open {
        // What is kept of theirs may only go where the new one came of it.
        if open.theirs != theirs && open.theirs != base {
            return Ok(Some("it has an open conflict with something else: settle that first"));
        }
        kept.base = open.base;
    }
    plan.report.kept += 1;
    plan.records.push((at.to_vec(), Some(kept.encode())));
    Ok(None)
}

/// A record that the source has changed since the base: takes note of it if the target has not.
pub(super) fn note(item: &MergeItem<'_>, plan: &mut Plan) {
    if item.ours_is == OursIs::Unchanged {
        plan.carried.push((item.key.to_vec(), item.theirs.map(|entry| entry.value.to_vec())));
    }
}

/// Takes over the records that the source has changed, where the row becomes the source's too, or the source only settled the
/// conflict for what the row has.
pub(super) fn carry(trees: &Trees, plan: &mut Plan) -> Result<(), StoreError> {
    let carried = std::mem::take(&mut plan.carried);
    if carried.is_empty() {
        return Ok(());
    }
    let mut taken: Vec<RawWrite> = Vec::new();
    {
        let written: HashMap<&[u8], Option<&[u8]>> =
            plan.writes.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
        let kept: HashSet<&[u8]> = plan.records.iter().map(|(key, _)| &key[..]).collect();
        for (at, record) in carried {
            let Some(row) = keys::split_conflict(&at).filter(|_| !kept.contains(&at[..])) else {
                continue;
            };
            let theirs = value_of(&trees.theirs, row)?;
            let after = match written.get(row) {
                Some(value) => value.map(<[u8]>::to_vec),
                None => value_of(&trees.ours, row)?,
            };
            let is_settled = record.is_none() && value_of(&trees.base, row)? == theirs;
            if after == theirs || is_settled {
                taken.push((at, record));
            }
        }
    }
    plan.report.carried += taken.len() as u64;
    plan.records.extend(taken);
    Ok(())
}

fn value_of(tree: &impl Access, row: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    let mut found = None;
    tree.peek(|view| view.get(row, &mut |_, value| found = Some(value.to_vec())))?;
    Ok(found)
}
