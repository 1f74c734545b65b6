//! What begins with a backslash: short ways to commands, and what the shell itself does.

use crate::{failure::Failure, output};

/// What stands behind a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing, or a name that is not there yet.
    New,
    /// Branches, or states of them.
    Branches,
    /// A space.
    Space,
    /// A key of a pair.
    Key,
    /// A command.
    Command,
    /// `on` or `off`.
    Switch,
}

/// A verb, as it is listed.
pub(super) struct Verb {
    /// Its name, behind the backslash.
    pub(super) name: &'static str,
    /// How its arguments are written.
    arguments: &'static str,
    about: &'static str,
    /// What its arguments are.
    pub(super) takes: Takes,
}

const fn verb(name: &'static str, arguments: &'static str, takes: Takes, about: &'static str) -> Verb {
    Verb { name, arguments, about, takes }
}

/// All of them. `\?` and `\h` are `\help`, and `\quit` is `\q`.
pub(super) const VERBS: [Verb; 11] = [
    verb(
        "branch",
        "[NAME]",
        Takes::Branches,
        "Show or choose the branch of the lines that follow, or a state like main@v1",
    ),
    verb("branches", "", Takes::New, "List all branches (branch list)"),
    verb("space", "[NAME]", Takes::Space, "Show or choose the space of the lines that follow"),
    verb("tables", "", Takes::New, "List the spaces, and what kinds of data are in each (space list)"),
    verb(
        "diff",
        "[A] [B]",
        Takes::Branches,
        "Print how to turn A into B; A is else the parent, and B this branch (branch diff)",
    ),
    verb("fork", "NAME", Takes::New, "Fork this branch (branch fork)"),
    verb(
        "log",
        "[KEY]",
        Takes::Key,
        "List the retained states, or how a key has changed (history list, history key)",
    ),
    verb("timing", "[on|off]", Takes::Switch, "Tell how long each line takes"),
    verb("json", "[on|off]", Takes::Switch, "Print results as JSON, or as text and tables"),
    verb("help", "[COMMAND]", Takes::Command, "Show this, or the help of a command"),
    verb("q", "", Takes::New, "Leave, as exit and Ctrl-D do"),
];

/// What a line with a backslash means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A command.
    Command(Vec<String>),
    /// A comparison with the branch: of what is named, or of its parent.
    Diff(Option<String>),
    /// The branch of later lines, or only its name.
    Branch(Option<String>),
    /// The space of later lines, or only its name.
    Space(Option<String>),
    /// JSON or not, or the other one.
    Json(Option<bool>),
    /// Times or none, or the other one.
    Timing(Option<bool>),
    /// What there is.
    Help,
    /// The end.
    Leave,
}

/// Takes the words behind the backslash.
pub(super) fn meaning(words: &[String]) -> Result<Meaning, Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = |words: &[&str]| Meaning::Command(words.iter().map(|word| (*word).to_owned()).collect());
    let switch = |word: &str| match word {
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        _ => Err(Failure::Usage(format!("{word:?} is neither on nor off"))),
    };
    Ok(match words[..] {
        ["branch"] => Meaning::Branch(None),
        ["branch", name] => Meaning::Branch(Some(name.to_owned())),
        ["branches"] => command(&["branch", "list"]),
        ["space"] => Meaning::Space(None),
        ["space", name] => Meaning::Space(Some(name.to_owned())),
        ["tables"] => command(&["space", "list"]),
        ["diff"] => Meaning::Diff(None),
        ["diff", left, right] => command(&["branch", "diff", "--", left, right]),
        ["diff", left] => Meaning::Diff(Some(left.to_owned())),
        ["fork", name] => command(&["branch", "fork", "--", name]),
        ["log"] => command(&["history", "list"]),
        ["log", key] => command(&["history", "key", "--", key]),
        ["timing"] => Meaning::Timing(None),
        ["timing", word] => Meaning::Timing(switch(word)?),
        ["json"] => Meaning::Json(None),
        ["json", word] => Meaning::Json(switch(word)?),
        ["help" | "?" | "h"] => Meaning::Help,
        ["help" | "?" | "h", ref rest @ ..] => command(&[&["help"], rest].concat()),
        ["q" | "quit"] => Meaning::Leave,
        [] => return Err(Failure::Usage("a verb stands behind the backslash; \\help lists them".to_owned())),
        [name, ..] => {
            return Err(Failure::Usage(match VERBS.iter().find(|verb| verb.name == name) {
                Some(Verb { arguments, .. }) => {
                    format!("write it like \\{name} {arguments}").trim_end().to_owned()
                }
                None => format!("unknown command \\{}; \\help lists the commands", name.escape_debug()),
            }))
        }
    })
}

/// What there is: verbs, and commands of the parser.
pub(super) fn help(parser: &clap::Command) -> String {
    let verbs = VERBS.iter().map(|verb| {
        let name = format!("\\{} {}", verb.name, verb.arguments);
        (name.trim_end().to_owned(), verb.about.to_owned())
    });
    let commands = parser.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| {
        let about = command.get_about().map(ToString::to_string);
        (command.get_name().to_owned(), about.unwrap_or_default())
    });
    let rows: Vec<(String, String)> = verbs.chain(commands).collect();
    output::pairs(rows.iter().map(|(name, about)| (name.as_str(), about.clone())))
}
