//! The report for terminals.

use super::{
    parts::verdict,
    view::{overview, rows, Row},
    words,
};
use crate::state::State;
use comfy_table::{presets, ContentArrangement, Table};
use std::fmt::Write as _;

/// Tables are not wider than this, in characters.
const WIDTH: u16 = 110;
/// How much of a check's output is shown, in lines from its end.
const CHECK_LINES: usize = 12;

/// The tries as a table.
pub fn table(state: &State) -> String {
    let rows = rows(state);
    if rows.is_empty() {
        return "nothing was tried yet\n".to_owned();
    }
    let several = state.segments.len() > 1;
    let mut table = framed(["try", "verdict", "change [95 %]", "hypothesis", "why"]);
    for row in &rows {
        let number = if several { format!("{}/{}", row.segment, row.number) } else { row.number.to_string() };
        table.add_row([
            number,
            verdict(row),
            row.change.as_ref().map(words::change).unwrap_or_default(),
            words::line(&row.hypothesis),
            why(row),
        ]);
    }
    let mut text = format!("{table}\n");
    for oddity in &state.oddities {
        writeln!(text, "the log does not hang together: {}", words::line(oddity)).ok();
    }
    text
}

fn why(row: &Row) -> String {
    match &row.by_hand {
        Some(by_hand) => format!(
            "{}; computed: {}, {}",
            words::line(&by_hand.reason),
            row.computed.map(words::verdict).unwrap_or_default(),
            words::line(&row.reason)
        ),
        None => words::line(&row.reason),
    }
}

/// One try in full, if there is one of that number.
pub fn one(state: &State, number: u32) -> Option<String> {
    let row = rows(state).into_iter().find(|row| row.number == number)?;
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            pairs.push((name.to_owned(), value));
        }
    };
    add("verdict", verdict(&row));
    add("why", words::line(&row.reason));
    if let Some(by_hand) = &row.by_hand {
        let computed = row.computed.map(words::verdict).unwrap_or_default();
        add("by hand", format!("{} (computed: {computed})", words::line(&by_hand.reason)));
    }
    add("change [95 %]", row.change.as_ref().map(words::change).unwrap_or_default());
    if let (Some(p_value), Some(alpha)) = (row.p_value, row.alpha) {
        add("p-value", format!("{p_value:.3e}, judged at {alpha:.3e}"));
    }
    add("measured", row.extent.as_ref().map(words::extent).unwrap_or_default());
    let confirmed = |agreed| if agreed { "new samples agreed" } else { "new samples did not agree" };
    add("confirmation", row.confirmed.map(confirmed).unwrap_or_default().to_owned());
    for (name, change) in &row.scales {
        add(&format!("  scale {}", words::line(name)), words::change(change));
    }
    for (name, change) in &row.others {
        add(&format!("  {}", words::line(name)), words::change(change));
    }
    add("hypothesis", words::line(&row.hypothesis));
    add("mechanism", words::line(&row.mechanism));
    add("axis", words::line(row.axis.as_deref().unwrap_or_default()));
    add("idea", row.idea.map(|idea| idea.to_string()).unwrap_or_default());
    for (name, text) in &row.notes {
        add(&words::line(name), words::line(text));
    }
    add("from", words::line(&row.source));
    add("base", row.base.clone());
    add("candidate", row.candidate.clone());
    add("files", words::line(&row.files.join(" ")));
    add("samples", format!("{}; at most {:.1} % of the time stolen", row.samples, row.steal * 100.0));
    if state.segments.iter().any(|segment| segment.number == row.segment && !segment.isolated) {
        add("walls", words::UNISOLATED.to_owned());
    }
    add("failure", words::line(row.failure.as_deref().unwrap_or_default()));
    add("began", row.at.to_string());
    add("ended", row.ended.map(|ended| ended.to_string()).unwrap_or_default());
    let mut text = format!("try {} of segment {}\n{}", row.number, row.segment, listed(pairs));
    for check in &row.checks {
        let outcome = if check.passed { "passed" } else { "failed" };
        writeln!(text, "check {}: {outcome}", words::line(&check.check)).ok();
        if !check.passed {
            let lines: Vec<&str> = check.detail.lines().collect();
            for line in lines.iter().skip(lines.len().saturating_sub(CHECK_LINES)) {
                writeln!(text, "  {}", words::lines(line)).ok();
            }
        }
    }
    Some(text)
}

/// Where a series stands, and what comes next.
pub fn status(state: &State) -> String {
    let overview = overview(state);
    if overview.segment == 0 {
        return format!("no baseline yet; {} open\n", words::counted(overview.ideas, "idea", "ideas"));
    }
    let verdicts: Vec<String> =
        overview.verdicts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
    let verdicts = if verdicts.is_empty() { String::new() } else { format!(" ({})", verdicts.join(", ")) };
    let stack = overview.stack.as_ref().map(|stack| {
        let how = if stack.is_replayed { "replayed" } else { "product of the kept tries; not replayed" };
        format!("{} ({how})", words::change(&stack.change))
    });
    let mut pairs = vec![
        ("series", words::line(&overview.name)),
        ("figure", format!("{}, {}", overview.metric, words::direction(overview.direction))),
        ("segment", overview.segment.to_string()),
        ("start", overview.start.clone()),
        ("head", overview.head.clone()),
        ("tries", format!("{} of {}{verdicts}", overview.tries, overview.budget)),
        ("kept stack", stack.unwrap_or_else(|| "nothing kept".to_owned())),
        (
            "noise floor",
            overview
                .noise_percent
                .map_or_else(|| "not found yet".to_owned(), |noise| format!("{noise:.1} %")),
        ),
        ("since a keep", words::counted(overview.since_keep, "try", "tries")),
        ("open ideas", overview.ideas.to_string()),
    ];
    if !overview.closed.is_empty() {
        pairs.push(("closed", words::line(&overview.closed.join(", "))));
    }
    if let Some(number) = overview.open_try {
        pairs.push(("open try", format!("{number}: `resume` goes on with it")));
    }
    if let Some(stopped) = &overview.stopped {
        pairs.push(("last run ended", format!("{}: {}", stopped.rule, words::line(&stopped.words))));
    }
    let mut text = listed(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
    for kept in &overview.kept {
        let change = kept.change.as_ref().map(words::change).unwrap_or_default();
        writeln!(text, "  kept {}: {change} {}", kept.number, words::line(&kept.hypothesis)).ok();
    }
    for oddity in &overview.oddities {
        writeln!(text, "the log does not hang together: {}", words::line(oddity)).ok();
    }
    text
}

/// The open ideas, the first of rank first.
pub fn ideas(state: &State) -> String {
    let open = state.open_ideas();
    if open.is_empty() {
        return "no open ideas\n".to_owned();
    }
    let mut table = framed(["idea", "rank", "what", "mechanism"]);
    for idea in open {
        let (text, mechanism) = (words::line(&idea.text), words::line(&idea.mechanism));
        table.add_row([idea.idea.to_string(), idea.rank.to_string(), text, mechanism]);
    }
    format!("{table}\n")
}

fn framed<const N: usize>(head: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH).set_header(head);
    table
}

fn listed(pairs: Vec<(String, String)>) -> String {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in pairs {
        writeln!(text, "{name:width$}  {value}").ok();
    }
    text
}
