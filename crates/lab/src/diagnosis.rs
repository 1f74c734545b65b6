//! Documents of earlier runs, looked at with the rules of their suites and those that hold for all.

use std::fmt::Write as _;

use comfy_table::{presets, ContentArrangement, Table};
use duramen_measure::evidence::{Evidence, Finding, Severity, Verdict};
use serde::Serialize;

use crate::replication::table::WIDTH;
use crate::{branches, functions, packs, replication, rules, store};

/// A document with what the rules find in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The file.
    pub file: String,
    /// Its suite.
    pub suite: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Whether there are rules of its suite; if not, only those that hold for all were applied.
    pub is_known: bool,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// Looks at a document.
    #[must_use]
    pub fn of(file: impl Into<String>, evidence: &Evidence) -> Self {
        let rules_of = rules_of(&evidence.suite);
        let mut findings = rules_of.map(|diagnose| diagnose(evidence)).unwrap_or_default();
        findings.extend(rules::of(evidence, &findings));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self {
            file: file.into(),
            suite: evidence.suite.clone(),
            verdict: evidence.verdict,
            is_known: rules_of.is_some(),
            findings,
        }
    }

    /// Whether something is wrong.
    #[must_use]
    pub fn has_problem(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Problem)
    }
}

/// The rules of a suite.
fn rules_of(suite: &str) -> Option<fn(&Evidence) -> Vec<Finding>> {
    Some(match suite {
        branches::SUITE => branches::diagnose,
        functions::SUITE => functions::diagnose,
        packs::SUITE => packs::diagnose,
        replication::SUITE => replication::diagnose,
        store::SUITE => store::diagnose,
        _ => return None,
    })
}

/// What was found in each document, as tables for a terminal.
#[must_use]
pub fn print_table(diagnoses: &[Diagnosis]) -> String {
    let mut text = String::new();
    for diagnosis in diagnoses {
        let Diagnosis { file, suite, verdict, is_known, findings } = diagnosis;
        let unknown = if *is_known { "" } else { "; no rules of that suite are known, only general ones" };
        writeln!(text, "{file}: suite {suite}, verdict {verdict}{unknown}").ok();
        if findings.is_empty() {
            writeln!(text, "nothing was found\n").ok();
            continue;
        }
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        table.set_header(["severity", "rule", "finding"]);
        for finding in findings {
            table.add_row([&finding.severity.to_string(), &finding.rule, &finding.text]);
        }
        writeln!(text, "{table}\n").ok();
    }
    text
}
