//! One row, three ways. The table of it is in `docs/design/merging.md`.

use super::{
    conflict::{told, Reason, Taken, Three},
    Equal, Strategy,
};
use duramen_changes::{Row, Table};

/// The values of a row on one side; `None` if it is not there.
pub(super) type Side<'a> = Option<&'a [Option<String>]>;

/// What is known of a column besides its values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The parent does not have it yet: the child's definitions bring it.
    pub(super) is_coming: bool,
    /// Both sides added it, so there is no value from which both differ.
    pub(super) is_without_base: bool,
}

/// How conflicts are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) strategy: Strategy,
    pub(super) equal: Equal,
}

impl Rules {
    fn taken(self) -> Option<Taken> {
        match self.strategy {
            Strategy::Fail => None,
            Strategy::Ours => Some(Taken::Ours),
            Strategy::Theirs => Some(Taken::Theirs),
        }
    }
}

/// A conflict of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clash {
    pub(super) reason: Reason,
    pub(super) columns: Vec<Three>,
    pub(super) taken: Option<Taken>,
}

/// What is to be done in the parent, and what was in the way. Conflicts that nothing answers leave the parent's side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) row: Option<Row>,
    pub(super) clashes: Vec<Clash>,
}

/// Decides about one row. All sides have a value for each column; what a side does not have stands as NULL.
pub(super) fn decide(
    table: &Table,
    known: &[Known],
    [base, ours, theirs]: [Side<'_>; 3],
    rules: Rules,
) -> Decided {
    let three = |place: usize| {
        let value = |side: Side<'_>| told(side.and_then(|it| it.get(place)).and_then(Option::as_deref));
        let column = table.columns[place].name.clone();
        Three { column, base: value(base), ours: value(ours), theirs: value(theirs) }
    };
    let of = |place: usize| known.get(place).copied().unwrap_or_default();
    let differing = |a: &[Option<String>], b: &[Option<String>]| -> Vec<Three> {
        let places = (0..table.columns.len()).filter(|place| a.get(*place) != b.get(*place));
        places.filter(|place| !of(*place).is_coming).map(three).collect()
    };
    let wins = rules.strategy == Strategy::Theirs;
    let clash = |reason, columns, row: Option<Row>| Decided {
        row: row.filter(|_| wins),
        clashes: vec![Clash { reason, columns, taken: rules.taken() }],
    };
    let row =
        |old: Side<'_>, new: Side<'_>| Some(Row { old: old.map(<[_]>::to_vec), new: new.map(<[_]>::to_vec) });
    let done = |row| Decided { row, clashes: Vec::new() };
    if let (Some(there), Some(ours)) = (theirs.or(base), ours) {
        // Equal by their operator, and not as texts: what the row would be called afterwards is for people to say.
        let names: Vec<usize> =
            table.key.iter().copied().filter(|place| there.get(*place) != ours.get(*place)).collect();
        if !names.is_empty() {
            let columns = names.into_iter().map(three).collect();
            let clash = Clash { reason: Reason::Changed, columns, taken: None };
            return Decided { row: None, clashes: vec![clash] };
        }
    }
    match (base, theirs, ours) {
        (Some(base), Some(theirs), Some(ours)) => columns(table, known, [base, ours, theirs], rules, &three),
        (Some(_), Some(_), None) => clash(Reason::DeletedByParent, Vec::new(), row(None, theirs)),
        (Some(base), None, Some(ours)) => match differing(base, ours) {
            same if same.is_empty() => done(row(Some(ours), None)),
            changed => clash(Reason::DeletedByChild, changed, row(Some(ours), None)),
        },
        (None, Some(theirs), Some(ours)) => match differing(ours, theirs) {
            same if same.is_empty() => Decided::default(),
            others => clash(Reason::Inserted, others, row(Some(ours), Some(theirs))),
        },
        (None, Some(_), None) => done(row(None, theirs)),
        (_, None, _) => Decided::default(),
    }
}

/// A row that is there on all sides, column by column.
fn columns(
    table: &Table,
    known: &[Known],
    [base, ours, theirs]: [&[Option<String>]; 3],
    rules: Rules,
    three: &dyn Fn(usize) -> Three,
) -> Decided {
    let mut merged = ours.to_vec();
    let (mut changed, mut same, mut is_written) = (Vec::new(), Vec::new(), false);
    for place in 0..table.columns.len() {
        let Known { is_coming, is_without_base } = known.get(place).copied().unwrap_or_default();
        let mut take = || {
            merged[place].clone_from(&theirs[place]);
            is_written = true;
        };
        if is_coming {
            take();
        } else if theirs[place] == base[place] {
            // The child left it as it was.
        } else if theirs[place] == ours[place] {
            if !is_without_base && rules.equal == Equal::Conflict {
                same.push(place);
            }
        } else if ours[place] == base[place] {
            take();
        } else {
            if rules.strategy == Strategy::Theirs {
                take();
            }
            changed.push(place);
        }
    }
    let mut clashes = Vec::new();
    for (reason, places) in [(Reason::Changed, changed), (Reason::SameChange, same)] {
        if !places.is_empty() {
            let columns = places.into_iter().map(three).collect();
            clashes.push(Clash { reason, columns, taken: rules.taken() });
        }
    }
    Decided { row: is_written.then(|| Row { old: Some(ours.to_vec()), new: Some(merged) }), clashes }
}

#[cfg(test)]
#[path = "../../tests/unit/three.rs"]
mod tests;
