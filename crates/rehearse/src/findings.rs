//! What is noticed in a rehearsal, in words, the worst first.

use crate::{
    figures::{span, Keeps, LoadReport, RecordingReport, TableLocks},
    relations::{Kind, What},
    report::Report,
};
use duramen_base::words::{bytes, counted, number};
use duramen_measure::evidence::{Finding, Severity};

/// Waits and locks that are shorter than this, in milliseconds, are nothing to be told of.
const NOTICED_MS: f64 = 100.0;
/// Waits and locks that are longer are a problem.
const LONG_MS: f64 = 1_000.0;
/// Queries that take so many times longer are told.
const SLOWER: f64 = 2.0;
/// Estimates that are so far off are told, if they were not before.
const FAR_OFF: f64 = 100.0;
/// Time between two looks beyond which something may have been missed, in milliseconds.
const GAP_MS: f64 = 500.0;
/// Findings about one kind of thing.
const EACH_MAX: usize = 20;

pub(crate) fn of(report: &Report) -> Vec<Finding> {
    let mut found = Vec::new();
    locks(report, &mut found);
    own_waits(report, &mut found);
    relations(report, &mut found);
    upgrade(report, &mut found);
    load(report, &mut found);
    queries(report, &mut found);
    definitions(report, &mut found);
    looks(report, &mut found);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

fn by_length(length_ms: f64) -> Severity {
    if length_ms >= LONG_MS {
        Severity::Problem
    } else {
        Severity::Warning
    }
}

fn locks(report: &Report, found: &mut Vec<Finding>) {
    let waited = |table: &&TableLocks| table.longest_wait_ms >= NOTICED_MS;
    for table in report.locks.iter().filter(waited).take(EACH_MAX) {
        let longest = span(table.longest_wait_ms);
        let why = match table.longest() {
            Some(mode) => {
                format!("the migration held it in {} mode for {}", mode.mode, span(mode.longest_ms))
            }
            None => "they stood in the queue behind the migration, which waited itself".to_owned(),
        };
        let text = format!(
            "{}: {} of the load waited, the longest {longest}; {why}",
            table.name,
            counted(table.waiters, "statement")
        );
        found.push(Finding::new(
            "waited",
            by_length(table.longest_wait_ms),
            Some(table.longest_wait_ms),
            text,
        ));
    }
    let kept_out = |table: &&TableLocks| !waited(table) && table.kept_out_ms() >= NOTICED_MS;
    for table in report.locks.iter().filter(kept_out).take(EACH_MAX) {
        let held = table.kept_out_ms();
        let whether = if report.load.is_some() { "; nobody of the load did" } else { "" };
        let (mode, who) =
            table.longest().map_or(("", Keeps::Nobody), |mode| (mode.mode.as_str(), mode.keeps_out));
        let text = format!(
            "{}: {} would have waited for up to {}, for a lock in {mode} mode{whether}",
            table.name,
            who.name(),
            span(held)
        );
        found.push(Finding::new("kept_out", by_length(held), Some(held), text));
    }
}

fn own_waits(report: &Report, found: &mut Vec<Finding>) {
    for wait in report.migration.waits.iter().filter(|wait| wait.waited_ms >= NOTICED_MS).take(EACH_MAX) {
        let who =
            wait.blockers.first().map(|who| format!("; in the way: {}", short(who))).unwrap_or_default();
        let text = format!("the migration waited {} for {}{who}", span(wait.waited_ms), wait.what);
        found.push(Finding::new("migration_waited", Severity::Warning, Some(wait.waited_ms), text));
    }
}

fn relations(report: &Report, found: &mut Vec<Finding>) {
    let rewritten = report.relations.iter().filter(|it| it.what == What::Rewritten && it.kind != Kind::Index);
    for it in rewritten.take(EACH_MAX) {
        let text = format!(
            "{} was written anew as a whole, or emptied: {} before, {} after",
            it.name,
            bytes(it.bytes_before),
            bytes(it.bytes_after)
        );
        found.push(Finding::new("rewritten", Severity::Warning, Some(it.bytes_after as f64), text));
    }
    let broken = report.relations.iter().filter(|it| it.kind == Kind::Index && !it.is_valid);
    for it in broken.filter(|it| it.what != What::Dropped).take(EACH_MAX) {
        let text = format!(
            "the index {} was left invalid: it costs every write, and no query uses it; drop it before the next try",
            it.name
        );
        found.push(Finding::new("invalid_index", Severity::Problem, None, text));
    }
    let gone = report.relations.iter().filter(|it| it.what == What::Dropped && it.kind != Kind::Index);
    for it in gone.take(EACH_MAX) {
        let text = format!("{} was dropped, with {}", it.name, bytes(it.bytes_before));
        found.push(Finding::new("dropped", Severity::Warning, None, text));
    }
}

fn upgrade(report: &Report, found: &mut Vec<Finding>) {
    let Some(upgrade) = &report.upgrade else { return };
    for name in upgrade.outdated_extensions.iter().take(EACH_MAX) {
        let text = format!("the extension {name} is of the earlier version's: run ALTER EXTENSION ... UPDATE after the upgrade");
        found.push(Finding::new("outdated_extension", Severity::Warning, None, text));
    }
}

fn load(report: &Report, found: &mut Vec<Finding>) {
    let Some(load) = &report.load else {
        if report.upgrade.is_some() {
            return;
        }
        let text = "no load was given, so waits can only be inferred from the locks; give one with --load";
        found.push(Finding::new("no_load", Severity::Info, None, text));
        return;
    };
    for error in load.errors.iter().take(EACH_MAX) {
        let [before, during, after] = error.counts;
        let severity = if during + after > before { Severity::Problem } else { Severity::Warning };
        let text = format!(
            "the load failed {} before, {during} during and {after} after the migration with: {} ({})",
            counted(before, "time"),
            short(&error.message),
            short(&error.statement)
        );
        found.push(Finding::new("load_failed", severity, Some((during + after) as f64), text));
    }
    if let Some(recording) = &load.recording {
        recorded(recording, load, found);
    }
    let [before, _, _] = load.transactions;
    if before.count == 0 {
        let text =
            "no transaction of the load ended before the migration: latencies have nothing to stand beside";
        found.push(Finding::new("nothing_before", Severity::Warning, None, text));
    } else if before.p50_ms > LONG_MS {
        let text = format!(
            "the load is more than the branch can do, even before the migration (p50 {}): lower {}",
            span(before.p50_ms),
            if load.recording.is_some() { "--replay-speed" } else { "--load-rate" }
        );
        found.push(Finding::new("overload", Severity::Warning, Some(before.p50_ms), text));
    }
}

fn recorded(recording: &RecordingReport, load: &LoadReport, found: &mut Vec<Finding>) {
    let replayed_ms = recording.span_ms / recording.speed;
    let missing_ms = load.phases_ms.iter().sum::<f64>() - replayed_ms;
    // What is recorded ends somewhere; what counts is that the migration had a load to its end.
    let without_ms = missing_ms - load.phases_ms[2];
    if without_ms > 0.0 {
        let text = format!(
            "the recording ended {} before the migration: it is {} long as it was replayed; record more, or lower --replay-speed",
            span(without_ms),
            span(replayed_ms)
        );
        found.push(Finding::new("recording_ended", Severity::Warning, Some(without_ms), text));
    }
    if recording.without_parameters > 0 {
        let text = format!(
            "{} of the recording left out, because parameters were not logged (log_parameter_max_length = -1)",
            counted(recording.without_parameters, "statement")
        );
        found.push(Finding::new(
            "left_out",
            Severity::Warning,
            Some(recording.without_parameters as f64),
            text,
        ));
    }
}

fn queries(report: &Report, found: &mut Vec<Finding>) {
    for query in report.queries.iter().take(EACH_MAX) {
        let sql = short(&query.sql);
        if let Some(factor) = query.slowdown().filter(|factor| *factor >= SLOWER) {
            let text = format!("a query takes {} times as long as before: {sql}", number(factor));
            found.push(Finding::new("slower_query", Severity::Problem, Some(factor), text));
        } else if let Some(factor) = query.slowdown().filter(|factor| factor * SLOWER <= 1.0) {
            let text = format!("a query is {} times as fast as before: {sql}", number(1.0 / factor));
            found.push(Finding::new("faster_query", Severity::Info, Some(factor), text));
        } else if query.is_changed {
            let text = format!("a query has another plan: {sql}");
            found.push(Finding::new("other_plan", Severity::Warning, None, text));
        }
        match (&query.before.error, &query.after.error) {
            (None, Some(error)) => {
                let text = format!("a query does not work any more: {}: {sql}", short(error));
                found.push(Finding::new("broken_query", Severity::Problem, None, text));
            }
            (Some(error), _) => {
                let text = format!("a query did not work before: {}: {sql}", short(error));
                found.push(Finding::new("bad_query", Severity::Warning, None, text));
            }
            (None, None) => {}
        }
        let factor = |plan: &crate::plans::Plan| plan.worst_estimate.as_ref().map_or(1.0, |it| it.factor());
        if factor(&query.after) >= FAR_OFF && factor(&query.before) < FAR_OFF {
            let text = format!("estimates of a query are far off now; does ANALYZE have to run? {sql}");
            found.push(Finding::new("estimates", Severity::Warning, Some(factor(&query.after)), text));
        }
    }
}

fn definitions(report: &Report, found: &mut Vec<Finding>) {
    for warning in report.definitions.iter().flat_map(|diff| &diff.warnings).take(EACH_MAX) {
        let text = format!("{} {}: {}: {}", warning.kind, warning.name, warning.risk, warning.message);
        found.push(Finding::new("definition", Severity::Info, None, text));
    }
    if let Some(why) = &report.definitions_unknown {
        let text = format!("it is not known what the migration made of the definitions: {why}");
        found.push(Finding::new("definitions_unknown", Severity::Warning, None, text));
    }
}

fn looks(report: &Report, found: &mut Vec<Finding>) {
    let looks = &report.looks;
    if let Some(error) = &looks.error {
        let text = format!("not all of the locks were seen: {error}");
        found.push(Finding::new("not_seen", Severity::Problem, None, text));
    } else if looks.longest_gap_ms > GAP_MS {
        let text = format!(
            "the longest time between two looks at the locks was {}: shorter waits may be missing, and the machine was busy",
            span(looks.longest_gap_ms)
        );
        found.push(Finding::new("gap", Severity::Warning, Some(looks.longest_gap_ms), text));
    }
    if looks.is_cut || report.load.as_ref().is_some_and(|load| load.is_cut) {
        let text = "more happened than is kept: figures are of the first part of it";
        found.push(Finding::new("cut", Severity::Warning, None, text));
    }
}

/// A text in a line of bearable length.
pub(crate) fn short(text: &str) -> String {
    const LETTERS: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LETTERS) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
