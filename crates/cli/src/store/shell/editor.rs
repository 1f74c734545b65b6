//! Lines from somebody at a terminal: with a prompt, editing, Tab, and a history that outlives the shell.

use super::{complete::Completion, Next, Runner};
use crate::{context::Outcome, failure::Failure, output, store::interrupt};
use rustyline::{
    config::{BellStyle, CompletionType},
    error::ReadlineError,
    history::FileHistory,
    Config, Editor,
};
use std::{
    env,
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Lines that the history keeps.
const HISTORY_LINES: usize = 1000;
/// A longer line is not kept in it.
const HISTORY_LINE_BYTES: usize = 4096;
/// More candidates than this are only listed if one asks for it.
const CANDIDATES_SHOWN: usize = 100;

type Lines = Editor<Completion, FileHistory>;

pub(super) fn run(runner: &Runner) -> Outcome {
    let mut lines = editor(runner).map_err(unreadable)?;
    // The editor takes the signal, too, when it is made.
    interrupt::listen().map_err(|error| Failure::Other(format!("cannot listen to signals: {error}")))?;
    let mut history = history(&mut lines);
    let path = runner.session.path().display();
    output::line(format_args!("store at {path}; \\help lists the commands, \\q or Ctrl-D quits"));
    loop {
        let text = match lines.readline(&prompt(runner)) {
            Ok(text) => text,
            Err(ReadlineError::Eof) => return Ok(ExitCode::SUCCESS),
            // Ctrl-C leaves the line, not the shell.
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
            Err(error) => return Err(unreadable(error)),
        };
        remember(&mut lines, &mut history, &text);
        let (done, is_interrupted) = interrupt::while_it_runs(|| runner.line(&text));
        match done {
            Ok(Next::Leave) => return Ok(ExitCode::SUCCESS),
            Ok(Next::Line(_)) => {}
            Err(failure) if runner.json.get() => output::json_error(failure.code(), &failure),
            Err(failure) => output::error(&failure),
        }
        if is_interrupted {
            output::told("interrupted\n");
        }
    }
}

fn unreadable(error: ReadlineError) -> Failure {
    Failure::Other(format!("cannot read the terminal: {error}"))
}

fn editor(runner: &Runner) -> rustyline::Result<Lines> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .completion_prompt_limit(CANDIDATES_SHOWN)
        .bell_style(BellStyle::None)
        // Several lines that are pasted are several lines.
        .bracketed_paste(false)
        .build();
    let history = FileHistory::with_config(&config);
    let mut lines = Lines::with_history(config, history)?;
    lines.set_helper(Some(Completion::new(&runner.session, &runner.parser)));
    Ok(lines)
}

/// What lines mean where they name nothing.
fn prompt(runner: &Runner) -> String {
    let session = &runner.session;
    let branch = session.settle().and_then(|()| session.current(&session.store()?));
    // Whatever is wrong is told by the line that needs it.
    let branch = branch.unwrap_or_else(|_| "?".to_owned());
    let space = session.chosen().space.map(|space| format!(" [{space}]")).unwrap_or_default();
    let read_only = if session.is_read_only() { " (read only)" } else { "" };
    output::printable(&format!("{branch}{space}{read_only}> "))
}

/// The file of the history, if it can be had.
fn history(lines: &mut Lines) -> Option<PathBuf> {
    let file = history_file()?;
    let read = match lines.load_history(&file) {
        Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => make_folder(&file),
        Err(error) => Err(io::Error::other(error)),
        Ok(()) => Ok(()),
    };
    match read {
        Ok(()) => Some(file),
        Err(error) => {
            output::warning(&format_args!("no history is kept: {}: {error}", file.display()));
            None
        }
    }
}

/// In the user's folder for what programs remember.
fn history_file() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    Some(state?.join("duramen").join("store-shell-history"))
}

fn make_folder(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder))
}

/// Keeps a line, at once: the shell may be killed.
fn remember(lines: &mut Lines, history: &mut Option<PathBuf>, text: &str) {
    if text.len() > HISTORY_LINE_BYTES {
        return;
    }
    // A line that is not to be kept is not added, which is no error.
    let kept = lines.add_history_entry(text).and_then(|_| match history.as_deref() {
        Some(file) => lines.append_history(file),
        None => Ok(()),
    });
    if let Err(error) = kept {
        output::warning(&format_args!("no more history is kept: {error}"));
        *history = None;
    }
}
