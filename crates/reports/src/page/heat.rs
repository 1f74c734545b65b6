//! Heat maps: tables whose cells are shaded by how far they are from the best of their row.

use std::fmt::Write;

use super::text::escape;
use duramen_base::words::number;

/// From these multiples of the best value of a row on, a cell has the next shade.
const STEPS: [f64; 5] = [1.05, 1.5, 3.0, 10.0, 100.0];

/// A table of figures under several conditions. Each cell shows its value and how many times worse than the best of its
/// row it is; the shade says the same again. Less is better, except for rates (a unit that ends in `/s`).
///
/// ```
/// use duramen_reports::page::{Heat, Report};
///
/// let heat = Heat::new("Latency by level", "operation", ["memory", "strict"])
///     .row("put", "us", [Some(1.0), Some(62.0)])
///     .row("get", "us", [Some(0.8), None]);
/// assert!(Report::new("Store").heat(heat).render().contains("62 us"));
/// ```
#[derive(Clone, Debug)]
pub struct Heat {
    title: String,
    corner: String,
    columns: Vec<String>,
    rows: Vec<Row>,
    compares: bool,
}

#[derive(Clone, Debug)]
struct Row {
    name: String,
    unit: String,
    values: Vec<Option<f64>>,
}

impl Heat {
    /// A map without rows. `corner` says what the rows are.
    pub fn new(
        title: impl Into<String>,
        corner: impl Into<String>,
        columns: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { title: title.into(), corner: corner.into(), columns, rows: Vec::new(), compares: true }
    }

    /// Compares nothing: the columns are different amounts of work, of which more takes longer without being worse.
    #[must_use]
    pub fn uncompared(mut self) -> Self {
        self.compares = false;
        self
    }

    /// Adds a row, with a value for each column where there is one.
    #[must_use]
    pub fn row(
        mut self,
        name: impl Into<String>,
        unit: impl Into<String>,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        let values = values.into_iter().collect();
        self.rows.push(Row { name: name.into(), unit: unit.into(), values });
        self
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn render(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!("<h3>{title}</h3>\n");
        if self.compares {
            writeln!(html, "<p class=\"key\">Times worse than the best of its row: {}</p>", key()).ok();
        }
        write!(
            html,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\
             <table class=\"heat\">\n<caption class=\"unseen\">{title}</caption>\n\
             <thead><tr><th scope=\"col\">{}</th>",
            escape(&self.corner)
        )
        .ok();
        for column in &self.columns {
            write!(html, "<th scope=\"col\" class=\"num\">{}</th>", escape(column)).ok();
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            write!(html, "<tr><th scope=\"row\">{}</th>", escape(&row.name)).ok();
            let best = row.best().filter(|_| self.compares);
            for column in 0..self.columns.len() {
                let value = row.values.get(column).copied().flatten();
                html.push_str(&cell(value, row, best));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        html
    }
}

impl Row {
    /// What the others are held against. A single value is held against nothing.
    fn best(&self) -> Option<f64> {
        let known = || self.values.iter().flatten().copied().filter(|value| value.is_finite());
        let better = if self.is_rate() { f64::max } else { f64::min };
        known().reduce(better).filter(|_| known().count() > 1)
    }

    fn is_rate(&self) -> bool {
        // What is done while there is nothing to do is a cost.
        self.unit.ends_with("/s") && !self.name.contains("idle")
    }
}

/// The shades in words.
fn key() -> String {
    let mut html = String::new();
    let mut from = 1.0;
    for (shade, to) in STEPS.iter().enumerate() {
        write!(html, "<span class=\"heat{shade}\">{} to {}</span> ", number(from), number(*to)).ok();
        from = *to;
    }
    write!(html, "<span class=\"heat{}\">more</span>", STEPS.len()).ok();
    html
}

fn cell(value: Option<f64>, row: &Row, best: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "<td class=\"num\">-</td>".to_owned();
    };
    let text = format!("{} {}", number(value), escape(&row.unit));
    let text = text.trim();
    let Some(best) = best.filter(|best| *best >= 0.0 && value >= 0.0) else {
        return format!("<td class=\"num\">{text}</td>");
    };
    let (more, less) = if row.is_rate() { (best, value) } else { (value, best) };
    if more == 0.0 {
        return format!("<td class=\"num heat0\">{text}</td>");
    }
    // Of nothing there is no multiple.
    if less == 0.0 {
        let than_best = if row.is_rate() { "none" } else { "not 0" };
        return format!("<td class=\"num heat{}\">{text} <small>{than_best}</small></td>", STEPS.len());
    }
    let times = more / less;
    let shade = STEPS.iter().filter(|step| times >= **step).count();
    format!("<td class=\"num heat{shade}\">{text} <small>{}x</small></td>", rounded(times))
}

/// A multiple with two digits or so.
fn rounded(times: f64) -> String {
    let digits = if times < 9.95 { 10.0 } else { 1.0 };
    number((times * digits).round() / digits)
}
