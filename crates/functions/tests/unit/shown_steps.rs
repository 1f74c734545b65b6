//! What is told of beginnings is what is known of them, and a damaged graph or state does no harm.

use super::*;

fn at(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(1_000_000 + second).ok()
}

fn cell(key: &str, status: &str, second: i64, path: &str) -> Cell {
    Cell {
        key: key.to_owned(),
        status: status.to_owned(),
        at: at(second),
        path: Some(path.to_owned()),
        ..Cell::default()
    }
}

/// A graph out of its types and edges.
fn graph(nodes: &[(&str, &[(usize, Slot)])]) -> (Vec<String>, Vec<Edge>) {
    let types = nodes.iter().map(|(name, _)| (*name).to_owned()).collect();
    let edges = nodes
        .iter()
        .enumerate()
        .flat_map(|(from, (_, below))| below.iter().map(move |&(to, slot)| Edge { from, to, slot }));
    (types, edges.collect())
}

fn spans(steps: &[Step]) -> Vec<(&str, Option<Timestamp>, Option<Timestamp>)> {
    steps.iter().map(|step| (step.cell.as_str(), step.begun_at, step.ended_at)).collect()
}

#[test]
fn a_sequence_begins_where_the_step_before_it_ended() {
    use Slot::{Left, Right};
    let (types, edges) = graph(&[
        ("THEN", &[(1, Left), (4, Right)]),
        ("THEN", &[(2, Left), (3, Right)]),
        ("SQL", &[]),
        ("SQL", &[]),
        ("SIGNAL", &[]),
    ]);
    let cells = vec![
        cell("0", "running", 0, "1"),
        cell("1", "completed", 5, "1"),
        cell("2", "completed", 2, "1"),
        cell("3", "completed", 5, "1"),
        cell("4", "running", 5, "1"),
    ];
    let steps = steps(&types, &edges, cells, at(0));
    assert_eq!(
        spans(&steps),
        [
            ("0", at(0), None),
            ("1", at(0), at(5)),
            ("2", at(0), at(2)),
            ("3", at(2), at(5)),
            ("4", at(5), None),
        ]
    );
}

#[test]
fn what_is_not_kept_is_not_told() {
    use Slot::{Condition, Left};
    let (types, edges) =
        graph(&[("LOOP", &[(1, Condition), (2, Left)]), ("SQL", &[]), ("RETRY", &[(3, Left)]), ("SQL", &[])]);
    // The third round: its retry is at its second attempt. The condition was last asked in the round before.
    let mut root = cell("0", "running", 0, "1");
    (root.iteration, root.began) = (Some(3), at(20));
    let mut retry = cell("2", "running", 20, "1.3");
    (retry.attempt, retry.due) = (Some(2), at(25));
    let cells = vec![root, cell("1", "completed", 19, "1.2"), retry, cell("3", "failed", 22, "1.3")];
    let steps = steps(&types, &edges, cells, at(0));
    let of = |key: &str| steps.iter().find(|step| step.cell == key).unwrap();
    assert_eq!((of("1").begun_at, of("1").ended_at), (None, at(19)));
    assert_eq!((of("2").begun_at, of("2").attempt, of("2").due_at), (at(20), Some(2), at(25)));
    assert_eq!((of("3").begun_at, of("3").ended_at), (None, at(22)), "an earlier attempt is not kept");
}

#[test]
fn items_of_a_map_have_steps_of_their_own() {
    use Slot::{Condition, Left, Right};
    let (types, edges) = graph(&[
        ("MAP", &[(1, Condition), (2, Left)]),
        ("SQL", &[]),
        ("THEN", &[(3, Left), (4, Right)]),
        ("SQL", &[]),
        ("SQL", &[]),
    ]);
    let cells = vec![
        cell("0", "running", 0, "1"),
        cell("1", "completed", 1, "1"),
        cell("2@7", "running", 3, "1"),
        cell("3@7#2", "completed", 4, "1"),
        cell("4@7", "running", 4, "1"),
    ];
    let steps = steps(&types, &edges, cells, at(0));
    let of = |key: &str| steps.iter().find(|step| step.cell == key).unwrap();
    assert_eq!((of("1").begun_at, of("1").ended_at), (at(0), at(1)));
    assert_eq!((of("2@7").items.as_deref(), of("2@7").begun_at), (Some("7"), at(3)));
    assert_eq!(of("4@7").begun_at, at(4));
}

#[test]
fn edges_lead_down_and_each_node_has_one_above() {
    let text = |number: &str| Some(number.to_owned());
    let below = vec![
        Below { left: text("1"), right: text("0"), condition: text("x"), extra: vec![2, 99, 1] },
        Below { left: text("0"), right: text("2"), ..Below::default() },
        Below { left: text("-1"), right: text("2"), ..Below::default() },
    ];
    let edges = edges(&below);
    let found: Vec<(usize, usize, &str)> =
        edges.iter().map(|edge| (edge.from, edge.to, edge.slot.word())).collect();
    assert_eq!(found, [(0, 1, "left"), (0, 2, "extra")]);
}

#[test]
fn a_damaged_state_gives_the_steps_that_it_has() {
    let (types, edges) = graph(&[("THEN", &[(1, Slot::Left), (2, Slot::Right)]), ("SQL", &[]), ("SQL", &[])]);
    let mut lost = cell("2", "completed", 1, "1");
    lost.at = None;
    let cells = vec![
        cell("seven", "running", 0, "1"),
        cell("7", "running", 0, "1"),
        cell("1@", "completed", 9, "1"),
        lost,
        // It ended before it can have begun: somebody has set the clock back.
        cell("1", "completed", -5, "1"),
    ];
    let steps = steps(&types, &edges, cells, at(0));
    assert_eq!(steps.len(), 3);
    assert!(steps.iter().all(|step| step.begun_at.is_none()), "{steps:?}");
    assert!(super::steps(&[], &[], vec![cell("0", "running", 0, "1")], None).is_empty());
}
