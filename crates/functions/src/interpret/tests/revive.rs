//! Taking up again what has ended (I-20).

use jiff::SignedDuration;

use super::build::*;
use super::chance::Chance;
use super::model::{behaviour, generate};
use super::world::*;
use crate::interpret::state::Status;
use crate::interpret::{Event, Failure, Outcome, Request, State};

/// The document of an instance that takes up where this one ended, as the schema's functions write it.
pub(super) fn taken_up(ended: &State, from: Option<u32>) -> State {
    let from = from.map_or_else(|| "null".to_owned(), |from| from.to_string());
    let text = format!(
        r#"{{"v":1,"execution":{},"cells":{{}},"started_at":"2026-01-02T00:00:00Z","turned_at":"2026-01-02T00:00:00Z",
            "events":0,"names":{{"0":{{}}}},"stack":[["start","0"]],"revive":{{"from":{from},"state":{}}}}}"#,
        ended.execution(),
        ended.to_json()
    );
    State::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl World {
    /// Lets another life begin where this one ended.
    fn take_up(&mut self, from: Option<u32>) {
        assert!(self.pending.is_empty(), "{:?}", self.texts());
        self.state = taken_up(&self.state, from);
        self.advance();
    }
}

#[test]
fn what_completed_is_not_done_again() {
    let graph = seq(vec![
        sql("a").named("x"),
        join(vec![sql("b $x").named("y"), sql("c")]),
        sql("d $x $y"),
        sql("e"),
    ]);
    each(&graph, |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("b 1", "2");
        world.ok("c", "3");
        assert_eq!(failed(&world.fail("d 1 2", "broken")), "broken");
        world.take_up(None);
        assert_eq!(world.texts(), ["d 1 2"], "I-20");
        world.ok("d 1 2", "4");
        assert_eq!(completed(&world.ok("e", "5")).text(), one("5").text());
    });
}

#[test]
fn of_several_branches_those_that_failed_go_on() {
    let branch = |name: &str| then(sql(&format!("{name}1")).named("own"), sql(&format!("{name}2 $own")));
    each(&then(join(vec![branch("a"), branch("b"), branch("c")]), sql("last $own")), |world| {
        world.advance();
        for first in ["a1", "b1", "c1"] {
            world.ok(first, &format!("\"{first}\""));
        }
        world.ok("b2 'b1'", "2");
        world.fail("a2 'a1'", "no");
        world.fail("c2 'c1'", "no");
        world.take_up(None);
        assert_eq!(world.texts(), ["a2 'a1'", "c2 'c1'"], "I-20");
        world.ok("a2 'a1'", "1");
        world.ok("c2 'c1'", "3");
        assert_eq!(world.texts(), ["last 'c1'"], "I-8: the names are those of the last branch");
    });
}

#[test]
fn items_that_were_done_stay_done() {
    each(&map(sql("items"), then(sql("a $item").named("x"), sql("b $x $item")), 2), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["0", "1", "2", "3", "4"])));
        world.advance();
        world.ok("a 0", "10");
        world.ok("b 10 0", "100");
        world.ok("a 1", "11");
        world.ok("b 11 1", "101");
        world.ok("a 2", "12");
        world.fail("b 12 2", "two");
        world.ok("a 3", "13");
        assert_eq!(failed(&world.ok("b 13 3", "103")), "two", "I-6: what had begun ends first");
        world.take_up(None);
        assert_eq!(world.texts(), ["b 12 2", "a 4"], "I-20");
        world.ok("b 12 2", "102");
        world.ok("a 4", "14");
        world.ok("b 14 4", "104");
        let result = world.advance();
        let expected = ["100", "101", "102", "103", "104"].map(one).map(|value| value.text().to_owned());
        assert_eq!(completed(&result).text(), format!("[{}]", expected.join(",")));
    });
}

#[test]
fn a_cancelled_map_keeps_its_items() {
    each(&map(sql("items"), sql("a $item"), 1), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["0", "1", "2"])));
        world.advance();
        world.ok("a 0", "10");
        world.event(Event::Cancel { reason: "enough".to_owned() });
        world.pending.clear();
        world.take_up(None);
        assert_eq!(world.texts(), ["a 1"], "I-20");
    });
}

#[test]
fn a_loop_goes_on_in_its_iteration() {
    let body = then(sql("a").named("x"), sql("b $x"));
    each(&then(sql("before"), repeat(body, sql("more $x"))), |world| {
        world.advance();
        world.ok("before", "0");
        world.ok("a", "1");
        world.ok("b 1", "1");
        world.ok("more 1", "true");
        world.after(1.0);
        world.ok("a", "2");
        world.fail("b 2", "no");
        world.take_up(None);
        assert_eq!(world.texts(), ["b 2"], "I-20");
        let loop_cell = world.cell("2").or_else(|| world.cell("3")).unwrap();
        assert_eq!(loop_cell.field("iteration").unwrap().text(), "2");
        world.ok("b 2", "2");
        assert_eq!(completed(&world.ok("more 2", "false")).text(), one("2").text());
    });
}

#[test]
fn names_of_earlier_iterations_are_there_behind_a_loop_that_ended() {
    let body = when(sql("first"), sql("a").named("x"), sql("b"));
    each(&seq(vec![repeat(body, sql("more")), sql("use $x"), sql("end")]), |world| {
        world.advance();
        world.ok("first", "true");
        world.ok("a", "7");
        world.ok("more", "true");
        world.after(1.0);
        world.ok("first", "false");
        world.ok("b", "8");
        world.ok("more", "false");
        world.fail("use 7", "no");
        world.take_up(None);
        assert_eq!(world.texts(), ["use 7"], "I-20");
    });
}

#[test]
fn attempts_begin_anew_and_their_second_one_does_everything() {
    let policy = r#"{"max_attempts":2,"initial_backoff_s":1,"jitter":0}"#;
    each(&retry(then(sql("a"), sql("b")), policy), |world| {
        world.advance();
        world.ok("a", "1");
        world.fail("b", "no");
        world.after(1.0);
        world.ok("a", "2");
        world.fail("b", "no");
        world.take_up(None);
        assert_eq!(world.texts(), ["b"], "I-20: of the last attempt");
        world.fail("b", "no");
        world.after(1.0);
        assert_eq!(world.texts(), ["a"], "another attempt does everything");
        world.ok("a", "3");
        completed(&world.ok("b", "4"));
    });
}

#[test]
fn from_a_step_on_everything_is_done_again_but_what_runs_beside_it() {
    // 0 THEN, 1 a, 2 THEN, 3 JOIN, 4 THEN, 5 b, 6 c, 7 d, 8 e
    let graph = then(
        sql("a").named("x"),
        then(join(vec![then(sql("b $x").named("x"), sql("c $x")), sql("d")]), sql("e $x")),
    );
    each(&graph, |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("b 1", "2");
        world.ok("c 2", "3");
        world.ok("d", "4");
        completed(&world.ok("e 2", "5"));
        world.take_up(Some(6));
        assert_eq!(world.texts(), ["c 2"], "the branch beside it stays done");
        world.ok("c 2", "30");
        assert_eq!(world.texts(), ["e 2"]);
    });
    each(&graph, |world| {
        world.advance();
        world.ok("a", "1");
        world.ok("b 1", "2");
        world.ok("c 2", "3");
        world.ok("d", "4");
        completed(&world.ok("e 2", "5"));
        world.take_up(Some(5));
        assert_eq!(world.texts(), ["b 1"], "it sees the name as it was before");
    });
}

#[test]
fn a_choice_that_was_made_stays_made() {
    each(&when(sql("which"), sql("yes"), sql("no")), |world| {
        world.advance();
        world.ok("which", "false");
        world.fail("no", "broken");
        world.take_up(None);
        assert_eq!(world.texts(), ["no"], "I-20");
    });
}

#[test]
fn an_end_that_does_not_fit_fails_with_the_reason() {
    each(&then(sql("a"), sql("b")), |world| {
        world.advance();
        world.ok("a", "1");
        world.fail("b", "no");
        let text = taken_up(&world.state, None).to_json().replace(r#""1":"#, r#""9":"#);
        world.state = State::from_json(&text).unwrap();
        let progress = world.advance();
        assert!(failed(&progress).contains("cannot go on where it ended"), "{}", failed(&progress));
    });
}

/// How many random graphs one run looks at.
const CASES: u64 = 400;

/// Runs to the end: what is asked for is answered in some order, time passes. `None`: it does not end soon.
fn run_to_end(world: &mut World, seed: u64, chance: &mut Chance, fails: bool) -> Option<Outcome> {
    for turn in 0..200 {
        let progress = world.advance();
        if progress.outcome.is_some() {
            return progress.outcome;
        }
        if world.pending.is_empty() {
            world.now += SignedDuration::from_secs(2);
            continue;
        }
        let place = chance.below(world.pending.len());
        let request = world.pending.remove(place);
        let (_, result) = behaviour(seed, request.cell().as_str(), turn, &text_of(&request));
        let result = match result {
            Err(_) if !fails => Ok(one("1")),
            result => result.map_err(Failure::new),
        };
        match &request {
            Request::Child { cell, .. } => {
                let event = Event::Child { cell: cell.clone(), result };
                world.with(|state, cx| state.event(cx, event));
            }
            _ => drop(world.reply_to_cell(request.cell(), result)),
        }
    }
    None
}

/// The cells of steps that have completed.
fn done(world: &World) -> Vec<String> {
    let frames = world.state.frames.iter();
    let completed = frames.filter(|(_, frame)| matches!(frame.status, Status::Completed(_)));
    completed.map(|(key, _)| key.to_string()).collect()
}

#[test]
fn random_graphs_are_taken_up_without_doing_anything_twice() {
    let (mut failed, mut completed, mut forked) = (0, 0, 0);
    for seed in 0..CASES {
        let mut chance = Chance::new(seed);
        let graph = generate::graph(&mut chance);
        let mut world = World::new(&graph);
        world.reloads = true;
        let Some(outcome) = run_to_end(&mut world, seed, &mut chance, true) else { continue };
        world.pending.clear();
        let before = done(&world);
        let ended = State::from_json(&world.state.to_json()).unwrap();
        if let Outcome::Completed(_) = outcome {
            world.state = taken_up(&ended, None);
            assert_eq!(world.advance().outcome, Some(outcome), "seed {seed}: nothing is left to do");
            completed += 1;
        } else {
            world.state = taken_up(&ended, None);
            world.advance();
            let again = world.pending.iter().map(|request| activation(request.cell()).to_owned());
            let twice: Vec<String> = again.filter(|cell| before.contains(cell)).collect();
            assert!(twice.is_empty(), "I-20: seed {seed}: {twice:?} in {}", graph.json());
            run_to_end(&mut world, seed, &mut chance, false);
            failed += 1;
        }
        // From any step on: it comes to an end, or waits for something.
        let from = chance.below(world.graph.len());
        let mut other = World::new(&graph);
        other.reloads = true;
        other.state = taken_up(&ended, u32::try_from(from).ok());
        other.advance();
        run_to_end(&mut other, seed, &mut chance, false);
        forked += 1;
    }
    assert!(failed > 50 && completed > 50 && forked > 100, "{failed} failed, {completed} completed");
}
