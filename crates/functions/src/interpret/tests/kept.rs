//! The document that is kept of a state.

use super::build::*;
use super::world::*;
use crate::interpret::{Event, Failure, Outcome, State, StateError};
use crate::json::Json;

#[test]
fn other_versions_and_damage_are_refused() {
    let mut world = World::new(&then(sql("a"), sql("b")));
    world.advance();
    world.ok("a", "1");
    let text = world.state.to_json();
    let read = |text: &str| State::from_json(text).unwrap_err().to_string();
    assert!(matches!(
        State::from_json(&text.replace(r#""v":1"#, r#""v":2"#)),
        Err(StateError::Version { found: 2 })
    ));
    for (damage, reason) in [
        (String::new(), "cannot be read"),
        (text[..text.len() - 1].to_owned(), "cannot be read"),
        (text.replace("completed", "finished"), "\"finished\" without what belongs"),
        (text.replace(r#""2":"#, r#""two":"#), "\"two\" is not a cell"),
        (text.replace(r#""2":"#, r#""02":"#), "\"02\" is not a cell"),
        (text.replace(r#""asked":0"#, r#""asked":0,"open":1"#), "remembers two things"),
        (text.replace(r#""asked":0"#, r#""asked":0,"rc":"1""#), "without what belongs"),
        (text.replace(r#""names""#, r#""stack":[["jump","0"]],"names""#), "\"jump\" is nothing to do"),
        (text.replace(r#""names""#, r#""ended":"completed","names""#), "the cell 0 has no result"),
        (text.replace(r#""names""#, r#""ended":"bored","names""#), "\"bored\" is not an end"),
    ] {
        assert!(read(&damage).contains(reason), "{damage}: {}", read(&damage));
    }
}

#[test]
fn a_large_result_is_written_once() {
    let graph =
        catch(seq(vec![then(sql("a"), sql("b").named("x")).named("y"), sql("c"), sql("d")]), sql("h"));
    each(&graph, |world| {
        let large = format!("\"{}\"", "x".repeat(10_000));
        world.advance();
        world.ok("a", "1");
        world.ok("b", &large);
        let text = world.state.to_json();
        assert_eq!(text.matches(&large).count(), 1, "I-18");
        assert!(text.contains(r#""x":{"rc":"2"}"#) && text.contains(r#""y":{"rc":"2"}"#), "I-18");
        let cell = world.cell("4").unwrap();
        assert_eq!((cell.field("r").is_some(), cell.field("rc")), (false, Some(Json::string("2"))));
        assert_eq!(world.cell("2").unwrap().field("r"), Some(one(&large)));
    });
}

#[test]
fn a_large_failure_is_written_once() {
    let message = "y".repeat(10_000);
    each(&forever(lenient(forever(then(sql("a"), sql("b"))))), |world| {
        world.advance();
        world.fail("a", &message);
        let text = world.state.to_json();
        assert_eq!(text.matches(&message).count(), 1, "I-18");
        assert_eq!(world.cell("3").unwrap().field("rc"), Some(Json::string("2")));
    });
}

#[test]
fn a_large_name_outlives_its_cell() {
    let large = format!("\"{}\"", "x".repeat(1_000));
    let body = when(sql("first"), sql("a").named("n"), sql("$n"));
    each(&forever(body), |world| {
        world.advance();
        world.ok("first", "1");
        world.ok("a", &large);
        world.after(1.0);
        assert_eq!(world.state.to_json().matches(&large).count(), 1);
        world.ok("first", "0");
        assert_eq!(world.texts(), [format!("'{}'", "x".repeat(1_000))]);
    });
}

#[test]
fn an_ended_state_tells_its_outcome_again() {
    let failure = Failure { message: "no".to_owned(), sqlstate: Some("22012".to_owned()) };
    for end in [Ok(one("1")), Err(failure.clone())] {
        let mut world = World::new(&sql("a"));
        world.advance();
        world.reply("a", end.clone());
        let outcome = world.advance().outcome;
        world.reload();
        assert_eq!(world.advance().outcome, outcome, "I-14");
        assert!(!world.reply_to_cell(&crate::interpret::Cell::parse("0").unwrap(), Ok(one("2"))), "I-14");
    }
    let mut world = World::new(&sql("a"));
    world.event(Event::Cancel { reason: "why".to_owned() });
    world.reload();
    assert_eq!(world.advance().outcome, Some(Outcome::Cancelled("why".to_owned())), "I-14");
}

#[test]
fn what_was_told_between_turns_is_kept() {
    let mut world =
        World::new(&join(vec![sql("a"), sql("b"), signal("s", None), call(sql("x"), r#"{"await":false}"#)]));
    world.advance();
    world.reply("a", Ok(one("1")));
    world.reply("b", Err(Failure::new("no")));
    world.with(|state, cx| state.event(cx, Event::Signal { name: "s".to_owned(), data: json("1") }));
    world.with(|state, _| state.child_started(&crate::interpret::Cell::parse("4").unwrap(), "00000abc"));
    world.with(|state, cx| state.event(cx, Event::Pause));
    world.reload();
    assert!(world.state.paused());
    world.event(Event::Resume);
    assert!(failed(&world.advance()).contains("no"), "I-15");
}

#[test]
fn outstanding_cells_are_those_that_were_given() {
    let mut world = World::new(&join(vec![sql("a"), sql("b"), sleep("1"), call(sql("x"), "{}")]));
    world.advance();
    world.reply("a", Ok(one("1")));
    world.reload();
    let cells: Vec<String> = world.state.outstanding().iter().map(ToString::to_string).collect();
    assert_eq!(cells, ["2", "4"]);
}

#[test]
fn times_paths_and_counts_are_kept() {
    let mut world = World::new(&forever(repeat(sql("a"), sql("m"))));
    world.advance();
    world.after(0.5);
    world.ok("a", "1");
    world.reload();
    let cell = world.cell("2").unwrap();
    assert_eq!(cell.field("at").unwrap().text(), r#""2026-01-01T00:00:00.5Z""#);
    assert_eq!(cell.field("x").unwrap().text(), r#""1.1""#);
    assert_eq!(world.state.events, 5);
    assert_eq!(world.state.started_at(), start_of_time());
}
