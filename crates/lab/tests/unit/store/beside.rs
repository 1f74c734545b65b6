//! A run beside published figures, and the defects that were published with them.

use crate::store::beside::part;
use crate::store::ops::OPERATIONS;
use crate::store::published::{Shown, DEFECTS, ROWS};
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_reports::suite::{Block, Part};

use super::{add, evidence};

/// A run with all that the defects are shown by, in which none is found.
fn sound() -> Evidence {
    let mut evidence = evidence();
    for (level, us, syncs) in [("memory", 1.2, 0.0), ("buffered", 1.8, 0.001), ("strict", 950.0, 1.0)] {
        for op in
            ["kv.put.128B", "state.set", "event.append", "json.set_root", "json.set_path", "json.delete_path"]
        {
            add(&mut evidence, &format!("{op}/{level}"), us, 1.0, syncs);
        }
        for op in ["state.read", "event.read", "json.get_root", "branch.switch"] {
            add(&mut evidence, &format!("{op}/{level}"), 0.4, 0.0, 0.0);
        }
        for op in ["branch.create", "branch.delete"] {
            add(&mut evidence, &format!("{op}/{level}"), us, 1.0, syncs);
            let floor = format!("{op}/{level}.fsync_floor_us");
            evidence.measurements.push(Measurement::scalar(floor, "us", 800.0));
        }
        add(&mut evidence, &format!("kv.scan/{level}"), 5.0, 0.0, 0.0);
    }
    evidence.measurements.push(Measurement::scalar("fsync_floor", "us", 900.0));
    evidence
}

fn tables<'p>(part: &'p Part) -> Vec<&'p [Vec<String>]> {
    let rows = |block: &'p Block| match block {
        Block::Table { rows, .. } => Some(rows.as_slice()),
        Block::Text(_) => None,
    };
    part.blocks.iter().filter_map(rows).collect()
}

fn row<'r>(rows: &'r [Vec<String>], name: &str) -> &'r [String] {
    rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no row {name}: {rows:?}"))
}

/// What is said of a defect, in their order.
fn outcomes(evidence: &Evidence) -> Vec<String> {
    let part = part(evidence).unwrap();
    tables(&part)[1].iter().map(|row| row[3].clone()).collect()
}

/// Replaces what an operation costs at a level.
fn replace(evidence: &mut Evidence, name: &str, us: f64, appends: f64, syncs: f64) {
    let beside = format!("{name}.");
    evidence.measurements.retain(|m| m.name != name && !m.name.starts_with(&beside));
    add(evidence, name, us, appends, syncs);
}

#[test]
fn every_operation_stands_beside_what_is_published_of_it() {
    let part = part(&sound()).unwrap();
    let rows = tables(&part)[0];
    let put = row(rows, "kv.put.128B");
    assert_eq!(put[1..=6], ["1.2 us", "0.922 us", "1.8 us", "6.12 ms", "950.3 us", "6.54 ms"]);
    assert_eq!(put[10], "memory", "it is slower there, and said to be: {put:?}");
    assert_eq!(row(rows, "kv.scan")[2], "", "nothing is published of it");
    let both = row(rows, "branch.create + branch.delete");
    assert_eq!(both[7..=8], ["800 us", "2.376"], "two commits of a sync each: {both:?}");
    let Block::Text(outcome) = &part.blocks[1] else { panic!("{part:?}") };
    assert!(outcome.contains("kv.put.128B at memory (1.2 us against 0.922 us)"), "{outcome}");
    assert!(super::super::beside::part(&evidence()).is_none(), "a run without any of it has nothing to show");
}

#[test]
fn a_defect_is_said_to_be_here_where_the_figures_show_it() {
    assert_eq!(outcomes(&sound()), ["not here"; 6]);
    let spoilt: [(&str, f64, f64, f64); 6] = [
        ("state.set/buffered", 950.0, 1.0, 1.0),
        ("event.read/strict", 950.0, 0.0, 1.0),
        ("branch.switch/strict", 1.0, 1.0, 0.0),
        ("event.append/memory", 120.0, 1.0, 0.0),
        ("json.set_root/strict", 1_900.0, 2.0, 2.0),
        ("branch.delete/strict", 93_000.0, 1.0, 1.0),
    ];
    for (place, (name, us, appends, syncs)) in spoilt.into_iter().enumerate() {
        let mut evidence = sound();
        replace(&mut evidence, name, us, appends, syncs);
        let outcomes = outcomes(&evidence);
        assert_eq!(outcomes[place], "here, too", "{name}");
        assert_eq!(
            outcomes.iter().filter(|outcome| *outcome == "here, too").count(),
            1,
            "{name}: {outcomes:?}"
        );
    }
    let mut evidence = sound();
    evidence.measurements.retain(|figure| !figure.name.starts_with("branch.switch"));
    assert_eq!(outcomes(&evidence)[1..=2], ["not measured"; 2]);
}

#[test]
fn what_is_published_stands_beside_operations_that_there_are() {
    let mut names: Vec<&str> = ROWS.iter().flat_map(|row| row.ours).copied().collect();
    for defect in DEFECTS {
        match defect.shown_by {
            Shown::BufferedSyncs(ops) | Shown::ReadSyncs(ops) | Shown::SeveralSyncs(ops) => names.extend(ops),
            Shown::Appends(op) | Shown::Takes(op, _) => names.push(op),
            Shown::Times(op, base, _) => names.extend([op, base]),
        }
    }
    for name in names {
        assert!(OPERATIONS.iter().any(|op| op.name == name), "{name} is no operation");
    }
}
