//! Each line of the table in `docs/design/merging.md`.

use super::{decide, Decided, Known, Rules};
use crate::merge::{Equal, Reason, Strategy, Taken};
use duramen_changes::{Column, Compared, Row, Table};

type Side = Option<&'static [&'static str]>;

const FAIL: Rules = Rules { strategy: Strategy::Fail, equal: Equal::Conflict };
const AGREE: Rules = Rules { equal: Equal::Agree, ..FAIL };
const OURS: Rules = Rules { strategy: Strategy::Ours, ..FAIL };
const THEIRS: Rules = Rules { strategy: Strategy::Theirs, ..FAIL };

fn table() -> Table {
    let column = |name: &str| Column {
        name: name.to_owned(),
        type_name: "text".to_owned(),
        is_always_generated: false,
    };
    Table {
        schema: "s".to_owned(),
        name: "t".to_owned(),
        columns: vec![column("k"), column("a"), column("b")],
        key: vec![0],
        left_out: Vec::new(),
        only_in: None,
        compared: Compared::Blocks { changed: 0, of: 0 },
    }
}

fn values(side: Side) -> Option<Vec<Option<String>>> {
    side.map(|side| side.iter().map(|text| (*text != "-").then(|| (*text).to_owned())).collect())
}

fn of(known: &[Known], [base, ours, theirs]: [Side; 3], rules: Rules) -> Decided {
    let sides = [values(base), values(ours), values(theirs)];
    decide(&table(), known, [sides[0].as_deref(), sides[1].as_deref(), sides[2].as_deref()], rules)
}

/// What is done, and the reasons of conflicts with whose side was taken.
type Seen = (Option<(Side, Side)>, Vec<(Reason, Option<Taken>)>);

fn check(sides: [Side; 3], rules: Rules, (row, clashes): Seen) {
    let decided = of(&[], sides, rules);
    let row = row.map(|(old, new)| Row { old: values(old), new: values(new) });
    assert_eq!(decided.row, row, "{sides:?} {rules:?}");
    let found: Vec<_> = decided.clashes.iter().map(|it| (it.reason, it.taken)).collect();
    assert_eq!(found, clashes, "{sides:?} {rules:?}");
}

#[test]
fn m2_each_pair_of_changes_has_its_result() {
    let (b, a1, a2, b1) = (
        Some(&["1", "x", "y"][..]),
        Some(&["1", "x1", "y"][..]),
        Some(&["1", "x2", "y"][..]),
        Some(&["1", "x", "y1"][..]),
    );
    let both = Some(&["1", "x1", "y1"][..]);
    let (ours, theirs) = (Some(Taken::Ours), Some(Taken::Theirs));
    check([b, b, a1], FAIL, (Some((b, a1)), vec![]));
    check([b, b1, a1], FAIL, (Some((b1, both)), vec![]));
    check([b, a2, a1], FAIL, (None, vec![(Reason::Changed, None)]));
    check([b, a2, a1], OURS, (None, vec![(Reason::Changed, ours)]));
    check([b, a2, a1], THEIRS, (Some((a2, a1)), vec![(Reason::Changed, theirs)]));
    check([b, a1, a1], FAIL, (None, vec![(Reason::SameChange, None)]));
    check([b, a1, a1], AGREE, (None, vec![]));
    check([b, a1, a1], OURS, (None, vec![(Reason::SameChange, ours)]));
    check([b, a1, both], FAIL, (Some((a1, both)), vec![(Reason::SameChange, None)]));
    check([b, None, a1], FAIL, (None, vec![(Reason::DeletedByParent, None)]));
    check([b, None, a1], OURS, (None, vec![(Reason::DeletedByParent, ours)]));
    check([b, None, a1], THEIRS, (Some((None, a1)), vec![(Reason::DeletedByParent, theirs)]));
    check([b, b, None], FAIL, (Some((b, None)), vec![]));
    check([b, a1, None], FAIL, (None, vec![(Reason::DeletedByChild, None)]));
    check([b, a1, None], THEIRS, (Some((a1, None)), vec![(Reason::DeletedByChild, theirs)]));
    check([b, None, None], FAIL, (None, vec![]));
    check([None, None, a1], FAIL, (Some((None, a1)), vec![]));
    check([None, a1, a1], FAIL, (None, vec![]));
    check([None, a2, a1], FAIL, (None, vec![(Reason::Inserted, None)]));
    check([None, a2, a1], OURS, (None, vec![(Reason::Inserted, ours)]));
    check([None, a2, a1], THEIRS, (Some((a2, a1)), vec![(Reason::Inserted, theirs)]));
}

#[test]
fn m2_null_is_a_value_like_any_other() {
    let (b, null, other) =
        (Some(&["1", "-", "y"][..]), Some(&["1", "-", "-"][..]), Some(&["1", "z", "y"][..]));
    check([b, b, null], FAIL, (Some((b, null)), vec![]));
    check([b, other, null], FAIL, (Some((other, Some(&["1", "z", "-"][..]))), vec![]));
    check([b, null, null], FAIL, (None, vec![(Reason::SameChange, None)]));
}

#[test]
fn m2_columns_that_come_or_have_no_base_are_no_conflicts() {
    let coming = Known { is_coming: true, is_without_base: false };
    let without = Known { is_coming: false, is_without_base: true };
    let (b, ours, theirs) =
        (Some(&["1", "x", "-"][..]), Some(&["1", "x2", "-"][..]), Some(&["1", "x", "n"][..]));
    let decided = of(&[Known::default(), Known::default(), coming], [b, ours, theirs], FAIL);
    assert!(decided.clashes.is_empty());
    assert_eq!(decided.row.unwrap().new, values(Some(&["1", "x2", "n"][..])));
    let same = Some(&["1", "x", "n"][..]);
    let decided = of(&[Known::default(), Known::default(), without], [b, same, theirs], FAIL);
    assert_eq!(decided, Decided::default());
    let other = Some(&["1", "x", "m"][..]);
    let decided = of(&[Known::default(), Known::default(), without], [b, other, theirs], FAIL);
    assert_eq!(decided.clashes[0].reason, Reason::Changed);
}

/// A key that is equal by its operator and not as text: nothing takes it, whatever the strategy.
#[test]
fn m3_rows_that_are_called_otherwise_are_conflicts_of_every_strategy() {
    let (b, ours, theirs) =
        (Some(&["1.0", "x", "y"][..]), Some(&["1.00", "x", "y"][..]), Some(&["1.0", "z", "y"][..]));
    for rules in [FAIL, OURS, THEIRS] {
        check([b, ours, theirs], rules, (None, vec![(Reason::Changed, None)]));
    }
}
