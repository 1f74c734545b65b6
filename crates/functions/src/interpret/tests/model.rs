//! Random graphs with random durations and failures: the interpreter must begin the same steps at the same moments, and
//! come to the same end, as an evaluator that knows neither cells nor turns nor lists.
//!
//! The evaluator (`model::evaluate`) computes each node in virtual time, as a function of when it begins and when it
//! will be cut off. The driver here moves the interpreter through the same virtual time, and writes and reads its
//! state at random moments (I-15). Cases in which two things happen at the very same moment and either order is right
//! are left out, and counted.

mod evaluate;
pub(super) mod generate;

use std::collections::BTreeMap;

use duramen_base::entropy;
use jiff::{SignedDuration, Timestamp};

pub(super) use self::evaluate::behaviour;
use self::evaluate::{Evaluator, Step};
use super::build::N;
use super::chance::Chance;
use super::world::*;
use crate::interpret::{Event, Failure, Outcome, Request};
use crate::json::Json;

/// Nanoseconds since the start.
type Time = i64;

/// What came of an instance.
#[derive(Debug, PartialEq)]
struct Story {
    steps: Vec<Step>,
    /// `None`: it waits for ever.
    end: Option<(Time, Result<Json, String>)>,
    executions: u64,
}

fn at(time: Time) -> Timestamp {
    start_of_time() + SignedDuration::from_nanos(time)
}

fn since_start(time: Timestamp) -> Time {
    i64::try_from(time.duration_since(start_of_time()).as_nanos()).unwrap()
}

/// Runs the interpreter through virtual time.
fn drive(graph: &N, seed: u64, signals: &[(Time, String)], chance: &mut Chance) -> Story {
    let mut world = World::new(graph);
    let mut story = Story { steps: Vec::new(), end: None, executions: 1 };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut running: Vec<(Time, Request, Result<Json, String>)> = Vec::new();
    let mut signals = signals.iter().peekable();
    for turn in 0.. {
        assert!(turn < 100_000, "case {seed:#x} does not end");
        world.reloads = chance.one_in(3);
        if chance.one_in(20) {
            world.event(Event::Pause);
            world.with(|state, cx| state.event(cx, Event::Resume));
        }
        let mut progress = world.advance();
        let now = since_start(world.now);
        for id in &progress.dropped_children {
            let place = running.iter().position(|(_, request, _)| format!("child {}", request.cell()) == *id);
            let _ = running.remove(place.expect("a child that is cancelled runs"));
        }
        running.retain(|(_, request, _)| !progress.dropped.contains(request.cell()));
        for request in progress.requests.drain(..) {
            let cell = request.cell().clone();
            if let Request::Child { .. } = request {
                world.with(|state, _| state.child_started(&cell, &format!("child {cell}")));
            }
            let text = text_of(&request);
            let count = counts.entry(activation(&cell).to_owned()).or_default();
            *count += 1;
            let (takes, result) = behaviour(seed, activation(&cell), *count, &text);
            story.steps.push(Step { at: now, cell: activation(&cell).to_owned(), text });
            running.push((now + takes, request, result));
        }
        let continued =
            progress.executions.iter().filter(|execution| execution.output.is_some()).count() as u64;
        story.executions = story.executions.max(world.state.execution());
        match progress.outcome {
            Some(Outcome::Completed(result)) => story.end = Some((now, Ok(result))),
            Some(Outcome::Failed(failure)) => story.end = Some((now, Err(failure.message))),
            Some(Outcome::Cancelled(_)) => unreachable!("nobody cancels"),
            None => {}
        }
        if story.end.is_some() {
            assert!(continued >= 1, "the last execution is told");
            break;
        }
        let mut next = running.iter().map(|(time, ..)| *time).min();
        for time in
            [progress.due_at.map(since_start), signals.peek().map(|(time, _)| *time)].into_iter().flatten()
        {
            next = Some(next.map_or(time, |next| next.min(time)));
        }
        let Some(next) = next else { break };
        assert!(next >= now, "time does not go back");
        world.now = at(next);
        while let Some((_, name)) = signals.next_if(|(time, _)| *time <= next) {
            let event = Event::Signal { name: name.clone(), data: json("1") };
            world.with(|state, cx| state.event(cx, event));
        }
        let (done, rest): (Vec<_>, Vec<_>) = running.into_iter().partition(|(time, ..)| *time <= next);
        running = rest;
        for (_, request, result) in done {
            let result = result.map_err(Failure::new);
            let cell = request.cell().clone();
            world.pending.retain(|pending| *pending.cell() != cell);
            match request {
                Request::Child { .. } => {
                    world.with(|state, cx| state.event(cx, Event::Child { cell, result }));
                }
                _ => assert!(world.reply_to_cell(&cell, result), "{cell} waits for its result"),
            }
        }
    }
    story
}

/// Runs one case; `None` if its end depends on the order of things that happen at the same moment.
fn compare(seed: u64) -> Option<usize> {
    let mut chance = Chance::new(seed);
    let graph = generate::graph(&mut chance);
    let signals = generate::signals(&graph, &mut chance);
    let expected = Evaluator::new(&graph, seed, &signals).story()?;
    let mut story = drive(&graph, seed, &signals, &mut chance);
    story.steps.sort();
    assert_eq!(story, expected, "case {seed:#x}: {}", graph.json());
    Some(story.steps.len())
}

/// How many cases one run compares.
const CASES: u32 = 2_000;

#[test]
fn the_interpreter_does_what_a_simple_evaluator_says() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed:#x}");
    let mut seeds = entropy::rng(seed);
    let (mut cases, mut steps) = (0, 0);
    for _ in 0..CASES {
        let case = seeds.u64(..);

        match std::panic::catch_unwind(|| compare(case)) {
            Ok(Some(some)) => (cases, steps) = (cases + 1, steps + some),
            Ok(None) => {}
            Err(panic) => {
                println!("the case is {case:#x}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{cases} cases with {steps} steps");
    assert!(cases > 1_200 && steps > 5_000, "only {cases} cases with {steps} steps were clear");
}
