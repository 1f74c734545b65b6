//! What people and programs read: tables, pairs, JSON; and figures in words.

use crate::failure::Failure;
use comfy_table::{presets, Table};
use duramen_base::clock;
pub(crate) use duramen_base::words::bytes;
use jiff::Timestamp;
use serde::Serialize;
use std::{
    fmt::Display,
    io::{IsTerminal, Write},
    time::Duration,
};

/// Prints to the standard output. A reader that has left (`| head`) is not an error. What is stored steers no terminal.
pub(crate) fn print(text: impl Display) {
    write_to(&mut std::io::stdout().lock(), text);
}

/// Prints to the standard error, under the same rules.
pub(crate) fn told(text: impl Display) {
    write_to(&mut std::io::stderr().lock(), text);
}

fn write_to(out: &mut (impl Write + IsTerminal), text: impl Display) {
    let _ = match out.is_terminal() {
        true => write!(out, "{}", printable(&text.to_string())),
        false => write!(out, "{text}"),
    }
    .and_then(|()| out.flush());
}

/// A text from outside without what a terminal would obey; lines and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter.to_string(),
        letter if letter.is_control() => letter.escape_default().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Prints a line.
pub(crate) fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints an error.
pub(crate) fn error(error: &dyn Display) {
    told(format_args!("error: {error}\n"));
}

/// Prints an error for programs: a stable word, and the same sentence.
pub(crate) fn json_error(code: &str, error: &dyn Display) {
    let body = serde_json::json!({ "error": { "code": code, "message": error.to_string() } });
    told(format_args!("{body}\n"));
}

/// Prints what stands beside the standard output of a command.
#[cfg(unix)]
pub(crate) fn remark(text: &dyn Display) {
    told(format_args!("{text}\n"));
}

/// Prints what does not keep a command from doing its work.
pub(crate) fn warning(warning: &dyn Display) {
    told(format_args!("warning: {warning}\n"));
}

/// Prints a value as JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Other(format!("the result has no JSON form: {error}")))?;
    line(text);
    Ok(())
}

/// A table with a head; columns are as wide as they need to be.
pub(crate) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head);
    for row in rows {
        table.add_row(row);
    }
    aligned(&table)
}

/// Names and values below one another.
pub(crate) fn pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in pairs {
        table.add_row([name.to_owned(), value]);
    }
    aligned(&table)
}

/// The table's text without the blanks around it.
pub(crate) fn aligned(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
        text.push('\n');
    }
    text
}

/// A moment, to the second.
pub(crate) fn time(moment: Timestamp) -> String {
    format!("{moment:.0}")
}

/// How long until a moment.
pub(crate) fn until(moment: Timestamp) -> String {
    let left = moment.as_second() - clock::utc_now().as_second();
    match u64::try_from(left) {
        Ok(left) => format!("in {}", humantime::format_duration(Duration::from_secs(left))),
        Err(_) => "over".to_owned(),
    }
}

/// `yes` or `no`.
pub(crate) fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// What a branch promises of its writes, in plain words.
pub(crate) fn durability(durable: bool) -> &'static str {
    if durable {
        "yes (fsync=on)"
    } else {
        "no (fsync=off: a crash of the machine loses writes)"
    }
}
