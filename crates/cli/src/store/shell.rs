//! `duramen store shell`: commands of the store, line by line, on a store that is opened once.
//!
//! A line is what would stand behind `duramen store`, and is read by the same parser. `line` takes it apart, `verbs` has what
//! begins with a backslash, `script` reads lines from a pipe, `editor` from a terminal, and `complete` is what Tab does there.

mod complete;
mod editor;
mod line;
mod script;
mod verbs;

use super::{
    branch,
    handle::{Handle, Meant},
    input::Input,
    moment, run_on,
    session::Session,
    Noun,
};
use crate::{context::Outcome, failure::Failure, json_flag, output};
use clap::{error::ErrorKind, Args, CommandFactory, FromArgMatches, Parser};
use duramen_base::clock;
use serde_json::json;
use std::{cell::Cell, io::IsTerminal, process::ExitCode, rc::Rc};
use verbs::Meaning;

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Go on after a line that failed, where the lines come from a pipe or a file; the exit status is that of the first such
    /// line
    #[arg(long)]
    keep_going: bool,
}

/// A line: what stands behind `duramen store`, less the options that say which store is opened, and how.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, bin_name = "", disable_version_flag = true)]
struct Line {
    #[command(flatten)]
    meant: Meant,
    #[command(subcommand)]
    noun: Noun,
}

/// The parser of lines.
fn parser() -> clap::Command {
    let shown = |command: clap::Command, name| command.mut_subcommand(name, |below| below.hide(true));
    ["shell", "init", "repair", "upgrade"].into_iter().fold(json_flag::add(Line::command()), shown)
}

/// What runs lines.
#[derive(Debug)]
struct Runner {
    session: Rc<Session>,
    parser: clap::Command,
    /// Whether the lines come from somebody at a terminal.
    is_terminal: bool,
    json: Cell<bool>,
    times: Cell<bool>,
    counts: bool,
}

/// What follows a line.
enum Next {
    /// The next one. This one ended with a status.
    Line(ExitCode),
    /// The end.
    Leave,
}

const DONE: Next = Next::Line(ExitCode::SUCCESS);

pub(crate) fn run(handle: Handle, shell: &Shell) -> Outcome {
    handle.refuse_to_make()?;
    let (json, counts) = (Cell::new(handle.json), handle.counts());
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let session = Rc::new(handle.keep_open()?);
    let times = Cell::new(false);
    let runner = Runner { session: Rc::clone(&session), parser: parser(), is_terminal, json, times, counts };
    let outcome = match is_terminal {
        true => editor::run(&runner),
        false => script::run(&runner, shell.keep_going),
    };
    let closed = session.close();
    let code = outcome?;
    closed?;
    Ok(code)
}

impl Runner {
    /// Runs one line.
    fn line(&self, text: &str) -> Result<Next, Failure> {
        let text = text.trim();
        if let Some(text) = text.strip_prefix('\\') {
            return self.verb(&line::words(text)?);
        }
        let (words, input) = line::split(text)?;
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Ok(DONE),
            ["exit" | "quit"] => Ok(Next::Leave),
            _ => self.command(words, input),
        }
    }

    /// What lines mean is settled before one that needs the store. A pipe's lines never go to another branch than was chosen:
    /// nobody would see it.
    fn settle(&self) -> Result<(), Failure> {
        if self.is_terminal {
            self.session.settle()?;
        }
        Ok(())
    }

    fn verb(&self, words: &[String]) -> Result<Next, Failure> {
        match verbs::meaning(words)? {
            Meaning::Leave => return Ok(Next::Leave),
            Meaning::Command(words) => return self.command(words, None),
            Meaning::Diff(left) => {
                self.settle()?;
                return self.command(self.diff(left)?, None);
            }
            Meaning::Branch(Some(name)) => {
                self.session.choose_branch(&name)?;
                self.say(&json!({ "branch": name }), &name)?;
            }
            Meaning::Branch(None) => {
                self.settle()?;
                let store = self.session.store()?;
                let branch = self.session.current(&store)?;
                moment::snapshot(&store, &branch)?;
                self.say(&json!({ "branch": branch }), &branch)?;
            }
            Meaning::Space(name) => {
                self.settle()?;
                name.iter().try_for_each(|name| self.session.choose_space(name))?;
                let space = self.space();
                self.say(&json!({ "space": space }), &space)?;
            }
            Meaning::Json(on) => {
                self.json.set(on.unwrap_or(!self.json.get()));
                let form = if self.json.get() { "JSON" } else { "text and tables" };
                self.say(&json!({ "json": self.json.get() }), &format!("results are printed as {form}"))?;
            }
            Meaning::Timing(on) => {
                self.times.set(on.unwrap_or(!self.times.get()));
                let said = if self.times.get() { "is" } else { "is not" };
                let text = format!("how long a line takes {said} told on the standard error");
                self.say(&json!({ "timing": self.times.get() }), &text)?;
            }
            Meaning::Help => output::print(verbs::help(&self.parser)),
        }
        Ok(DONE)
    }

    fn command(&self, words: Vec<String>, file: Option<String>) -> Result<Next, Failure> {
        let matches = match self.parser.clone().try_get_matches_from(words) {
            Ok(matches) => matches,
            Err(error) => return asked_or_wrong(&error),
        };
        let is_json = self.json.get() || json_flag::given(&matches);
        let Line { mut meant, noun } =
            Line::from_arg_matches(&matches).map_err(|error| Failure::Usage(told(&error)))?;
        meant.counters |= self.counts;
        let refused = match &noun {
            Noun::Shell(_) => Some("this is a shell already"),
            Noun::Init => Some("the shell has opened a store, so there is nothing to make"),
            Noun::Repair | Noun::Upgrade => {
                Some("this needs a store that nobody has open; leave the shell first")
            }
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(Failure::Usage(reason.to_owned()));
        }
        self.settle()?;
        let input = match file {
            Some(file) => Input::File(file.into()),
            None if self.is_terminal => Input::Standard,
            None => Input::Taken,
        };
        let switches = matches!(noun, Noun::Branch(branch::Branch::Switch(_)));
        let handle = Handle::in_session(&self.session, meant, is_json, input);
        let begun = clock::now();
        let outcome = run_on(&handle, noun);
        if self.times.get() {
            output::told(format_args!("took {:.3} ms\n", begun.elapsed().as_secs_f64() * 1e3));
        }
        let code = outcome?;
        if switches && code == ExitCode::SUCCESS {
            // Whoever switches in the shell means its own next lines, too.
            self.session.forget_branch();
        }
        Ok(Next::Line(code))
    }

    /// How something, else its parent, is turned into the branch.
    fn diff(&self, left: Option<String>) -> Result<Vec<String>, Failure> {
        let store = self.session.store()?;
        let name = self.session.current(&store)?;
        let left = match left {
            Some(left) => left,
            None => store.branch_info(&name)?.parent.ok_or_else(|| {
                Failure::Usage(format!("{name} has no parent to be compared with; name one: \\diff A [B]"))
            })?,
        };
        Ok(["branch", "diff", "--", &left, &name].map(str::to_owned).to_vec())
    }

    /// The space that lines mean where they name none.
    fn space(&self) -> String {
        self.session.chosen().space.unwrap_or_else(|| duramen_store::DEFAULT_SPACE.to_owned())
    }

    fn say(&self, json: &serde_json::Value, text: &str) -> Result<(), Failure> {
        match self.json.get() {
            true => output::json(json)?,
            false => output::line(text),
        }
        Ok(())
    }
}

/// Help that was asked for is an answer, and everything else that keeps a line from being read is an error.
fn asked_or_wrong(error: &clap::Error) -> Result<Next, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp => {
            output::print(rendered(error));
            Ok(DONE)
        }
        _ => Err(Failure::Usage(told(error))),
    }
}

/// What the parser says of a line, without the word that begins each error.
fn told(error: &clap::Error) -> String {
    let text = rendered(error);
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

fn rendered(error: &clap::Error) -> String {
    // The parser puts a blank between the name of the program, which lines have not, and that of the command.
    error.render().to_string().replace("Usage:  ", "Usage: ")
}

#[cfg(test)]
#[path = "../../tests/unit/shell_lines.rs"]
mod tests;
