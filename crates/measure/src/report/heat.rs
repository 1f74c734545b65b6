//! Heat maps: tables whose cells are shaded by how far they are above the least of their row.

use std::fmt::Write;

use super::text::{escape, number};

/// From these multiples of the least value of a row on, a cell has the next shade.
const STEPS: [f64; 5] = [1.05, 1.5, 3.0, 10.0, 100.0];

/// A table of figures under several conditions. Each cell shows its value and how many times the least of its row it
/// is; the shade says the same again.
///
/// ```
/// use duramen_measure::report::{Heat, Report};
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
        Self { title: title.into(), corner: corner.into(), columns, rows: Vec::new() }
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
        html.push_str("<p class=\"key\">Times the least value of its row: ");
        html.push_str(&key());
        write!(
            html,
            "</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\
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
            let least = row.least();
            for column in 0..self.columns.len() {
                let value = row.values.get(column).copied().flatten();
                html.push_str(&cell(value, &row.unit, least));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
        html
    }
}

impl Row {
    /// What the others are held against. A single value is held against nothing.
    fn least(&self) -> Option<f64> {
        let known = || self.values.iter().flatten().copied().filter(|value| value.is_finite());
        (known().count() > 1).then(|| known().fold(f64::INFINITY, f64::min))
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

fn cell(value: Option<f64>, unit: &str, least: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "<td class=\"num\">-</td>".to_owned();
    };
    let text = format!("{} {}", number(value), escape(unit));
    let text = text.trim();
    match least {
        Some(least) if least > 0.0 => {
            let times = value / least;
            let shade = STEPS.iter().filter(|step| times >= **step).count();
            format!("<td class=\"num heat{shade}\">{text} <small>{}x</small></td>", rounded(times))
        }
        // Of nothing there is no multiple.
        Some(least) if least == 0.0 && value > 0.0 => {
            format!("<td class=\"num heat{}\">{text} <small>not 0</small></td>", STEPS.len())
        }
        Some(0.0) => format!("<td class=\"num heat0\">{text}</td>"),
        _ => format!("<td class=\"num\">{text}</td>"),
    }
}

/// A multiple with two digits or so.
fn rounded(times: f64) -> String {
    let digits = if times < 9.95 { 10.0 } else { 1.0 };
    number((times * digits).round() / digits)
}
