//! Reports: evidence as a page that opens in any browser, without network and without scripts.
//!
//! What did not hold comes first. The page follows the reader's light or dark setting, and can be read on a phone
//! and by a screen reader; charts carry their figures as tables.

mod chart;
mod draw;
mod text;
mod timeline;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use self::text::{bytes, counted, escape, number, table};
use crate::durable;
use crate::evidence::{Evidence, Measurement, Severity, Verdict};

pub use chart::Chart;

/// A list or an object among the settings that is longer than this, in bytes, is data and not shown.
const LONGEST_SETTING: usize = 1_000;

const STYLE: &str = include_str!("report/style.css");

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file could not be written.
    #[error("cannot write the report {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A page made of evidence, tables, charts and notes; the latter three stand in the order in which they are added.
///
/// ```
/// use duramen_measure::report::{Chart, Report};
///
/// let page = Report::new("Forks")
///     .note("A fork shares all pages with its parent.")
///     .table("Bars", ["figure", "bar", "measured", "outcome"], [["p95", "< 15 ms", "12.1 ms", "met"]])
///     .chart(Chart::line("Forks over time", "s", "forks", [("forks", vec![(0.0, 0.0), (1.0, 80.0)])]))
///     .render();
/// assert!(page.starts_with("<!doctype html>"));
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    evidence: Vec<Evidence>,
    sections: Vec<Section>,
}

#[derive(Clone, Debug)]
enum Section {
    Heading(String),
    Note(String),
    Table { title: String, headers: Vec<String>, rows: Vec<Vec<String>> },
    Chart(Chart),
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), evidence: Vec::new(), sections: Vec::new() }
    }

    /// Adds an evidence document: its verdict, checks and findings before the other sections, its figures, machine
    /// and configuration after them.
    #[must_use]
    pub fn evidence(mut self, evidence: &Evidence) -> Self {
        self.evidence.push(evidence.clone());
        self
    }

    /// Adds a heading, under which the sections that follow stand.
    #[must_use]
    pub fn heading(mut self, text: impl Into<String>) -> Self {
        self.sections.push(Section::Heading(text.into()));
        self
    }

    /// Adds a table. Columns of numbers are set flush right, and a cell that is an outcome (`met`, `lost`, `pass`,
    /// `fail`, ...) is set off.
    #[must_use]
    pub fn table(
        mut self,
        title: impl Into<String>,
        headers: impl IntoIterator<Item: Into<String>>,
        rows: impl IntoIterator<Item: IntoIterator<Item: Into<String>>>,
    ) -> Self {
        let headers = headers.into_iter().map(Into::into).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        self.sections.push(Section::Table { title: title.into(), headers, rows });
        self
    }

    /// Adds a chart.
    #[must_use]
    pub fn chart(mut self, chart: Chart) -> Self {
        self.sections.push(Section::Chart(chart));
        self
    }

    /// Adds plain text; an empty line begins another paragraph.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.sections.push(Section::Note(text.into()));
        self
    }

    /// The page as HTML.
    pub fn render(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        );
        for evidence in &self.evidence {
            page.push_str(&self.head(evidence));
        }
        for evidence in &self.evidence {
            page.push_str(&self.outcome(evidence));
        }
        for section in &self.sections {
            page.push_str(&render_section(section));
        }
        for evidence in &self.evidence {
            page.push_str(&self.figures(evidence));
            page.push_str(&self.environment(evidence));
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    /// Writes the page so that a crash leaves either the old file or the new one, whole.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        durable::replace(path, self.render().as_bytes())
            .map_err(|source| ReportError::Io { path: path.to_owned(), source })
    }

    /// A heading of a part of an evidence document, which names the suite if the report holds several.
    fn heading_of(&self, text: &str, evidence: &Evidence) -> String {
        let suite =
            if self.evidence.len() > 1 { format!(": {}", escape(&evidence.suite)) } else { String::new() };
        format!("<h2>{text}{suite}</h2>\n")
    }

    fn head(&self, evidence: &Evidence) -> String {
        let (class, reason) = match evidence.verdict {
            Verdict::Pass if evidence.checks.is_empty() => ("good", "No check was made.".to_owned()),
            Verdict::Pass => ("good", format!("{} held.", counted(evidence.checks.len(), "check"))),
            Verdict::Fail => {
                let failed = evidence.checks.iter().filter(|check| !check.passed).count();
                ("bad", format!("{failed} of {} did not hold.", counted(evidence.checks.len(), "check")))
            }
            Verdict::Invalid => {
                ("doubt", "What was to be measured did not happen, so the figures say nothing.".to_owned())
            }
        };
        let lasted_s = evidence.finished_at.duration_since(evidence.started_at).as_secs_f64();
        format!(
            "<p class=\"quiet\">Suite {}, Duramen {}, {}, {} s</p>\n\
             <p class=\"verdict {class}\"><strong>{}</strong> {reason}</p>\n",
            escape(&evidence.suite),
            escape(&evidence.version),
            evidence.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            number((lasted_s * 10.0).round() / 10.0),
            evidence.verdict.as_str().to_uppercase(),
        )
    }

    /// Checks and findings, what is wrong before what is right.
    fn outcome(&self, evidence: &Evidence) -> String {
        let mut html = String::new();
        if !evidence.checks.is_empty() {
            html.push_str(&self.heading_of("Checks", evidence));
            html.push_str("<ul class=\"list\">\n");
            let mut checks: Vec<_> = evidence.checks.iter().collect();
            checks.sort_by_key(|check| check.passed);
            for check in checks {
                let (class, word) = if check.passed { ("good", "pass") } else { ("bad", "fail") };
                html.push_str(&item(class, word, &check.name, &check.detail));
            }
            html.push_str("</ul>\n");
        }
        if !evidence.findings.is_empty() {
            html.push_str(&self.heading_of("Findings", evidence));
            html.push_str("<ul class=\"list\">\n");
            let mut findings: Vec<_> = evidence.findings.iter().collect();
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            for finding in findings {
                let class = match finding.severity {
                    Severity::Info => "plain",
                    Severity::Warning => "doubt",
                    Severity::Problem => "bad",
                };
                let name = match finding.figure {
                    Some(figure) => format!("{}: {}", finding.rule, number(figure)),
                    None => finding.rule.clone(),
                };
                html.push_str(&item(class, finding.severity.as_str(), &name, &finding.text));
            }
            html.push_str("</ul>\n");
        }
        html
    }

    fn figures(&self, evidence: &Evidence) -> String {
        let (scalars, distributions): (Vec<&Measurement>, Vec<&Measurement>) =
            evidence.measurements.iter().partition(|measurement| measurement.count == 1);
        let mut html = String::new();
        if !evidence.measurements.is_empty() {
            html.push_str(&self.heading_of("Measurements", evidence));
        }
        if !distributions.is_empty() {
            let headers = ["Distribution", "unit", "count", "mean", "min", "p50", "p90", "p95", "p99", "max"];
            let rows: Vec<_> = distributions
                .iter()
                .map(|m| {
                    let mut cells = vec![m.name.clone(), m.unit.clone(), number(m.count as f64)];
                    cells.extend([m.mean, m.min, m.p50, m.p90, m.p95, m.p99, m.max].map(number));
                    cells
                })
                .collect();
            html.push_str(&table("Distributions", &headers.map(str::to_owned), &rows));
        }
        if !scalars.is_empty() {
            let rows: Vec<_> =
                scalars.iter().map(|m| vec![m.name.clone(), number(m.p50), m.unit.clone()]).collect();
            html.push_str(&table("Single figures", &["Figure", "value", "unit"].map(str::to_owned), &rows));
        }
        html
    }

    fn environment(&self, evidence: &Evidence) -> String {
        let host = &evidence.host;
        let loads = host.load_average.map(|load| format!("{load:.2}")).join(", ");
        let mut html = self.heading_of("Environment", evidence);
        html.push_str(&pairs([
            ("Processor", format!("{}, {}", host.cpu, counted(host.cores, "core"))),
            ("Memory", bytes(host.memory_bytes)),
            ("Kernel", host.kernel.clone()),
            ("File system", host.file_system.clone()),
            ("Fsync floor", format!("{} us for 4 KiB (median)", number(host.fsync_floor_us))),
            ("Load average", format!("{loads} (1, 5, 15 minutes)")),
            ("Started", evidence.started_at.to_string()),
            ("Finished", evidence.finished_at.to_string()),
        ]));
        if !evidence.config.is_empty() {
            html.push_str("<h3>Configuration</h3>\n");
            html.push_str(&pairs(evidence.config.iter().map(|(name, value)| {
                // A text is shown as it is, anything else as JSON.
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let is_data = (value.is_array() || value.is_object()) && text.len() > LONGEST_SETTING;
                (name.as_str(), if is_data { "in the evidence document".to_owned() } else { text })
            })));
        }
        if !evidence.command.is_empty() {
            write!(html, "<h3>Command</h3>\n<p><code>{}</code></p>\n", escape(&evidence.command.join(" ")))
                .ok();
        }
        html
    }
}

fn render_section(section: &Section) -> String {
    match section {
        Section::Heading(text) => format!("<h2>{}</h2>\n", escape(text)),
        Section::Note(text) => {
            let paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
            paragraphs.map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))).collect()
        }
        Section::Table { title, headers, rows } => {
            format!("<h3>{}</h3>\n{}", escape(title), table(title, headers, rows))
        }
        Section::Chart(chart) => chart.render(),
    }
}

fn item(class: &str, word: &str, name: &str, detail: &str) -> String {
    format!(
        "<li><span class=\"word {class}\">{word}</span> <span><b>{}</b> <span class=\"detail\">{}</span></span></li>\n",
        escape(name),
        escape(detail)
    )
}

fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut html = String::from("<dl>\n");
    for (name, value) in pairs {
        writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value)).ok();
    }
    html.push_str("</dl>\n");
    html
}
