//! Lists: pages of keys, and rows as they come.

use super::{
    handle::{self, Handle},
    interrupt,
};
use crate::{context::Outcome, output};
use clap::Args;
use duramen_store::Page;
use serde::Serialize;
use serde_json::json;
use std::{
    fmt::{Debug, Display},
    io::{BufWriter, IsTerminal, StdoutLock, Write},
    ops::ControlFlow,
    process::ExitCode,
};

/// Which keys to list.
#[derive(Debug, Args)]
pub(crate) struct Keys {
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prefix: String,
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<String>,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub(crate) limit: usize,
}

/// Which keys to count.
#[derive(Debug, Args)]
pub(crate) struct Counted {
    /// Only keys with this prefix
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prefix: String,
}

/// Prints a page of keys, and how to get the next one.
pub(crate) fn page<K: Serialize + Display + Debug>(at: &Handle, page: &Page<K>) -> Outcome {
    if at.json {
        output::json(&json!({ "keys": page.items, "next": page.next }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Lines::new();
    for key in &page.items {
        if lines.line(key).is_break() {
            break;
        }
    }
    drop(lines);
    if let Some(next) = &page.next {
        handle::note(format_args!("there are more; continue with --after {next:?}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// How many of something.
pub(crate) fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What was deleted of some that were named.
pub(crate) fn deleted(handle: &Handle, named: usize, deleted: u64) -> Outcome {
    let missing = (named as u64).saturating_sub(deleted);
    let rest = if missing == 0 { String::new() } else { format!(", {missing} not there") };
    handle.say(&json!({ "deleted": deleted }), format_args!("deleted {deleted}{rest}"))
}

/// Prints line after line. When the reader has left (`| head`), or somebody has interrupted it, there is no use in going on.
pub(crate) struct Lines {
    out: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        let out = std::io::stdout().lock();
        let is_terminal = out.is_terminal();
        Lines { out: BufWriter::with_capacity(64 << 10, out), is_terminal }
    }

    pub(crate) fn line(&mut self, text: impl Display) -> ControlFlow<()> {
        if interrupt::is_asked() {
            return ControlFlow::Break(());
        }
        let written = match self.is_terminal {
            true => writeln!(self.out, "{}", output::printable(&text.to_string())),
            false => writeln!(self.out, "{text}"),
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Hands over what was printed until now.
    pub(crate) fn flush(&mut self) -> ControlFlow<()> {
        match self.out.flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
