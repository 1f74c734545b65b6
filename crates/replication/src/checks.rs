//! What must hold: that the mechanism happened, and that those commits stall which are said to, and no others.

use std::time::Duration;

use duramen_measure::evidence::{Evidence, Severity};

use super::expect::wait_expected;
use super::figures::{longest_gap, GapKind};
use super::level::Level;
use super::options::Options;
use super::outcome::{Block, Gap, Outcome, Pass};
use super::pass::stall;
use super::scenario::{Expect, Kind, Scenario, Wait};
use super::summary::{cause, ScenarioSummary};

/// The setting of the evidence that holds the major version of the servers.
pub const MAJOR: &str = "server_major";

/// The setting that says whether another standby may acknowledge commits in the place of the one that is measured.
pub const OPTIONAL: &str = "others_acknowledge";

/// A reader that is ended sooner causes no stall: those are a second or longer. One that is ended a little later may, as
/// a startup process that waits for a snapshot looks at the time in steps that double up to a second.
const HARDLY: Duration = Duration::from_millis(500);
/// A reader that is ended as late causes a stall, also if its time began before the last commit was acknowledged.
const SURELY: Duration = Duration::from_millis(1_250);
/// A stall is longer than the time of its reader by no more than this: such a step, and the way back.
const LATE: Duration = Duration::from_millis(1_500);

/// Adds the checks of a scenario. One whose mechanism was not seen makes the run invalid.
pub(super) fn add(
    scenario: &Scenario,
    outcome: &Outcome,
    entry: &ScenarioSummary,
    options: &Options,
    evidence: &mut Evidence,
) {
    if let Some(reason) = &outcome.skipped {
        let text = format!("{} was not run, or not to its end: {reason}", entry.title());
        evidence.find("skipped", Severity::Warning, None, text);
    }
    if let Some(reason) = &outcome.failed {
        evidence.check(format!("measured/{}", entry.id), false, format!("{}: {reason}", entry.name));
    }
    if outcome.passes.is_empty() {
        return;
    }
    let unmet: Vec<String> = entry
        .seen
        .iter()
        .flat_map(|seen| {
            let conditions = Some(seen.in_words()).filter(|words| !words.is_empty());
            let conditions = conditions.map_or_else(String::new, |words| format!("{words}: "));
            seen.unmet.iter().map(move |unmet| format!("{conditions}{unmet}"))
        })
        .collect();
    let name = format!("mechanism/{}", entry.id);
    if unmet.is_empty() {
        let detail = as_expected(scenario, outcome, major(options, evidence));
        evidence.check(name, true, format!("{}: {detail}", entry.name));
    } else {
        let detail = unmet.join("; ");
        evidence.check(name, false, format!("{}: {detail}", entry.name));
        evidence.invalidate(format!(
            "{}: what was to be measured was not seen to happen, so its figures say nothing of it: {detail}",
            entry.title()
        ));
    }
    if scenario.kind == Kind::Stall {
        let cut = options.cuts_readers_after().filter(|_| scenario.has_reader());
        direction(scenario, outcome, entry, major(options, evidence), cut, evidence);
    }
}

/// The major version of the servers.
fn major(options: &Options, evidence: &Evidence) -> u32 {
    let recorded = evidence.config.get(MAJOR).and_then(serde_json::Value::as_u64);
    recorded.and_then(|major| u32::try_from(major).ok()).or(options.major).unwrap_or(u32::MAX)
}

/// What is said of a mechanism that was as expected: in some passes it must not happen.
fn as_expected(scenario: &Scenario, outcome: &Outcome, major: u32) -> String {
    let is_to_happen = |pass: &&Pass| {
        !pass.conditions.control && wait_expected(scenario.expect, major, pass.conditions.feedback)
    };
    let all = outcome.passes.len();
    match outcome.passes.iter().filter(is_to_happen).count() {
        0 => format!("absent in all {all} passes, in which it must not happen"),
        seen if seen == all => format!("seen in all {all} passes"),
        seen => {
            format!("seen in {seen} passes, and absent in the {} in which it must not happen", all - seen)
        }
    }
}

/// Who stalls, why, and who does not.
fn direction(
    scenario: &Scenario,
    outcome: &Outcome,
    entry: &ScenarioSummary,
    major: u32,
    cut: Option<Duration>,
    evidence: &mut Evidence,
) {
    let from = scenario.expect.iter().find_map(|expect| match expect {
        Expect::StallsFrom(level) => Some(*level),
        _ => None,
    });
    let Some(from) = from else { return };
    let is_optional = evidence.config.get(OPTIONAL).and_then(serde_json::Value::as_bool).unwrap_or_default();
    let mut wrong = Vec::new();
    let mut right = Vec::new();
    for pass in &outcome.passes {
        let wanted = expected_cause(scenario, pass, major);
        for block in &pass.blocks {
            let (stall_s, seen) = longest_gap(block, GapKind::Stall);
            let wanted = wanted.filter(|_| block.level >= from).map(cause);
            let feedback = match (pass.conditions.control, pass.conditions.feedback) {
                (true, _) => " in the control",
                (false, true) => " with feedback",
                (false, false) => "",
            };
            let what = match seen {
                Some(seen) => format!("{}{feedback} stalled for {stall_s:.2} s ({seen})", block.level),
                None => format!("{}{feedback} did not stall", block.level),
            };
            if let Some(idle_s) = idle_while_held_up(pass, block).filter(|_| wanted.is_none()) {
                wrong.push(format!(
                    "{}{feedback}: no commits for {idle_s:.2} s while the replay was held up",
                    block.level
                ));
                continue;
            }
            // Where others may acknowledge commits, whether they do depends on how far these are.
            if is_right((stall_s, seen), wanted, cut) || is_optional && seen.is_none() {
                if !right.contains(&what) {
                    right.push(what);
                }
                continue;
            }
            let wanted = match (wanted, cut) {
                (Some(cause), None) => format!("a stall ({cause})"),
                (Some(cause), Some(cut)) if cut >= HARDLY => {
                    format!("a stall ({cause}) of about {:.2} s", cut.as_secs_f64())
                }
                _ => "no stall".to_owned(),
            };
            wrong.push(format!("{what}; expected: {wanted}"));
        }
    }
    let passed = wrong.is_empty();
    let detail = if passed { right } else { wrong }.join("; ");
    evidence.check(format!("direction/{}", entry.id), passed, format!("{}: {detail}", entry.name));
}

/// Whether a stall (or none) is what was wanted, if the reader that causes it is ended after `cut`.
fn is_right((stall_s, seen): (f64, Option<&str>), wanted: Option<&str>, cut: Option<Duration>) -> bool {
    let (Some(cut), Some(_)) = (cut, wanted) else { return seen == wanted };
    match seen {
        None => cut < SURELY,
        Some(_) => {
            let about = cut.as_secs_f64() / 2.0..=(cut + LATE).as_secs_f64();
            seen == wanted && cut >= HARDLY && about.contains(&stall_s)
        }
    }
}

/// The longest time without commits in a block that is told as no stall, in seconds, if the replay was held up for most
/// of it and it lasted for half of the blocker's time or longer. Level and wait say that the one did not hold up the
/// other; that commits went on is what has to be seen.
fn idle_while_held_up(pass: &Pass, block: &Block) -> Option<f64> {
    let least = pass.blocker? / 2;
    let held_up = |gap: &&Gap| {
        gap.cause.is_none()
            && gap.length >= least
            && stall::cause(&pass.samples, gap.begin, gap.begin + gap.length, Level::RemoteApply)
                .is_some_and(Wait::is_in_the_way)
    };
    block.gaps.iter().filter(held_up).map(|gap| gap.length.as_secs_f64()).max_by(f64::total_cmp)
}

/// What the replay is to wait for in a pass, if it is to wait at all.
fn expected_cause(scenario: &Scenario, pass: &Pass, major: u32) -> Option<Wait> {
    if pass.conditions.control {
        return None;
    }
    let helps = scenario.expect.iter().any(|expect| matches!(expect, Expect::FeedbackHelps(true)));
    if pass.conditions.feedback && helps {
        return None;
    }
    scenario.expect.iter().find_map(|expect| match expect {
        Expect::Startup(wait) => Some(*wait),
        Expect::StartupSince(since, wait) if major >= *since => Some(*wait),
        _ => None,
    })
}
