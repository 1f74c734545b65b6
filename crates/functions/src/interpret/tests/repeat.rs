//! LOOP, BREAK and RETRY.

use super::build::*;
use super::world::*;
use crate::interpret::{ExecutionStatus, MAX_ITERATIONS};
use crate::json::Json;

#[test]
fn a_loop_at_the_root_is_an_execution_an_iteration() {
    each(&forever(then(sql("a $n?").named("n"), sql("b"))), |world| {
        world.advance();
        assert_eq!(world.texts(), ["a $n?"]);
        world.ok("a $n?", "1");
        assert_eq!(world.path("2").as_deref(), Some("1"));
        let first = world.ok("b", "2");
        assert_eq!(first.executions.len(), 1, "I-9");
        assert_eq!(first.executions[0].status, ExecutionStatus::Continued);
        assert_eq!(first.executions[0].output, Some(one("2")));
        // Begun: the loop, the sequence, two steps; ended: all but the loop.
        assert_eq!(first.executions[0].event_count, 7);
        assert_eq!((world.state.execution(), world.texts().len()), (2, 0));
        assert_eq!(first.due_at.unwrap().to_string(), "2026-01-01T00:00:01Z", "I-9");
        assert!(world.after(0.5).requests.is_empty(), "I-9");
        world.after(0.5);
        assert_eq!(world.texts(), ["a 1"], "names survive");
        assert_eq!(world.path("2").as_deref(), Some("2"));
        assert_eq!(world.path("0").as_deref(), Some("2"));
        assert_eq!(world.cell("3"), None, "cells do not");
        let last = world.fail("a 1", "no");
        assert_eq!(failed(&last), "no");
        assert_eq!(last.executions[0].status, ExecutionStatus::Failed);
        assert_eq!(last.executions[0].execution, 2);
        assert_eq!(last.executions[0].output, Some(Json::string("no")));
    });
}

#[test]
fn an_iteration_that_took_long_is_followed_at_once() {
    each(&forever(sql("a")), |world| {
        world.advance();
        world.now += jiff::SignedDuration::from_millis(1500);
        assert_eq!(world.ok("a", "1").requests.len(), 1, "I-9");
    });
}

#[test]
fn a_do_while_loop_ends_with_its_last_body() {
    each(&then(repeat(sql("a"), sql("more")).named("x"), sql("$x")), |world| {
        world.advance();
        world.ok("a", "1");
        assert_eq!(world.path("3").as_deref(), Some("1.1"));
        world.ok("more", "true");
        world.after(1.0);
        assert_eq!(world.path("3").as_deref(), Some("1.2"));
        assert_eq!(world.cell("2"), None, "the condition has not begun again");
        world.ok("a", "2");
        assert!(world.ok("more", "false").executions.is_empty(), "I-9: the loop is not the root");
        assert_eq!(world.texts(), ["2"]);
    });
}

#[test]
fn nested_loops_count_for_themselves() {
    each(&forever(repeat(sql("a"), sql("more"))), |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("more", "1");
        world.after(1.0);
        assert_eq!(world.path("3").as_deref(), Some("1.2"));
        world.ok("a", "1");
        world.ok("more", "0");
        assert_eq!(world.texts(), ["a"], "the outer iteration took more than a second");
        assert_eq!(world.path("3").as_deref(), Some("2.1"));
        assert_eq!(world.path("1").as_deref(), Some("2"));
    });
}

#[test]
fn a_loop_that_goes_on_counts_failed_bodies() {
    each(&lenient(repeat(sql("a"), sql("more"))), |world| {
        world.advance();
        world.fail("a", "once");
        let first = world.ok("more", "1");
        assert_eq!(first.executions[0].output, Some(Json::string("once")), "I-6");
        world.after(1.0);
        world.ok("a", "7");
        assert_eq!(completed(&world.ok("more", "0")), &one("7"));
    });
    each(&lenient(repeat(sql("a"), sql("more"))), |world| {
        world.advance();
        world.fail("a", "once");
        assert_eq!(completed(&world.ok("more", "0")), &Json::null());
    });
    each(&lenient(repeat(sql("a"), sql("more"))), |world| {
        world.advance();
        world.ok("a", "1");
        assert_eq!(failed(&world.fail("more", "the condition")), "the condition");
    });
}

#[test]
fn loops_in_branches_run_beside_each_other() {
    each(&join(vec![repeat(sql("a"), sql("am")), repeat(sql("b"), sql("bm"))]), |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("am", "1");
        world.ok("b", "2");
        world.ok("bm", "0");
        world.after(1.0);
        world.ok("a", "3");
        assert_eq!(completed(&world.ok("am", "0")).text(), format!("[{},{}]", one("3"), one("2")));
    });
}

#[test]
fn the_number_of_iterations_has_a_limit() {
    let mut world = World::new(&forever(sql("a")));
    world.advance();
    let text = world.state.to_json();
    let late = text.replace(r#""iteration":1,"#, &format!(r#""iteration":{},"#, MAX_ITERATIONS - 1));
    assert_ne!(text, late);
    world.state = crate::interpret::State::from_json(&late).unwrap();
    world.ok("a", "1");
    world.after(1.0);
    assert!(failed(&world.ok("a", "1")).contains("8388608"), "I-9");
}

#[test]
fn break_ends_the_nearest_loop_with_its_value() {
    let body = when(sql("done"), leave_with("$n"), sql("go on"));
    let graph = then(forever(then(sql("a").named("n"), body)).named("result"), sql("after $result"));
    each(&graph, |world| {
        world.advance();
        world.ok("a", "5");
        world.ok("done", "0");
        world.ok("go on", "1");
        world.after(1.0);
        world.ok("a", "6");
        world.ok("done", "1");
        assert_eq!(world.texts(), ["after 6"], "I-10");
        for cell in ["1", "2", "4", "6"] {
            assert_eq!(world.status(cell).as_deref(), Some("completed"), "{cell}");
        }
    });
}

#[test]
fn values_of_break_are_json_or_text() {
    for (value, result) in [
        (leave(), "null"),
        (leave_with(r#"{"a":1}"#), r#"{"a":1}"#),
        (leave_with("some words"), "\"some words\""),
        (leave_with("5"), "5"),
    ] {
        assert_eq!(completed(&World::new(&forever(value)).advance()).text(), result);
    }
}

#[test]
fn break_without_a_loop_fails() {
    assert_eq!(failed(&World::new(&leave()).advance()), "df.break() was called outside of a loop", "I-10");
    let graph = &then(repeat(sql("a"), sql("b")), leave());
    let mut world = World::new(graph);
    world.advance();
    world.ok("a", "1");
    assert_eq!(failed(&world.ok("b", "0")), "df.break() was called outside of a loop");
}

#[test]
fn break_in_a_branch_drops_the_others_and_keeps_its_own_names() {
    let branches = join(vec![
        then(sql("a").named("x"), sql("never ends")),
        then(sql("b").named("y"), then(race(sql("c").named("z"), leave_with("7")), sql("not reached"))),
        sleep("100"),
        signal("s", None),
    ]);
    each(&then(forever(branches), sql("after $x $y $z")), |world| {
        world.advance();
        world.ok("a", "1");
        let progress = world.ok("b", "2");
        assert_eq!(progress.dropped.len(), 1, "I-10, I-2: c was never given");
        assert_eq!(world.texts(), ["after $x 2 $z"], "I-10");
        assert_eq!(progress.due_at, None, "the sleep is gone");
        assert!(world.signal("s", "1").outcome.is_none());
        assert_eq!(world.state.signals.len(), 1, "the wait is gone");
    });
}

#[test]
fn break_in_a_condition_ends_that_loop() {
    each(&repeat(sql("a"), leave_with("1")), |world| {
        world.advance();
        assert_eq!(completed(&world.ok("a", "0")).text(), "1", "I-10");
    });
}

#[test]
fn break_passes_through_what_handles_failures() {
    let guarded = catch(timeout(retry(leave_with("1"), "{}"), "5"), sql("handler"));
    each(&then(forever(guarded), sql("after")), |world| {
        let first = world.advance();
        assert_eq!((world.texts(), first.due_at), (vec!["after".to_owned()], None), "I-10");
    });
}

#[test]
fn a_retry_waits_longer_each_time_and_fails_with_the_last_failure() {
    let policy = r#"{"max_attempts":4,"initial_backoff_s":2,"max_backoff_s":5,"multiplier":2,"jitter":0}"#;
    each(&retry(then(sql("a"), sql("b")), policy), |world| {
        world.advance();
        for (attempt, wait) in [(1, 2.0), (2, 4.0), (3, 5.0)] {
            world.ok("a", "1");
            let progress = world.fail("b", &format!("attempt {attempt}"));
            assert_eq!(progress.due_at.unwrap().duration_since(world.now).as_secs_f64(), wait);
            assert_eq!(world.status("3").as_deref(), Some("failed"), "the failure is shown while it waits");
            assert!(world.after(wait - 0.001).requests.is_empty());
            world.after(0.001);
            assert_eq!(world.texts(), ["a"]);
            assert_eq!(world.cell("3"), None);
        }
        assert_eq!(failed(&world.fail("a", "the last")), "the last", "I-6");
    });
    each(&retry(sql("a"), policy), |world| {
        world.advance();
        world.fail("a", "once");
        world.after(2.0);
        assert_eq!(completed(&world.ok("a", "1")), &one("1"), "I-5");
    });
}

#[test]
fn backoff_has_chance_in_it_and_the_seed_decides() {
    let policy =
        r#"{"max_attempts":9,"initial_backoff_s":100,"multiplier":1,"max_backoff_s":1000,"jitter":0.5}"#;
    let waits = |seed: u64| {
        let mut world = World::new(&retry(sql("a"), policy));
        world.seed = seed;
        world.advance();
        let mut waits = Vec::new();
        for _ in 0..8 {
            let due = world.fail("a", "no").due_at.unwrap();
            waits.push(due.duration_since(world.now).as_millis());
            world.now = due;
            world.advance();
        }
        waits
    };
    let some = waits(1);
    assert_eq!(some, waits(1));
    assert_ne!(some, waits(2));
    assert!(some.iter().all(|wait| (50_000..=150_000).contains(wait)), "{some:?}");
    assert!(some.windows(2).any(|pair| pair[0] != pair[1]), "{some:?}");
}

#[test]
fn a_retry_without_backoff_tries_again_at_once() {
    let policy = r#"{"max_attempts":3,"initial_backoff_s":0,"multiplier":1e300,"jitter":0}"#;
    each(&retry(sql("a"), policy), |world| {
        world.advance();
        world.fail("a", "1");
        world.fail("a", "2");
        assert_eq!(failed(&world.fail("a", "3")), "3");
    });
}
