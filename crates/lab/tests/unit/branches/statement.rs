use super::{expected_text, literal, of_change, of_read};
use crate::branches::workload::{airline_read, flight_read, one, plain_read, Change};

#[test]
fn a_read_holds_its_value() {
    assert_eq!(of_read(&plain_read().unwrap()), "select 1");
    let airline = airline_read("O'A".to_owned(), "[]".to_owned()).unwrap();
    assert_eq!(of_read(&airline), "select name from airlines where carrier = 'O''A'");
    assert!(of_read(&flight_read(7, "[]".to_owned()).unwrap()).ends_with("where id = 7"));
}

#[test]
fn a_write_holds_its_values_wherever_they_look_like_places() {
    let request = one("select 1", Vec::new()).unwrap();
    let event =
        Change::Event { request, flight: 7, kind: "delayed", payload: r#"{"gate": "$1'$3"}"#.to_owned() };
    assert_eq!(
        of_change(&event),
        "insert into events (flight_id, kind, payload) values (7, 'delayed', '{\"gate\": \"$1''$3\"}'::jsonb) returning id"
    );
}

#[test]
fn literals_are_safe_whatever_the_server_takes_a_backslash_for() {
    assert_eq!(literal("it's"), "'it''s'");
    assert_eq!(literal(r"a\'b"), r"E'a\\''b'");
}

#[test]
fn expected_rows_become_lines_of_cells() {
    let read =
        flight_read(7, r#"[["UA", 1545, "EWR", null, -2.5], ["AA", 1, "", "x", 0]]"#.to_owned()).unwrap();
    assert_eq!(expected_text(&read).as_deref(), Some("UA|1545|EWR||-2.5\nAA|1||x|0"));
    assert_eq!(expected_text(&flight_read(7, "no rows".to_owned()).unwrap()), None);
}
