//! Vector collections whose shape a side changed: made, deleted, or made anew with other dimensions or another metric.
//!
//! Row by row, vectors of the one shape would come into a collection of the other, where no search finds them. So such a
//! collection is merged as one thing: if the other side changed anything of it, that is a conflict.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use duramen_tree::{KeyRange, Tree};

use super::{resolution, Conflict, MergeOptions, Plan, Resolution, Strategy, Trees, Versions};
use crate::access::Access;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::keys::Primitive;
use crate::vector::{collection_of, ranges_of, shape};

/// How the changes of a collection are merged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Each row for itself.
    ByRow,
    /// It was decided as one thing.
    Decided,
}

/// What was decided about collections until now, by space and name.
#[derive(Default)]
pub(super) struct Collections(BTreeMap<(String, String), Fate>);

impl Collections {
    /// Whether a changed entry of a vector collection is merged for itself. The first one of a collection decides.
    pub(super) fn merges_by_row(
        &mut self,
        engine: &Engine,
        trees: &Trees,
        (space, rest): (&str, &[u8]),
        options: &mut MergeOptions<'_>,
        plan: &mut Plan,
    ) -> Result<bool, StoreError> {
        let Some(name) = collection_of(rest) else { return Ok(true) };
        let key = (space.to_owned(), name.to_owned());
        if let Some(fate) = self.0.get(&key) {
            return Ok(*fate == Fate::ByRow);
        }
        let fate = decide(engine, trees, space, name, options, plan)?;
        self.0.insert(key, fate);
        Ok(fate == Fate::ByRow)
    }
}

fn decide(
    engine: &Engine,
    trees: &Trees,
    space: &str,
    name: &str,
    options: &mut MergeOptions<'_>,
    plan: &mut Plan,
) -> Result<Fate, StoreError> {
    let base = trees.base.peek(|view| shape(view, space, name))?;
    let ours = trees.ours.peek(|view| shape(view, space, name))?;
    let theirs = trees.theirs.peek(|view| shape(view, space, name))?;
    let ours_changed = || has_changed(engine, trees.base.tree(), trees.ours.tree(), space, name);
    if ours == theirs || ours == base && !ours_changed()? {
        return Ok(Fate::ByRow);
    }
    let mut conflict = Conflict {
        primitive: Primitive::Vector,
        space: space.to_owned(),
        key: name.to_owned(),
        base,
        ours,
        theirs,
        paths: Vec::new(),
        resolved: true,
        kept: false,
        reason: None,
    };
    // Of collections as a whole no version is known: a rule by time decides for the target.
    match resolution(&conflict, (name.as_bytes(), Versions { ours: None, theirs: None }), options)? {
        Resolution::Ours => {}
        Resolution::Theirs => become_theirs(engine, trees, space, name, plan)?,
        Resolution::Delete => delete(trees, space, name, plan)?,
        Resolution::Value(_) => {
            let reason = "a vector collection can become ours or theirs, or be deleted".to_owned();
            return Err(StoreError::InvalidInput { what: "a resolution", reason });
        }
        Resolution::Unresolved => {
            conflict.resolved = false;
            conflict.reason = (options.strategy == Strategy::Keep)
                .then_some("collections whose shape a side changed are not kept: their rows would not fit");
        }
    }
    plan.report.conflicts.push(conflict);
    Ok(Fate::Decided)
}

fn has_changed(
    engine: &Engine,
    base: &Tree,
    ours: &Tree,
    space: &str,
    name: &str,
) -> Result<bool, StoreError> {
    let mut changed = false;
    for (start, end) in ranges_of(space, name) {
        base.diff(engine.forest(), ours, &KeyRange::new(&start, Some(&end)), |_| {
            changed = true;
            ControlFlow::Break(())
        })?;
    }
    Ok(changed)
}

fn become_theirs(
    engine: &Engine,
    trees: &Trees,
    space: &str,
    name: &str,
    plan: &mut Plan,
) -> Result<(), StoreError> {
    let (ours, theirs) = (trees.ours.tree(), trees.theirs.tree());
    for (start, end) in ranges_of(space, name) {
        ours.diff(engine.forest(), theirs, &KeyRange::new(&start, Some(&end)), |change| {
            plan.write(change.key.to_vec(), change.right.map(|entry| entry.value.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

fn delete(trees: &Trees, space: &str, name: &str, plan: &mut Plan) -> Result<(), StoreError> {
    trees.ours.peek(|view| {
        ranges_of(space, name).iter().try_for_each(|(start, end)| {
            view.scan(&KeyRange::new(start, Some(end)), &mut |key, _, _| {
                plan.write(key.to_vec(), None);
                ControlFlow::Continue(())
            })
        })
    })
}
