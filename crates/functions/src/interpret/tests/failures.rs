//! Failures on their way, CATCH and TIMEOUT.

use super::build::*;
use super::world::*;
use crate::interpret::{Cell, Failure};

#[test]
fn a_failure_ends_its_sequence_and_reaches_the_root() {
    each(&seq(vec![sql("a"), sql("b"), sql("c")]), |world| {
        world.advance();
        assert_eq!(failed(&world.fail("a", "broken")), "broken", "I-6");
        assert_eq!(world.status("1").as_deref(), Some("failed"));
        assert_eq!(world.cell("3"), None);
        assert_eq!(world.cell("0").unwrap().field("e"), Some(crate::json::Json::string("broken")));
    });
}

#[test]
fn a_handler_sees_what_went_wrong_and_where() {
    let graph = then(
        catch(
            then(sql("a").named("kept"), sql("b")),
            sql("$error.message, $error.sqlstate, $kept").named("h"),
        ),
        sql("after $h $error"),
    );
    each(&graph, |world| {
        world.advance();
        world.ok("a", "1");
        world.reply("b", Err(Failure { message: "dup".to_owned(), sqlstate: Some("23505".to_owned()) }));
        world.advance();
        assert_eq!(world.texts(), ["'dup', '23505', 1"], "I-6");
        world.ok("'dup', '23505', 1", "2");
        assert_eq!(world.texts(), ["after 2 $error"], "the error is the handler's only");
    });
}

#[test]
fn the_error_names_the_node_as_the_views_do() {
    let mut world = World::new(&catch(then(sql("a"), sql("b")), sql("$error.node")));
    world.advance();
    world.ok("a", "1");
    world.fail("b", "no");
    // df._node_id(df._seq('0000002a'), 3), computed by the server.
    assert_eq!(world.texts(), [format!("'{}'", NODE_3_OF_0000002A)]);
}

const NODE_3_OF_0000002A: &str = "00d1044d";

#[test]
fn nested_handlers_see_their_own_errors() {
    let inner = catch(sql("b"), sql("inner $error.message"));
    each(&catch(sql("a"), then(inner, sql("outer $error.message"))), |world| {
        world.advance();
        world.fail("a", "one");
        world.fail("b", "two");
        world.ok("inner 'two'", "0");
        world.ok("outer 'one'", "0");
    });
}

#[test]
fn a_handler_that_is_given_up_takes_its_error_along() {
    let inner = catch(sql("b"), sql("c $error.message"));
    let handled = catch(sql("a"), then(sql("x $error.message"), inner));
    each(&catch(timeout(handled, "1"), sql("outer $error.message")), |world| {
        world.advance();
        world.fail("a", "one");
        world.ok("x 'one'", "0");
        world.fail("b", "two");
        assert_eq!(world.texts(), ["c 'two'"]);
        assert_eq!(world.after(1.0).dropped.len(), 1);
        world.ok("outer 'df.timeout: not finished within 1 s'", "1");
    });
    let late = timeout(catch(sql("a"), catch(sql("b"), sql("c"))), "1");
    each(&then(catch(late, sql("h")), sql("after $error")), |world| {
        world.advance();
        world.fail("a", "one");
        world.fail("b", "two");
        world.after(1.0);
        world.ok("h", "0");
        assert_eq!(world.texts(), ["after $error"]);
    });
}

#[test]
fn a_handler_that_fails_fails_the_node() {
    each(&catch(sql("a"), sql("b")), |world| {
        world.advance();
        world.fail("a", "one");
        assert_eq!(failed(&world.fail("b", "two")), "two", "I-6");
    });
}

#[test]
fn a_body_without_failure_needs_no_handler() {
    each(&catch(sql("a"), sql("b")), |world| {
        world.advance();
        assert_eq!(completed(&world.ok("a", "1")), &one("1"), "I-5");
        assert_eq!(world.cell("2"), None);
    });
}

#[test]
fn a_failed_join_can_be_handled() {
    each(&catch(join(vec![sql("a"), sql("b")]), sql("$error.message")), |world| {
        world.advance();
        world.fail("b", "bee");
        assert_eq!(world.texts(), ["a"]);
        world.ok("a", "1");
        assert_eq!(world.texts(), ["'bee'"]);
    });
}

#[test]
fn time_that_is_over_drops_the_body_and_fails() {
    each(&timeout(join(vec![sql("a"), then(sql("b"), sql("c")), sleep("99")]), "1.5"), |world| {
        assert_eq!(world.advance().due_at.unwrap().to_string(), "2026-01-01T00:00:01.5Z");
        world.after(1.0);
        world.ok("b", "1");
        let last = world.after(0.5);
        assert_eq!(failed(&last), "df.timeout: not finished within 1.5 s");
        assert_eq!(last.dropped.len(), 2, "I-1");
    });
}

#[test]
fn a_body_in_time_is_not_bothered() {
    each(&then(timeout(sql("a"), "1"), sql("b")), |world| {
        world.advance();
        assert_eq!(world.ok("a", "1").due_at, None);
        assert!(world.after(5.0).outcome.is_none());
        assert_eq!(world.texts(), ["b"]);
    });
}

#[test]
fn a_result_told_before_the_turn_counts_though_the_time_is_over() {
    each(&timeout(sql("a"), "1"), |world| {
        world.advance();
        world.now += jiff::SignedDuration::from_secs(3);
        assert_eq!(completed(&world.ok("a", "1")), &one("1"), "I-12");
    });
}

#[test]
fn what_comes_late_for_a_dropped_request_is_no_answer_to_the_next() {
    let policy = r#"{"max_attempts":3,"initial_backoff_s":0,"jitter":0}"#;
    each(&retry(timeout(sql("a"), "1"), policy), |world| {
        let first = world.advance().requests[0].cell().clone();
        assert_eq!(first.as_str(), "2");
        let progress = world.after(1.0);
        let second = progress.requests[0].cell().clone();
        assert_eq!((progress.dropped, second.as_str()), (vec![first.clone()], "2#1"), "I-2");
        assert_eq!(Cell::parse(second.as_str()).unwrap(), second);
        assert!(!world.reply_to_cell(&first, Ok(one("1"))), "I-2");
        assert_eq!(world.state.outstanding(), std::slice::from_ref(&second));
        assert!(world.reply_to_cell(&second, Ok(one("2"))));
        assert_eq!(completed(&world.advance()), &one("2"));
    });
    for text in ["2#0", "2#01", "2#", "2#x", "#1", "", "@1", "2@", "2@1."] {
        assert_eq!(Cell::parse(text), None, "{text}");
    }
}

#[test]
fn a_timeout_in_a_retry_counts_anew() {
    let policy = r#"{"max_attempts":2,"initial_backoff_s":1,"jitter":0}"#;
    each(&retry(timeout(sql("a"), "1"), policy), |world| {
        world.advance();
        let first = world.after(1.0);
        assert_eq!(first.dropped.len(), 1);
        let second = world.after(1.0);
        assert_eq!(second.due_at.unwrap().duration_since(world.now).as_secs_f64(), 1.0);
        assert_eq!(failed(&world.after(1.0)), "df.timeout: not finished within 1 s");
    });
}
