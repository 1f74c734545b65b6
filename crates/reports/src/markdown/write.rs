//! Markdown out of any text.

use std::fmt::Write;

use super::LONGEST;

/// What Markdown gives a meaning to wherever it stands.
const MARKUP: &str = "\\`*[]|~$";

/// Any text as text in a line: no markup, no mention, no link.
#[must_use]
pub fn text(plain: &str) -> String {
    let mut safe = String::with_capacity(plain.len());
    let plain = one_line(plain);
    let mut rest = plain.chars().peekable();
    let mut before = ' ';
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let is_within_time = before.is_ascii_digit() && next.is_ascii_digit();
        let is_within_word = before.is_alphanumeric() && next.is_alphanumeric();
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // A blank without a width, so that nobody is called and no issue is named.
            '@' | '#' if next.is_alphanumeric() => safe.extend(['\\', c, '\u{200b}']),
            '#' => safe.push_str("\\#"),
            '_' if is_within_word => safe.push('_'),
            // No address, and no picture by its name.
            '_' => safe.push_str("\\_"),
            ':' if !next.is_whitespace() && !is_within_time => safe.push_str("\\:"),
            '.' if before.eq_ignore_ascii_case(&'w') => safe.push_str("\\."),
            c if MARKUP.contains(c) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
        before = c;
    }
    safe
}

/// Any text as code in a line, which is shown as it is.
#[must_use]
pub fn code(plain: &str) -> String {
    let plain = one_line(plain);
    if plain.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let longest = plain.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let room = if longest > 0 { " " } else { "" };
    // Tables are cut into cells before anything else is looked at.
    format!("{fence}{room}{}{room}{fence}", plain.replace('|', "\\|"))
}

/// A block of lines that are shown as they are.
#[must_use]
pub fn block(lines: &[String]) -> String {
    let longest = lines.iter().flat_map(|line| line.split(|c| c != '`')).map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<String> = lines.iter().map(|line| one_line(line)).collect();
    format!("{fence}sh\n{}\n{fence}\n", lines.join("\n"))
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// A table. The cells are Markdown already.
#[must_use]
pub fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let mut markdown = format!("| {} |\n|{}\n", headers.join(" | "), " --- |".repeat(headers.len()));
    for row in rows {
        writeln!(markdown, "| {} |", row.join(" | ")).ok();
    }
    markdown
}

/// Something folded away. What is inside is Markdown already.
#[must_use]
pub fn folded(summary: &str, inside: &str) -> String {
    format!("<details><summary>{}</summary>\n\n{}\n\n</details>\n", text(summary), inside.trim_end())
}

/// Joins parts while they fit, and says how many did not. The first part always stays.
#[must_use]
pub fn join(parts: &[String]) -> String {
    let mut markdown = String::new();
    let mut left_out = 0;
    for part in parts.iter().filter(|part| !part.trim().is_empty()) {
        // Room for the sentence at the end.
        if !markdown.is_empty() && markdown.len() + part.len() + 200 > LONGEST {
            left_out += 1;
            continue;
        }
        if !markdown.is_empty() {
            markdown.push('\n');
        }
        markdown.push_str(part.trim_end());
        markdown.push('\n');
    }
    if left_out > 0 {
        writeln!(markdown, "\n_{left_out} parts are left out, for the length of a comment._").ok();
    }
    markdown
}
