//! STEP, and undoing (I-21).

use super::build::*;
use super::world::*;
use crate::interpret::{Cell, Event, Failure, Outcome, Progress, Request};

/// The children that undo, with the names that they see.
fn undoes(progress: &Progress) -> Vec<(String, String)> {
    let children = progress.requests.iter().map(|request| match request {
        Request::Child { graph, environment, awaited: true, label, .. }
            if label.as_deref() == Some("undo") =>
        {
            (graph.clone(), environment.text().to_owned())
        }
        other => panic!("{other:?}"),
    });
    children.collect()
}

/// The end of the only child that runs.
fn undone(world: &mut World, result: Result<crate::json::Json, Failure>) -> Progress {
    let request = world.pending.pop().expect("something is being undone");
    assert!(world.pending.is_empty(), "I-21: one after the other");
    let cell = request.cell().clone();
    world.event(Event::Child { cell, result })
}

#[test]
fn what_was_done_is_undone_in_reverse_order() {
    let step = |name: &str| step(sql(name).named(name), sql(&format!("undo {name} $result $a?")));
    each(&seq(vec![step("a"), step("b"), step("c"), sql("end")]), |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("b", "2");
        let progress = world.fail("c", "broken");
        assert!(progress.outcome.is_none(), "I-21: the outcome waits");
        let first = undoes(&progress);
        assert!(first.len() == 1 && first[0].0.contains("undo b"), "{first:?}");
        assert!(first[0].1.contains(&format!(r#""result":{}"#, one("2").text())), "{first:?}");
        let progress = undone(world, Ok(one("0")));
        let second = undoes(&progress);
        assert!(second.len() == 1 && second[0].0.contains("undo a"), "{second:?}");
        assert_eq!(failed(&undone(world, Ok(one("0")))), "broken");
    });
}

#[test]
fn what_completes_undoes_nothing() {
    each(
        &then(step(sql("a"), sql("undo a")), catch(step(sql("b"), sql("undo b")), sql("handler"))),
        |world| {
            world.advance();
            world.ok("a", "1");
            world.fail("b", "no");
            completed(&world.ok("handler", "2"));
        },
    );
}

#[test]
fn a_cancel_undoes_and_a_second_one_changes_nothing() {
    each(&then(step(sql("a"), sql("undo a")), sql("b")), |world| {
        world.advance();
        world.ok("a", "1");
        let cancel = |reason: &str| Event::Cancel { reason: reason.to_owned() };
        let progress = world.event(cancel("enough"));
        assert_eq!(undoes(&progress).len(), 1);
        let again = world.event(cancel("now"));
        assert!(again.outcome.is_none() && again.requests.is_empty());
        let last = undone(world, Ok(one("0")));
        assert_eq!(last.outcome, Some(Outcome::Cancelled("enough".to_owned())));
    });
}

#[test]
fn each_time_that_a_step_was_done_is_undone_once() {
    each(&map(sql("items"), step(sql("do $item"), sql("undo $item")), 1), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["0", "1", "2"])));
        world.advance();
        world.ok("do 0", "10");
        world.ok("do 1", "11");
        let progress = world.fail("do 2", "no");
        assert!(undoes(&progress)[0].1.contains(r#""v":1"#), "{progress:?}");
        let progress = undone(world, Ok(one("0")));
        assert!(undoes(&progress)[0].1.contains(r#""v":0"#), "{progress:?}");
        assert_eq!(failed(&undone(world, Ok(one("0")))), "no");
    });
}

#[test]
fn what_cannot_be_undone_is_told_and_the_rest_is_undone() {
    let step = |name: &str| step(sql(name), sql(&format!("undo {name}")));
    each(&seq(vec![step("a"), step("b"), sql("c")]), |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("b", "2");
        world.fail("c", "broken");
        let progress = undone(world, Err(Failure::new("stuck")));
        assert!(undoes(&progress)[0].0.contains("undo a"));
        assert_eq!(failed(&undone(world, Ok(one("0")))), "broken; and it could not be undone: stuck");
    });
}

#[test]
fn a_late_answer_is_not_taken_for_an_undo() {
    each(&join(vec![then(step(sql("a"), sql("undo a")), sql("b")), sql("c")]), |world| {
        world.advance();
        world.ok("a", "1");
        let late: Vec<Cell> = world.pending.iter().map(|request| request.cell().clone()).collect();
        world.event(Event::Cancel { reason: "enough".to_owned() });
        for cell in &late {
            assert!(!world.reply_to_cell(cell, Ok(one("9"))), "{cell} waits for nothing");
        }
        assert!(world.advance().outcome.is_none());
        assert!(undone(world, Ok(one("0"))).outcome.is_some());
    });
}
