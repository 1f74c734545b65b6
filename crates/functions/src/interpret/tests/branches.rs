//! THEN, IF, JOIN and RACE, and the names that results have in them.

use super::build::*;
use super::world::*;
use crate::interpret::Event;
use crate::json::Json;

#[test]
fn a_sequence_runs_in_order_and_gives_its_last_result() {
    each(&seq(vec![sql("a"), sql("b"), sql("c")]), |world| {
        for text in ["a", "b"] {
            world.advance();
            assert_eq!(world.texts(), [text]);
            assert!(world.ok(text, "1").outcome.is_none());
        }
        assert_eq!(completed(&world.ok("c", "3")), &one("3"), "I-5");
        assert_eq!(world.cell("0").unwrap().field("r"), Some(one("3")), "I-5");
    });
}

#[test]
fn a_condition_chooses_the_branch_and_the_other_has_no_cell() {
    for (value, chosen, other) in [("true", "yes", "3"), ("0", "no", "2")] {
        each(&when(sql("c"), sql("yes"), sql("no")), |world| {
            world.advance();
            world.ok("c", value);
            assert_eq!(world.texts(), [chosen]);
            assert_eq!(completed(&world.ok(chosen, "9")), &one("9"), "I-5");
            assert_eq!(world.cell(other), None);
        });
    }
}

#[test]
fn rows_of_a_named_result_choose_the_branch() {
    let graph = then(sql("q").named("r"), when_rows("r", sql("yes"), sql("no")));
    each(&graph, |world| {
        world.advance();
        world.reply("q", Ok(json(r#"{"rows":[],"row_count":0}"#)));
        world.advance();
        assert_eq!(world.texts(), ["no"]);
    });
    each(&graph, |world| {
        world.advance();
        world.reply("q", Ok(json(r#"{"rows":[],"row_count":2}"#)));
        world.advance();
        assert_eq!(world.texts(), ["yes"], "rows that a statement affected count");
    });
    let lost = &mut World::new(&when_rows("r", sql("yes"), sql("no")));
    assert!(failed(&lost.advance()).contains("no result is named \"r\""));
}

#[test]
fn every_type_of_node_can_name_its_result() {
    let graph = seq(vec![
        then(sql("a"), sql("b")).named("n1"),
        when(sql("c"), sql("d"), sql("e")).named("n2"),
        join(vec![sql("f"), sql("g")]).named("n3"),
        race(sql("h"), sql("i")).named("n4"),
        repeat(sql("j"), sql("k")).named("n5"),
        sql("$n1, $n2, $n3, $n4, $n5"),
    ]);
    each(&graph, |world| {
        world.advance();
        for (text, value) in
            [("a", "0"), ("b", "1"), ("c", "1"), ("d", "2"), ("f", "3"), ("g", "4"), ("i", "5")]
        {
            world.ok(text, value);
        }
        world.ok("j", "6");
        world.ok("k", "0");
        let array = format!("[{},{}]", one("3"), one("4"));
        assert_eq!(world.texts(), [format!("1, 2, '{array}', 5, 6")]);
    });
}

#[test]
fn a_join_waits_for_all_and_gives_their_results_in_order() {
    each(&join(vec![sql("a"), sql("b"), sql("c")]), |world| {
        world.advance();
        assert_eq!(world.texts(), ["a", "b", "c"]);
        world.ok("c", "3");
        world.ok("a", "1");
        let last = world.ok("b", "2");
        assert_eq!(completed(&last).text(), format!("[{},{},{}]", one("1"), one("2"), one("3")), "I-5");
    });
}

#[test]
fn a_join_fails_with_its_first_failure_in_order_after_all_have_ended() {
    each(&join(vec![sql("a"), sql("b"), sql("c")]), |world| {
        world.advance();
        assert!(world.fail("c", "late").outcome.is_none(), "I-6");
        assert!(world.fail("b", "early").outcome.is_none(), "I-6");
        assert_eq!(failed(&world.ok("a", "1")), "early", "I-6");
    });
}

#[test]
fn names_of_branches_are_theirs_until_the_join_completes() {
    let graph = then(
        join(vec![
            then(sql("a").named("x"), sql("a sees $x $y")),
            then(sql("b").named("x"), then(sql("c").named("y"), sql("b sees $x $y"))),
        ]),
        sql("after $x $y"),
    );
    each(&graph, |world| {
        world.advance();
        world.ok("b", "2");
        world.ok("c", "3");
        world.ok("b sees 2 3", "0");
        world.ok("a", "1");
        assert_eq!(world.texts(), ["a sees 1 $y"], "I-8");
        world.ok("a sees 1 $y", "0");
        assert_eq!(world.texts(), ["after 2 3"], "I-8: the later branch counts");
    });
}

#[test]
fn a_race_ends_with_the_first_and_drops_the_other() {
    let graph = then(race(sql("a").named("x"), then(sql("b").named("x"), sql("c"))), sql("after $x"));
    each(&graph, |world| {
        world.advance();
        assert_eq!(world.texts(), ["a", "b"]);
        let dropped = world.ok("b", "2").dropped;
        assert!(dropped.is_empty());
        let cell = world.pending[0].cell().clone();
        let progress = world.ok("c", "3");
        assert_eq!(progress.dropped, std::slice::from_ref(&cell), "I-1");
        assert_eq!(world.texts(), ["after 2"], "I-8: the winner's names");
        assert!(!world.reply_to_cell(&cell, Ok(one("1"))), "I-1: nobody waits for it");
        assert_eq!(world.cell(cell.as_str()), None);
        assert_eq!(completed(&world.ok("after 2", "9")), &one("9"));
    });
}

#[test]
fn a_race_can_be_won_by_a_failure() {
    each(&race(sql("a"), sql("b")), |world| {
        world.advance();
        let last = world.fail("b", "lost by winning");
        assert_eq!(failed(&last), "lost by winning", "I-7");
        assert_eq!(last.dropped.len(), 1);
    });
}

#[test]
fn of_two_that_end_together_the_one_told_first_or_the_lower_counts() {
    each(&race(sql("a"), sql("b")), |world| {
        world.advance();
        world.reply("b", Ok(one("2")));
        assert!(world.reply("a", Ok(one("1"))), "it still waits: the race is not judged yet");
        assert_eq!(completed(&world.advance()), &one("2"), "I-7");
    });
    each(&race(then(sleep("1"), sql("a")), then(sleep("1"), sql("b"))), |world| {
        world.advance();
        world.after(1.0);
        assert_eq!(world.texts(), ["a", "b"]);
    });
    each(&race(sleep("1").named("a"), sleep("1.0")), |world| {
        world.advance();
        assert!(completed(&world.after(5.0)).text().ends_with(": 1}"), "I-7: the lower index");
    });
    each(&race(sleep("2"), sleep("1")), |world| {
        world.advance();
        assert!(completed(&world.after(5.0)).text().ends_with(": 1}"), "I-12: the earlier timer");
    });
}

#[test]
fn a_loser_that_was_told_as_well_does_not_count_for_the_next_race() {
    let policy = r#"{"max_attempts":2,"initial_backoff_s":0,"jitter":0}"#;
    each(&retry(join(vec![race(sql("a"), sql("b")), sleep("0")]), policy), |world| {
        world.advance();
        world.reply("a", Err(crate::interpret::Failure::new("no")));
        world.reply("b", Ok(one("1")));
        let progress = world.advance();
        assert!(progress.dropped.is_empty() && progress.outcome.is_none(), "I-3: {progress:?}");
        assert_eq!(world.texts(), ["a", "b"]);
        assert!(completed(&world.ok("a", "2")).text().starts_with(r#"[{"rows":[{"v":2}]"#));
    });
}

#[test]
fn what_is_lost_at_once_is_never_asked_for() {
    each(&race(sql("a"), sleep("0")), |world| {
        let only = world.advance();
        assert!(only.requests.is_empty() && only.dropped.is_empty(), "I-2: {only:?}");
        assert_eq!(completed(&only).text(), r#"{"slept": true, "seconds": 0}"#);
    });
    each(&race(sleep("0"), sql("b")), |world| {
        let only = world.advance();
        assert!(only.requests.is_empty() && only.outcome.is_some());
        assert_eq!(world.cell("2"), None);
    });
}

#[test]
fn cancel_drops_everything_that_runs() {
    let graph = join(vec![sql("a"), then(sql("b"), sql("c")), sleep("5"), signal("s", None)]);
    each(&graph, |world| {
        world.advance();
        world.ok("b", "1");
        let last = world.event(Event::Cancel { reason: "enough".to_owned() });
        assert_eq!(last.outcome, Some(crate::interpret::Outcome::Cancelled("enough".to_owned())));
        assert_eq!(last.dropped.len(), 2);
        assert_eq!(last.due_at, None);
        assert_eq!(last.executions[0].output, Some(Json::string("enough")));
        assert_eq!(world.status("3").as_deref(), Some("completed"), "what had ended stays to be seen");
        assert_eq!(world.cell("4"), None);
        assert!(world.signal("s", "1").requests.is_empty(), "I-14");
    });
}
