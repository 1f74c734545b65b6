//! The second pass over a statement: each reference is put in by the rules of its place.

use std::borrow::Cow;

use super::lex;
use super::reference::{self, Place, Reference, Results};
use super::{push, Environment, SubstituteError};
use crate::json::{self, Json, Shape};

/// Dollar-quoted text inside of dollar-quoted text is looked into this deep; what lies deeper stays as it is.
const DEPTH_MAX: usize = 8;

pub(super) fn substitute(
    text: &str,
    params: Option<&Json>,
    env: &Environment,
) -> Result<String, SubstituteError> {
    if !text.contains('$') {
        return Ok(text.to_owned());
    }
    let params = match params {
        Some(params) => Some(json::elements(params.text()).ok_or(SubstituteError::NotParameters)?),
        None => None,
    };
    let statement = Statement { results: Results::new(env), params };
    let mut out = String::with_capacity(text.len() + 64);
    statement.code(text, 0, &mut out)?;
    Ok(out)
}

struct Statement<'a> {
    results: Results<'a>,
    /// The JSON of each bind parameter.
    params: Option<Vec<&'a str>>,
}

/// What stands before a dollar sign in code.
#[derive(Clone, Copy)]
struct Before {
    /// A word, right before it.
    word: bool,
    /// A literal, or a value that may be one, with nothing but blanks between.
    literal: bool,
    /// How many dollar quotes are open.
    depth: usize,
}

impl Statement<'_> {
    /// Copies SQL. What stands for something is found at dollar signs, and they count only where a quote, a comment
    /// or a name does not say otherwise.
    fn code(&self, text: &str, depth: usize, out: &mut String) -> Result<(), SubstituteError> {
        let bytes = text.as_bytes();
        let mut at = 0;
        // Where the word begins in the middle of which we are. A dollar sign in a word quotes nothing.
        let mut word: Option<usize> = None;
        let mut literal = false;
        while at < bytes.len() {
            let rest = &text[at..];
            let byte = bytes[at];
            if lex::is_word(byte) {
                let end = at + rest.bytes().position(|b| !lex::is_word(b)).unwrap_or(rest.len());
                push(out, &text[at..end])?;
                word.get_or_insert(at);
                literal = false;
                at = end;
                continue;
            }
            let len = match byte {
                b'$' => {
                    let len = self.dollar(rest, Before { word: word.is_some(), literal, depth }, out)?;
                    // A dollar sign of its own goes on with the word that it stands in; all else ends it.
                    if len > 1 {
                        word = None;
                    }
                    literal = len > 1;
                    at += len;
                    continue;
                }
                b'\'' | b'"' => {
                    let prefix = word.map(|from| &text[from..at]).unwrap_or_default();
                    let unicode = text[..at].strip_suffix(['&']).is_some_and(ends_with_u);
                    let escapes = unicode || (byte == b'\'' && prefix.eq_ignore_ascii_case("e"));
                    literal = byte == b'\'';
                    self.quoted(rest, byte, escapes, unicode, out)?
                }
                _ => {
                    let comment = lex::comment(rest);
                    literal &= comment.is_some() || lex::is_space(byte);
                    let len = comment.unwrap_or(1);
                    push(out, &rest[..len])?;
                    len
                }
            };
            word = None;
            at += len;
        }
        Ok(())
    }

    /// What a dollar sign in code begins, and how long that is.
    fn dollar(&self, rest: &str, before: Before, out: &mut String) -> Result<usize, SubstituteError> {
        if !before.word {
            if let Some(delimiter) = lex::delimiter(rest) {
                if let Some(len) = rest[delimiter.len()..].find(delimiter) {
                    let body = &rest[delimiter.len()..][..len];
                    self.dollar_quoted(body, delimiter, before.depth, out)?;
                    return Ok(len + 2 * delimiter.len());
                }
            }
            if let Some(len) = self.parameter(rest, before, out)? {
                return Ok(len);
            }
        }
        let Some(reference) = Reference::at(rest).filter(|reference| self.results.has(reference.name)) else {
            // A text in quotes that never end is an error of the statement. Nothing in it is code.
            let unclosed = !before.word && lex::delimiter(rest).is_some();
            let len = if unclosed { rest.len() } else { 1 };
            push(out, &rest[..len])?;
            return Ok(len);
        };
        let len = reference.text.len();
        let after = &rest[len..];
        let place = Place::Code { joined: before.literal || goes_on(after) };
        self.results.get(&reference)?.write(&reference, place, out)?;
        separate(after, out, |next| Reference::at(next).is_some_and(|next| self.results.has(next.name)));
        Ok(len)
    }

    /// Puts in a bind parameter, if `rest` begins with one.
    fn parameter(
        &self,
        rest: &str,
        before: Before,
        out: &mut String,
    ) -> Result<Option<usize>, SubstituteError> {
        // In a function's body, `$1` is the function's own.
        let Some(params) = self.params.as_ref().filter(|_| before.depth == 0) else { return Ok(None) };
        let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[1 + digits..];
        if digits == 0 || after.bytes().next().is_some_and(lex::is_word) {
            return Ok(None);
        }
        let number = &rest[1..=digits];
        let place = Place::Operand { joined: before.literal || goes_on(after) };
        let param = number.parse::<usize>().ok().and_then(|n| Some((n, params.get(n.checked_sub(1)?)?)));
        let Some((index, param)) = param else {
            return Err(SubstituteError::NoParameter { number: number.to_owned(), given: params.len() });
        };
        match json::shape(param) {
            Shape::String(Some(text)) if text.starts_with("$$") => {
                let literal = Shape::String(Some(Cow::Borrowed(&text[1..])));
                reference::write_scalar(&literal, &rest[..=digits], place, out)?;
            }
            Shape::String(Some(text)) => match Reference::whole(&text) {
                Some(found) if self.results.has(found.name) => {
                    self.results.get(&found)?.write(&found, place, out)?;
                }
                Some(found) => {
                    let reference = found.text.to_owned();
                    return Err(SubstituteError::UnknownResult { number: index, reference });
                }
                None => {
                    reference::write_scalar(&Shape::String(Some(text)), &rest[..=digits], place, out)?;
                }
            },
            literal => reference::write_scalar(&literal, &rest[..=digits], place, out)?,
        }
        separate(after, out, |_| false);
        Ok(Some(1 + digits))
    }

    /// Copies a literal or a quoted name, with what stands for something inside; `rest` begins with the `quote`.
    fn quoted(
        &self,
        rest: &str,
        quote: u8,
        escapes: bool,
        unicode: bool,
        out: &mut String,
    ) -> Result<usize, SubstituteError> {
        let place = Place::Quoted { quote: char::from(quote), escapes };
        let bytes = rest.as_bytes();
        let (mut at, mut copied) = (1, 0);
        while at < bytes.len() {
            match bytes[at] {
                // In U&'..' a backslash escapes characters, but never a quote.
                b'\\' if escapes && !unicode => at += 2,
                b'$' => match Reference::at(&rest[at..]).filter(|found| self.results.has(found.name)) {
                    Some(reference) => {
                        push(out, &rest[copied..at])?;
                        self.results.get(&reference)?.write(&reference, place, out)?;
                        at += reference.text.len();
                        copied = at;
                    }
                    None => at += 1,
                },
                byte if byte == quote => {
                    if bytes.get(at + 1) == Some(&quote) {
                        at += 2;
                    } else if let Some(gap) = lex::continues(&rest[at + 1..]).filter(|_| quote == b'\'') {
                        at += gap + 2;
                    } else {
                        at += 1;
                        push(out, &rest[copied..at])?;
                        return Ok(at);
                    }
                }
                _ => at += 1,
            }
        }
        push(out, &rest[copied..])?;
        Ok(rest.len())
    }

    fn dollar_quoted(
        &self,
        body: &str,
        delimiter: &str,
        depth: usize,
        out: &mut String,
    ) -> Result<(), SubstituteError> {
        push(out, delimiter)?;
        let start = out.len();
        if depth < DEPTH_MAX && body.contains('$') {
            let mut inner = String::with_capacity(body.len());
            self.code(body, depth + 1, &mut inner)?;
            push(out, &inner)?;
        } else {
            push(out, body)?;
        }
        let len = out.len() - start;
        push(out, delimiter)?;
        match out[start..].find(delimiter) == Some(len) {
            true => Ok(()),
            false => Err(SubstituteError::Delimiter { delimiter: delimiter.to_owned() }),
        }
    }
}

/// Whether `text` ends with the word `u`.
fn ends_with_u(text: &str) -> bool {
    let before = text.strip_suffix(['u', 'U']);
    before.is_some_and(|before| !before.bytes().last().is_some_and(|byte| lex::is_word(byte) || byte == b'$'))
}

/// Whether the server would take what follows for more of a literal.
fn goes_on(after: &str) -> bool {
    after.starts_with('\'') || lex::continues(after).is_some()
}

/// Keeps a value apart from a dollar sign that is not the next reference's, or it would be part of a word.
fn separate(after: &str, out: &mut String, is_reference: impl Fn(&str) -> bool) {
    if after.starts_with('$') && !is_reference(after) {
        out.push(' ');
    }
}
