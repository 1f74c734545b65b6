//! What a run of drills says: its documents, tables and pages.

use std::collections::BTreeMap;
use std::fmt::Write;

use duramen_base::words::{counted, number};
use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target::Standing;
use duramen_reports::page::{Chart, Report, Tile};
use duramen_reports::suite::{self, Headline, Scenario, Suite};
use duramen_reports::text::{self, narrow_table, wrapped};
use serde::{Deserialize, Serialize};

use super::options::Drill;
use crate::ledger::Account;

/// The name of its documents' suite.
pub const SUITE: &str = "failover";
/// Where a document has its repetitions.
const REPETITIONS: &str = "repetitions";

/// The suite.
#[derive(Debug)]
pub struct Failover;

/// A repetition as documents have it. Times are in seconds from the fault on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepetitionView {
    /// Which drill.
    pub drill: String,
    /// Who led before, and after.
    pub leaders: [String; 2],
    /// The longest time without an acknowledged row, of all clients by the network together.
    pub gap_s: f64,
    /// The same for each of them alone.
    pub client_gaps_s: Vec<f64>,
    /// When the last row was acknowledged before that, by any client: 0 if none was after the fault.
    pub stopped_s: Option<f64>,
    /// When the old leader's key was no longer its own.
    pub detected_s: Option<f64>,
    /// When it was another one's.
    pub elected_s: Option<f64>,
    /// When another server took writes.
    pub promoted_s: Option<f64>,
    /// When a row was first acknowledged that was written after the fault.
    pub first_commit_s: Option<f64>,
    /// When all nodes streamed again.
    pub healthy_s: f64,
    /// What became of the rows.
    #[serde(flatten)]
    pub account: Account,
    /// What clients were told, and how often.
    pub errors: BTreeMap<String, u64>,
}

/// Adds a repetition to a document.
pub(super) fn push(evidence: &mut Evidence, view: &RepetitionView) {
    // It holds nothing that has no form in JSON.
    let value = serde_json::to_value(view).unwrap_or_default();
    let list = evidence.config.entry(REPETITIONS).or_insert_with(|| serde_json::Value::Array(Vec::new()));
    if let serde_json::Value::Array(list) = list {
        list.push(value);
    }
}

/// The repetitions of a document.
#[must_use]
pub fn repetitions(evidence: &Evidence) -> Vec<RepetitionView> {
    let value = evidence.config.get(REPETITIONS).cloned().unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// The drills of a document, with their repetitions.
fn by_drill(evidence: &Evidence) -> Vec<(Drill, Vec<RepetitionView>)> {
    let all = repetitions(evidence);
    let of = |drill: Drill| {
        let of: Vec<RepetitionView> = all.iter().filter(|view| view.drill == drill.name()).cloned().collect();
        (!of.is_empty()).then_some((drill, of))
    };
    Drill::ALL.into_iter().filter_map(of).collect()
}

/// What the repetitions of a document say.
pub(super) fn found(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (drill, repetitions) in by_drill(evidence) {
        let name = drill.name();
        let sum = |count: fn(&RepetitionView) -> u64| repetitions.iter().map(count).sum::<u64>();
        let longest = repetitions.iter().map(|view| view.gap_s).fold(0.0, f64::max);
        let shortest = repetitions.iter().map(|view| view.gap_s).fold(f64::INFINITY, f64::min);
        let between = match repetitions.len() {
            1 => format!("{} s", number(longest)),
            count => {
                let interval = evidence.interval(&format!("gap_s/{name}"));
                let mean = interval.map_or_else(String::new, |[low, high]| {
                    format!(", the mean between {} and {} s with 95 % confidence", number(low), number(high))
                });
                format!("{} to {} s in {count} repetitions{mean}", number(shortest), number(longest))
            }
        };
        let stopped = repetitions.iter().filter_map(|view| view.stopped_s).fold(0.0, f64::max);
        if drill == Drill::Quorum {
            let text = format!(
                "Without a quorum of etcd the leader took writes for {} s more at most, and then none: it gives up its place \
                 rather than be one of two. Patroni's failsafe_mode keeps it, as long as it reaches all other nodes.",
                number(stopped)
            );
            findings.push(Finding::new("stopped_quorum", Severity::Warning, Some(stopped), text));
        }
        findings.push(Finding::new(
            format!("gap_{name}"),
            Severity::Info,
            Some(longest),
            format!("When {}, clients wrote nothing for {between}.", drill.in_words()),
        ));
        let (lost, split, acknowledged) = (
            sum(|view| view.account.lost),
            sum(|view| view.account.split),
            sum(|view| view.account.acknowledged),
        );
        if lost > 0 || split > 0 {
            let text = format!(
                "When {}, {lost} of {acknowledged} acknowledged rows were lost; {split} were acknowledged by the old leader \
                 after another one had. With synchronous_mode Patroni only promotes a standby that has all that was \
                 acknowledged.",
                drill.in_words()
            );
            findings.push(Finding::new(format!("lost_{name}"), Severity::Warning, Some(lost as f64), text));
        }
        let unknown = sum(|view| view.account.unacknowledged);
        if unknown > 0 {
            let text = format!(
                "When {}, {} there although no client was told so: a client that gets an error must look whether what it wrote \
                 is there, or write it so that twice does no harm.",
                drill.in_words(),
                if unknown == 1 { "1 row was".to_owned() } else { format!("{unknown} rows were") }
            );
            findings.push(Finding::new(
                format!("unknown_{name}"),
                Severity::Info,
                Some(unknown as f64),
                text,
            ));
        }
    }
    findings
}

const HEADERS: [&str; 10] = [
    "drill",
    "leader",
    "gap s",
    "detected s",
    "elected s",
    "promoted s",
    "first commit s",
    "acknowledged",
    "lost",
    "unknown",
];
const NOTE: &str = "Clients write rows by the network, one after another, to whichever node takes writes, and never give up; \
    one more beside each node writes to that alone. The gap is the longest time without an acknowledged row of all clients by \
    the network. Detected, elected and promoted: the key of the leader in etcd is no longer the old one's, is another one's, \
    and that one's server takes writes. Lost rows were acknowledged and are not there; unknown ones are there and were never \
    acknowledged.";

fn rows(evidence: &Evidence) -> Vec<[String; 10]> {
    let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), number);
    let row = |view: RepetitionView| {
        let [old, new] = &view.leaders;
        [
            view.drill.clone(),
            if old == new { old.clone() } else { format!("{old} to {new}") },
            number(view.gap_s),
            time(view.detected_s),
            time(view.elected_s),
            time(view.promoted_s),
            time(view.first_commit_s),
            view.account.acknowledged.to_string(),
            view.account.lost.to_string(),
            view.account.unacknowledged.to_string(),
        ]
    };
    repetitions(evidence).into_iter().map(row).collect()
}

/// What clients were told, and how often, over all repetitions of a drill.
fn errors(evidence: &Evidence) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    for (drill, repetitions) in by_drill(evidence) {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (text, count) in repetitions.iter().flat_map(|view| &view.errors) {
            *all.entry(text).or_insert(0) += count;
        }
        let mut all: Vec<(&str, u64)> = all.into_iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (text, count) in all.into_iter().take(8) {
            rows.push([drill.name().to_owned(), count.to_string(), text.to_owned()]);
        }
    }
    rows
}

impl Suite for Failover {
    fn name(&self) -> &'static str {
        SUITE
    }

    fn about(&self) -> &'static str {
        "A cluster under Patroni whose leader is gone: time without commits, and what was lost (`duramen lab drill failover`)"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let scenario = |(index, drill): (usize, Drill)| Scenario {
            id: format!("D{}", index + 1),
            name: drill.name().to_owned(),
            what: format!("Under load, {}. Alone: lab drill failover {}", drill.in_words(), drill.name()),
        };
        Drill::ALL.into_iter().enumerate().map(scenario).collect()
    }

    fn targets(&self, _evidence: &Evidence) -> Vec<Standing> {
        Vec::new()
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        found(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let views = repetitions(evidence);
        let longest = views.iter().max_by(|a, b| a.gap_s.total_cmp(&b.gap_s))?;
        let lost: u64 = views.iter().map(|view| view.account.lost).sum();
        let acknowledged: u64 = views.iter().map(|view| view.account.acknowledged).sum();
        Some(Headline::new(
            format!("no commit for {} s at the longest ({})", number(longest.gap_s), longest.drill),
            format!("{lost} of {acknowledged} acknowledged rows lost in {}", counted(views.len(), "drill")),
        ))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        let tile = |(drill, views): (Drill, Vec<RepetitionView>)| {
            let lost: u64 = views.iter().map(|view| view.account.lost).sum();
            let longest = views.iter().map(|view| view.gap_s).fold(0.0, f64::max);
            Tile {
                figure: format!("{} s", number(longest)),
                what: format!("without a commit, {}", drill.name()),
                beside: format!("{lost} acknowledged rows lost"),
            }
        };
        by_drill(evidence).into_iter().map(tile).collect()
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
        let stages = by_drill(evidence).into_iter().filter(|(drill, _)| drill.changes_leader());
        let bars = stages.map(|(drill, views)| {
            let middle = |of: fn(&RepetitionView) -> Option<f64>| {
                let mut values: Vec<f64> = views.iter().filter_map(of).collect();
                values.sort_by(f64::total_cmp);
                values.get(values.len() / 2).copied()
            };
            let times = [
                ("until detected", middle(|view| view.detected_s)),
                ("until elected", middle(|view| view.elected_s)),
                ("until promoted", middle(|view| view.promoted_s)),
                ("until the first commit", middle(|view| view.first_commit_s)),
            ];
            let mut last = 0.0;
            let mut parts = Vec::new();
            for (name, time) in times {
                // Stages are looked at apart from each other, and may be seen in another order.
                let time = time.unwrap_or(last).max(last);
                parts.push((name, time - last));
                last = time;
            }
            (drill.name(), parts)
        });
        suite::page(self, "Failover drills", evidence, NOTE, &[])
            .table("Repetitions", HEADERS, rows(evidence))
            .chart(Chart::stacked("Where the time goes, in the middle of the repetitions", "s", bars))
            .table("What clients were told", ["drill", "times", "text"], errors(evidence))
            .measurements(&evidence.measurements)
    }
}
