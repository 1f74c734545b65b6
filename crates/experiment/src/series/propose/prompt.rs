//! What a coding agent is told, as text: the same as the document, in the order in which one reads it.

use super::question::{unit, About};
use crate::{
    plain,
    report::{self, Row},
    spec::Direction,
    state::Try,
};
use std::fmt::Write as _;

/// The longest prompt, in bytes: less than a system takes for one argument.
const BYTES_MAX: usize = 100_000;
/// So many of the newest tries are told.
const TRIES_MAX: usize = 60;
/// The longest text of a try, in characters.
const TEXT_MAX: usize = 400;

/// The prompt. The profile, and then the oldest tries, are left out of one that would be too long.
pub(super) fn write(about: &About<'_>) -> String {
    let mut tries = TRIES_MAX;
    loop {
        let text = written(about, tries);
        if text.len() <= BYTES_MAX || tries == 0 {
            return cut(text);
        }
        tries /= 2;
    }
}

fn cut(mut text: String) -> String {
    let mut end = text.len().min(BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

fn written(about: &About<'_>, tries_max: usize) -> String {
    let mut text = String::new();
    task(about, &mut text);
    limits(about, &mut text);
    tried(about, tries_max, &mut text);
    plans(about, &mut text);
    profile(about, &mut text);
    text
}

fn task(about: &About<'_>, text: &mut String) {
    let spec = &about.current.spec;
    let better = match spec.primary.direction {
        Direction::Lower => "lower",
        Direction::Higher => "higher",
    };
    let unit = unit(spec).map(|unit| format!(" ({})", line(&unit))).unwrap_or_default();
    let answer = about.answer;
    write!(
        text,
        "# Task\n\nMake one change to the program in the current folder that improves the figure `{}`{unit}; {better} is \
         better. Change files only; there is no need to commit. When you end, what differs in this folder is your change. It \
         is then built and measured against the base in turns, and kept if it is better beyond doubt. You have no say in \
         that. This is try {}; {} are left.\n\nBefore you end, write a file `{answer}` at the top of this folder, with a JSON \
         object:\n\n```json\n{{\"hypothesis\": \"what gets better, and why\", \"mechanism\": \"by which mechanism\", \"axis\": \
         \"a short name of the line of thought\", \"notes\": {{\"profile\": \"what you found\", \"ideas\": \"what to try \
         next\"}}}}\n```\n\n`hypothesis` and `mechanism` must be there; `axis`, `idea` (the number of an idea below) and `notes` \
         (up to 20 texts of up to 4 KiB) may be. If there is nothing more to try, write `{{\"stop\": true, \"hypothesis\": \
         \"why\"}}` and change nothing.\n",
        line(&spec.primary.metric),
        about.number,
        about.left,
    )
    .ok();
    let document = super::question::write(about);
    text.push_str("\nThe base has now:\n\n");
    let figures = document["base"].as_object().into_iter().flatten();
    for (scale, figure) in figures {
        let figure = figure.as_f64().map_or_else(|| "not known".to_owned(), |figure| format!("{figure:.6}"));
        writeln!(text, "- scale {}: {figure}", line(scale)).ok();
    }
    write!(text, "\nMeasured by `{}`", line(&spec.measure.command)).ok();
    if let Some(build) = &spec.measure.build {
        write!(text, ", built by `{}`", line(build)).ok();
    }
    text.push_str(".\n");
    if let Some(noise) = &about.current.noise {
        writeln!(
            text,
            "Differences below {:.1} % are within the noise; gains of {} % or more are looked for. The change must hold for \
             other inputs and sizes too: some are held out.",
            noise.floor * 100.0,
            spec.primary.aim_percent
        )
        .ok();
    }
}

fn limits(about: &About<'_>, text: &mut String) {
    let spec = &about.current.spec;
    text.push_str("\n# Limits\n\n");
    match spec.scope.allow.as_slice() {
        [] => text.push_str("- Any file may be changed that is not off limits.\n"),
        allow => {
            writeln!(text, "- Only these files may be changed: {}.", list(allow)).ok();
        }
    }
    writeln!(text, "- Off limits, or the try is invalid: {}.", list(&spec.scope.off_limits)).ok();
    for secondary in &spec.secondaries {
        writeln!(
            text,
            "- `{}` may not get worse by more than {} %.",
            line(&secondary.metric),
            secondary.max_regression_percent
        )
        .ok();
    }
    for check in &spec.checks {
        writeln!(text, "- This must still succeed: `{}`.", line(&check.command)).ok();
    }
    for invariant in &spec.invariants {
        writeln!(text, "- This must hold of each run: `{}`.", line(&invariant.holds)).ok();
    }
    if spec.measure.equal.is_some() {
        text.push_str("- What it computes must stay the same.\n");
    }
}

fn tried(about: &About<'_>, tries_max: usize, text: &mut String) {
    let all: &[Try] = about.state.current().map_or(&[], |segment| &segment.tries);
    let rows = report::rows(about.state);
    text.push_str("\n# What was tried\n\n");
    if all.is_empty() {
        text.push_str("Nothing yet.\n");
    }
    let left_out = all.len().saturating_sub(tries_max);
    if left_out > 0 {
        writeln!(text, "({left_out} older ones are left out.)").ok();
    }
    for known in &all[left_out..] {
        let row = rows.iter().find(|row: &&Row| row.number == known.number);
        let change = row.and_then(|row| row.change).map(|change| format!(", {change}")).unwrap_or_default();
        let verdict = known.verdict().map(report::verdict).unwrap_or("open");
        writeln!(text, "- Try {}: {verdict}{change}. {}", known.number, line(&known.hypothesis)).ok();
        writeln!(text, "  - by: {}", line(&known.mechanism)).ok();
        if let Some(judgement) = &known.judgement {
            writeln!(text, "  - why: {}", line(about.hidden.without(judgement))).ok();
        }
        if let Some(by_hand) = known.overrides.last() {
            writeln!(text, "  - decided by hand: {}", line(&by_hand.reason)).ok();
        }
        for (name, note) in &known.notes {
            writeln!(text, "  - {}: {}", line(name), line(note)).ok();
        }
    }
}

fn plans(about: &About<'_>, text: &mut String) {
    let open = about.state.open_ideas();
    if !open.is_empty() {
        text.push_str("\n# Ideas\n\n");
    }
    for idea in open {
        writeln!(text, "- Idea {}: {} {}", idea.idea, line(&idea.text), line(&idea.mechanism)).ok();
    }
    let closed: Vec<_> = about.state.closed_axes().collect();
    if !closed.is_empty() {
        text.push_str("\n# Closed lines of thought (a try of one of these is refused)\n\n");
    }
    for axis in closed {
        writeln!(text, "- {}: {}", line(&axis.axis), line(&axis.mechanism)).ok();
    }
}

fn profile(about: &About<'_>, text: &mut String) {
    let segment = about.state.current();
    let Some(profile) = segment.and_then(|segment| segment.profiles.get(&about.current.head)) else { return };
    text.push_str("\n# Profile of the base\n\n");
    match &profile.failure {
        Some(why) => {
            writeln!(text, "There is none: {}", line(why)).ok();
        }
        None => {
            let longest = profile.text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest.max(2) + 1);
            write!(text, "{fence}\n{}\n{fence}\n", profile.text.trim_end()).ok();
        }
    }
}

fn list(globs: &[String]) -> String {
    globs.iter().map(|glob| format!("`{}`", line(glob))).collect::<Vec<_>>().join(", ")
}

/// A text in one line, and no longer than it takes to understand it.
fn line(text: &str) -> String {
    let words = plain::text(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{} ...", &words[..end]),
        None => words,
    }
}
