//! Reports: evidence as a page that opens in any browser, without network and without scripts.
//!
//! What did not hold comes first. The page follows the reader's light or dark setting, and can be read on a phone
//! and by a screen reader; charts carry their figures as tables.

mod chart;
mod draw;
mod heat;
mod section;
mod text;
mod timeline;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use self::section::{headings, list, pairs, render_all, render_below_lead, render_lead, Section};
use self::text::escape;
use duramen_base::file;
use duramen_base::words::{bytes, counted, number};
use duramen_measure::evidence::{Evidence, Measurement, Verdict};

pub use chart::Chart;
pub use heat::Heat;
pub use section::{Item, Tile, Tone};
pub use text::sparkline;

/// A list or an object among the settings that is longer than this, in bytes, is data and not shown.
const LONGEST_SETTING: usize = 1_000;

/// What the console shares is in a file of its own.
const STYLE: &str = concat!(include_str!("page/tokens.css"), include_str!("page/style.css"));

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
/// use duramen_reports::page::{Chart, Report};
///
/// let page = Report::new("Forks")
///     .note("A fork shares all pages with its parent.")
///     .table("Targets", ["figure", "target", "measured", "outcome"], [["p95", "< 15 ms", "12.1 ms", "met"]])
///     .chart(Chart::line("Forks over time", "s", "forks", [("forks", vec![(0.0, 0.0), (1.0, 80.0)])]))
///     .render();
/// assert!(page.starts_with("<!doctype html>"));
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    evidence: Vec<Evidence>,
    sections: Vec<Section>,
    /// Whether the page begins with a list of its headings.
    has_contents: bool,
    footer: Option<String>,
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            evidence: Vec::new(),
            sections: Vec::new(),
            has_contents: false,
            footer: None,
        }
    }

    /// Adds an evidence document: its verdict before the other sections, its checks and findings after them (before
    /// them, when a check failed), and then its figures, machine and configuration.
    #[must_use]
    pub fn evidence(mut self, evidence: &Evidence) -> Self {
        self.evidence.push(evidence.clone());
        self
    }

    /// Adds a heading, under which the sections that follow stand.
    #[must_use]
    pub fn heading(self, text: impl Into<String>) -> Self {
        self.with(Section::Heading(text.into()))
    }

    /// Adds a heading below the last [`heading`](Self::heading), of the rank that tables have.
    #[must_use]
    pub fn subheading(self, text: impl Into<String>) -> Self {
        self.with(Section::Subheading(text.into()))
    }

    /// Adds a table. Columns of numbers are set flush right, and a cell that is an outcome (`met`, `lost`, `pass`,
    /// `fail`, ...) is set off.
    #[must_use]
    pub fn table(
        self,
        title: impl Into<String>,
        headers: impl IntoIterator<Item: Into<String>>,
        rows: impl IntoIterator<Item: IntoIterator<Item: Into<String>>>,
    ) -> Self {
        let title = title.into();
        self.subheading(title.clone()).table_of(title, headers, rows)
    }

    /// Adds a table under the heading that is there already; the caption is for those who do not see that.
    #[must_use]
    pub fn table_of(
        self,
        caption: impl Into<String>,
        headers: impl IntoIterator<Item: Into<String>>,
        rows: impl IntoIterator<Item: IntoIterator<Item: Into<String>>>,
    ) -> Self {
        let headers = headers.into_iter().map(Into::into).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        self.with(Section::Table { caption: caption.into(), headers, rows })
    }

    /// Adds a heat map.
    #[must_use]
    pub fn heat(self, heat: Heat) -> Self {
        self.with(Section::Heat(heat))
    }

    /// Adds a chart.
    #[must_use]
    pub fn chart(self, chart: Chart) -> Self {
        self.with(Section::Chart(chart))
    }

    /// Adds plain text; an empty line begins another paragraph.
    #[must_use]
    pub fn note(self, text: impl Into<String>) -> Self {
        self.with(Section::Note(text.into()))
    }

    /// Adds a word that is set off over the width of the page, with what it means.
    #[must_use]
    pub fn banner(self, tone: Tone, word: impl Into<String>, text: impl Into<String>) -> Self {
        self.with(Section::Banner { tone, word: word.into(), text: text.into() })
    }

    /// Adds a list of things, each with a word that is set off.
    #[must_use]
    pub fn list(self, items: impl IntoIterator<Item = Item>) -> Self {
        self.with(Section::List(items.into_iter().collect()))
    }

    /// Adds names with their values.
    #[must_use]
    pub fn pairs<N: Into<String>, V: Into<String>>(self, pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        self.with(Section::Pairs(
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        ))
    }

    /// Adds figures in large. They come first on the page, wherever they are added, and the first chart with them; only names
    /// with their values that were added before stay before them.
    #[must_use]
    pub fn tiles(self, tiles: impl IntoIterator<Item = Tile>) -> Self {
        let tiles: Vec<Tile> = tiles.into_iter().collect();
        if tiles.is_empty() {
            return self;
        }
        self.with(Section::Tiles(tiles))
    }

    /// Adds what is to be typed, a line each.
    #[must_use]
    pub fn commands(self, lines: impl IntoIterator<Item: Into<String>>) -> Self {
        self.with(Section::Commands(lines.into_iter().map(Into::into).collect()))
    }

    /// Adds the sections of another report, folded away under a line that says what they are. The evidence of the
    /// other one is not taken over.
    #[must_use]
    pub fn folded(self, summary: impl Into<String>, inside: Report) -> Self {
        self.with(Section::Folded { summary: summary.into(), sections: inside.sections })
    }

    /// Adds the sections of another report if there are any, under a heading.
    #[must_use]
    pub fn part(mut self, heading: impl Into<String>, inside: Report) -> Self {
        if !inside.sections.is_empty() {
            self = self.heading(heading);
            self.sections.extend(inside.sections);
        }
        self
    }

    /// Adds the sections of another report as they are.
    #[must_use]
    pub fn append(mut self, other: Report) -> Self {
        self.sections.extend(other.sections);
        self
    }

    /// Adds measurements as tables: those with a distribution, then single figures.
    #[must_use]
    pub fn measurements(mut self, measurements: &[Measurement]) -> Self {
        self.sections.extend(figures(measurements));
        self
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.evidence.is_empty()
    }

    /// Begins the page with a list of its headings that leads to them.
    #[must_use]
    pub fn with_contents(mut self) -> Self {
        self.has_contents = true;
        self
    }

    /// Ends the page with a line.
    #[must_use]
    pub fn with_footer(mut self, text: impl Into<String>) -> Self {
        self.footer = Some(text.into());
        self
    }

    fn with(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// The page as HTML.
    pub fn render(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        );
        let headings = headings(&self.sections);
        if self.has_contents && !headings.is_empty() {
            page.push_str("<a class=\"skip\" href=\"#main\">Skip to the results</a>\n");
            write!(page, "<header>\n<h1>{title}</h1>\n</header>\n").ok();
            page.push_str("<nav aria-label=\"Contents\">\n<ul>\n");
            for (id, text) in &headings {
                writeln!(page, "<li><a href=\"#{id}\">{}</a></li>", escape(text)).ok();
            }
            page.push_str("</ul>\n</nav>\n<main id=\"main\" tabindex=\"-1\">\n");
        } else {
            write!(page, "<main>\n<h1>{title}</h1>\n").ok();
        }
        for evidence in &self.evidence {
            page.push_str(&self.head(evidence));
        }
        // What did not hold comes first; what did, after the figures.
        let has_failed = |evidence: &&Evidence| evidence.verdict != Verdict::Pass;
        for evidence in self.evidence.iter().filter(has_failed) {
            page.push_str(&self.outcome(evidence));
        }
        if self.has_contents {
            page.push_str(&render_all(&self.sections));
        } else {
            page.push_str(&render_lead(&self.sections));
            page.push_str(&render_below_lead(&self.sections));
        }
        for evidence in self.evidence.iter().filter(|evidence| !has_failed(evidence)) {
            page.push_str(&self.outcome(evidence));
        }
        for evidence in &self.evidence {
            page.push_str(&self.figures(evidence));
            page.push_str(&self.environment(evidence));
        }
        page.push_str("</main>\n");
        if let Some(text) = &self.footer {
            writeln!(page, "<footer><p>{}</p></footer>", escape(text)).ok();
        }
        page.push_str("</body>\n</html>\n");
        page
    }

    /// Writes the page so that a crash leaves either the old file or the new one, whole.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        file::replace(path, self.render().as_bytes(), 0o644)
            .map_err(|source| ReportError::Io { path: path.to_owned(), source })
    }

    /// A heading of a part of an evidence document, which names the suite if the report holds several.
    fn heading_of(&self, text: &str, evidence: &Evidence) -> String {
        let suite =
            if self.evidence.len() > 1 { format!(": {}", escape(&evidence.suite)) } else { String::new() };
        format!("<h2>{text}{suite}</h2>\n")
    }

    fn head(&self, evidence: &Evidence) -> String {
        let tone = Tone::of_verdict(evidence.verdict);
        let reason = reason(evidence);
        let lasted_s = evidence.finished_at.duration_since(evidence.started_at).as_secs_f64();
        format!(
            "<p class=\"quiet\">Suite {}, Duramen {}, {}, {} s</p>\n\
             <p class=\"verdict {}\"><strong>{}</strong> {reason}</p>\n",
            escape(&evidence.suite),
            escape(&evidence.version),
            evidence.started_at.strftime("%Y-%m-%d %H:%M:%S UTC"),
            number((lasted_s * 10.0).round() / 10.0),
            tone.class(),
            evidence.verdict.as_str().to_uppercase(),
        )
    }

    /// Checks and findings, what is wrong before what is right.
    fn outcome(&self, evidence: &Evidence) -> String {
        let mut html = String::new();
        if !evidence.checks.is_empty() {
            html.push_str(&self.heading_of("Checks", evidence));
            let mut checks: Vec<_> = evidence.checks.iter().collect();
            checks.sort_by_key(|check| check.passed);
            html.push_str(&list(&checks.into_iter().map(Item::of_check).collect::<Vec<_>>()));
        }
        if !evidence.findings.is_empty() {
            html.push_str(&self.heading_of("Findings", evidence));
            let mut findings: Vec<_> = evidence.findings.iter().collect();
            findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
            html.push_str(&list(&findings.into_iter().map(Item::of_finding).collect::<Vec<_>>()));
        }
        html
    }

    fn figures(&self, evidence: &Evidence) -> String {
        let tables = figures(&evidence.measurements);
        if tables.is_empty() {
            return String::new();
        }
        self.heading_of("Measurements", evidence) + &render_all(&tables)
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
            html.push_str(&pairs(settings(evidence)));
        }
        if !evidence.command.is_empty() {
            write!(html, "<h3>Command</h3>\n<p><code>{}</code></p>\n", escape(&evidence.command.join(" ")))
                .ok();
        }
        html
    }
}

/// Measurements as tables: those with a distribution, then single figures.
fn figures(measurements: &[Measurement]) -> Vec<Section> {
    let (scalars, distributions): (Vec<&Measurement>, Vec<&Measurement>) =
        measurements.iter().partition(|measurement| measurement.count == 1);
    let of = |caption: &str, headers: &[&str], rows: Vec<Vec<String>>| Section::Table {
        caption: caption.to_owned(),
        headers: headers.iter().map(|header| (*header).to_owned()).collect(),
        rows,
    };
    let mut tables = Vec::new();
    if !distributions.is_empty() {
        let headers = ["Distribution", "unit", "count", "mean", "min", "p50", "p90", "p95", "p99", "max"];
        let rows = distributions.iter().map(|m| {
            let mut cells = vec![m.name.clone(), m.unit.clone(), number(m.count as f64)];
            cells.extend([m.mean, m.min, m.p50, m.p90, m.p95, m.p99, m.max].map(number));
            cells
        });
        tables.push(of("Distributions", &headers, rows.collect()));
    }
    if !scalars.is_empty() {
        let rows = scalars.iter().map(|m| vec![m.name.clone(), number(m.p50), m.unit.clone()]);
        tables.push(of("Single figures", &["Figure", "value", "unit"], rows.collect()));
    }
    tables
}

/// The settings of a run as a page shows them: a text as it is, anything else as JSON; what is data is left to the
/// document.
#[must_use]
pub fn settings(evidence: &Evidence) -> Vec<(String, String)> {
    let shown = |(name, value): (&String, &serde_json::Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_data = (value.is_array() || value.is_object()) && text.len() > LONGEST_SETTING;
        (name.clone(), if is_data { "in the evidence document".to_owned() } else { text })
    };
    evidence.config.iter().map(shown).collect()
}

/// Why the verdict is what it is, in words.
#[must_use]
pub fn reason(evidence: &Evidence) -> String {
    match evidence.verdict {
        Verdict::Pass if evidence.checks.is_empty() => "No check was made.".to_owned(),
        Verdict::Pass => format!("{} held.", counted(evidence.checks.len(), "check")),
        Verdict::Fail => {
            let failed = evidence.checks.iter().filter(|check| !check.passed).count();
            format!("{failed} of {} did not hold.", counted(evidence.checks.len(), "check"))
        }
        Verdict::Invalid => "What was to be measured did not happen, so the figures say nothing.".to_owned(),
    }
}
