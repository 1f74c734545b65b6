//! The outcome as a page, from the evidence alone.

use duramen_measure::evidence::Evidence;
use duramen_reports::page::{Chart, Report};
use duramen_reports::suite::Suite as _;

use super::findings::curve;
use super::level::Level;
use super::summary::{ScenarioSummary, Seen, Summary, Timeline};
use super::table::{self, Grid};
use super::Replication;
use duramen_base::words::number;

/// The levels that are compared in targets, with how they are drawn.
const DRAWN: [Level; 3] = [Level::RemoteWrite, Level::On, Level::RemoteApply];

/// The page of a run.
pub(crate) fn page(evidence: &Evidence) -> Report {
    let summary = Summary::from_evidence(evidence);
    let mut report = Report::new("Synchronous replication: what each commit level costs, and why")
        .evidence(evidence)
        .tiles(Replication.tiles(evidence))
        .note(
            "Level remote_write waits until the standby has written a commit to its operating system, on until it has \
             flushed it, remote_apply until it has replayed it, so that its readers see it. The level is set for each \
             session. Added times are those of adjacent blocks of load, interleaved at random, with their 95 % intervals. \
             A stall is a second or more without commits while the standby was seen to wait. Gaps in which it was replaying what \
             it had received are told apart from both, and those without any evidence are noise of the \
             machine and stand apart.",
        )
        .heading("What each scenario costs");
    for grid in table::grids(&summary) {
        report = add(report, grid);
    }
    report = added(report, &summary);
    report = saturation(report, &summary);
    let entry: Vec<&ScenarioSummary> =
        summary.scenarios.iter().filter(|entry| !entry.seen.is_empty()).collect();
    if !entry.is_empty() {
        report = report.heading("Scenario by scenario");
    }
    for entry in entry {
        report = scenario(report, &summary, entry);
    }
    report
}

fn add(report: Report, grid: Grid) -> Report {
    report.table(grid.title, grid.headers, grid.rows)
}

/// The latencies at each level, as bars, of the scenarios in which nothing stops.
fn added(report: Report, summary: &Summary<'_>) -> Report {
    let groups = summary.seen().filter(|(entry, _)| entry.kind == "latency").filter_map(|(entry, seen)| {
        let bars = DRAWN.iter().filter_map(|level| {
            Some((level.name(), summary.p50(&seen.name("latency_ms", entry, Some(level.name())))?))
        });
        let bars: Vec<(&str, f64)> = bars.collect();
        (!bars.is_empty()).then(|| (title(entry, seen), bars))
    });
    let groups: Vec<(String, Vec<(&str, f64)>)> = groups.collect();
    if groups.is_empty() {
        return report;
    }
    report.chart(Chart::bars("Response time of a commit at each level, p50", "ms", groups))
}

fn title(entry: &ScenarioSummary, seen: &Seen) -> String {
    let words = seen.in_words();
    let words = if words.is_empty() { words } else { format!(", {words}") };
    let invalid = if seen.unmet.is_empty() { "" } else { " INVALID" };
    format!("{}{words}{invalid}", entry.title())
}

/// Curves over growing numbers of clients.
fn saturation(mut report: Report, summary: &Summary<'_>) -> Report {
    for (entry, seen) in summary.seen().filter(|(entry, _)| entry.kind == "saturation") {
        for (figure, what, unit) in
            [("throughput_per_s", "commits a second", "1/s"), ("latency_ms", "p50", "ms")]
        {
            let lines = DRAWN.iter().map(|level| {
                let points = curve(summary, figure, &entry.id, *level, &seen.suffix);
                let points: Vec<(f64, f64)> =
                    points.into_iter().map(|(c, value)| (f64::from(c), value)).collect();
                (level.name(), points)
            });
            let lines: Vec<_> = lines.filter(|(_, points)| !points.is_empty()).collect();
            if !lines.is_empty() {
                let heading = format!("{}: {what} by the number of clients", title(entry, seen));
                report = report.chart(Chart::line(heading, "clients", unit, lines));
            }
        }
    }
    report
}

/// What a scenario is, what was seen, its time lines, and what to do.
fn scenario(mut report: Report, summary: &Summary<'_>, entry: &ScenarioSummary) -> Report {
    report = report.heading(entry.title()).note(entry.text.as_str());
    if let Some(skipped) = &entry.skipped {
        report = report.note(format!("Not run to its end: {skipped}"));
    }
    for seen in &entry.seen {
        if !seen.unmet.is_empty() {
            report = report.note(format!(
                "INVALID: what was to be measured was not seen to happen, so the figures say nothing of it: {}.",
                seen.unmet.join("; ")
            ));
        }
    }
    let rows: Vec<Vec<String>> = entry.seen.iter().flat_map(|seen| what_was_seen(entry, seen)).collect();
    report = report.table(format!("What was seen in {}", entry.id), ["conditions", "what", "figure"], rows);
    if let Some(seen) = entry.plain() {
        report = timelines(report, summary, entry, seen);
    }
    report.note(format!("What to do: {}", entry.advice))
}

fn what_was_seen(entry: &ScenarioSummary, seen: &Seen) -> Vec<Vec<String>> {
    let conditions = Some(seen.in_words()).filter(|words| !words.is_empty());
    let conditions = conditions.unwrap_or_else(|| "plain".to_owned());
    let mut rows = Vec::new();
    let mut row = |what: String, figure: String| rows.push(vec![conditions.clone(), what, figure]);
    row("passes".to_owned(), seen.passes.to_string());
    row("committed".to_owned(), number(seen.committed as f64));
    for at in seen.levels.iter().filter(|at| at.stall_s > 0.0) {
        let cause = at.cause.as_deref().unwrap_or("unknown");
        row(format!("longest stall at {}: {cause}", at.level), format!("{} s", number(at.stall_s)));
    }
    for at in seen.levels.iter().filter(|at| at.replaying_s > 0.0) {
        let what = format!("longest gap at {} while the standby was replaying", at.level);
        row(what, format!("{} s", number(at.replaying_s)));
    }
    for at in seen.levels.iter().filter(|at| at.noise_s > 0.0) {
        row(format!("longest other gap at {}", at.level), format!("{} s", number(at.noise_s)));
    }
    for (wait, seconds) in &seen.startup_s {
        row(format!("startup process in {wait}"), format!("{} s", number(*seconds)));
    }
    for (stage, seconds) in &seen.stuck_s {
        row(format!("WAL stuck before the replay: {stage}"), format!("{} s", number(*seconds)));
    }
    for (record, samples) in &seen.held_up_at {
        row(format!("replay held up at {record}"), format!("{samples} samples"));
    }
    if seen.wal_bytes > 0 {
        row("WAL".to_owned(), format!("{} MB", number(seen.wal_bytes as f64 / 1e6)));
        let images = seen.image_bytes as f64 / seen.wal_bytes as f64;
        row("of it full-page images".to_owned(), format!("{:.0} %", images * 100.0));
    }
    for (name, count, bytes) in seen.records.iter().take(4) {
        row(
            format!("WAL records {name}, {} of them", number(*count as f64)),
            format!("{} kB", number(*bytes as f64 / 1e3)),
        );
    }
    if let Some(bytes) = seen.backlog_bytes {
        row("most that was to be replayed".to_owned(), format!("{} MB", number(bytes as f64 / 1e6)));
    }
    if let Some(files) = seen.files_removed {
        row("files removed on the standby".to_owned(), number(files as f64));
    }
    if let Some(files) = seen.mapping_files.filter(|files| *files > 0) {
        row("files of logical mappings on the standby".to_owned(), number(files as f64));
    }
    if seen.cancelled > 0 || entry.kind == "stall" {
        row("queries of the standby cancelled".to_owned(), number(seen.cancelled as f64));
    }
    if let Some((count, first)) = &seen.failed {
        row(format!("operations failed, the first: {first}"), number(*count as f64));
    }
    rows
}

/// One chart with all levels on one axis: of one pass where they took turns in it, else of a pass of each, which all
/// begin alike.
fn timelines(report: Report, summary: &Summary<'_>, entry: &ScenarioSummary, seen: &Seen) -> Report {
    let line = |level: Level| {
        let timeline = summary.timeline(&format!("{}/{level}{}", entry.id, seen.suffix))?;
        Some((level, timeline))
    };
    let lines: Vec<(Level, Timeline)> = Level::ALL.into_iter().filter_map(line).collect();
    let one_pass = matches!(entry.kind.as_str(), "latency" | "calibration");
    let how = if one_pass { "the levels interleaved" } else { "the levels, a pass each" };
    match lines.last() {
        None => report,
        Some(last) => report.chart(chart(format!("{}: {how}", title(entry, seen)), &lines, last, one_pass)),
    }
}

/// Commits and lag of all `lines`; what the standby did in detail in the pass of `last`, the level that waits for most.
fn chart(heading: String, lines: &[(Level, Timeline)], last: &(Level, Timeline), one_pass: bool) -> Chart {
    let (level, last) = last;
    let step_ms = lines.iter().map(|(_, line)| line.step_ms).min().unwrap_or(last.step_ms).max(1);
    let length_ms = |line: &Timeline| line.commits.len() as u64 * line.step_ms;
    let steps = lines.iter().map(|(_, line)| length_ms(line)).max().unwrap_or(0) / step_ms;
    let times: Vec<f64> = (0..steps).map(|step| (step * step_ms) as f64 / 1e3).collect();
    // Steps are longer in a longer pass: the value at a time is that of the step that it falls into.
    let values = |line: &Timeline, values: &[Option<u64>], unit: f64| -> Vec<Option<f64>> {
        let at = |step| values.get((step * step_ms / line.step_ms.max(1)) as usize).copied().flatten();
        (0..steps).map(|step| at(step).map(|value| value as f64 / unit)).collect()
    };
    let commits = lines.iter().map(|(level, line)| {
        // Of longer steps, what falls on a tenth of a second.
        let tenths = line.step_ms as f64 / 100.0;
        (format!("commits at {level}, per 100 ms"), values(line, &line.commits, tenths))
    });
    let what = "age of the oldest WAL that is not replayed, s";
    let lag = match one_pass {
        // One standby, one replay: each line has the same samples.
        true => vec![(format!("replay lag: {what}"), values(last, &last.lag_ms, 1e3))],
        false => lines
            .iter()
            .map(|(level, line)| (format!("replay lag at {level}: {what}"), values(line, &line.lag_ms, 1e3)))
            .collect(),
    };
    let bands = lines.iter().flat_map(|(level, line)| line.gaps.iter().map(move |gap| (level, gap)));
    let bands = bands.map(|(level, gap)| {
        let cause = gap.cause.as_deref().unwrap_or("no commits, no wait seen");
        let label = if one_pass { cause.to_owned() } else { format!("{cause} at {level}") };
        (gap.begin_s, gap.begin_s + gap.length_s, label)
    });
    let mut panels = vec![("commits", commits.collect()), ("lag, s", lag)];
    // Documents of before do not have them.
    if last.written_bytes_per_s.len() == last.lag_ms.len() {
        let at = if one_pass { String::new() } else { format!(" at {level}") };
        let rates = vec![
            (format!("WAL written{at}, MB/s"), values(last, &last.written_bytes_per_s, 1e6)),
            (format!("WAL replayed{at}, MB/s"), values(last, &last.replayed_bytes_per_s, 1e6)),
        ];
        panels.push(("MB/s", rates));
        let waiting = values(last, &last.waiting_sessions, 1.0);
        panels.push(("sessions", vec![(format!("sessions that wait for the standby{at}"), waiting)]));
    }
    Chart::timeline(heading, "s", times, panels, bands)
}
