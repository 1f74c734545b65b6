//! CALL.

use super::build::*;
use super::world::*;
use crate::graph::Graph;
use crate::interpret::{Event, Failure, Progress, Request};

fn child(progress: &Progress) -> (String, Option<String>, String, bool) {
    match &progress.requests[..] {
        [Request::Child { graph, label, environment, awaited, .. }] => {
            (graph.clone(), label.clone(), environment.text().to_owned(), *awaited)
        }
        other => panic!("{other:?}"),
    }
}

fn ended(world: &mut World, cell: &str, result: Result<crate::json::Json, Failure>) -> Progress {
    let cell = crate::interpret::Cell::parse(cell).unwrap();
    world.pending.retain(|request| *request.cell() != cell);
    world.event(Event::Child { cell, result })
}

#[test]
fn a_child_gets_its_part_of_the_graph_and_the_names_that_it_mentions() {
    let root = then(sql("x $a $input").named("mine"), join(vec![sql("y"), sql("z"), sleep("1")]));
    let graph = seq(vec![
        sql("q").named("a"),
        sql("r").named("unrelated"),
        call(root.clone(), r#"{"label":"kid","await":true}"#).named("c"),
        sql("after $c $mine"),
    ]);
    each(&graph, |world| {
        world.input = Some(json("5"));
        world.advance();
        world.ok("q", "1");
        let progress = world.ok("r", "2");
        let (part, label, environment, awaited) = child(&progress);
        assert_eq!(part, root.json());
        assert!(Graph::parse(&part).is_ok());
        assert_eq!((label.as_deref(), awaited), (Some("kid"), true));
        assert_eq!(environment, format!(r#"{{"a":{},"input":5}}"#, one("1")));
        let cell = progress.requests[0].cell().clone();
        world.with(|state, _| state.child_started(&cell, "00000abc"));
        assert!(world.advance().requests.is_empty());
        assert!(!world.reply_to_cell(&cell, Ok(one("1"))), "its end is an event");
        ended(world, cell.as_str(), Ok(one("9")));
        assert_eq!(world.texts(), ["after 9 $mine"], "I-8: a child's names are its own");
    });
}

#[test]
fn a_child_s_failure_is_the_node_s() {
    each(&call(sql("x"), r#"{"await":true}"#), |world| {
        world.advance();
        let last =
            ended(world, "0", Err(Failure { message: "kid".to_owned(), sqlstate: Some("22012".to_owned()) }));
        assert_eq!(failed(&last), "kid");
        let Some(crate::interpret::Outcome::Failed(failure)) = last.outcome else { panic!() };
        assert_eq!(failure.sqlstate.as_deref(), Some("22012"));
        assert_eq!(world.cell("1"), None, "the child's steps have their cells in the child");
    });
}

#[test]
fn a_child_that_is_not_awaited_is_started_and_left_alone() {
    each(&race(call(sql("x"), r#"{"await":false}"#), sql("other")), |world| {
        let first = world.advance();
        let cell = first.requests[0].cell().clone();
        assert!(matches!(&first.requests[0], Request::Child { awaited: false, .. }));
        world.pending.remove(0);
        world.with(|state, _| state.child_started(&cell, "00000abc"));
        let last = world.advance();
        assert_eq!(completed(&last).text(), r#"{"instance_id": "00000abc"}"#);
        assert!(last.dropped_children.is_empty());
    });
}

#[test]
fn children_are_cancelled_with_what_waits_for_them() {
    each(&race(call(sql("x"), "{}"), race(call(sql("y"), "{}"), sql("other"))), |world| {
        let first = world.advance();
        let cell = first.requests[0].cell().clone();
        world.with(|state, _| state.child_started(&cell, "00000abc"));
        let unstarted = first.requests[1].cell().clone();
        let last = world.ok("other", "1");
        assert_eq!(last.dropped_children, ["00000abc"], "I-1");
        assert_eq!(last.dropped, [unstarted], "I-1: it was asked for, but not told as started");
        assert_eq!(completed(&ended(world, cell.as_str(), Ok(one("5")))), &one("1"), "I-14");
    });
    each(&call(sql("x"), "{}"), |world| {
        world.advance();
        world.with(|state, _| {
            state.child_started(&crate::interpret::Cell::parse("0").unwrap(), "00000abc");
        });
        let last = world.event(Event::Cancel { reason: "r".to_owned() });
        assert_eq!(last.dropped_children, ["00000abc"]);
    });
}

#[test]
fn break_below_a_call_is_the_child_s() {
    let mut world = World::new(&forever(call(leave(), "{}")));
    let (part, ..) = child(&world.advance());
    assert_eq!(part, leave().json());
}

#[test]
fn the_end_of_a_dropped_child_is_not_that_of_the_next() {
    let policy = r#"{"max_attempts":3,"initial_backoff_s":0,"jitter":0}"#;
    each(&retry(timeout(call(sql("x"), "{}"), "1"), policy), |world| {
        let first = world.advance().requests[0].cell().clone();
        world.with(|state, _| state.child_started(&first, "0000000a"));
        let progress = world.after(1.0);
        assert_eq!(progress.dropped_children, ["0000000a"]);
        let second = progress.requests[0].cell().clone();
        assert_ne!(first, second, "I-2");
        world.with(|state, _| state.child_started(&second, "0000000b"));
        world.with(|state, _| state.child_started(&first, "0000000c"));
        assert!(ended(world, first.as_str(), Err(Failure::new("cancelled"))).outcome.is_none(), "I-2");
        assert_eq!(completed(&ended(world, second.as_str(), Ok(one("1")))), &one("1"));
    });
}
