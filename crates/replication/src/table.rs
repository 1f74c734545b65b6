//! The outcome as tables for a terminal of 120 columns.

use std::fmt::Write as _;

use duramen_measure::evidence::Evidence;
use duramen_measure::target;
use duramen_reports::text::{self, narrow_table, short, wrapped};

use super::findings::curve;
use super::level::Level;
use super::summary::{AddedInterval, ScenarioSummary, Seen, Summary};
use super::targets::standings;

/// The kind of scenario that sets a delay and measures it.
const CALIBRATION: &str = "calibration";

/// A table with its title.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// What it tells.
    pub title: String,
    /// The heads of the columns.
    pub headers: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// The scenarios, what feedback does, the parts of the cost, saturation, staleness, targets, checks and findings, as text.
#[must_use]
pub fn print_table(evidence: &Evidence) -> String {
    let summary = Summary::from_evidence(evidence);
    let mut text = String::new();
    for grid in grids(&summary) {
        writeln!(
            text,
            "{}\n\n{}\n",
            wrapped(&grid.title, 0),
            narrow_table(&grid.headers, grid.rows.iter().cloned())
        )
        .ok();
    }
    for line in text::checks(evidence).lines() {
        writeln!(text, "{}", wrapped(line, 6)).ok();
    }
    if !evidence.findings.is_empty() {
        text.push('\n');
    }
    for line in text::findings(&evidence.findings).lines() {
        writeln!(text, "{}", wrapped(line, 2)).ok();
    }
    if let Some(ready) = evidence.median("pair_ready_s") {
        writeln!(
            text,
            "\n{}",
            wrapped(&format!("{} was ready after {} s.", pair(evidence), short(ready)), 2)
        )
        .ok();
    }
    writeln!(text, "\nverdict: {}", evidence.verdict).ok();
    text
}

/// What was measured, in words.
fn pair(evidence: &Evidence) -> String {
    let said = |name: &str| evidence.config.get(name);
    match (said("source").and_then(|source| source.as_str()), said("generation")) {
        (Some(source), Some(generation)) => format!("The pair of {source}, generation {generation},"),
        _ => "The pair".to_owned(),
    }
}

/// All tables that there is something in.
#[must_use]
pub fn grids(summary: &Summary<'_>) -> Vec<Grid> {
    let mut grids = vec![scenarios(summary), feedback(summary), parts(summary)];
    grids.extend(saturation(summary));
    grids.extend(super::workload::tables::grids(summary.evidence()));
    grids.extend([staleness(summary), targets(summary.evidence())]);
    grids.retain(|grid| !grid.rows.is_empty());
    grids
}

fn grid<const N: usize>(title: &str, headers: [&str; N], rows: Vec<Vec<String>>) -> Grid {
    Grid { title: title.to_owned(), headers: headers.map(str::to_owned).into(), rows }
}

/// What each scenario costs and where commits stop.
#[must_use]
pub fn scenarios(summary: &Summary<'_>) -> Grid {
    let mut rows = Vec::new();
    for entry in &summary.scenarios {
        for seen in &entry.seen {
            // Where commits stop, the responses say how long the blocker was, and not what a level costs.
            let has_cost = entry.kind != "stall";
            let p50 = |level: Level| latency(summary, entry, seen, level).filter(|_| has_cost);
            let added = if has_cost { added(summary, entry, seen) } else { String::new() };
            let (weak, strong) = (p50(Level::RemoteWrite), p50(Level::RemoteApply));
            let ratio = match (weak, strong) {
                (Some(weak), Some(strong)) if weak > 0.0 => format!("{}x", short(strong / weak)),
                _ => String::new(),
            };
            let cell = |value: Option<f64>| value.map_or_else(String::new, short);
            rows.push(vec![
                heading(entry, seen),
                cell(weak),
                cell(strong),
                added,
                ratio,
                blocked(entry, seen),
            ]);
        }
        if entry.seen.is_empty() {
            let mut row = vec![entry.title()];
            row.extend(["", "", "", ""].map(str::to_owned));
            row.push(format!("not run: {}", entry.skipped.as_deref().unwrap_or("no pass came to its end")));
            rows.push(row);
        }
    }
    grid(
        "Response time of a commit at remote_write and at remote_apply, p50 in ms; what is added, with its 95 % interval; \
         and the longest time in which nothing was committed. Where commits are held up on purpose only that says something.",
        ["scenario", "rw", "ra", "added ms", "ratio", "BLOCKED"],
        rows,
    )
}

/// The median latency at a level; of growing numbers of clients that of the fewest.
fn latency(summary: &Summary<'_>, entry: &ScenarioSummary, seen: &Seen, level: Level) -> Option<f64> {
    summary.p50(&seen.name("latency_ms", entry, Some(level.name()))).or_else(|| {
        let points = curve(summary, "latency_ms", &entry.id, level, &seen.suffix);
        points.first().map(|(_, p50)| *p50)
    })
}

fn heading(entry: &ScenarioSummary, seen: &Seen) -> String {
    let mut text = entry.title();
    let words = seen.in_words();
    if !words.is_empty() {
        write!(text, ", {words}").ok();
    }
    if entry.kind == "saturation" {
        text.push_str(", fewest clients");
    }
    if !seen.unmet.is_empty() {
        text.push_str(" INVALID");
    }
    text
}

/// A difference with its interval, or in words that there is none.
#[must_use]
pub fn difference(summary: &Summary<'_>, name: &str) -> String {
    match (summary.interval(name), summary.evidence().measurement(name)) {
        (Some(interval), _) => interval_in_words(&interval),
        (None, Some(only)) => format!("{} (one value)", short(only.p50)),
        (None, None) => String::new(),
    }
}

/// What a scenario adds. Of a delay that was set its target says how well it was met, so that few values make the interval wide is no
/// reason to say that nothing was added.
fn added(summary: &Summary<'_>, entry: &ScenarioSummary, seen: &Seen) -> String {
    let name = seen.name("added_ms", entry, None);
    match summary.interval(&name).filter(|_| entry.kind == CALIBRATION) {
        Some(interval) => {
            format!("{} [{}, {}]", short(interval.estimate), short(interval.low), short(interval.high))
        }
        None => difference(summary, &name),
    }
}

fn interval_in_words(interval: &AddedInterval) -> String {
    let range = format!("[{}, {}]", short(interval.low), short(interval.high));
    if interval.low <= 0.0 && interval.high >= 0.0 {
        format!("no detectable difference {range}")
    } else {
        format!("{} {range}", short(interval.estimate))
    }
}

/// Where commits stop, for how long, and what for.
fn blocked(entry: &ScenarioSummary, seen: &Seen) -> String {
    let stalls = seen.levels.iter().filter(|at| at.stall_s > 0.0).map(|at| {
        format!("{} {} s: {}", at.level, short(at.stall_s), at.cause.as_deref().unwrap_or("unknown"))
    });
    let mut stalls: Vec<String> = stalls.collect();
    if stalls.is_empty() && entry.kind == "stall" {
        stalls.push("never".to_owned());
    }
    stalls.join("; ")
}

/// Whether `hot_standby_feedback` prevents stalls.
#[must_use]
pub fn feedback(summary: &Summary<'_>) -> Grid {
    let rows = summary.scenarios.iter().filter(|entry| entry.kind == "stall").filter_map(|entry| {
        let (off, on) = (entry.nearest(false)?, entry.nearest(true)?);
        let stalls = |seen: &Seen| seen.levels.iter().any(|at| at.stall_s > 0.0);
        let answer = match (stalls(off), stalls(on)) {
            _ if entry.is_invalid() => "INVALID",
            (true, false) => "yes",
            (_, true) => "no",
            (false, false) => "nothing to fix",
        };
        Some(vec![entry.title(), blocked(entry, off), blocked(entry, on), answer.to_owned()])
    });
    grid(
        "Does hot_standby_feedback fix it?",
        ["scenario", "feedback off", "feedback on", "fixed"],
        rows.collect(),
    )
}

/// What the standby's flush adds, and what the replay.
#[must_use]
pub fn parts(summary: &Summary<'_>) -> Grid {
    let rows = summary.seen().filter(|(entry, _)| entry.kind != "stall").filter_map(|(entry, seen)| {
        let of = |figure: &str| difference(summary, &seen.name(figure, entry, None));
        let (flush, replay, added) = (of("flush_ms"), of("replay_ms"), added(summary, entry, seen));
        (!flush.is_empty() || !replay.is_empty()).then(|| vec![heading(entry, seen), flush, replay, added])
    });
    grid(
        "Where it comes from: remote_write to on is the flush on the standby, on to remote_apply the replay; in ms.",
        ["scenario", "flush (rw to on)", "replay (on to ra)", "both (rw to ra)"],
        rows.collect(),
    )
}

/// A table for each scenario with growing numbers of clients.
#[must_use]
pub fn saturation(summary: &Summary<'_>) -> Vec<Grid> {
    let of = |entry: &ScenarioSummary, seen: &Seen| {
        let points = |figure: &str, level| curve(summary, figure, &entry.id, level, &seen.suffix);
        let (weak, strong) = (Level::RemoteWrite, Level::RemoteApply);
        let at = |points: &[(u32, f64)], clients: u32| {
            points.iter().find(|(count, _)| *count == clients).map(|(_, value)| *value)
        };
        let (weak_ms, strong_ms) = (points("latency_ms", weak), points("latency_ms", strong));
        let (weak_s, strong_s) = (points("throughput_per_s", weak), points("throughput_per_s", strong));
        let mut counts: Vec<u32> = weak_ms.iter().chain(&strong_ms).map(|(clients, _)| *clients).collect();
        counts.sort_unstable();
        counts.dedup();
        let row = |clients: &u32| {
            let cell = |points: &[(u32, f64)]| at(points, *clients).map_or_else(String::new, short);
            let ratio = match (at(&weak_s, *clients), at(&strong_s, *clients)) {
                (Some(weak), Some(strong)) if weak > 0.0 => format!("{:.0} %", strong / weak * 100.0),
                _ => String::new(),
            };
            let added = format!("added_ms/{}/c={clients}{}", entry.id, seen.suffix);
            vec![
                clients.to_string(),
                cell(&weak_ms),
                cell(&strong_ms),
                difference(summary, &added),
                cell(&weak_s),
                cell(&strong_s),
                ratio,
            ]
        };
        grid(
            &format!(
                "{}: p50 in ms and commits a second by the number of clients.",
                heading_of_curve(entry, seen)
            ),
            ["clients", "rw ms", "ra ms", "added ms", "rw 1/s", "ra 1/s", "ra of rw"],
            counts.iter().map(row).collect(),
        )
    };
    summary
        .seen()
        .filter(|(entry, _)| entry.kind == "saturation")
        .map(|(entry, seen)| of(entry, seen))
        .collect()
}

fn heading_of_curve(entry: &ScenarioSummary, seen: &Seen) -> String {
    heading(entry, seen).replace(", fewest clients", "")
}

/// How stale reads of the standby are.
#[must_use]
pub fn staleness(summary: &Summary<'_>) -> Grid {
    let row = |level: Level| {
        let figure = summary.evidence().measurement(&format!("staleness_ms/{level}"))?;
        let percent = summary.p50(&format!("stale_percent/{level}"))?;
        let mut row =
            vec![level.name().to_owned(), figure.count.to_string(), format!("{} %", short(percent))];
        row.extend([figure.p50, figure.p95, figure.max].map(short));
        Some(row)
    };
    grid(
        "How stale a read of the standby is right after a commit: the share that does not see it, and ms until one does.",
        ["committed at", "commits", "stale", "p50", "p95", "max"],
        Level::ALL.into_iter().filter_map(row).collect(),
    )
}

/// What the suite itself must reach.
fn targets(evidence: &Evidence) -> Grid {
    let (headers, rows) = target::table(&standings(evidence));
    let headers = headers.into_iter().map(str::to_owned).collect();
    Grid { title: "What the suite itself must reach.".to_owned(), headers, rows }
}
