//! What Tab does: names of commands and options come from the parser, the others from the open store.

use super::{
    line::{outline, unquoted},
    verbs::{Takes, VERBS},
};
use crate::{
    failure::Failure,
    store::{moment, session::Session},
};
use clap::{Arg, Command, ValueHint};
use duramen_store::{Primitive, Scope, DEFAULT_SPACE};
use rustyline::{
    completion::{Completer, FilenameCompleter, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::Validator,
    Context, Helper,
};
use std::rc::Rc;

/// The most keys that are read for one Tab.
const KEYS_MAX: usize = 50;

/// What completes lines.
pub(super) struct Completion {
    session: Rc<Session>,
    /// With the options of each level at all levels below.
    parser: Command,
    files: FilenameCompleter,
}

/// What may stand somewhere.
#[derive(Debug, PartialEq, Eq)]
enum What {
    Words(Vec<String>),
    Branches,
    Spaces,
    Keys(Primitive),
    Collections,
    Indexes,
    Files,
    Unknown,
}

/// What a line says before the word that is completed.
#[derive(Debug, Default)]
struct Said {
    branch: Option<String>,
    space: Option<String>,
}

/// The names of a store that some word may be.
type Names = Result<Vec<String>, Failure>;

impl Completion {
    pub(super) fn new(session: &Rc<Session>, parser: &Command) -> Completion {
        let mut parser = parser.clone();
        parser.build();
        Completion { session: Rc::clone(session), parser, files: FilenameCompleter::new() }
    }

    /// Where the word begins that is completed, what it may be, and what the line says before it.
    fn what(&self, text: &str) -> (usize, What, Said) {
        let line = text.trim_start();
        if let Some(behind) = line.strip_prefix('\\') {
            return self.what_of_verb(text, behind);
        }
        let line = outline(text);
        if line.input.is_some() {
            return (line.word, What::Files, Said::default());
        }
        let words = shlex::split(&text[..line.word]).unwrap_or_default();
        let (mut walk, written) = (Walk::new(&self.parser), &text[line.word..]);
        walk.go(&words);
        let Walk { pending, path, at, said, .. } = &walk;
        let command = walk.command;
        if let Some(option) = pending {
            return (line.word, what_of(path, option), walk.said);
        }
        if let Some((name, _)) = written.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            let option = option_of(command, name);
            let what = option.map_or(What::Unknown, |option| what_of(path, option));
            return (line.word + name.len() + 1, what, walk.said);
        }
        let what = if written.starts_with('-') {
            let shown = command.get_arguments().filter(|option| !option.is_hide_set());
            What::Words(shown.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect())
        } else if command.has_subcommands() {
            let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
            let mut names: Vec<String> = shown.map(|below| below.get_name().to_owned()).collect();
            if path.is_empty() {
                names.push("exit".to_owned());
            }
            What::Words(names)
        } else {
            let arguments: Vec<&Arg> = command.get_positionals().collect();
            let many = |argument: &&&Arg| argument.get_num_args().is_some_and(|count| count.max_values() > 1);
            let argument = arguments.get(*at).or_else(|| arguments.last().filter(many));
            argument.map_or(What::Unknown, |argument| what_of(path, argument))
        };
        let said = Said { branch: said.branch.clone(), space: said.space.clone() };
        (line.word, what, said)
    }

    fn what_of_verb(&self, text: &str, behind: &str) -> (usize, What, Said) {
        let begin = text.len() - behind.len();
        let Some((name, arguments)) = behind.split_once(' ') else {
            let names = VERBS.iter().map(|verb| verb.name.to_owned());
            return (begin, What::Words(names.collect()), Said::default());
        };
        let word = text.len() - arguments.len() + outline(arguments).word;
        let what = match VERBS.iter().find(|verb| verb.name == name).map(|verb| verb.takes) {
            Some(Takes::Branches) => What::Branches,
            Some(Takes::Space) => What::Spaces,
            Some(Takes::Key) => What::Keys(Primitive::Kv),
            Some(Takes::Switch) => What::Words(vec!["on".to_owned(), "off".to_owned()]),
            Some(Takes::Command) => {
                let above = shlex::split(&text[begin + name.len()..word]).unwrap_or_default();
                let command =
                    above.iter().try_fold(&self.parser, |command, name| command.find_subcommand(name));
                let below = command.into_iter().flat_map(Command::get_subcommands);
                What::Words(below.filter(|it| !it.is_hide_set()).map(|it| it.get_name().to_owned()).collect())
            }
            Some(Takes::New) | None => What::Unknown,
        };
        (word, what, Said::default())
    }

    /// The names that there are, of which the word is the beginning.
    fn names(&self, what: What, said: &Said, begin: &str) -> Names {
        let store = self.session.store()?;
        let branch = match &said.branch {
            Some(branch) => branch.clone(),
            None => self.session.current(&store)?,
        };
        let chosen = self.session.chosen().space;
        let space = said.space.clone().or(chosen).unwrap_or_else(|| DEFAULT_SPACE.to_owned());
        let snapshot = || moment::snapshot(&store, &branch);
        Ok(match what {
            What::Words(words) => words,
            What::Branches => store.branches(false)?.into_iter().map(|info| info.name).collect(),
            What::Spaces => snapshot()?.spaces()?.into_iter().map(|space| space.name).collect(),
            What::Collections => snapshot()?.space(&space)?.vectors().list()?,
            What::Indexes => {
                let all = snapshot()?.space(&space)?.indexes().list()?;
                all.into_iter().map(|(name, _)| name).collect()
            }
            What::Keys(Primitive::Kv) => {
                let page = snapshot()?.space(&space)?.kv().list(begin, None, KEYS_MAX)?;
                page.items.iter().filter_map(|key| Some(key.as_text()?.to_owned())).collect()
            }
            What::Keys(Primitive::State) => {
                snapshot()?.space(&space)?.state().list(begin, None, KEYS_MAX)?.items
            }
            What::Keys(Primitive::Json) => {
                snapshot()?.space(&space)?.json().list(begin, None, KEYS_MAX)?.items
            }
            What::Keys(_) | What::Files | What::Unknown => Vec::new(),
        })
    }
}

/// The way of words down the commands.
struct Walk<'p> {
    command: &'p Command,
    /// Names of the commands that were named.
    path: Vec<&'p str>,
    /// Arguments that were given.
    at: usize,
    /// An option whose value comes next.
    pending: Option<&'p Arg>,
    /// Nothing is an option any more.
    is_past_options: bool,
    said: Said,
}

impl<'p> Walk<'p> {
    fn new(command: &'p Command) -> Walk<'p> {
        Walk {
            command,
            path: Vec::new(),
            at: 0,
            pending: None,
            is_past_options: false,
            said: Said::default(),
        }
    }

    fn go(&mut self, words: &[String]) {
        for word in words {
            if let Some(option) = self.pending.take() {
                self.hear(option, word);
            } else if word == "--" {
                self.is_past_options = true;
            } else if word.starts_with("--") && !self.is_past_options {
                let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
                let option =
                    option_of(self.command, name).filter(|option| option.get_action().takes_values());
                match (option, value) {
                    (Some(option), Some(value)) => self.hear(option, value),
                    (option, _) => self.pending = option,
                }
            } else if let Some(below) = self.command.find_subcommand(word) {
                (self.command, self.at) = (below, 0);
                self.path.push(below.get_name());
            } else {
                self.at += 1;
            }
        }
    }

    fn hear(&mut self, option: &Arg, value: &str) {
        match option.get_id().as_str() {
            "branch" => self.said.branch = Some(value.to_owned()),
            "space" => self.said.space = Some(value.to_owned()),
            _ => {}
        }
    }
}

fn option_of<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let name = name.strip_prefix("--")?;
    command.get_arguments().find(|option| option.get_long() == Some(name))
}

/// What an argument of a command is.
fn what_of(path: &[&str], argument: &Arg) -> What {
    let values = argument.get_possible_values();
    if !values.is_empty() {
        return What::Words(values.iter().map(|value| value.get_name().to_owned()).collect());
    }
    if matches!(argument.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath) {
        return What::Files;
    }
    let (noun, verb) = (path.first().copied().unwrap_or_default(), path.get(1).copied().unwrap_or_default());
    match (noun, verb, argument.get_id().as_str()) {
        (_, _, "branch") => What::Branches,
        (_, _, "space" | "space_filter" | "only_space") | ("space", "drop", "name") => What::Spaces,
        (_, _, "kind" | "only_kind" | "on") => {
            let kinds = ["kv", "state", "event", "json", "vector"];
            What::Words(kinds.map(str::to_owned).to_vec())
        }
        ("branch", "create" | "fork", "name") => What::Unknown,
        (
            "branch",
            _,
            "name" | "names" | "left" | "right" | "source" | "into" | "from" | "before" | "after" | "to",
        )
        | ("tag", "create", "of") => What::Branches,
        ("kv", _, "key" | "keys" | "prefix" | "from" | "to" | "after") | ("history", "key", "key") => {
            What::Keys(Primitive::Kv)
        }
        ("state", _, "key" | "prefix" | "after") => What::Keys(Primitive::State),
        ("json", "load", _) => What::Unknown,
        ("json", _, "key" | "prefix") => What::Keys(Primitive::Json),
        ("vector", "create", _) => What::Unknown,
        ("vector", _, "collection") => What::Collections,
        ("index", "drop", "name") => What::Indexes,
        _ => What::Unknown,
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let Some(before) = line.get(..at) else { return Ok((at, Vec::new())) };
        let (begin, what, said) = self.what(before);
        if what == What::Files {
            let (begin, mut files) = self.files.complete_path(line, at)?;
            // Nor do names of files steer the terminal.
            files.retain(|file| !file.display.contains(char::is_control));
            return Ok((begin, files));
        }
        let is_verb = before.trim_start().starts_with('\\') && matches!(what, What::Words(_));
        let open = if is_verb { None } else { outline(before).open };
        let word = unquoted(&before[begin..], open);
        // A store that cannot be read now has no names to offer; the line that is completed will say why.
        let names = self.names(what, &said, &word).unwrap_or_default();
        let fits = |name: &String| name.starts_with(&word) && !name.contains(char::is_control);
        let pair = |name: String| {
            let replacement = format!("{} ", shlex::try_quote(&name).ok()?);
            Some(Pair { display: name, replacement })
        };
        Ok((begin, names.into_iter().filter(fits).filter_map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
