//! What a run over arrangements says: its documents, tables and pages.

use std::fmt::Write;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target::Standing;
use duramen_reports::page::{Chart, Report, Tile};
use duramen_reports::suite::{self, Headline, Scenario, Suite};
use duramen_reports::text::{self, narrow_table, wrapped};
use serde::{de::DeserializeOwned, Deserialize, Serialize};

use super::arrangement::{Arrangement, Fault};

/// The name of its documents' suite.
pub const SUITE: &str = "topologies";
/// Where a document has its passes.
pub(super) const PASSES: &str = "passes";
/// Where a document has its time lines.
pub(super) const TIMELINES: &str = "timelines";
/// The share of positions of which nobody can say who decided.
pub(super) const TIED: &str = "tied";

/// The suite.
#[derive(Debug)]
pub struct Topologies;

/// A pass as documents have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassView {
    /// Which standbys there are.
    pub arrangement: String,
    /// To whom something was done; empty where nothing was.
    pub victim: String,
    /// What.
    pub fault: String,
    /// At which level commits were made.
    pub level: String,
    /// What commits were to do.
    pub expected: String,
    /// Whether they did.
    pub is_met: bool,
    /// How long a commit took while it was so, in milliseconds.
    pub p50_ms: f64,
    /// The same, of the slowest hundredth.
    pub p99_ms: f64,
    /// Commits a second.
    pub per_s: f64,
    /// The longest time without one, in seconds.
    pub gap_s: f64,
    /// For which standby commits waited, in how many of a hundred; `tied`: several came at once.
    pub decided: Vec<(String, f64)>,
}

/// What happened over time in a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The pass, as in the names of its figures.
    pub key: String,
    /// The length of a step.
    pub step_ms: u64,
    /// Commits in each step.
    pub commits: Vec<u64>,
    /// By how much each standby's disk was late at most in each step.
    pub late_ms: Vec<(String, Vec<Option<u64>>)>,
    /// When something was done, from the beginning of the pass.
    pub window_s: [f64; 2],
}

/// Adds an element to a list of the document.
pub(super) fn push(evidence: &mut Evidence, list: &str, value: &impl Serialize) {
    // These hold nothing that has no form in JSON.
    let value = serde_json::to_value(value).unwrap_or_default();
    let list = evidence.config.entry(list).or_insert_with(|| serde_json::Value::Array(Vec::new()));
    if let serde_json::Value::Array(list) = list {
        list.push(value);
    }
}

fn list<T: DeserializeOwned>(evidence: &Evidence, name: &str) -> Vec<T> {
    let value = evidence.config.get(name).cloned().unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// The passes of a document.
#[must_use]
pub fn passes(evidence: &Evidence) -> Vec<PassView> {
    list(evidence, PASSES)
}

/// A pass in a line: `FIRST 1 (a, b): a hangs, at on`.
pub(super) fn title(arrangement: &str, fault: &str, victim: &str, level: &str) -> String {
    match fault.parse::<Fault>() {
        Ok(fault) if !victim.is_empty() => {
            format!("{arrangement}: {victim} {}, at {level}", fault.in_words())
        }
        _ => format!("{arrangement}: nothing is done to it, at {level}"),
    }
}

/// What the passes of a document say of each arrangement.
pub(super) fn found(evidence: &Evidence) -> Vec<Finding> {
    let passes = passes(evidence);
    let mut names: Vec<&str> = Vec::new();
    for pass in &passes {
        if !names.contains(&pass.arrangement.as_str()) {
            names.push(&pass.arrangement);
        }
    }
    let mut findings = Vec::new();
    for name in names {
        let of: Vec<&PassView> = passes.iter().filter(|pass| pass.arrangement == name).collect();
        let done: Vec<&&PassView> = of.iter().filter(|pass| !pass.victim.is_empty()).collect();
        if done.is_empty() {
            continue;
        }
        let say = |pass: &&&PassView| {
            let fault: Option<Fault> = pass.fault.parse().ok();
            let what = fault.map_or("", Fault::in_words);
            let effect = match pass.expected.as_str() {
                "wait for it" => format!("a commit takes {} ms", number(pass.p50_ms)),
                "go on" => "commits go on".to_owned(),
                _ => format!("no commit for {} s", number(pass.gap_s)),
            };
            format!("{} {what}: {effect}", pass.victim)
        };
        let longest = done.iter().map(|pass| pass.gap_s).fold(0.0, f64::max);
        let lines: Vec<String> = done.iter().map(say).collect();
        let stops = done.iter().any(|pass| pass.expected.starts_with("stop"));
        let severity = if stops { Severity::Warning } else { Severity::Info };
        findings.push(Finding::new(
            "arrangement",
            severity,
            Some(longest),
            format!("{name}. {}.", lines.join("; ")),
        ));
    }
    findings
}

const HEADERS: [&str; 7] =
    ["arrangement", "what", "p50 ms", "p99 ms", "longest gap s", "waited for", "expected"];
const NOTE: &str = "The primary was asked some hundred times a second how far each standby had come. Late is how long ago the \
    first byte that a standby does not have was on the primary's disk. A standby is waited for if its answer completes the \
    number that commits wait for; tied: several answers came between the same two looks. Commits are transactional logical \
    messages, made by sessions that wait for each.";

fn rows(evidence: &Evidence) -> Vec<[String; 7]> {
    let row = |pass: PassView| {
        let fault = pass.fault.parse::<Fault>();
        let what = match fault {
            Ok(fault) if !pass.victim.is_empty() => format!("{} {}", pass.victim, fault.in_words()),
            _ => "nothing".to_owned(),
        };
        let shares: Vec<String> = pass
            .decided
            .iter()
            .filter(|(_, share)| *share >= 0.5)
            .map(|(name, share)| format!("{name} {share:.0} %"))
            .collect();
        [
            format!("{} at {}", pass.arrangement, pass.level),
            what,
            number(pass.p50_ms),
            number(pass.p99_ms),
            number(pass.gap_s),
            shares.join(", "),
            format!("{}: {}", pass.expected, if pass.is_met { "yes" } else { "NO" }),
        ]
    };
    passes(evidence).into_iter().map(row).collect()
}

impl Suite for Topologies {
    fn name(&self) -> &'static str {
        SUITE
    }

    fn about(&self) -> &'static str {
        "Several standbys: which one commits wait for, and what it costs if one is slow, hangs or dies \
         (`duramen lab run replication --topology`)"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let scenario = |(index, arrangement): (usize, Arrangement)| Scenario {
            id: format!("T{}", index + 1),
            name: arrangement.to_string(),
            what: format!(
                "Brought up, and measured with faults: {}. Alone: lab run replication --topology T{}",
                Fault::ALL.map(Fault::name).join(", "),
                index + 1
            ),
        };
        Arrangement::catalog().into_iter().enumerate().map(scenario).collect()
    }

    fn targets(&self, _evidence: &Evidence) -> Vec<Standing> {
        Vec::new()
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        found(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let passes = passes(evidence);
        let longest = passes.iter().filter(|pass| pass.is_met).max_by(|a, b| a.gap_s.total_cmp(&b.gap_s))?;
        let figure = format!("no commit for {} s at the longest", number(longest.gap_s));
        let beside = title(&longest.arrangement, &longest.fault, &longest.victim, &longest.level);
        Some(Headline::new(figure, beside))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        let passes = passes(evidence);
        let tile = |pass: &PassView| Tile {
            figure: format!("{} s", number(pass.gap_s)),
            what: "without a commit".to_owned(),
            beside: title(&pass.arrangement, &pass.fault, &pass.victim, &pass.level),
        };
        let mut worst: Vec<&PassView> = passes.iter().filter(|pass| pass.is_met).collect();
        worst.sort_by(|a, b| b.gap_s.total_cmp(&a.gap_s));
        worst.into_iter().take(3).map(tile).collect()
    }

    fn table(&self, evidence: &Evidence) -> String {
        let mut out = String::new();
        let rows = rows(evidence);
        // A String takes everything.
        if !rows.is_empty() {
            let _ = writeln!(out, "{}\n", narrow_table(&HEADERS, rows));
        }
        for finding in text::findings(&evidence.findings).lines() {
            let _ = writeln!(out, "{}", wrapped(finding, 2));
        }
        for check in text::checks(evidence).lines() {
            let _ = writeln!(out, "{}", wrapped(check, 6));
        }
        out
    }

    fn page(&self, evidence: &Evidence) -> Report {
        let mut page = suite::page(self, "What each standby costs", evidence, NOTE, &[]).table(
            "Arrangements",
            HEADERS,
            rows(evidence),
        );
        for (line, pass) in list::<Timeline>(evidence, TIMELINES).into_iter().zip(passes(evidence)) {
            let heading = title(&pass.arrangement, &pass.fault, &pass.victim, &pass.level);
            page = page.chart(chart(heading, line, &pass));
        }
        page.measurements(&evidence.measurements)
    }
}

fn chart(heading: String, line: Timeline, pass: &PassView) -> Chart {
    let steps = line.commits.len();
    let times = (0..steps).map(|step| (step as u64 * line.step_ms) as f64 / 1e3).collect();
    let commits = vec![(
        format!("commits in {} ms", line.step_ms),
        line.commits.iter().map(|count| Some(*count as f64)).collect(),
    )];
    let late = line.late_ms.into_iter().map(|(name, values)| {
        let mut values: Vec<Option<f64>> =
            values.into_iter().map(|value| value.map(|value| value as f64)).collect();
        values.resize(steps, None);
        (name, values)
    });
    let panels = vec![("commits", commits), ("late by, ms", late.collect())];
    let what = pass.fault.parse::<Fault>().map_or("", Fault::in_words);
    let bands = (!pass.victim.is_empty()).then(|| {
        let [begin, end] = line.window_s;
        (begin, end, format!("{} {what}", pass.victim))
    });
    Chart::timeline(heading, "s", times, panels, bands)
}
