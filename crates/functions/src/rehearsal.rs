//! What becomes of steps that reach outside of the database, where a worker rehearses: nothing of the kind is done, and the step
//! fails, or has an answer that somebody has written down or that an earlier instance was given.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::http::{Envelope, HttpCall};
use crate::interpret::Failure;
use crate::json::Json;

/// How many answers there may be.
pub const ANSWERS_MAX: usize = 10_000;
/// The largest result of an answer in bytes: that of any step.
pub const RESULT_MAX: usize = 16 << 20;
/// The code of the failure of a step that is not done: prohibited SQL statement attempted.
pub(crate) const NOT_DONE: &str = "2F003";

/// How a worker rehearses. It holds for all that the worker runs, whenever that was started: HTTP calls, steps in another
/// database, statements that act on the whole server, and tasks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Rehearsal {
    /// They fail, with SQLSTATE `2F003`.
    Skip,
    /// They end with an answer.
    Stub(Answers),
}

/// Where answers come from.
#[derive(Clone, Debug)]
pub struct Answers {
    pub(crate) source: Source,
    /// A step without an answer fails; otherwise its result is `null`.
    pub(crate) strict: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The first that fits.
    Listed(Vec<Answer>),
    /// What the same step of an earlier instance was given, if that had completed before this time.
    Record { before: Timestamp },
}

/// Why a list of answers cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswersError {
    /// One of them makes no sense.
    #[error("answer {number}: {cause}")]
    Answer {
        /// Which, counted from 1.
        number: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// There are too many.
    #[error("{0} answers are more than {ANSWERS_MAX}: let one pattern stand for several")]
    Many(usize),
}

/// A list of answers, as a file has it: `answers` with a table for each.
///
/// ```
/// use duramen_functions::rehearsal::{AnswerList, Answers};
/// let list: AnswerList = serde_json::from_str(
///     r#"{"answers": [{"http": "POST https://pay.example.org/*", "status": 201, "body": {"id": 7}},
///                     {"task": "resize", "error": "the disk is full"}]}"#)?;
/// assert!(Answers::listed(list).is_ok());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerList {
    #[serde(default)]
    answers: Vec<Written>,
}

/// One answer as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    http: Option<String>,
    database: Option<String>,
    task: Option<String>,
    #[serde(default, deserialize_with = "given")]
    result: Option<Value>,
    status: Option<u16>,
    #[serde(default, deserialize_with = "given")]
    body: Option<Value>,
    error: Option<String>,
    sqlstate: Option<String>,
    #[serde(default)]
    leave: bool,
}

/// Tells a null that is there from one that is not.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What a step reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached<'a> {
    /// A web service.
    Http(&'a HttpCall),
    /// Another database of the server.
    Database(&'a str),
    /// The server.
    Server,
    /// A program of the user's.
    Task(&'a str),
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    to: To,
    pub(crate) says: Says,
}

#[derive(Clone, Debug)]
enum To {
    Http { method: Option<String>, url: String },
    Database(String),
    Task(String),
}

/// What an answer says.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    Result(Json),
    Failure(Failure),
    /// A program does the task, in the copy.
    Leave,
}

impl Answers {
    /// Every result is `null`.
    #[must_use]
    pub fn none() -> Answers {
        Answers { source: Source::Listed(Vec::new()), strict: false }
    }

    /// The first answer of the list that fits.
    ///
    /// # Errors
    /// [`AnswersError`].
    pub fn listed(list: AnswerList) -> Result<Answers, AnswersError> {
        if list.answers.len() > ANSWERS_MAX {
            return Err(AnswersError::Many(list.answers.len()));
        }
        let read = |(at, written): (usize, Written)| {
            written.read().map_err(|cause| AnswersError::Answer { number: at + 1, cause })
        };
        let answers = list.answers.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Answers { source: Source::Listed(answers), strict: false })
    }

    /// What the same step of the newest instance of the same role and label was given that had completed before this time.
    #[must_use]
    pub fn of_record(before: Timestamp) -> Answers {
        Answers { source: Source::Record { before }, strict: false }
    }

    /// The same, where a step without an answer fails.
    #[must_use]
    pub fn strict(self) -> Answers {
        Answers { strict: true, ..self }
    }
}

impl Written {
    fn read(self) -> Result<Answer, String> {
        let to = match (self.http, self.database, self.task) {
            (Some(http), None, None) => {
                let (method, url) = match http.split_once(' ') {
                    Some((method, url)) => (Some(method), url.trim()),
                    None => (None, http.as_str()),
                };
                let known =
                    method.is_none_or(|it| ["GET", "POST", "PUT", "DELETE", "PATCH", "*"].contains(&it));
                if !known || url.is_empty() || url.contains(' ') {
                    return Err(format!(
                        "http = {http:?} is not a pattern; write it like \"POST https://pay.example.org/*\""
                    ));
                }
                To::Http { method: method.filter(|it| *it != "*").map(str::to_owned), url: url.to_owned() }
            }
            (None, Some(database), None) => To::Database(database),
            (None, None, Some(task)) => To::Task(task),
            _ => return Err("it needs one of http, database and task, which says what it answers".to_owned()),
        };
        let is_http = matches!(to, To::Http { .. });
        if !is_http && (self.status.is_some() || self.body.is_some()) {
            return Err("status and body are those of http; give a result".to_owned());
        }
        if self.sqlstate.as_ref().is_some_and(|code| !is_sqlstate(code)) {
            return Err("sqlstate has five digits and capital letters, like 08006".to_owned());
        }
        let is_response = self.status.is_some() || self.body.is_some();
        let says = match (self.result, is_response, self.error, self.leave) {
            (Some(result), false, None, false) => Says::Result(json(&result)?),
            (None, true, None, false) => Says::Result(response(self.status.unwrap_or(200), self.body)?),
            (None, false, Some(message), false) => {
                Says::Failure(Failure { message, sqlstate: self.sqlstate.clone() })
            }
            (None, false, None, true) if matches!(to, To::Task(_)) => Says::Leave,
            (None, false, None, true) => return Err("only a task can be left to a program".to_owned()),
            _ => {
                return Err(
                    "it needs one of result, error, for http status with body, for a task leave = true"
                        .to_owned(),
                )
            }
        };
        if self.sqlstate.is_some() && !matches!(says, Says::Failure(_)) {
            return Err("sqlstate is that of an error".to_owned());
        }
        Ok(Answer { to, says })
    }
}

fn is_sqlstate(code: &str) -> bool {
    code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

fn json(value: &Value) -> Result<Json, String> {
    let text = value.to_string();
    if text.len() > RESULT_MAX {
        return Err(format!("its result has {} bytes, more than {RESULT_MAX}", text.len()));
    }
    Ok(Json::from_valid(text))
}

/// What `df.http` gives for an answer of a web service.
fn response(status: u16, body: Option<Value>) -> Result<Json, String> {
    if !(200..500).contains(&status) {
        return Err(format!("status = {status} would be a failure of the step; give an error"));
    }
    let body = match body {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
    };
    let envelope = Envelope::stub(status, body);
    let text = serde_json::to_string(&envelope).map_err(|error| error.to_string())?;
    if text.len() > RESULT_MAX {
        return Err(format!("its result has {} bytes, more than {RESULT_MAX}", text.len()));
    }
    Ok(Json::from_valid(text))
}

impl Answer {
    pub(crate) fn is_to(&self, reached: Reached<'_>) -> bool {
        match (&self.to, reached) {
            (To::Http { method, url }, Reached::Http(call)) => {
                method.as_ref().is_none_or(|method| *method == call.method) && fits(url, &call.url)
            }
            (To::Database(name), Reached::Database(database)) => fits(name, database),
            (To::Task(name), Reached::Task(task)) => fits(name, task),
            _ => false,
        }
    }
}

/// Whether a text is what a pattern says, in which a star stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, mut rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    // Each piece where it comes first leaves most for those behind it.
    while let Some((piece, behind)) = rest.split_once('*') {
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
        rest = behind;
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests;
