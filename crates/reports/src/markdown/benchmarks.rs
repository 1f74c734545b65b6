//! A page of all published figures, made from evidence documents.

use std::fmt::Write;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_measure::target::Standing;

use super::write::{block, code, table, text};
use crate::Document;

/// What a measurement against other engines is called; its figures are named `ROW/ENGINE`.
const PEERS: &str = "peers";
/// The finding that says that another engine was better.
const BEHIND: &str = "behind a peer";

/// A page of the documents, in the order given; `targets` are those of a document's suite with its figures.
#[must_use]
pub fn benchmarks(documents: &[Document], targets: &dyn Fn(&Evidence) -> Vec<Standing>) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nThis page is made from evidence documents (`make benchmarks`); nobody edits it. Each figure has \
         its target, set\nbefore it was measured, and where there is one the best figure that another project published. \
         Rows that we lose\nstay. The same program gives figures up to 1.4 times apart on a shared machine: compare within a \
         run, not between\nruns.\n",
    );
    for document in documents {
        let evidence = &document.evidence;
        let rows = if evidence.suite == PEERS { peers(evidence) } else { held(&targets(evidence)) };
        writeln!(page, "\n## {}\n\n{}\n{rows}", title(&evidence.suite), origin(evidence)).ok();
        if evidence.verdict != Verdict::Pass {
            writeln!(page, "Not every check of this run passed:\n").ok();
            for check in evidence.checks.iter().filter(|check| !check.passed) {
                writeln!(page, "- {}: {}", code(&check.name), text(&check.detail)).ok();
            }
        }
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn title(suite: &str) -> String {
    match suite {
        "branches" => "Branches of PostgreSQL".to_owned(),
        "store" => "The store".to_owned(),
        PEERS => "The store against other engines".to_owned(),
        "functions" => "Durable functions".to_owned(),
        "packs" => "Packs".to_owned(),
        "replication" => "The replication lab".to_owned(),
        other => text(other),
    }
}

/// Where the figures come from.
fn origin(evidence: &Evidence) -> String {
    let host = &evidence.host;
    let command: Vec<&str> = evidence
        .command
        .iter()
        .map(|word| word.rsplit('/').next().filter(|_| word.starts_with('/')).unwrap_or(word))
        .collect();
    format!(
        "{}, {} cores, {} GB, {}; one fsync {} us, load average {} at the start; {}. Verdict: {}.\n\n{}",
        text(&host.cpu),
        host.cores,
        number(host.memory_bytes as f64 / 1e9),
        text(&host.kernel),
        number(host.fsync_floor_us),
        number(host.load_average[0]),
        evidence.started_at.strftime("%Y-%m-%d"),
        evidence.verdict.as_str(),
        block(&[command.join(" ")])
    )
}

fn held(rows: &[Standing]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .filter(|row| row.measured.is_some())
        .map(|row| {
            let [measured, target] = [row.measured_in_words(), row.limit_in_words()];
            let outcome = row.outcome.word();
            [&row.what, &measured, &target, &row.reference_in_words(), outcome].map(text).to_vec()
        })
        .collect();
    table(&["", "measured", "target", "reference", ""], &rows)
}

/// A table of rows by engines.
fn peers(evidence: &Evidence) -> String {
    let (mut names, mut engines): (Vec<(&str, &str)>, Vec<&str>) = (Vec::new(), Vec::new());
    for figure in &evidence.measurements {
        let Some((row, engine)) = figure.name.rsplit_once('/') else { continue };
        if !names.contains(&(row, figure.unit.as_str())) {
            names.push((row, &figure.unit));
        }
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    let mut headers = vec![""];
    headers.extend(&engines);
    headers.push("");
    let rows: Vec<Vec<String>> = names
        .iter()
        .map(|(row, unit)| {
            let mut cells = vec![text(&format!("{row}, {unit}"))];
            cells.extend(engines.iter().map(|engine| {
                let figure = evidence.measurement(&format!("{row}/{engine}"));
                figure.map_or_else(String::new, |figure| number(figure.p50))
            }));
            let is_behind = |finding: &duramen_measure::evidence::Finding| {
                finding.rule == BEHIND && finding.text.starts_with(&format!("{row}:"))
            };
            cells.push(if evidence.findings.iter().any(is_behind) {
                "lost".to_owned()
            } else {
                String::new()
            });
            cells
        })
        .collect();
    table(&headers, &rows)
}
