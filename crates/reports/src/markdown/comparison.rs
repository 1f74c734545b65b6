//! A comparison as Markdown. What differs is found elsewhere; here it is only told.

use std::fmt::Write;

use duramen_base::words::counted;
use duramen_measure::evidence::{Evidence, Finding, Severity};

use super::evidence::{environment, findings, reproduce};
use super::write::{code, folded, join, table, text};

/// How many rows the table of what changed has.
const MOST_ROWS: usize = 60;
/// How many regressions are named.
const MOST_NAMED: usize = 30;

/// A comparison of two variants as it is to be told.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// The suite.
    pub suite: String,
    /// The names of the figures that got worse by more than is allowed.
    pub regressions: Vec<String>,
    /// Whether any figure could be compared.
    pub is_comparable: bool,
    /// What changed, the worse first.
    pub changed: Vec<Changed>,
    /// What differs beside the figures.
    pub warnings: Vec<String>,
    /// How many figures were compared, how, and with what outcome, in sentences.
    pub method: String,
}

/// A figure that changed.
#[derive(Debug, Clone, Default)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Its value in A, with its unit.
    pub a: String,
    /// Its value in B, with its unit.
    pub b: String,
    /// The difference with its interval.
    pub effect: String,
    /// What came out, in a word: `worse`, `better`, `different`.
    pub outcome: String,
    /// The same in words.
    pub words: String,
}

/// A comparison of documents A and B: the verdict, what changed, regressions, findings that are new in B, environment.
#[must_use]
pub fn comparison(compared: &Comparison, a: &[Evidence], b: &[Evidence]) -> String {
    let both: Vec<&Evidence> = a.iter().chain(b).collect();
    join(&[
        head(compared),
        changed(compared),
        regressions(compared),
        findings("New findings in B", &new_findings(a, b)),
        warnings(compared),
        folded("How it was compared", &text(&compared.method)),
        environment(&both),
        reproduce(&both),
    ])
}

fn head(compared: &Comparison) -> String {
    let suite = code(&compared.suite);
    let count = compared.regressions.len();
    match (compared.is_comparable, count, compared.changed.len()) {
        (_, 1.., _) => format!("## WORSE: {suite}, {}\n", counted(count, "regression")),
        (false, ..) => format!("## NOT COMPARABLE: {suite}\n"),
        (true, 0, 0) => format!("## NO DETECTABLE DIFFERENCE: {suite}\n"),
        (true, 0, changed) => {
            format!("## NO REGRESSION: {suite}, {} changed\n", counted(changed, "figure"))
        }
    }
}

fn changed(compared: &Comparison) -> String {
    if compared.changed.is_empty() {
        return String::new();
    }
    let row = |row: &Changed| {
        vec![
            code(&row.name),
            text(&row.a),
            text(&row.b),
            text(&row.effect),
            format!("**{}**: {}", text(&row.outcome), text(&row.words)),
        ]
    };
    let rows: Vec<Vec<String>> = compared.changed.iter().take(MOST_ROWS).map(row).collect();
    let mut markdown = table(&["figure", "A", "B", crate::compare::EFFECT, "outcome"], &rows);
    if compared.changed.len() > MOST_ROWS {
        writeln!(markdown, "\nand {} more", compared.changed.len() - MOST_ROWS).ok();
    }
    markdown
}

fn regressions(compared: &Comparison) -> String {
    if compared.regressions.is_empty() {
        return String::new();
    }
    let named: Vec<String> = compared.regressions.iter().take(MOST_NAMED).map(|name| code(name)).collect();
    let more = compared.regressions.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("**Regressions:** {}{more}\n", named.join(", "))
}

/// What a document of B says, and none of A, in the same rule with the same severity.
fn new_findings<'a>(a: &'a [Evidence], b: &'a [Evidence]) -> Vec<(&'a str, &'a Finding)> {
    let is_old = |finding: &Finding| {
        let mut known = a.iter().flat_map(|evidence| &evidence.findings);
        known.any(|other| other.rule == finding.rule && other.severity >= finding.severity)
    };
    let mut found: Vec<(&str, &Finding)> = Vec::new();
    for evidence in b {
        for finding in &evidence.findings {
            let is_known =
                found.iter().any(|(_, other)| other.rule == finding.rule && other.text == finding.text);
            if finding.severity != Severity::Info && !is_old(finding) && !is_known {
                found.push((&evidence.suite, finding));
            }
        }
    }
    found
}

fn warnings(compared: &Comparison) -> String {
    if compared.warnings.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = compared.warnings.iter().map(|warning| format!("- {}", text(warning))).collect();
    folded(&format!("What else differs ({})", compared.warnings.len()), &lines.join("\n"))
}
