//! Texts of SQL as statements, and scripts of a load as steps.

use fastrand::Rng;
use std::{collections::BTreeMap, time::Duration};

/// Statements and commands of a script.
pub(crate) const STEPS_MAX: usize = 200;

/// What is wrong with a text, and where: the line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// A piece of a text: a statement without its semicolon, or a command that begins with a backslash.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece<'a> {
    line: usize,
    text: &'a str,
    /// The places of `:name` in it that are not within quotes or comments.
    variables: Vec<(usize, usize)>,
    is_command: bool,
}

/// The statements of a text, each without its semicolon.
pub(crate) fn statements(text: &str) -> Result<Vec<String>, Wrong> {
    let pieces = pieces(text)?;
    if let Some(command) = pieces.iter().find(|piece| piece.is_command) {
        return Err(Wrong {
            line: command.line,
            what: "commands that begin with a backslash are a load's".to_owned(),
        });
    }
    Ok(pieces.into_iter().map(|piece| piece.text.to_owned()).collect())
}

/// The first word of a text in capitals: what kind of statement it is.
pub(crate) fn first_word(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        at = match bytes[at] {
            b'-' if bytes[at..].starts_with(b"--") => find(bytes, at, b"\n").unwrap_or(bytes.len()),
            b'/' if bytes[at..].starts_with(b"/*") => behind_comment(bytes, at).unwrap_or(bytes.len()),
            byte if byte.is_ascii_whitespace() => at + 1,
            _ => break,
        };
    }
    let word = bytes[at..].iter().take_while(|byte| is_name(**byte)).copied();
    String::from_utf8_lossy(&word.collect::<Vec<u8>>()).to_ascii_uppercase()
}

/// A statement without its values and comments, in one line: what statements have in common that differ in values only.
pub(crate) fn shape(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut shape, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let byte = bytes[at];
        let follows_name = at > 0 && is_name(bytes[at - 1]);
        let (piece, end): (&[u8], usize) = match byte {
            b'-' if bytes[at..].starts_with(b"--") => (b" ", find(bytes, at, b"\n").unwrap_or(bytes.len())),
            b'/' if bytes[at..].starts_with(b"/*") => {
                (b" ", behind_comment(bytes, at).unwrap_or(bytes.len()))
            }
            b'\'' => {
                let escapes = follows_name && matches!(bytes[at - 1], b'e' | b'E');
                (b"?", behind_quote(bytes, at, escapes).unwrap_or(bytes.len()))
            }
            b'"' => {
                let end = behind_quote(bytes, at, false).unwrap_or(bytes.len());
                (&bytes[at..end], end)
            }
            b'$' if !follows_name => match dollar_tag(bytes, at) {
                Some(end) => {
                    let close = find(bytes, end, &bytes[at..end]);
                    (b"?", close.map_or(bytes.len(), |close| close + end - at))
                }
                // A parameter.
                None => {
                    let end =
                        at + 1 + bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                    (&bytes[at..end], end)
                }
            },
            b'0'..=b'9' if !follows_name => {
                let is_part = |byte: &&u8| is_name(**byte) || **byte == b'.';
                (b"?", at + bytes[at..].iter().take_while(is_part).count())
            }
            byte if byte.is_ascii_whitespace() => (b" ", at + 1),
            _ => (&bytes[at..=at], at + 1),
        };
        at = end;
        match piece {
            b" " if shape.is_empty() || shape.ends_with(b" ") => {}
            // A list of any length is one.
            b"?" if shape.ends_with(b"?, ") => shape.truncate(shape.len() - 2),
            b"?" if shape.ends_with(b"?,") => shape.truncate(shape.len() - 1),
            piece => shape.extend_from_slice(piece),
        }
    }
    let shape = String::from_utf8_lossy(&shape);
    shape.trim_end_matches([' ', ';']).to_owned()
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, Wrong> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    // Where the piece begins: behind blanks and comments.
    let (mut begin, mut parentheses, mut variables) = (None::<usize>, 0_usize, Vec::new());
    let line_of = |at: usize| bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let open = |at: usize, what: &str| Wrong { line: line_of(at), what: format!("{what} does not end") };
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let after = match byte {
            b'-' if bytes[at..].starts_with(b"--") => {
                at = find(bytes, at, b"\n").unwrap_or(bytes.len());
                continue;
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                at = behind_comment(bytes, at).ok_or_else(|| open(at, "a comment"))?;
                continue;
            }
            b'\\' if begin.is_none() => {
                let end = find(bytes, at, b"\n").unwrap_or(bytes.len());
                let command = text[at..end].trim();
                found.push(Piece {
                    line: line_of(at),
                    text: command,
                    variables: Vec::new(),
                    is_command: true,
                });
                at = end;
                continue;
            }
            b'\'' => {
                let escapes =
                    at > 0 && matches!(bytes[at - 1], b'e' | b'E') && !(at > 1 && is_name(bytes[at - 2]));
                behind_quote(bytes, at, escapes).ok_or_else(|| open(at, "a literal"))?
            }
            b'"' => behind_quote(bytes, at, false).ok_or_else(|| open(at, "a quoted name"))?,
            b'$' if at == 0 || !is_name(bytes[at - 1]) => match dollar_tag(bytes, at) {
                Some(end) => {
                    let tag = &bytes[at..end];
                    let close = find(bytes, end, tag).ok_or_else(|| open(at, "a dollar-quoted text"))?;
                    close + tag.len()
                }
                None => at + 1,
            },
            b'(' => {
                parentheses += 1;
                at + 1
            }
            b')' => {
                parentheses = parentheses.saturating_sub(1);
                at + 1
            }
            b';' if parentheses == 0 => {
                if let Some(begin) = begin.take() {
                    let piece = text[begin..at].trim_end();
                    let variables = std::mem::take(&mut variables);
                    found.push(Piece { line: line_of(begin), text: piece, variables, is_command: false });
                }
                at += 1;
                continue;
            }
            b':' if at > 0 && bytes[at - 1] != b':' => {
                let name = bytes[at + 1..].iter().take_while(|byte| is_name(**byte)).count();
                if name > 0 && !bytes[at + 1].is_ascii_digit() {
                    variables.push((at, at + 1 + name));
                }
                at + 1 + name
            }
            _ => at + 1,
        };
        if begin.is_none() && !byte.is_ascii_whitespace() {
            begin = Some(at);
        }
        if let Some(begin) = begin {
            // Places are within the piece.
            for (from, to) in variables.iter_mut().filter(|(from, _)| *from == at) {
                *from -= begin;
                *to -= begin;
            }
        }
        at = after;
    }
    if let Some(begin) = begin {
        let piece = text[begin..].trim_end();
        found.push(Piece { line: line_of(begin), text: piece, variables, is_command: false });
    }
    match found.get(STEPS_MAX) {
        Some(piece) => {
            Err(Wrong { line: piece.line, what: format!("there are more than {STEPS_MAX} statements") })
        }
        None => Ok(found),
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes[from..].windows(what.len()).position(|window| window == what).map(|at| from + at)
}

fn behind_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let (mut at, mut depth) = (at, 0_usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    None
}

fn behind_quote(bytes: &[u8], at: usize, escapes: bool) -> Option<usize> {
    let quote = bytes[at];
    let mut at = at + 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    None
}

/// The end of `$tag$`, if that stands there.
fn dollar_tag(bytes: &[u8], at: usize) -> Option<usize> {
    let name = bytes[at + 1..].iter().take_while(|byte| is_name(**byte)).count();
    let is_number = name > 0 && bytes[at + 1].is_ascii_digit();
    (!is_number && bytes.get(at + 1 + name) == Some(&b'$')).then_some(at + name + 2)
}

/// A script of a load: what one transaction of it does.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) name: String,
    /// How often it is chosen, beside the others.
    pub(crate) weight: u32,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Set { name: String, value: Value },
    Sleep(Duration),
    Sql(Template),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    One(Number),
    Random(Number, Number),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Number {
    Is(i64),
    Of(String),
}

/// A statement with places for variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    text: String,
    places: Vec<(usize, usize)>,
}

pub(crate) type Variables = BTreeMap<String, i64>;

impl Script {
    /// Reads a script.
    pub(crate) fn parse(name: &str, weight: u32, text: &str) -> Result<Script, Wrong> {
        let mut steps = Vec::new();
        for piece in pieces(text)? {
            steps.push(if piece.is_command {
                command(piece.text).map_err(|what| Wrong { line: piece.line, what })?
            } else {
                Step::Sql(Template { text: piece.text.to_owned(), places: piece.variables })
            });
        }
        if !steps.iter().any(|step| matches!(step, Step::Sql(_))) {
            return Err(Wrong { line: 1, what: "there is no statement in it".to_owned() });
        }
        Ok(Script { name: name.to_owned(), weight, steps })
    }
}

fn command(text: &str) -> Result<Step, String> {
    let usage = "write \\set NAME NUMBER, \\set NAME random(LOW, HIGH), or \\sleep NUMBER us|ms|s";
    let mut words = text.splitn(2, char::is_whitespace);
    let (word, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim());
    let wrong = || format!("`{text}` is not understood; {usage}");
    match word {
        "\\set" => {
            let (name, value) = rest.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let is_good = name.bytes().all(is_name) && !name.as_bytes()[0].is_ascii_digit();
            let value = value.trim();
            let value = match value.strip_prefix("random(").and_then(|inner| inner.strip_suffix(')')) {
                Some(bounds) => {
                    let (low, high) = bounds.split_once(',').ok_or_else(wrong)?;
                    Value::Random(number(low).ok_or_else(wrong)?, number(high).ok_or_else(wrong)?)
                }
                None => Value::One(number(value).ok_or_else(wrong)?),
            };
            if is_good {
                Ok(Step::Set { name: name.to_owned(), value })
            } else {
                Err(wrong())
            }
        }
        "\\sleep" => {
            let mut words = rest.split_whitespace();
            let count: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
            let span = match words.next() {
                Some("us") => Duration::from_micros(count),
                Some("ms") => Duration::from_millis(count),
                Some("s") | None => Duration::from_secs(count),
                Some(_) => return Err(wrong()),
            };
            if words.next().is_none() {
                Ok(Step::Sleep(span))
            } else {
                Err(wrong())
            }
        }
        _ => Err(wrong()),
    }
}

fn number(text: &str) -> Option<Number> {
    let text = text.trim();
    match text.strip_prefix(':') {
        Some(name) if !name.is_empty() && name.bytes().all(is_name) => Some(Number::Of(name.to_owned())),
        _ => text.parse().ok().map(Number::Is),
    }
}

impl Value {
    /// What a variable becomes. A variable that was not set counts as 0.
    pub(crate) fn draw(&self, variables: &Variables, rng: &mut Rng) -> i64 {
        let of = |number: &Number| match number {
            Number::Is(value) => *value,
            Number::Of(name) => variables.get(name).copied().unwrap_or_default(),
        };
        match self {
            Value::One(value) => of(value),
            Value::Random(low, high) => {
                let (low, high) = (of(low), of(high));
                rng.i64(low.min(high)..=low.max(high))
            }
        }
    }
}

impl Template {
    /// As it is written, in one line.
    pub(crate) fn label(&self) -> String {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The statement with values. What no variable is called stays as it is.
    pub(crate) fn fill(&self, variables: &Variables) -> String {
        let (mut text, mut done) = (String::with_capacity(self.text.len() + 16), 0);
        for (from, to) in &self.places {
            let Some(value) = variables.get(&self.text[from + 1..*to]) else { continue };
            text.push_str(&self.text[done..*from]);
            text.push_str(&value.to_string());
            done = *to;
        }
        text.push_str(&self.text[done..]);
        text
    }
}

#[cfg(test)]
#[path = "../tests/unit/scripts.rs"]
mod tests;
