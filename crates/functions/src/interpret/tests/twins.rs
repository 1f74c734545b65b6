//! Two copies of an instance, one of them written and read before every call, must stay the same whatever comes (I-15):
//! results in any order and many at once, signals, pauses, time that jumps, and at last a cancel.

use duramen_base::entropy;
use jiff::SignedDuration;

use super::chance::Chance;
use super::model::{behaviour, generate};
use super::world::*;
use crate::interpret::{Event, Failure, Progress, Request};

/// How many graphs one run looks at.
const CASES: usize = 500;

struct Twins([World; 2]);

impl Twins {
    fn both<T: std::fmt::Debug>(&mut self, call: impl Fn(&mut World) -> T) -> T {
        let [kept, read] = &mut self.0;
        let (one, other) = (call(kept), call(read));
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "I-15");
        one
    }

    fn advance(&mut self) -> Progress {
        let progress = self.both(World::advance);
        assert_eq!(self.0[0].state.to_json(), self.0[1].state.to_json(), "I-15");
        progress
    }
}

fn case(seed: u64) -> usize {
    let mut chance = Chance::new(seed);
    let graph = generate::graph(&mut chance);
    let signals = generate::signals(&graph, &mut chance);
    let mut twins = Twins([World::new(&graph), World::new(&graph)]);
    twins.0[1].reloads = true;
    let mut asked = 0;
    for turn in 0..60 {
        let progress = twins.advance();
        asked += progress.requests.len();
        for request in &progress.requests {
            if let (Request::Child { cell, .. }, false) = (request, chance.one_in(3)) {
                twins.both(|world| world.with(|state, _| state.child_started(cell, cell.as_str())));
            }
        }
        if progress.outcome.is_some() || twins.0[0].state.to_json().len() > 1_000_000 {
            return asked;
        }
        for _ in 0..chance.below(5) {
            match (chance.below(12), twins.0[0].pending.len(), signals.len()) {
                (0, _, 1..) => {
                    let name = &signals[chance.below(signals.len())].1;
                    let event = Event::Signal { name: name.clone(), data: json("1") };
                    twins.both(|world| world.with(|state, cx| state.event(cx, event.clone())));
                }
                (1, ..) => twins.both(|world| world.with(|state, cx| state.event(cx, Event::Pause))),
                (2, ..) => {
                    let some = SignedDuration::from_millis(chance.below(3_000) as i64);
                    twins.both(|world| world.now += some);
                }
                (_, 1.., _) => {
                    let place = chance.below(twins.0[0].pending.len());
                    let request = twins.both(|world| world.pending.remove(place));
                    let (_, result) = behaviour(seed, request.cell().as_str(), turn, &text_of(&request));
                    let (cell, result) = (request.cell(), result.map_err(Failure::new));
                    let told = twins.both(|world| match &request {
                        Request::Child { .. } => {
                            let event = Event::Child { cell: cell.clone(), result: result.clone() };
                            world.with(|state, cx| state.event(cx, event));
                            true
                        }
                        _ => world.reply_to_cell(cell, result.clone()),
                    });
                    assert!(told, "{cell} waits for its result");
                }
                _ => {}
            }
        }
        twins.both(|world| world.with(|state, cx| state.event(cx, Event::Resume)));
    }
    twins
        .both(|world| world.with(|state, cx| state.event(cx, Event::Cancel { reason: "enough".to_owned() })));
    let last = twins.advance();
    assert!(last.outcome.is_some());
    for world in &twins.0 {
        assert!(world.pending.is_empty(), "everything that was given is dropped: {:?}", world.pending);
    }
    asked
}

#[test]
fn what_is_written_and_read_behaves_as_what_is_not() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed:#x}");
    let mut seeds = entropy::rng(seed);
    let mut asked = 0;
    for _ in 0..CASES {
        let seed = seeds.u64(..);
        match std::panic::catch_unwind(|| case(seed)) {
            Ok(some) => asked += some,
            Err(panic) => {
                println!("the case is {seed:#x}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(asked > CASES * 3, "only {asked} requests");
}
