//! A script: commands one after the other. Read from the language of pgbench, as it documents it (15 to 18).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::Fault;
use crate::expression::Expression;
use crate::scan::{items, Item, Part, Sql, Word};

/// No script has more commands.
const MOST_COMMANDS: usize = 10_000;
/// Conditions are nested no deeper.
const DEEPEST_IF: usize = 32;
/// A script sleeps no longer at a time.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Variables that every session has.
pub const GIVEN: [&str; 4] = ["client_id", "default_seed", "random_seed", "scale"];

/// What a session does, from the first command to the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(crate) commands: Vec<Command>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Sql(Statement),
    Set {
        name: String,
        value: Expression,
    },
    Sleep {
        time: Time,
        unit: Unit,
    },
    /// Goes on at another command unless it is so.
    Unless(Expression, usize),
    Goto(usize),
}

/// SQL with what it does to the block of the transaction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) parts: Vec<Part>,
    /// What each of the statements does.
    pub(crate) effects: Vec<Effect>,
    pub(crate) captures: Option<Capture>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Begins,
    /// Ends the block; `true`: and begins another one.
    Ends(bool),
    Works,
}

/// Columns that become variables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Capture {
    pub(crate) prefix: String,
    /// `\aset`: of every statement, whatever number of rows there is.
    pub(crate) all: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Time {
    Number(i64),
    Variable(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
}

impl Unit {
    pub(crate) fn of(self, number: u64) -> Duration {
        match self {
            Self::Seconds => Duration::from_secs(number),
            Self::Milliseconds => Duration::from_millis(number),
            Self::Microseconds => Duration::from_micros(number),
        }
    }
}

/// A condition that has not ended yet.
struct Open {
    line: usize,
    /// The last condition, which jumps to what comes next.
    unless: Option<usize>,
    /// Jumps from the ends of arms to the end of all.
    exits: Vec<usize>,
    has_else: bool,
}

impl Script {
    /// Reads one. `defined` are variables that it has from elsewhere, beside [`GIVEN`].
    ///
    /// # Errors
    /// What is wrong or not supported, with its line and word.
    pub fn parse(text: &str, defined: &[&str]) -> Result<Self, Fault> {
        let mut reader = Reader { commands: Vec::new(), open: Vec::new() };
        for item in items(text)? {
            reader.item(item)?;
            if reader.commands.len() > MOST_COMMANDS {
                return Err(Fault::new(1, "", format!("the script has more than {MOST_COMMANDS} commands")));
            }
        }
        if let Some(open) = reader.open.last() {
            return Err(Fault::new(open.line, "\\if", "it has no \\endif"));
        }
        if !reader.commands.iter().any(|command| matches!(command.what, What::Sql(_))) {
            return Err(Fault::new(1, "", "the script has no SQL"));
        }
        let script = Self { commands: reader.commands };
        script.check_variables(defined)?;
        Ok(script)
    }

    /// Every variable that stands where SQL would not understand it has been set somewhere.
    fn check_variables(&self, defined: &[&str]) -> Result<(), Fault> {
        let mut known: BTreeSet<&str> = GIVEN.iter().chain(defined).copied().collect();
        let mut prefixes = Vec::new();
        for command in &self.commands {
            match &command.what {
                What::Set { name, .. } => drop(known.insert(name)),
                What::Sql(Statement { captures: Some(capture), .. }) => {
                    prefixes.push(capture.prefix.as_str())
                }
                _ => {}
            }
        }
        let check = |name: &str, line: usize| match known.contains(name)
            || prefixes.iter().any(|prefix| name.starts_with(prefix))
        {
            true => Ok(()),
            false => Err(Fault::new(line, format!(":{name}"), "nothing in the script sets this variable")),
        };
        for command in &self.commands {
            match &command.what {
                What::Sql(statement) => {
                    for part in &statement.parts {
                        // What begins with a digit is the end of a slice.
                        if let Part::Variable { name, is_bare: true, line } = part {
                            if !name.starts_with(|c: char| c.is_ascii_digit()) {
                                check(name, *line)?;
                            }
                        }
                    }
                }
                What::Set { value: expression, .. } | What::Unless(expression, _) => {
                    let mut used = Vec::new();
                    expression.variables(&mut used);
                    used.into_iter().try_for_each(|name| check(name, command.line))?;
                }
                What::Sleep { time: Time::Variable(name), .. } => check(name, command.line)?,
                What::Sleep { .. } | What::Goto(_) => {}
            }
        }
        Ok(())
    }

    /// Whether it is SQL alone that neither begins nor ends a transaction.
    pub(crate) fn is_plain(&self) -> bool {
        self.commands.iter().all(|command| match &command.what {
            What::Sql(statement) => statement.effects.iter().all(|effect| *effect == Effect::Works),
            _ => false,
        })
    }

    /// The variables that it sets itself.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().filter_map(|command| match &command.what {
            What::Set { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

/// What SQL may not say, whoever runs it, because it would leave something behind or make the figures those of something else.
pub(crate) fn refuse(sql: &Sql) -> Result<(), Fault> {
    for part in &sql.parts {
        if let Part::Text(text) = part {
            if text.to_ascii_lowercase().contains("synchronous_commit") {
                let why = "the level is set by the lab, for each block of load; leave it out";
                return Err(Fault::new(sql.line, "synchronous_commit", why));
            }
        }
    }
    for words in &sql.statements {
        let has = |text: &str| words.iter().find(|word| word.text == text);
        let begins = |texts: &[&str]| {
            words.iter().map(|word| word.text.as_str()).take(texts.len()).eq(texts.iter().copied())
        };
        if begins(&["prepare", "transaction"]) {
            let why = "a prepared transaction outlives its session; two-phase commit is not supported";
            return Err(Fault::new(words[0].line, "PREPARE TRANSACTION", why));
        }
        if begins(&["copy"]) {
            if let Some(word) = has("stdin").or_else(|| has("stdout")) {
                let why =
                    "data of COPY does not travel over the load's connection; write INSERT, or COPY nothing";
                return Err(Fault::new(word.line, word.text.clone(), why));
            }
        }
    }
    Ok(())
}

fn effect(words: &[Word]) -> Effect {
    let word = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let chains = || {
        let at = words.iter().position(|word| word.text == "chain");
        at.is_some_and(|at| at > 0 && words[at - 1].text == "and")
    };
    match word(0) {
        "begin" => Effect::Begins,
        "start" if word(1) == "transaction" => Effect::Begins,
        "rollback" if words.iter().any(|word| word.text == "to") => Effect::Works,
        "commit" | "rollback" if word(1) == "prepared" => Effect::Works,
        "commit" | "end" | "rollback" | "abort" => Effect::Ends(chains()),
        _ => Effect::Works,
    }
}

struct Reader {
    commands: Vec<Command>,
    open: Vec<Open>,
}

impl Reader {
    fn push(&mut self, line: usize, what: What) -> usize {
        self.commands.push(Command { line, what });
        self.commands.len() - 1
    }

    fn item(&mut self, item: Item) -> Result<(), Fault> {
        match item {
            Item::Sql(sql) => {
                refuse(&sql)?;
                let effects =
                    sql.statements.iter().filter(|words| !words.is_empty()).map(|words| effect(words));
                let effects = effects.collect();
                self.push(sql.line, What::Sql(Statement { parts: sql.parts, effects, captures: None }));
                Ok(())
            }
            Item::Meta { line, word, rest } => self.meta(line, &word, &rest),
        }
    }

    fn meta(&mut self, line: usize, word: &str, rest: &str) -> Result<(), Fault> {
        let fault = |why: &str| Fault::new(line, format!("\\{word}"), why);
        let no_more = || match rest.is_empty() {
            true => Ok(()),
            false => Err(Fault::new(line, rest, format!("nothing may follow \\{word}"))),
        };
        match word.to_ascii_lowercase().as_str() {
            "set" => {
                let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (name, value) = rest.split_at(length);
                check_name(name, line)?;
                if GIVEN.contains(&name) && name != "scale" {
                    return Err(Fault::new(line, name, "every session has its own; choose another name"));
                }
                let value = Expression::parse(value, line)?;
                self.push(line, What::Set { name: name.to_owned(), value });
                Ok(())
            }
            "sleep" => self.sleep(line, rest),
            "gset" | "aset" => {
                if !rest.is_empty() {
                    check_name(rest, line)?;
                }
                let all = word.eq_ignore_ascii_case("aset");
                let capture = Capture { prefix: rest.to_owned(), all };
                match self.commands.last_mut().map(|command| &mut command.what) {
                    Some(What::Sql(statement)) if statement.captures.is_none() => {
                        statement.captures = Some(capture);
                        Ok(())
                    }
                    _ => Err(fault("it follows SQL that is not ended by a semicolon")),
                }
            }
            "if" => {
                if self.open.len() >= DEEPEST_IF {
                    return Err(fault("conditions are nested too deep"));
                }
                let unless = What::Unless(Expression::parse(rest, line)?, 0);
                let unless = Some(self.push(line, unless));
                self.open.push(Open { line, unless, exits: Vec::new(), has_else: false });
                Ok(())
            }
            "elif" => {
                let condition = Expression::parse(rest, line)?;
                self.next_arm(line, word)?;
                let unless = self.push(line, What::Unless(condition, 0));
                if let Some(open) = self.open.last_mut() {
                    open.unless = Some(unless);
                }
                Ok(())
            }
            "else" => {
                no_more()?;
                self.next_arm(line, word)?;
                if let Some(open) = self.open.last_mut() {
                    open.has_else = true;
                }
                Ok(())
            }
            "endif" => {
                no_more()?;
                let open = self.open.pop().ok_or_else(|| fault("there is no \\if before it"))?;
                let end = self.commands.len();
                open.exits.into_iter().chain(open.unless).for_each(|at| self.lead(at, end));
                Ok(())
            }
            "shell" | "setshell" => {
                Err(fault("it would run a program on the machine that makes the load; not supported"))
            }
            "startpipeline" | "endpipeline" | "syncpipeline" => {
                Err(fault("pipelines are not supported: statements are sent one at a time"))
            }
            _ => Err(fault(
                "there is no such command; supported are \\set, \\sleep, \\gset, \\aset, \\if, \\elif, \\else, \\endif",
            )),
        }
    }

    /// The arm before is over: whoever came through it goes to the end, whoever did not comes here.
    fn next_arm(&mut self, line: usize, word: &str) -> Result<(), Fault> {
        let exit = self.commands.len();
        match self.open.last_mut() {
            Some(open) if !open.has_else => {
                open.exits.push(exit);
                let unless = open.unless.take();
                self.push(line, What::Goto(0));
                if let Some(at) = unless {
                    self.lead(at, exit + 1);
                }
                Ok(())
            }
            _ => Err(Fault::new(line, format!("\\{word}"), "there is no open \\if before it")),
        }
    }

    fn lead(&mut self, at: usize, target: usize) {
        match &mut self.commands[at].what {
            What::Unless(_, to) | What::Goto(to) => *to = target,
            _ => {}
        }
    }

    fn sleep(&mut self, line: usize, rest: &str) -> Result<(), Fault> {
        let mut words = rest.split_whitespace();
        let number = words.next().ok_or_else(|| Fault::new(line, "\\sleep", "a time is missing after it"))?;
        // A number and its unit may stand together.
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (time, attached) = match number.strip_prefix(':') {
            Some(name) => {
                check_name(name, line)?;
                (Time::Variable(name.to_owned()), None)
            }
            None => {
                let (digits, unit) = number.split_at(digits);
                let digits = digits
                    .parse()
                    .map_err(|_| Fault::new(line, number, "it is neither a number nor a variable"))?;
                (Time::Number(digits), Some(unit).filter(|unit| !unit.is_empty()))
            }
        };
        let unit = match attached.or_else(|| words.next()) {
            None | Some("s") => Unit::Seconds,
            Some("ms") => Unit::Milliseconds,
            Some("us") => Unit::Microseconds,
            Some(other) => return Err(Fault::new(line, other, "a time is in us, ms or s")),
        };
        if let Some(more) = words.next() {
            return Err(Fault::new(line, more, "nothing may follow the time of \\sleep"));
        }
        if let Time::Number(number) = time {
            if unit.of(u64::try_from(number).unwrap_or(u64::MAX)) > LONGEST_SLEEP {
                let why = format!("no sleep is longer than {} s", LONGEST_SLEEP.as_secs());
                return Err(Fault::new(line, number.to_string(), why));
            }
        }
        self.push(line, What::Sleep { time, unit });
        Ok(())
    }
}

/// A name that a variable may have.
pub(crate) fn check_name(name: &str, line: usize) -> Result<(), Fault> {
    let is_name = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(crate::expression::lexer::is_of_name)
        && !name.starts_with(|c: char| c.is_ascii_digit());
    match is_name {
        true => Ok(()),
        false => Err(Fault::new(
            line,
            name,
            "not a valid variable name: use letters, digits and _, and do not start with a digit",
        )),
    }
}
