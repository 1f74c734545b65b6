//! Documents of earlier runs, looked at with the rules of their suites and those that hold for all.

use std::fmt::Write as _;

use duramen_measure::evidence::{Evidence, Finding, Severity, Verdict};
use duramen_measure::rules;
use serde::Serialize;

use crate::suite::{find, Suite};
use crate::text::narrow_table;

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
    /// Looks at a document with the rules of its suite, if that is among the given.
    #[must_use]
    pub fn new(file: impl Into<String>, evidence: &Evidence, suites: &[&dyn Suite]) -> Self {
        let suite = find(suites, &evidence.suite);
        let mut findings = suite.map(|suite| suite.diagnose(evidence)).unwrap_or_default();
        findings.extend(rules::general(evidence, &findings));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Self {
            file: file.into(),
            suite: evidence.suite.clone(),
            verdict: evidence.verdict,
            is_known: suite.is_some(),
            findings,
        }
    }

    /// Whether something is wrong.
    #[must_use]
    pub fn has_problem(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Problem)
    }
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
        let row = |found: &Finding| [found.severity.to_string(), found.rule.clone(), found.text.clone()];
        let table = narrow_table(&["severity", "rule", "finding"], findings.iter().map(row));
        writeln!(text, "{table}\n").ok();
    }
    text
}
