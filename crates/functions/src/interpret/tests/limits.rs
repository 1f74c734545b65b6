//! Instances as large as they may be.

use super::build::*;
use super::world::*;
use crate::graph::MAX_NODES;
use crate::interpret::{Event, MAX_ITEMS, TURN_LIMIT};
use crate::json::Json;

/// A world in which only results are looked at: the checks cost as much as the state is large.
fn large(graph: &N) -> World {
    let mut world = World::new(graph);
    world.checks = false;
    world
}

#[test]
fn ten_thousand_steps_one_after_the_other() {
    // Quadratic work would be 25 million visits of nodes here, and take minutes in a debug build.
    let steps = MAX_NODES / 2;
    let mut world = large(&seq((0..steps).map(|step| sql("$last").named(&format!("n{step}"))).collect()));
    let mut progress = world.advance();
    let mut done = 0;
    while progress.outcome.is_none() {
        let cell = progress.requests[0].cell().clone();
        world.pending.clear();
        world.reply_to_cell(&cell, Ok(Json::from_valid(r#"{"rows":[{"v":1}],"row_count":1}"#)));
        progress = world.advance();
        done += 1;
    }
    assert_eq!(done, steps);
    assert_eq!(progress.executions[0].event_count as usize, 2 * (2 * steps - 1));
}

#[test]
fn ten_thousand_branches() {
    let mut world = large(&join(vec![sql("x"); MAX_NODES - 1]));
    let first = world.advance();
    assert_eq!(first.requests.len(), MAX_NODES - 1);
    world.pending.clear();
    for request in &first.requests {
        assert!(world.reply_to_cell(request.cell(), Ok(Json::null())));
    }
    world.reload();
    assert!(completed(&world.advance()).text().starts_with("[null,null"));
}

#[test]
fn ten_thousand_items() {
    let mut world = large(&map(sql("items"), then(sql("$item"), sleep("0")), u32::MAX));
    world.advance();
    world.reply("items", Ok(rows(&vec!["1"; MAX_ITEMS])));
    let first = world.advance();
    assert_eq!(first.requests.len(), TURN_LIMIT / 2, "I-16: each item begins two nodes");
    assert_eq!(first.due_at, Some(world.now), "I-16");
    let second = world.advance();
    assert_eq!(first.requests.len() + second.requests.len(), MAX_ITEMS);
    for request in world.pending.split_off(0) {
        assert!(world.reply_to_cell(request.cell(), Ok(Json::null())));
    }
    let last = world.advance();
    assert!(completed(&last).text().starts_with(r#"[{"slept""#));
    let kept = world.state.to_json();
    assert!(kept.matches("@").count() < 10, "the cells of the items are not kept");
}

#[test]
fn a_turn_stops_at_its_limit_and_goes_on() {
    // Ten thousand sleeps of no time in a loop body of nearly as many nodes.
    let body = seq(vec![sleep("0"); MAX_NODES / 2 - 2]);
    let mut world = large(&join(vec![forever(then(body, sql("end"))), sql("other")]));
    let first = world.advance();
    assert_eq!(first.due_at, None);
    assert_eq!(first.requests.len(), 2);
    world.ok("end", "1");
    world.after(1.0);
    assert_eq!(world.texts(), ["other", "end"]);
    let mut world = large(&retry(
        then(seq(vec![sleep("0"); 4_000]), leave()),
        r#"{"initial_backoff_s":0,"max_attempts":3}"#,
    ));
    let first = world.advance();
    assert_eq!(first.due_at, Some(world.now), "I-16");
    world.reload();
    assert!(world.event(Event::Pause).due_at.is_none(), "I-13");
    assert_eq!(world.event(Event::Resume).due_at, Some(world.now), "I-16");
    assert!(failed(&world.advance()).contains("outside of a loop"));
}

#[test]
fn the_deepest_nesting_uses_no_stack() {
    let mut node = sql("x");
    for _ in 0..256 {
        node = catch(node, sql("y"));
    }
    let graph = node.json();
    // Nothing here recurses; a thread with next to no stack shows it.
    let run = move || {
        let graph = crate::graph::Graph::parse(&graph).unwrap();
        let mut world = World::new(&sql("x"));
        world.graph = graph;
        world.checks = false;
        world.advance();
        for _ in 0..256 {
            let text = world.texts()[0].clone();
            world.fail(&text, "no");
        }
        assert_eq!(failed(&world.fail("y", "last")), "last");
        world.reload();
    };
    std::thread::Builder::new().stack_size(128 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn results_that_double_end_the_instance_before_memory_does() {
    // Without a bound these 250 joins would ask for 2^250 bytes.
    let copy = || forever(leave_with("$a"));
    let doubled = || join(vec![copy(), copy()]).named("a");
    let mut world = large(&then(sql("q").named("a"), seq((0..250).map(|_| doubled()).collect())));
    world.advance();
    let last = world.ok("q", &format!("\"{}\"", "x".repeat(1_000)));
    assert!(failed(&last).contains("may have 67108864"), "I-19: {last:?}");
    assert_eq!(last.executions.len(), 1);
}

#[test]
fn results_that_are_large_together_end_the_instance() {
    let mut world = large(&seq((0..100).map(|step| sql(&format!("q{step}"))).collect()));
    let value = format!("\"{}\"", "x".repeat(1 << 20));
    world.advance();
    for step in 0..62 {
        assert!(world.ok(&format!("q{step}"), &value).outcome.is_none(), "step {step}");
    }
    let last = (62..100)
        .map(|step| world.ok(&format!("q{step}"), &value))
        .find(|progress| progress.outcome.is_some());
    assert!(failed(&last.unwrap()).contains("together"), "I-19");
}

#[test]
fn a_loop_may_see_any_number_of_large_results() {
    let mut world = large(&forever(sql("q").named("a")));
    let value = format!("\"{}\"", "x".repeat(1 << 20));
    world.advance();
    for _ in 0..100 {
        assert!(world.ok("q", &value).outcome.is_none(), "I-19: only the last is held");
        world.after(1.0);
    }
}

#[test]
fn a_turn_stops_when_its_requests_are_large() {
    let mut world = large(&then(sql("q").named("a"), join(vec![sql("$a"); 100])));
    world.advance();
    let first = world.ok("q", &format!("\"{}\"", "x".repeat(1 << 20)));
    assert_eq!((first.requests.len(), first.due_at), (16, Some(world.now)), "I-19");
    let mut asked = first.requests.len();
    while asked < 100 {
        asked += world.advance().requests.len();
    }
    assert_eq!(world.pending.len(), 100);
}
