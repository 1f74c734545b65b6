//! Steps whose end a state tells. (That each is told of once, every test looks at: see the world.)

use super::build::*;
use super::world::*;
use crate::interpret::{Context, Failure, State, StepEnd};

#[test]
fn a_step_is_told_of_with_its_attempt_its_times_and_its_end() {
    let graph = then(
        retry(sql("a"), r#"{"max_attempts": 3, "initial_backoff_s": 2, "jitter": 0}"#),
        race(sql("b"), sleep("5")),
    );
    each(&graph, |world| {
        let began = world.now;
        world.advance();
        world.now += jiff::SignedDuration::from_secs(1);
        world.reply("a", Err(Failure { message: "no".to_owned(), sqlstate: Some("40001".to_owned()) }));
        world.advance();
        world.after(2.0);
        world.ok("a", "1");
        world.after(5.0);
        let told: Vec<(&str, Option<u32>, i64, i64, &StepEnd)> = world
            .told
            .iter()
            .map(|step| {
                let seconds = |at: jiff::Timestamp| at.duration_since(began).as_secs();
                (step.cell.as_str(), step.attempt, seconds(step.asked_at), seconds(step.ended_at), &step.end)
            })
            .collect();
        let failure = Failure { message: "no".to_owned(), sqlstate: Some("40001".to_owned()) };
        assert_eq!(
            told,
            [
                ("2", Some(1), 0, 1, &StepEnd::Failed(failure)),
                ("2", Some(2), 3, 3, &StepEnd::Completed { http_status: None }),
                ("4", None, 3, 8, &StepEnd::GivenUp),
            ],
            "I-22"
        );
    });
}

#[test]
fn nothing_is_told_of_a_state_that_nobody_observes() {
    let world = World::new(&sql("a"));
    let cx = Context {
        graph: &world.graph,
        instance_id: "0000002a",
        label: None,
        vars: &world.vars,
        input: None,
        inherited: &world.inherited,
        now: world.now,
        seed: 1,
    };
    let mut state = State::new(world.now);
    let cell = state.advance(&cx).requests[0].cell().clone();
    state.complete(&cx, &cell, Ok(one("1")));
    assert!(state.advance(&cx).steps.is_empty());
}

#[test]
fn the_status_of_an_answer_is_told() {
    let settings = r#"{"url": "http://h.example/", "method": "GET", "timeout_seconds": 5}"#;
    let mut world = World::new(&N::leaf("HTTP", settings));
    world.advance();
    let answer = r#"{"status":404,"body":"","encoding":"text","headers":{},"ok":false,"duration_ms":1}"#;
    world.reply("http://h.example/", Ok(json(answer)));
    world.advance();
    assert_eq!(world.told[0].end, StepEnd::Completed { http_status: Some(404) }, "I-22");
}
