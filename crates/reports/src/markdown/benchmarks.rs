//! A page of all published figures, made from evidence documents.

use std::fmt::Write;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_measure::target::Standing;

use super::write::{block, code, table, text};
use crate::suite::{find, Block, Suite};
use crate::Document;

/// What a measurement against other engines is called; its figures are named `ROW/ENGINE`.
const PEERS: &str = "peers";
/// The same with more data than memory.
const PEERS_MEMORY: &str = "peers-memory";
/// The finding that says that another engine was better.
const BEHIND: &str = "behind a peer";

/// How the page begins.
const HEAD: &str = "# Benchmarks\n\nSections that begin with a machine and a command are made from evidence documents (`make \
                    benchmarks`), and so are those that hold\nsuch a run beside published figures; nobody edits them. Each figure has \
                    its target, set before it was measured, and where\nthere is one the best figure that another project published. \
                    Rows that we lose stay. The same program gives figures up to 1.4\ntimes apart on a shared machine: compare \
                    within a run, not between runs.\n";

/// A page of the documents, in the order given; the suites know their targets, and what to show beside them.
///
/// `earlier` is the page as it was, or empty. Sections of it that the documents do not make stay where they are: those of runs that
/// are not told anew, and those that were written by hand.
#[must_use]
pub fn benchmarks(documents: &[Document], suites: &[&dyn Suite], earlier: &str) -> String {
    let mut made: Vec<(String, String)> = Vec::new();
    for document in documents {
        let evidence = &document.evidence;
        let suite = find(suites, &evidence.suite);
        let targets = || suite.map_or_else(Vec::new, |suite| suite.targets(evidence));
        let is_peers = [PEERS, PEERS_MEMORY].contains(&evidence.suite.as_str());
        let rows = if is_peers { peers(evidence) } else { held(&targets()) };
        let mut section = format!("{}\n{rows}", origin(evidence));
        if evidence.verdict != Verdict::Pass {
            writeln!(section, "\nNot every check of this run passed:\n").ok();
            for check in evidence.checks.iter().filter(|check| !check.passed) {
                writeln!(section, "- {}: {}", code(&check.name), text(&check.detail)).ok();
            }
        }
        made.push((title(&evidence.suite), section));
        let parts = suite.map_or_else(Vec::new, |suite| suite.beside(evidence));
        made.extend(parts.into_iter().map(|part| (text(&part.title), blocks(part.blocks))));
    }
    let mut page = HEAD.to_owned();
    for (title, section) in placed(made, earlier) {
        write!(page, "\n## {title}\n\n{}\n", section.trim()).ok();
    }
    page
}

/// The sections of a page: each that was made in the place of the earlier one of its title, and those that have none after the
/// one that they were made after.
fn placed(made: Vec<(String, String)>, earlier: &str) -> Vec<(String, String)> {
    let mut sections: Vec<(String, String)> = earlier
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .map(|(title, section)| (title.trim().to_owned(), section.to_owned()))
        .collect();
    let mut after = None;
    for (title, section) in made {
        let there = sections.iter().position(|(known, _)| *known == title);
        let at = match (there, after) {
            (Some(at), _) => at,
            (None, Some(before)) => before + 1,
            (None, None) => sections.len(),
        };
        if there.is_some() {
            sections[at].1 = section;
        } else {
            sections.insert(at, (title, section));
        }
        after = Some(at);
    }
    sections
}

fn blocks(blocks: Vec<Block>) -> String {
    let block = |block| match block {
        Block::Text(plain) => format!("{}\n", text(&plain)),
        Block::Table { headers, rows } => {
            let headers: Vec<String> = headers.iter().map(|header| text(header)).collect();
            let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
            let cells = |row: Vec<String>| row.iter().map(|cell| text(cell)).collect();
            table(&headers, &rows.into_iter().map(cells).collect::<Vec<Vec<String>>>())
        }
    };
    blocks.into_iter().map(block).collect::<Vec<String>>().join("\n")
}

fn title(suite: &str) -> String {
    match suite {
        "branches" => "Branches of PostgreSQL".to_owned(),
        "store" => "The store".to_owned(),
        PEERS => "The store against other engines".to_owned(),
        PEERS_MEMORY => "The store against other engines, with ten times the memory".to_owned(),
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
            let outcome = row.outcome_in_words();
            [&row.what, &measured, &target, &row.reference_in_words(), &outcome]
                .map(|cell| text(cell))
                .to_vec()
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
