use std::collections::HashSet;

use crate::branches::workload::{draw, schema_statements};
use duramen_base::entropy;

#[test]
fn numbers_are_drawn_once_each_while_there_are_enough() {
    for (count, high) in [(100, 1_000_000), (100, 100), (100, 150)] {
        let drawn = draw(&mut entropy::rng(3), count, 1, high);
        assert_eq!(drawn.len(), count);
        assert!(drawn.iter().all(|number| (1..=high).contains(number)));
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), count, "up to {high}");
    }
}

#[test]
fn too_few_numbers_are_drawn_again_in_turn() {
    let drawn = draw(&mut entropy::rng(3), 6, 4, 5);
    assert_eq!(drawn.iter().filter(|number| **number == 4).count(), 3);
}

#[test]
fn a_draw_can_be_replayed_by_its_seed() {
    let of = |seed| draw(&mut entropy::rng(seed), 50, 1, 336_776);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn the_schema_is_a_plain_identifier_with_a_table_two_indexes_and_a_row() {
    let statements = schema_statements("lab-a1b2-r1-7");
    assert_eq!(statements[0], "create schema lab_a1b2_r1_7");
    let starting = |start: &str| statements.iter().filter(|sql| sql.starts_with(start)).count();
    assert_eq!((starting("create table"), starting("create index"), starting("insert")), (1, 2, 1));
    assert_eq!(statements.len(), 5);
}
