//! Where it ran, what was set, and how to run it again.

use crate::page::{settings, Report};
use duramen_base::words::{bytes, counted, number};
use duramen_measure::evidence::Evidence;

use super::label;
use crate::settings::is_chosen;
use crate::{config_digest, shell, Document};

/// How many machines have a column.
const MOST_MACHINES: usize = 12;
/// How many runs have their settings and commands told.
const MOST_TOLD: usize = 40;

/// A machine as documents describe it, and what was told on the way.
pub(super) type Machine<'a> = &'a Evidence;

/// The machines, with their kernels and file systems, in the order of their first documents.
pub(super) fn machines(documents: &[Document]) -> Vec<Machine<'_>> {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    for document in documents {
        if !machines.iter().any(|known| is_same(known, &document.evidence)) {
            machines.push(&document.evidence);
        }
    }
    machines
}

fn is_same(a: &Evidence, b: &Evidence) -> bool {
    let what = |evidence: &Evidence| {
        let host = &evidence.host;
        (host.machine(), host.kernel.clone(), host.file_system.clone())
    };
    what(a) == what(b)
}

/// `A` for the first machine.
pub(super) fn letter(machines: &[Machine<'_>], document: &Document) -> String {
    let index = machines.iter().position(|known| is_same(known, &document.evidence)).unwrap_or(0);
    name(index)
}

fn name(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => (index + 1).to_string(),
    }
}

/// Machines side by side, and settings.
pub(super) fn part(documents: &[Document]) -> Report {
    let all = machines(documents);
    let shown = &all[..all.len().min(MOST_MACHINES)];
    let mut headers = vec!["What".to_owned()];
    headers.extend((0..shown.len()).map(|index| format!("machine {}", name(index))));
    if shown.len() > 1 {
        headers.push("between machines".to_owned());
    }
    type Field = fn(&Evidence) -> String;
    let what: [(&str, Field); 5] = [
        ("Processor", |of| of.host.cpu.clone()),
        ("Cores", |of| of.host.cores.to_string()),
        ("Memory", |of| bytes(of.host.memory_bytes)),
        ("Kernel", |of| of.host.kernel.clone()),
        ("File system", |of| of.host.file_system.clone()),
    ];
    let mut rows: Vec<Vec<String>> =
        what.iter().map(|(name, told)| row(name, shown.iter().map(|of| told(of)).collect())).collect();
    let of_machine = |machine: &Machine<'_>| {
        documents.iter().filter(|document| is_same(machine, &document.evidence)).collect::<Vec<_>>()
    };
    let span = |values: Vec<f64>, unit: &str| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        if low >= high {
            format!("{}{unit}", number(high))
        } else {
            format!("{} to {}{unit}", number(low), number(high))
        }
    };
    let spans = |of: fn(&Evidence) -> f64, unit: &str| -> Vec<String> {
        let values = |machine| of_machine(machine).iter().map(|document| of(&document.evidence)).collect();
        shown.iter().map(|machine| span(values(machine), unit)).collect()
    };
    // These differ from run to run on one machine, so that they differ between machines says little.
    for (name, cells) in [
        ("One fsync of 4 KiB (median)", spans(|of| of.host.fsync_floor_us, " us")),
        ("Load when it began (1 minute)", spans(|of| of.host.load_average[0], "")),
        ("Runs", shown.iter().map(|machine| of_machine(machine).len().to_string()).collect()),
    ] {
        let mut cells = cells;
        cells.insert(0, name.to_owned());
        if shown.len() > 1 {
            cells.push(String::new());
        }
        rows.push(cells);
    }
    let mut report = Report::new("").table_of("The machines", headers, rows);
    if all.len() > 1 {
        report = report.note(
            "The runs were made on machines that differ: times and rates of one say nothing of the other.",
        );
    }
    if all.len() > shown.len() {
        report = report.note(format!("{} more machines are in the documents.", all.len() - shown.len()));
    }
    report = report.table_of(
        "The documents, newest first",
        ["Suite", "started (UTC)", "figures", "version", "document"],
        documents.iter().rev().map(|document| {
            let name = document.file.file_name().map(|name| name.to_string_lossy().into_owned());
            let evidence = &document.evidence;
            let figures = evidence.measurements.len().to_string();
            [
                evidence.suite.clone(),
                document.when(),
                figures,
                evidence.version.clone(),
                name.unwrap_or_default(),
            ]
        }),
    );
    report = differences(report, documents);
    told(report, documents)
}

/// A row with whether its cells differ.
fn row(name: &str, cells: Vec<String>) -> Vec<String> {
    let differs = cells.iter().any(|cell| *cell != cells[0]);
    let several = cells.len() > 1;
    let mut row = vec![name.to_owned()];
    row.extend(cells);
    if several {
        row.push(if differs { "differs" } else { "same" }.to_owned());
    }
    row
}

/// Settings in which runs of one suite differ.
fn differences(mut report: Report, documents: &[Document]) -> Report {
    for suite in super::suites(documents) {
        let of_suite: Vec<&Document> =
            documents.iter().filter(|document| document.evidence.suite == suite).collect();
        let runs = &of_suite[of_suite.len().saturating_sub(MOST_MACHINES)..];
        let mut names: Vec<&String> = runs.iter().flat_map(|run| run.evidence.config.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let shown = |run: &&Document, name: &str| {
            let told = settings(&run.evidence).into_iter().find(|(other, _)| other == name);
            told.map_or_else(|| "not set".to_owned(), |(_, value)| value)
        };
        let mut rows: Vec<Vec<String>> = names
            .into_iter()
            .filter(|name| is_chosen(name))
            .map(|name| row(name, runs.iter().map(|run| shown(run, name)).collect()))
            .collect();
        rows.push(row("version of Duramen", runs.iter().map(|run| run.evidence.version.clone()).collect()));
        rows.retain(|row| row.last().is_some_and(|last| last == "differs"));
        if runs.len() > 1 && !rows.is_empty() {
            let mut headers = vec!["Setting".to_owned()];
            headers.extend(runs.iter().map(|run| run.when()));
            headers.push("between runs".to_owned());
            report = report.table(format!("Settings in which the runs of {suite} differ"), headers, rows);
        }
    }
    report
}

/// The newest run of each suite and configuration, newest first.
fn unlike(documents: &[Document]) -> Vec<&Document> {
    let mut known = std::collections::BTreeSet::new();
    let is_new = |document: &&Document| {
        known.insert((document.evidence.suite.clone(), config_digest(&document.evidence)))
    };
    documents.iter().rev().filter(is_new).take(MOST_TOLD).collect()
}

/// All settings, folded away.
fn told(mut report: Report, documents: &[Document]) -> Report {
    for document in unlike(documents).into_iter().filter(|document| !document.evidence.config.is_empty()) {
        let all = settings(&document.evidence);
        let title = format!("{} of {}", counted(all.len(), "setting"), label(document, documents));
        report = report.folded(title, Report::new("").pairs(all));
    }
    report
}

/// The commands.
pub(super) fn reproduce(documents: &[Document]) -> Report {
    let mut lines: Vec<String> = Vec::new();
    for document in unlike(documents) {
        let line = shell::reproduce(&document.evidence);
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return Report::new("");
    }
    Report::new("").commands(lines)
}
