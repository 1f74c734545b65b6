//! What a run does, in which order, and how long that will take.

use std::time::Duration;

use super::level::Level;
use super::options::Options;
use super::outcome::Conditions;
use super::pass::{is_one_level_a_pass, Unit};
use super::scenario::{Expect, Kind, Scenario};

/// The passes of one repeat of a scenario, in random order.
#[must_use]
pub fn units(scenario: &Scenario, options: &Options, repeat: u32, rng: &mut fastrand::Rng) -> Vec<Unit> {
    let mut units = Vec::new();
    for conditions in conditions(scenario, options) {
        for level in levels(scenario, options, conditions) {
            units.push(Unit { conditions, repeat, level });
        }
    }
    rng.shuffle(&mut units);
    units
}

/// Under which conditions a scenario is measured.
fn conditions(scenario: &Scenario, options: &Options) -> Vec<Conditions> {
    let feedback = match &options.feedback {
        Some(feedback) => feedback.clone(),
        None if !options.quick && matters(scenario) => vec![false, true],
        None => vec![false],
    };
    let each = |feedback| {
        options.rtt_ms.iter().map(move |rtt_ms| Conditions { feedback, rtt_ms: *rtt_ms, control: false })
    };
    let plain: Vec<Conditions> = feedback.into_iter().flat_map(each).collect();
    let controls = plain.iter().filter(|_| scenario.breaks().is_some());
    let controls: Vec<Conditions> = controls.map(|plain| Conditions { control: true, ..*plain }).collect();
    [plain, controls].concat()
}

/// Whether `hot_standby_feedback` is part of what a scenario shows.
fn matters(scenario: &Scenario) -> bool {
    scenario.expect.iter().any(|expect| matches!(expect, Expect::FeedbackHelps(_)))
}

/// The levels that are passes of their own. With feedback that nobody asked for, those that stop without it: whether it
/// helps is all that is to be seen.
fn levels(scenario: &Scenario, options: &Options, conditions: Conditions) -> Vec<Level> {
    let mut levels = options.levels();
    // In a quick run the control of what is broken shows that commits go on.
    if options.levels.is_none() && !(options.quick && scenario.breaks().is_some()) {
        levels.extend(weaker(scenario, &levels));
        levels.sort_unstable();
    }
    if !is_one_level_a_pass(scenario.kind) {
        return vec![levels.iter().copied().max().unwrap_or(Level::RemoteApply)];
    }
    if conditions.control {
        // What stops in the scenario must not stop here; the strongest of them waits for all that the others wait for.
        let strongest = levels.into_iter().rfind(|level| scenario.stops(*level) != Some(false));
        return strongest.into_iter().collect();
    }
    if options.feedback.is_none() && conditions.feedback {
        let stops = |level: &Level| {
            scenario.expect.iter().any(|expect| matches!(expect, Expect::StallsFrom(from) if level >= from))
        };
        return levels.into_iter().filter(stops).collect();
    }
    levels
}

/// The levels that a scenario says go on, if those that are measured by default all stop: else nobody would see it.
fn weaker(scenario: &Scenario, levels: &[Level]) -> Vec<Level> {
    let from = scenario.expect.iter().find_map(|expect| match expect {
        Expect::StallsFrom(from) => Some(*from),
        _ => None,
    });
    match from {
        // That the others go on is seen at one of them where every pass has a control.
        Some(from) if levels.iter().all(|level| *level >= from) && scenario.breaks().is_some() => {
            Level::ALL.into_iter().rfind(|level| *level < from).into_iter().collect()
        }
        Some(from) if levels.iter().all(|level| *level >= from) => {
            Level::ALL.into_iter().filter(|level| *level < from).collect()
        }
        _ => Vec::new(),
    }
}

/// No repeat of a scenario is begun that would end later than so long after the beginning. A default run is to take an
/// hour at most; what it was not guessed right by, and clearing up, have the rest.
pub const LIMIT: Duration = Duration::from_secs(57 * 60);

/// Whether a repeat may begin `elapsed` after the beginning of the run, by how long the longest one `before` took, or if
/// there was none by a `guess`.
#[must_use]
pub fn has_time(elapsed: Duration, before: Option<Duration>, guess: Duration) -> bool {
    elapsed + before.unwrap_or(guess) < LIMIT
}

/// How long a pass takes, roughly, on a machine of today. Only for telling how much is left; what passes did take puts
/// it right.
#[must_use]
pub fn guess(scenario: &Scenario, options: &Options) -> Duration {
    let levels = u32::try_from(options.levels().len()).unwrap_or(u32::MAX);
    let broken = |level, control| scenario.broken_for(options.quick, level, control);
    // Of the passes of what is broken, that of a weak level and the control are brief.
    let broken = broken(Level::RemoteApply, false).zip(broken(Level::RemoteApply, true));
    let broken = broken.map(|(long, brief)| (long * levels + brief * 2) / (levels + 2));
    let (block, blocker) = (options.block(), broken.unwrap_or(options.blocker()));
    let pause = Duration::from_millis(200);
    let rounds = if options.quick { 2 } else { 4 };
    let set_up = Duration::from_millis(if options.quick { 500 } else { 3_000 });
    set_up
        + match scenario.kind {
            Kind::Latency => (block + pause) * levels * (rounds + rounds / 2 + 1),
            Kind::Saturation => (block + pause) * levels * if options.quick { 4 } else { 17 },
            Kind::Stall => blocker + Duration::from_millis(if options.quick { 1_000 } else { 2_500 }),
            Kind::Statement => Duration::from_secs(1),
            Kind::Special(_) => blocker + block * rounds * 2,
        }
}
