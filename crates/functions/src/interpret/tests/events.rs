//! Signals and pauses.

use super::build::*;
use super::world::*;
use crate::interpret::{Event, MAX_KEPT_SIGNALS};

#[test]
fn a_signal_ends_a_wait_with_its_data() {
    each(&signal("go", None), |world| {
        assert_eq!(world.advance().due_at, None);
        assert!(world.signal("stop", "1").outcome.is_none());
        let last = world.signal("go", r#"{"a":[1]}"#);
        assert_eq!(
            completed(&last).text(),
            r#"{"signal_name": "go", "timed_out": false, "data": {"a":[1]}}"#
        );
    });
}

#[test]
fn a_wait_can_time_out() {
    each(&signal("go", Some("2")), |world| {
        world.advance();
        assert!(world.after(1.0).outcome.is_none());
        let last = world.after(1.0);
        assert_eq!(completed(&last).text(), r#"{"signal_name": "go", "timed_out": true, "data": null}"#);
    });
}

#[test]
fn signals_before_their_waits_are_kept_in_order() {
    let wait = |name| signal("go", Some("5")).named(name);
    each(
        &seq(vec![sql("a"), wait("x"), wait("y"), wait("z"), sql("$x.data $y.data $z.data? $z.timed_out")]),
        |world| {
            world.advance();
            world.signal("go", "1");
            world.signal("other", "0");
            world.signal("go", "2");
            world.ok("a", "1");
            assert!(world.texts().is_empty(), "I-11: the third wait has no signal");
            world.after(5.0);
            assert_eq!(world.texts(), ["1 2 NULL true"], "I-11");
            assert_eq!(world.state.signals.len(), 1);
        },
    );
}

#[test]
fn a_signal_goes_to_every_wait_that_has_begun() {
    each(&join(vec![signal("go", None), signal("go", None), then(sql("a"), signal("go", None))]), |world| {
        world.advance();
        world.signal("go", "1");
        world.ok("a", "1");
        let last = world.signal("go", "2");
        assert_eq!(completed(&last).text().matches(r#""data": 1"#).count(), 2, "I-11");
        assert_eq!(completed(&last).text().matches(r#""data": 2"#).count(), 1, "I-11");
    });
}

#[test]
fn too_many_kept_signals_lose_the_oldest() {
    let mut world = World::new(&then(sql("a"), signal("go", None).named("x")));
    world.advance();
    for number in 0..=MAX_KEPT_SIGNALS {
        world.signal("go", &number.to_string());
    }
    assert_eq!((world.state.signals.len(), world.state.signals_lost()), (MAX_KEPT_SIGNALS, 1), "I-11");
    world.reload();
    assert_eq!(world.state.signals_lost(), 1);
    assert!(completed(&world.ok("a", "1")).text().contains(r#""data": 1}"#), "I-11");
}

#[test]
fn a_signal_before_the_first_turn_is_kept() {
    each(&signal("go", None), |world| {
        assert!(completed(&world.signal("go", "1")).text().contains(r#""data": 1"#), "I-11");
    });
}

#[test]
fn a_paused_instance_begins_nothing_but_takes_results_in() {
    each(&then(join(vec![sql("a"), sleep("1"), signal("go", None)]), sql("b")), |world| {
        world.advance();
        assert_eq!(world.event(Event::Pause).due_at, None, "I-13");
        assert!(world.state.paused());
        world.ok("a", "1");
        world.signal("go", "1");
        assert!(world.after(5.0).requests.is_empty(), "I-13");
        assert_eq!(world.status("2").as_deref(), Some("completed"));
        assert_eq!(world.status("3").as_deref(), Some("running"), "I-13: the timer has not fired");
        world.event(Event::Resume);
        assert_eq!(world.texts(), ["b"]);
    });
}

#[test]
fn a_paused_instance_can_be_cancelled() {
    each(&sql("a"), |world| {
        world.event(Event::Pause);
        assert!(world.texts().is_empty(), "I-13");
        let last = world.event(Event::Cancel { reason: "r".to_owned() });
        assert!(last.outcome.is_some(), "I-13");
    });
}

#[test]
fn a_cancel_waits_for_no_turn_and_the_first_counts() {
    each(&sql("a"), |world| {
        world.with(|state, cx| state.event(cx, Event::Cancel { reason: "one".to_owned() }));
        let last = world.event(Event::Cancel { reason: "two".to_owned() });
        assert_eq!(last.outcome, Some(crate::interpret::Outcome::Cancelled("one".to_owned())));
        assert!(last.requests.is_empty());
    });
}
