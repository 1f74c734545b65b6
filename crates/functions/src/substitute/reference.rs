//! `$name` references: how they are written, what they find, and how that is put into each kind of place.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{expand, push, Environment, SubstituteError};
use crate::json::{self, Shape};

/// A reference as it stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    /// All of it, with the dollar sign.
    pub(super) text: &'a str,
    pub(super) name: &'a str,
    pub(super) part: Part<'a>,
    pub(super) optional: bool,
}

/// What of a result is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Whole,
    Field(&'a str),
    Rows,
}

impl<'a> Reference<'a> {
    /// The reference at the start of `text`, which begins with a dollar sign.
    pub(super) fn at(text: &'a str) -> Option<Self> {
        let name = word(text.strip_prefix('$')?)?;
        // A name in other letters is not a name of a result, and must not be taken for the beginning of one.
        if !name.is_ascii() {
            return None;
        }
        let after = &text[1 + name.len()..];
        let (part, after) = match after.strip_prefix('.') {
            Some(field) if field.starts_with('*') => (Part::Rows, &field[1..]),
            Some(field) => match word(field) {
                Some(field) => (Part::Field(field), &after[1 + field.len()..]),
                None => (Part::Whole, after),
            },
            None => (Part::Whole, after),
        };
        let optional = part != Part::Rows && after.starts_with('?');
        let len = text.len() - after.len() + usize::from(optional);
        Some(Self { text: &text[..len], name, part, optional })
    }

    /// The reference that `text` is, from its first character to its last.
    pub(super) fn whole(text: &'a str) -> Option<Self> {
        Self::at(text).filter(|reference| reference.text.len() == text.len())
    }

    /// How the strict form of it is written.
    fn strict(&self) -> String {
        self.text.trim_end_matches('?').to_owned()
    }
}

/// The letters, digits and underscores that `text` begins with, unless it begins with a digit.
fn word(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let word = &text[..end];
    (!word.is_empty() && !word.starts_with(char::is_numeric)).then_some(word)
}

/// The named results, looked into once each.
pub(super) struct Results<'a> {
    env: &'a Environment,
    /// The rows of each result that was asked for; `None` for what is not a result set.
    rows: RefCell<BTreeMap<&'a str, Option<&'a str>>>,
}

impl<'a> Results<'a> {
    pub(super) fn new(env: &'a Environment) -> Self {
        Self { env, rows: RefCell::default() }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.env.results.contains_key(name)
    }

    /// What a reference stands for. To be asked only for names that there are.
    pub(super) fn get(&self, reference: &Reference<'_>) -> Result<Value<'a>, SubstituteError> {
        let Some((name, result)) = self.env.results.get_key_value(reference.name) else {
            return Ok(Value::Scalar(Shape::Null));
        };
        let rows =
            *self.rows.borrow_mut().entry(name.as_str()).or_insert_with(|| json::rows_text(result.text()));
        let found = match (rows, reference.part) {
            (Some(rows), Part::Rows) => return Ok(Value::Rows { name, rows }),
            (None, Part::Rows) => return Err(SubstituteError::NotRows { name: name.clone() }),
            (Some(rows), part) => match (json::first_element(rows), part) {
                (None, _) if reference.optional => Shape::Null,
                (None, _) => {
                    return Err(SubstituteError::NoRows { name: name.clone(), reference: reference.strict() })
                }
                (Some(row), Part::Field(field)) => json::shape(field_of(row, field, reference)?),
                (Some(row), _) => json::first_member(row).map_or(Shape::Null, json::shape),
            },
            (None, Part::Whole) => json::shape(result.text()),
            (None, Part::Field(field)) => match json::shape(result.text()) {
                Shape::Object(object) => match field_of(object, field, reference) {
                    // An object has the members that it has: the optional form is how to ask.
                    Err(_) if reference.optional => Shape::Null,
                    found => json::shape(found?),
                },
                Shape::Null => Shape::Null,
                _ => {
                    let reference = reference.text.to_owned();
                    return Err(SubstituteError::NoFields { reference, name: name.clone() });
                }
            },
        };
        match found {
            Shape::Null if !reference.optional => {
                Err(SubstituteError::IsNull { reference: reference.strict() })
            }
            found => Ok(Value::Scalar(found)),
        }
    }
}

fn field_of<'a>(object: &'a str, field: &str, reference: &Reference<'_>) -> Result<&'a str, SubstituteError> {
    json::member(object, field).ok_or_else(|| {
        const NAMES_LISTED: usize = 20;
        let members = json::members(object).unwrap_or_default();
        let mut known: Vec<String> =
            members.keys().take(NAMES_LISTED).map(|name| format!("\"{name}\"")).collect();
        match members.len() {
            0 => known.push("none".into()),
            len if len > NAMES_LISTED => known.push(format!("{} more", len - NAMES_LISTED)),
            _ => {}
        }
        let (reference, field) = (reference.text.to_owned(), field.to_owned());
        SubstituteError::NoField { reference, field, known: known.join(", ") }
    })
}

/// What a reference stands for.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Scalar(Shape<'a>),
    /// Every row of a result set: a JSON array of objects.
    Rows {
        name: &'a str,
        rows: &'a str,
    },
}

/// Where a value is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Text of no language that we know.
    Raw,
    /// A place for a JSON value.
    Json,
    /// Between the quotes of a JSON string.
    JsonString,
    /// SQL outside of quotes; whether a literal stands beside it that the server might join to one here.
    Code { joined: bool },
    /// The same, for a bind parameter, which is a whole operand.
    Operand { joined: bool },
    /// Between the quotes `quote`, where that character is doubled, and the backslash too if it escapes.
    Quoted { quote: char, escapes: bool },
}

impl Value<'_> {
    /// Puts it at the end of `out`.
    pub(super) fn write(
        &self,
        reference: &Reference<'_>,
        place: Place,
        out: &mut String,
    ) -> Result<(), SubstituteError> {
        match self {
            Self::Scalar(shape) => write_scalar(shape, reference.text, place, out),
            Self::Rows { name, rows } => match place {
                Place::Code { .. } => expand::write(name, rows, out),
                place => write_scalar(&Shape::Array(rows), reference.text, place, out),
            },
        }
    }
}

/// Puts one value at the end of `out`. `origin` is how it was asked for: for messages.
pub(super) fn write_scalar(
    shape: &Shape<'_>,
    origin: &str,
    place: Place,
    out: &mut String,
) -> Result<(), SubstituteError> {
    let text: Cow<'_, str> = match shape {
        Shape::Null => match place {
            Place::Raw | Place::Json | Place::JsonString => "null".into(),
            _ => "NULL".into(),
        },
        Shape::Bool(true) => "true".into(),
        Shape::Bool(false) => "false".into(),
        Shape::Number(digits) => return write_number(digits, place, out),
        Shape::String(None) => return Err(SubstituteError::Character { reference: origin.to_owned() }),
        Shape::String(Some(text)) => {
            let sql = !matches!(place, Place::Raw | Place::Json | Place::JsonString);
            if sql && text.contains('\0') {
                return Err(SubstituteError::Character { reference: origin.to_owned() });
            }
            return write_text(text, place, out);
        }
        Shape::Array(text) | Shape::Object(text) => match place {
            Place::Json => (*text).into(),
            Place::Operand { .. } => {
                write_text(text, place, out)?;
                "::jsonb".into()
            }
            place => return write_text(text, place, out),
        },
    };
    push(out, &text)
}

fn write_number(digits: &str, place: Place, out: &mut String) -> Result<(), SubstituteError> {
    match place {
        // `-5::text` is `-(5::text)`; a parameter is one operand whatever stands around it.
        Place::Operand { .. } => {
            let negative = digits.starts_with('-');
            if negative || out.ends_with(joins_words) {
                return push(out, &format!("({digits})"));
            }
        }
        // `1 -$n` must not become a comment, nor `@$n` another operator.
        Place::Code { .. } if digits.starts_with('-') && out.ends_with(is_operator) => out.push(' '),
        _ => {}
    }
    push(out, digits)
}

fn write_text(text: &str, place: Place, out: &mut String) -> Result<(), SubstituteError> {
    match place {
        Place::Raw => push(out, text),
        Place::Json => push(out, &json::quoted(text)),
        Place::JsonString => {
            let quoted = json::quoted(text);
            push(out, &quoted[1..quoted.len() - 1])
        }
        Place::Quoted { quote, escapes } => push(out, &doubled(text, quote, escapes)),
        Place::Code { joined } | Place::Operand { joined } => {
            let escapes = text.contains('\\');
            // Letters before a literal could be its prefix, as in `E'..'`.
            let before = if out.ends_with(joins_words) { " " } else { "" };
            let (open, close) = if joined { ("(", ")") } else { ("", "") };
            let prefix = if escapes { "E" } else { "" };
            push(out, &format!("{before}{open}{prefix}'{}'{close}", doubled(text, '\'', escapes)))
        }
    }
}

/// `text` with every `quote` twice, and every backslash too where it `escapes`.
pub(super) fn doubled(text: &str, quote: char, escapes: bool) -> Cow<'_, str> {
    let twice = |c: char| c == quote || (escapes && c == '\\');
    if !text.contains(twice) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if twice(c) {
            out.push(c);
        }
        out.push(c);
    }
    out.into()
}

/// Characters that would belong to the word that follows them; `U&` is the beginning of a literal.
fn joins_words(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '&' | '.') || !c.is_ascii()
}

fn is_operator(c: char) -> bool {
    "+-*/<>=~!@#%^&|`?".contains(c)
}
