//! The sections of a page.

use std::fmt::Write;

use super::chart::Chart;
use super::heat::Heat;
use super::text::{escape, table};
use duramen_measure::evidence::{Check, Finding, Severity, Verdict};

/// A part of a page.
#[derive(Clone, Debug)]
pub(super) enum Section {
    Heading(String),
    Subheading(String),
    Note(String),
    Banner { tone: Tone, word: String, text: String },
    List(Vec<Item>),
    Pairs(Vec<(String, String)>),
    Tiles(Vec<Tile>),
    Commands(Vec<String>),
    Table { caption: String, headers: Vec<String>, rows: Vec<Vec<String>> },
    Heat(Heat),
    Chart(Chart),
    Folded { summary: String, sections: Vec<Section> },
}

/// How a word is set off. The word itself says what it means, so that colour is never alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// To be taken with care.
    Doubt,
    /// Neither.
    Plain,
}

impl Tone {
    /// That of a verdict.
    #[must_use]
    pub fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Tone::Good,
            Verdict::Fail => Tone::Bad,
            Verdict::Invalid => Tone::Doubt,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Doubt => "doubt",
            Tone::Plain => "plain",
        }
    }
}

/// One figure in large, with what it is and what it stands beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The figure with its unit.
    pub figure: String,
    /// What it is.
    pub what: String,
    /// What it is to be held against; may be empty.
    pub beside: String,
}

/// An entry of a list.
#[derive(Clone, Debug)]
pub struct Item {
    /// How its word is set off.
    pub tone: Tone,
    /// The word.
    pub word: String,
    /// What it is about.
    pub name: String,
    /// What is to be said of it.
    pub detail: String,
}

impl Item {
    /// A check, with `pass` or `fail`.
    #[must_use]
    pub fn of_check(check: &Check) -> Self {
        let (tone, word) = if check.passed { (Tone::Good, "pass") } else { (Tone::Bad, "fail") };
        Self { tone, word: word.to_owned(), name: check.name.clone(), detail: check.detail.clone() }
    }

    /// A finding, with its severity. Its figure is in its text, with the unit.
    #[must_use]
    pub fn of_finding(finding: &Finding) -> Self {
        let tone = match finding.severity {
            Severity::Info => Tone::Plain,
            Severity::Warning => Tone::Doubt,
            Severity::Problem => Tone::Bad,
        };
        let name = in_words(&finding.rule);
        Self { tone, word: finding.severity.as_str().to_owned(), name, detail: finding.text.clone() }
    }

    /// The same, said of a part of several: `store: kv.put`.
    #[must_use]
    pub fn in_part(mut self, part: &str) -> Self {
        self.name = format!("{part}: {}", self.name);
        self
    }
}

/// The name of a rule as a title: `busy_machine` is "Busy machine".
fn in_words(rule: &str) -> String {
    let words = rule.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The identities of the headings, which their texts do not become a part of, with their texts.
pub(super) fn headings(sections: &[Section]) -> Vec<(String, &str)> {
    let texts = sections.iter().filter_map(|section| match section {
        Section::Heading(text) => Some(text.as_str()),
        _ => None,
    });
    texts.enumerate().map(|(index, text)| (id(index), text)).collect()
}

fn id(index: usize) -> String {
    format!("part-{}", index + 1)
}

/// What is seen first: the tiles, after names that were added before them, and the first chart beside them.
pub(super) fn render_lead(sections: &[Section]) -> String {
    lead(sections).into_iter().flatten().map(|index| render(&sections[index])).collect()
}

/// The places of the names, the tiles and the chart that lead.
fn lead(sections: &[Section]) -> [Option<usize>; 3] {
    let tiles = sections.iter().position(|section| matches!(section, Section::Tiles(_)));
    let pairs = sections.iter().position(|section| matches!(section, Section::Pairs(_)));
    let chart = sections.iter().position(|section| matches!(section, Section::Chart(_)));
    [
        pairs.filter(|pairs| tiles.is_some_and(|tiles| *pairs < tiles)),
        tiles,
        chart.filter(|_| tiles.is_some()),
    ]
}

/// All sections one after the other.
pub(super) fn render_all(sections: &[Section]) -> String {
    render_but(sections, &[])
}

/// All sections one after the other, without those that lead.
pub(super) fn render_below_lead(sections: &[Section]) -> String {
    render_but(sections, &lead(sections))
}

fn render_but(sections: &[Section], lead: &[Option<usize>]) -> String {
    let mut html = String::new();
    let mut headings = 0;
    let is_left = |index: &usize| !lead.contains(&Some(*index));
    for index in (0..sections.len()).filter(is_left) {
        let section = &sections[index];
        if let Section::Heading(text) = section {
            let next = (index + 1..sections.len()).find(is_left);
            // Its chart may be the one that leads.
            if lead.is_empty() || next.is_some_and(|next| !matches!(sections[next], Section::Heading(_))) {
                writeln!(html, "<h2 id=\"{}\">{}</h2>", id(headings), escape(text)).ok();
            }
            headings += 1;
        } else {
            html.push_str(&render(section));
        }
    }
    html
}

fn render(section: &Section) -> String {
    match section {
        Section::Heading(text) => format!("<h2>{}</h2>\n", escape(text)),
        Section::Subheading(text) => format!("<h3>{}</h3>\n", escape(text)),
        Section::Note(text) => {
            let paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
            paragraphs.map(|paragraph| format!("<p>{}</p>\n", escape(paragraph))).collect()
        }
        Section::Banner { tone, word, text } => format!(
            "<p class=\"verdict {}\"><strong>{}</strong> {}</p>\n",
            tone.class(),
            escape(word),
            escape(text)
        ),
        Section::List(items) => list(items),
        Section::Pairs(all) => pairs(all.iter().map(|(name, value)| (name, value.clone()))),
        Section::Tiles(tiles) => {
            let mut html = String::from("<ul class=\"tiles\">\n");
            for Tile { figure, what, beside } in tiles {
                let [figure, what, beside] = [figure, what, beside].map(|text| escape(text));
                writeln!(html, "<li><b>{figure}</b> <span>{what}</span> <small>{beside}</small></li>").ok();
            }
            html.push_str("</ul>\n");
            html
        }
        Section::Commands(lines) => {
            let mut html = String::from("<ul class=\"commands\">\n");
            for line in lines {
                writeln!(html, "<li><code>{}</code></li>", escape(line)).ok();
            }
            html.push_str("</ul>\n");
            html
        }
        Section::Table { caption, headers, rows } => table(caption, headers, rows),
        Section::Heat(heat) => heat.render(),
        Section::Chart(chart) => chart.render(),
        Section::Folded { summary, sections } => {
            let inside: String = sections.iter().map(render).collect();
            format!("<details class=\"fold\"><summary>{}</summary>\n{inside}</details>\n", escape(summary))
        }
    }
}

pub(super) fn list(items: &[Item]) -> String {
    let mut html = String::from("<ul class=\"list\">\n");
    for Item { tone, word, name, detail } in items {
        writeln!(
            html,
            "<li><span class=\"word {}\">{}</span> <span><b>{}</b> <span class=\"detail\">{}</span></span></li>",
            tone.class(),
            escape(word),
            escape(name),
            escape(detail)
        )
        .ok();
    }
    html.push_str("</ul>\n");
    html
}

pub(super) fn pairs<N: AsRef<str>>(pairs: impl IntoIterator<Item = (N, String)>) -> String {
    let mut html = String::from("<dl>\n");
    for (name, value) in pairs {
        writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name.as_ref()), escape(&value)).ok();
    }
    html.push_str("</dl>\n");
    html
}
