//! What stands for something else in the text of a step: `{name}` variables, `$name` results, `$1` parameters.
//!
//! Two passes, in this order; what a pass has put in is not read by it again:
//!
//! 1. `{name}`: a variable as it was at the start, raw, so that it may hold any fragment of a statement, references
//!    included. `{sys_instance_id}` and `{sys_label}` are the instance's own. Unknown names stay as they are.
//! 2. `$` references to named results, which stay as they are when no result has the name:
//!
//! | form | stands for |
//! | --- | --- |
//! | `$n` | the first column of the first row; what is not a result set stands for itself, whole |
//! | `$n.col` | that column of the first row, or that member of a JSON object |
//! | `$n?`, `$n.col?` | the same, and NULL where the strict form fails: no rows, or NULL |
//! | `$n.*` | all rows: `(VALUES (..),(..)) AS "n"("c1",..)`, at most [`ROWS_MAX`] |
//!
//! # In SQL
//! Numbers stand bare, booleans as `true` and `false`, texts as quoted literals, arrays and objects as the quoted
//! literal of their JSON. Literals have no type of their own, so that the place decides: `'2026-01-01'` becomes a date
//! where one is due, `'{"a":1}'` a `jsonb` in a column of that type. (Operators between two such literals need a cast:
//! `$n.data::jsonb ->> 'a'`.)
//!
//! References are found everywhere but in comments. What is put in follows the place, and never leaves it:
//!
//! - in code: a literal; one that holds a backslash is written as `E'..'`, which reads the same in every session;
//! - inside a literal `'..'` or a quoted name `".."`: the bare text with its quotes doubled, so that `'Hello $n'` and
//!   `"part_$n"` say what they seem to say;
//! - inside `$tag$..$tag$`: as in code, because such text is code nearly always. A value that would end it is refused.
//!
//! # Bind parameters
//! With parameters, `$1` and so on stand for values, in code only. A parameter is JSON: numbers, booleans and null
//! stand for themselves, arrays and objects become `jsonb`. A text of exactly the form `$name`, `$name.col`, one of
//! these with `?`, or `$name.*` (the rows as a `jsonb` array) is a reference; every other text is a literal. A literal
//! that begins with `$$` loses one of them: `"$$name"` is the text `$name`.

use std::collections::BTreeMap;

use crate::json::Json;

mod expand;
pub(crate) mod lex;
mod reference;
mod statement;
mod value;

use reference::{Place, Reference, Results};

/// The most rows that `$n.*` stands for.
pub const ROWS_MAX: usize = 10_000;

/// The longest text that a substitution makes, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// What a step's text can refer to.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The instance's id: `{sys_instance_id}`.
    pub instance_id: String,
    /// Its label: `{sys_label}`; empty text when it has none.
    pub label: Option<String>,
    /// The variables as they were at the start: `{name}`.
    pub vars: BTreeMap<String, String>,
    /// The named results: `$name`.
    pub results: BTreeMap<String, Json>,
}

/// A reference that cannot be replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubstituteError {
    /// The strict form of a reference to a result set without rows.
    #[error("${name} has no rows - query returned zero results (`{reference}?` gives NULL instead)")]
    NoRows {
        /// The result.
        name: String,
        /// The reference as it was written.
        reference: String,
    },
    /// The strict form of a reference to NULL.
    #[error("{reference} is NULL (`{reference}?` lets it be)")]
    IsNull {
        /// The reference as it was written.
        reference: String,
    },
    /// The row, or the object, has no such member.
    #[error("{reference}: the result has no field \"{field}\"; it has {known}")]
    NoField {
        /// The reference as it was written.
        reference: String,
        /// The field.
        field: String,
        /// The fields that it has.
        known: String,
    },
    /// A field of something that has none.
    #[error(
        "{reference}: the result is neither a result set nor a JSON object, so that it has no fields: write ${name}"
    )]
    NoFields {
        /// The reference as it was written.
        reference: String,
        /// The result.
        name: String,
    },
    /// All rows of something that has none.
    #[error("${name}.*: the result is not a result set: only those of SQL steps have rows, each of which is an object")]
    NotRows {
        /// The result.
        name: String,
    },
    /// More rows than a statement is given.
    #[error(
        "${name}.* has {rows} rows, and at most {ROWS_MAX} can be expanded: keep them in a table instead"
    )]
    TooManyRows {
        /// The result.
        name: String,
        /// How many rows it has.
        rows: usize,
    },
    /// A character that PostgreSQL's text cannot hold, or half a surrogate pair.
    #[error("{reference} holds U+0000 or half a surrogate pair, which no text in PostgreSQL can hold: remove it first")]
    Character {
        /// The reference as it was written.
        reference: String,
    },
    /// A value that would end the dollar-quoted text in which it stands.
    #[error("a value in the text quoted with {delimiter} would end it: choose another tag than {delimiter}")]
    Delimiter {
        /// What the text is quoted with.
        delimiter: String,
    },
    /// The parameters are not a JSON array.
    #[error("the parameters are not a JSON array: give one, such as '[1, \"text\", \"$name\"]'")]
    NotParameters,
    /// The statement uses a parameter that was not given.
    #[error("there is no parameter ${number}: {given} were given, and they are counted from $1")]
    NoParameter {
        /// As it was written.
        number: String,
        /// How many there are.
        given: usize,
    },
    /// A parameter refers to a result that does not exist.
    #[error(
        "parameter ${number} refers to {reference}, but no result has this name here; \
         a text that begins with a dollar sign is written with two"
    )]
    UnknownResult {
        /// The parameter, counted from 1.
        number: usize,
        /// The reference as it was written.
        reference: String,
    },
    /// The text grew too long.
    #[error("with its values put in, the text is longer than {TEXT_BYTES_MAX} bytes: keep large values in a table")]
    TooLong,
}

/// The statement `text` with everything put in, quoted for SQL. See the [module](self) for the rules.
///
/// `params` are bind parameters: a JSON array. Without them, `$1` stays.
///
/// ```
/// use duramen_functions::{json::Json, substitute};
/// let mut env = substitute::Environment::default();
/// env.vars.insert("table".into(), "people".into());
/// env.results.insert("who".into(), Json::parse(r#"{"rows":[{"name":"O'Neil","age":41}],"row_count":1}"#)?);
/// let sql = substitute::sql("SELECT * FROM {table} WHERE name = $who AND age < $who.age", None, &env)?;
/// assert_eq!(sql, "SELECT * FROM people WHERE name = 'O''Neil' AND age < 41");
///
/// let params = Json::parse(r#"["$who", 7]"#)?;
/// let sql = substitute::sql("SELECT * FROM people WHERE name = $1 AND age > $2", Some(&params), &env)?;
/// assert_eq!(sql, "SELECT * FROM people WHERE name = 'O''Neil' AND age > 7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SubstituteError`]: strict references to nothing, unknown fields, and values that SQL cannot hold there.
pub fn sql(text: &str, params: Option<&Json>, env: &Environment) -> Result<String, SubstituteError> {
    // Most steps have nothing to put in, and there are thousands a second.
    if !text.contains(['{', '$']) {
        return Ok(text.to_owned());
    }
    statement::substitute(&variables(text, env)?, params, env)
}

/// `text` with everything put in raw: for the fields of HTTP requests.
///
/// Texts are not quoted, arrays and objects are JSON, `$n.*` is a JSON array of the rows, and what the optional forms
/// do not find is `null`.
///
/// ```
/// use duramen_functions::{json::Json, substitute};
/// let mut env = substitute::Environment::default();
/// env.results.insert("r".into(), Json::parse(r#"{"status":200,"body":"O'Neil"}"#)?);
/// assert_eq!(substitute::plain("$r.status: $r.body", &env)?, "200: O'Neil");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SubstituteError`]: strict references to nothing, and unknown fields.
pub fn plain(text: &str, env: &Environment) -> Result<String, SubstituteError> {
    raw(&variables(text, env)?, &Results::new(env))
}

/// The value of `text`: for `df.break`.
///
/// A text that is one reference gives that value with its JSON type (`$n.*` an array of the rows). JSON stays JSON:
/// references in its strings are replaced, and a string that is one reference becomes the value itself. References
/// outside of strings are replaced by JSON, if that gives JSON. Any other text becomes a JSON string.
///
/// ```
/// use duramen_functions::{json::Json, substitute};
/// let mut env = substitute::Environment::default();
/// env.results.insert("r".into(), Json::parse(r#"{"rows":[{"id":7,"name":"oak"}],"row_count":1}"#)?);
/// let value = |text| substitute::value(text, &env).map(|json| json.text().to_owned());
/// assert_eq!(value("$r.id")?, "7");
/// assert_eq!(value(r#"{"id": "$r.id", "said": "an $r.name"}"#)?, r#"{"id": 7, "said": "an oak"}"#);
/// assert_eq!(value("an $r.name")?, r#""an oak""#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SubstituteError`]: strict references to nothing, and unknown fields.
pub fn value(text: &str, env: &Environment) -> Result<Json, SubstituteError> {
    value::substitute(&variables(text, env)?, &Results::new(env))
}

/// Whether `text` is one reference and nothing else: `$n`, `$n.col`, either with `?`, or `$n.*`.
///
/// ```
/// use duramen_functions::substitute::is_reference;
/// assert!(is_reference("$file.body") && is_reference("$n?"));
/// assert!(!is_reference("$a$b") && !is_reference("a $b") && !is_reference("$5"));
/// ```
pub fn is_reference(text: &str) -> bool {
    Reference::whole(text).is_some()
}

/// The first pass. A name is what stands between two braces that have no brace between them.
fn variables(text: &str, env: &Environment) -> Result<String, SubstituteError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, inside) = (&rest[..open], &rest[open + 1..]);
        push(&mut out, before)?;
        let known = inside.find(['{', '}']).filter(|end| inside.as_bytes()[*end] == b'}').and_then(|end| {
            let value = match &inside[..end] {
                "sys_instance_id" => env.instance_id.as_str(),
                "sys_label" => env.label.as_deref().unwrap_or_default(),
                name => env.vars.get(name)?,
            };
            Some((value, end))
        });
        match known {
            Some((value, end)) => {
                push(&mut out, value)?;
                rest = &inside[end + 1..];
            }
            None => {
                out.push('{');
                rest = inside;
            }
        }
    }
    push(&mut out, rest)?;
    Ok(out)
}

/// The second pass where nothing has to be quoted.
fn raw(text: &str, results: &Results<'_>) -> Result<String, SubstituteError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        push(&mut out, &rest[..at])?;
        rest = &rest[at..];
        match Reference::at(rest) {
            Some(reference) if results.has(reference.name) => {
                results.get(&reference)?.write(&reference, Place::Raw, &mut out)?;
                rest = &rest[reference.text.len()..];
            }
            _ => {
                out.push('$');
                rest = &rest[1..];
            }
        }
    }
    push(&mut out, rest)?;
    Ok(out)
}

/// Every text that a value or a fragment is added to grows by this.
fn push(out: &mut String, text: &str) -> Result<(), SubstituteError> {
    if out.len() + text.len() > TEXT_BYTES_MAX {
        return Err(SubstituteError::TooLong);
    }
    out.push_str(text);
    Ok(())
}

#[cfg(test)]
mod tests;
