//! Text and numbers as a page shows them.

use std::fmt::Write;

/// Makes any text safe between tags and in quoted attributes. Control characters, which HTML has no way to show
/// and SVG forbids, become a replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// The lowest of the eight blocks of growing height.
const LOWEST_BLOCK: u32 = 0x2581;
/// An axis of a [`sparkline`] spans at least this share of the greatest value, so that noise does not look like a cliff.
const LEAST_SPAN: f64 = 0.25;

/// The course of some values as one character each, from a low block to a high one; a blank where there is none. The
/// lowest block is the least value, unless all lie within a quarter of the greatest.
///
/// ```
/// use duramen_reports::page::sparkline;
/// let line = sparkline(&[Some(1.0), None, Some(8.0)]);
/// assert_eq!(line.chars().map(u32::from).collect::<Vec<_>>(), [0x2581, 0x20, 0x2588]);
/// ```
#[must_use]
pub fn sparkline(values: &[Option<f64>]) -> String {
    let known = || values.iter().flatten().copied().filter(|value| value.is_finite());
    let (low, high) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let span = (high - low).max(LEAST_SPAN * low.abs().max(high.abs()));
    let middle = (low + high) / 2.0;
    let bottom = if span > high - low { middle - span / 2.0 } else { low };
    let block = |value: f64| {
        let share = if span > 0.0 { ((value - bottom) / span).clamp(0.0, 1.0) } else { 0.5 };
        // A rounding error must not make steps of what is flat.
        char::from_u32(LOWEST_BLOCK + ((share * 8.0 + 1e-6) as u32).min(7)).unwrap_or(' ')
    };
    values.iter().map(|value| value.filter(|value| value.is_finite()).map_or(' ', block)).collect()
}

fn is_sparkline(cell: &str) -> bool {
    let is_block = |c: char| (LOWEST_BLOCK..LOWEST_BLOCK + 8).contains(&u32::from(c));
    cell.contains(is_block) && cell.chars().all(|c| matches!(c, ' ' | 'x') || is_block(c))
}

/// Whether a table's cell is a number, perhaps with a unit, so that its column is set flush right.
pub(super) fn is_numeric(cell: &str) -> bool {
    let mut words = cell.trim().trim_start_matches(['<', '>', '=', '~', '+', '-']).split_whitespace();
    let digits = words.next().unwrap_or_default().trim_end_matches(['%', 'x']);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | 'e' | '-'));
    // At most a unit behind it: "3 of 4 syncs" is prose.
    numeric && words.count() <= 1
}

/// A table within its own scrolling frame, so that a wide one does not make the page wide.
pub(super) fn table(caption: &str, headers: &[String], rows: &[Vec<String>]) -> String {
    let numeric: Vec<bool> = (0..headers.len())
        .map(|column| {
            let mut cells =
                rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
            cells.peek().is_some() && cells.all(|cell| is_numeric(cell))
        })
        .collect();
    let class = |column: usize| if numeric.get(column) == Some(&true) { " class=\"num\"" } else { "" };
    // A frame that scrolls must be reachable with the keyboard, and then it needs a name.
    let label = escape(caption);
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><table>\n\
         <caption class=\"unseen\">{label}</caption>\n<thead><tr>"
    );
    for (column, header) in headers.iter().enumerate() {
        write!(html, "<th scope=\"col\"{}>{}</th>", class(column), escape(header)).ok();
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let text = escape(cell);
            match outcome_class(cell) {
                _ if column == 0 => write!(html, "<th scope=\"row\"{}>{text}</th>", class(column)),
                // What it shows stands in the other cells: blocks are no help to those who listen.
                None if is_sparkline(cell) => {
                    write!(html, "<td><span class=\"spark\" aria-hidden=\"true\">{text}</span></td>")
                }
                Some(outcome) => write!(html, "<td><span class=\"word {outcome}\">{text}</span></td>"),
                None => write!(html, "<td{}>{text}</td>", class(column)),
            }
            .ok();
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// A cell that is nothing but an outcome is set off. The word itself stays, so that colour is never alone.
fn outcome_class(cell: &str) -> Option<&'static str> {
    match cell.to_ascii_lowercase().as_str() {
        "pass" | "passed" | "met" | "holds" | "held" | "won" | "wins" | "yes" | "keep" | "better" => {
            Some("good")
        }
        "fail" | "failed" | "missed" | "not met" | "lost" | "loses" | "no" | "crash" | "checks failed"
        | "worse" => Some("bad"),
        "invalid" | "suspicious" | "tie" | "warning" | "problem" | "inconclusive" | "differs" | "changed" => {
            Some("doubt")
        }
        _ => None,
    }
}
