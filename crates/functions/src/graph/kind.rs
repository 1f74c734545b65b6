//! What the types of nodes demand, and what of it the interpreter keeps.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::RawNode;
use crate::http::Part;
use crate::json::Json;

/// The most attempts that a RETRY may ask for.
const MAX_ATTEMPTS: u32 = 1_000_000;

/// A node's type with its settings and children.
#[derive(Debug)]
pub(crate) enum Kind {
    Sql { text: String, params: Option<Json> },
    Then { left: u32, right: u32 },
    If { test: Test, then: u32, otherwise: u32 },
    Loop { body: u32, condition: Option<u32>, continue_on_failure: bool },
    Break { value: Option<String> },
    Join { branches: Vec<u32> },
    Race { left: u32, right: u32 },
    Sleep { time: Seconds },
    WaitSchedule { cron: String, time_zone: String },
    Http(Box<HttpSettings>),
    Signal { name: String, timeout: Option<Seconds> },
    Retry { body: u32, policy: RetryPolicy },
    Catch { body: u32, handler: u32 },
    Timeout { body: u32, limit: Seconds },
    Step { body: u32, undo: u32 },
    Map { items: u32, body: u32, item: String, parallelism: u32 },
    Task { name: String, input: String, max_attempts: u32 },
    Call { root: u32, label: Option<String>, awaited: bool, queue: Option<Waiting> },
}

/// Where a child waits before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The name of a queue of the submitter's.
    pub queue: String,
    /// The smallest is first.
    pub priority: i32,
    /// To which part of the queue it belongs; parts are served in turn.
    pub partition: String,
}

/// What an IF asks.
#[derive(Debug)]
pub(crate) enum Test {
    /// Whether this node's result is true.
    Node(u32),
    /// Whether this named result has rows.
    HasRows(String),
}

/// A time in seconds, with the text that said it.
#[derive(Clone, Debug)]
pub(crate) struct Seconds {
    pub(crate) text: String,
    pub(crate) duration: SignedDuration,
}

impl Seconds {
    /// Reads a number that is not negative.
    pub(crate) fn parse(text: &str) -> Result<Seconds, String> {
        let text = text.trim();
        let refused = || format!("{text:?} is not a number of seconds, 0 or more");
        if let Ok(whole) = text.parse::<i64>() {
            if whole < 0 {
                return Err(refused());
            }
            // Written anew, because "007" and "+7" are not JSON numbers.
            return Ok(Seconds { text: whole.to_string(), duration: SignedDuration::from_secs(whole) });
        }
        let seconds: f64 = text.parse().map_err(|_| refused())?;
        let duration = SignedDuration::try_from_secs_f64(seconds).map_err(|_| refused())?;
        if duration.is_negative() {
            return Err(refused());
        }
        let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
        Ok(Seconds { text: if is_json { text.to_owned() } else { seconds.to_string() }, duration })
    }

    fn positive(text: &str) -> Result<Seconds, String> {
        let seconds = Seconds::parse(text)?;
        if seconds.duration.is_zero() {
            return Err(format!("{text:?} is not a number of seconds above 0"));
        }
        Ok(seconds)
    }
}

/// When a RETRY tries again.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct RetryPolicy {
    pub(crate) max_attempts: u32,
    pub(crate) initial_backoff_s: f64,
    pub(crate) max_backoff_s: f64,
    pub(crate) multiplier: f64,
    pub(crate) jitter: f64,
    /// What SQLSTATEs begin with that are worth another attempt; empty: all failures are.
    pub(crate) sqlstates: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 3,
            initial_backoff_s: 1.0,
            max_backoff_s: 60.0,
            multiplier: 2.0,
            jitter: 0.1,
            sqlstates: Vec::new(),
        }
    }
}

/// An HTTP request before substitution.
#[derive(Debug)]
pub(crate) struct HttpSettings {
    pub(crate) url: String,
    pub(crate) method: String,
    pub(crate) body: Option<String>,
    pub(crate) parts: Option<Vec<Part>>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) timeout_s: u32,
}

#[derive(Deserialize)]
struct RowsQuery {
    condition_type: String,
    result_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoopQuery {
    continue_on_failure: bool,
}

#[derive(Deserialize)]
struct ScheduleQuery {
    cron: String,
    time_zone: Option<String>,
}

#[derive(Deserialize)]
struct SignalQuery<'a> {
    signal_name: String,
    #[serde(borrow)]
    timeout_seconds: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TimeoutQuery<'a> {
    #[serde(borrow)]
    seconds: &'a RawValue,
}

#[derive(Deserialize)]
struct MapQuery {
    #[serde(default = "default_item")]
    item: String,
    #[serde(default = "default_parallelism")]
    parallelism: u32,
}

fn default_item() -> String {
    "item".to_owned()
}

fn default_parallelism() -> u32 {
    10
}

#[derive(Deserialize)]
struct CallQuery {
    #[serde(default)]
    label: Option<String>,
    #[serde(default = "default_await", rename = "await")]
    awaited: bool,
    queue: Option<String>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    partition: String,
}

#[derive(Deserialize)]
struct TaskQuery {
    task: String,
    #[serde(default = "default_input")]
    input: String,
    #[serde(default = "default_task_attempts")]
    max_attempts: u32,
}

fn default_input() -> String {
    "{}".to_owned()
}

fn default_task_attempts() -> u32 {
    20
}

fn default_await() -> bool {
    true
}

#[derive(Deserialize)]
struct HttpQuery {
    url: String,
    method: Option<String>,
    body: Option<String>,
    parts: Option<Vec<Part>>,
    headers: Option<BTreeMap<String, Box<RawValue>>>,
    timeout_seconds: Option<u32>,
}

impl Kind {
    /// The type, the settings and the children of a node; the error says what is missing, wrong or too much.
    pub(super) fn parse(raw: &RawNode) -> Result<Kind, String> {
        let type_name = raw.kind.as_str();
        if raw.params.is_some() && type_name != "SQL" {
            return Err(format!("{type_name} takes no params"));
        }
        let shape = Shape(raw);
        Ok(match type_name {
            "SQL" => {
                shape.only([])?;
                let params = raw.params.as_ref().map(|params| Json::from_valid(params.get()));
                Kind::Sql { text: query(raw)?.to_owned(), params }
            }
            "THEN" => {
                shape.only(["left", "right"])?;
                Kind::Then { left: shape.left()?, right: shape.right()? }
            }
            "IF" => {
                shape.only(["condition", "left", "right"])?;
                let test = match raw.condition {
                    Some(condition) => Test::Node(condition),
                    None => {
                        let rows: RowsQuery = settings(raw)?;
                        if rows.condition_type != "result_has_rows" {
                            return Err(format!("IF knows no condition_type {:?}", rows.condition_type));
                        }
                        Test::HasRows(rows.result_name)
                    }
                };
                Kind::If { test, then: shape.left()?, otherwise: shape.right()? }
            }
            "LOOP" => {
                shape.only(["condition", "left"])?;
                let LoopQuery { continue_on_failure } = optional_settings(raw)?;
                Kind::Loop { body: shape.left()?, condition: raw.condition, continue_on_failure }
            }
            "BREAK" => {
                shape.only([])?;
                Kind::Break { value: raw.query.clone() }
            }
            "JOIN" => {
                shape.only(["left", "right", "extra"])?;
                let mut branches = vec![shape.left()?, shape.right()?];
                branches.extend(&raw.extra);
                Kind::Join { branches }
            }
            "RACE" => {
                shape.only(["left", "right"])?;
                Kind::Race { left: shape.left()?, right: shape.right()? }
            }
            "SLEEP" => {
                shape.only([])?;
                Kind::Sleep { time: Seconds::parse(query(raw)?)? }
            }
            "WAIT_SCHEDULE" => {
                shape.only([])?;
                let ScheduleQuery { cron, time_zone } = settings(raw)?;
                Kind::WaitSchedule { cron, time_zone: time_zone.unwrap_or_else(|| "UTC".to_owned()) }
            }
            "HTTP" | "HTTP_MULTIPART" => {
                shape.only([])?;
                Kind::Http(Box::new(HttpSettings::parse(raw)?))
            }
            "SIGNAL" => {
                shape.only([])?;
                let SignalQuery { signal_name, timeout_seconds } = settings(raw)?;
                let timeout = timeout_seconds.map(|number| Seconds::positive(number.get())).transpose()?;
                Kind::Signal { name: signal_name, timeout }
            }
            "RETRY" => {
                shape.only(["left"])?;
                let policy: RetryPolicy = optional_settings(raw)?;
                policy.check()?;
                Kind::Retry { body: shape.left()?, policy }
            }
            "CATCH" => {
                shape.only(["left", "right"])?;
                Kind::Catch { body: shape.left()?, handler: shape.right()? }
            }
            "STEP" => {
                shape.only(["left", "right"])?;
                Kind::Step { body: shape.left()?, undo: shape.right()? }
            }
            "TIMEOUT" => {
                shape.only(["left"])?;
                let TimeoutQuery { seconds } = settings(raw)?;
                Kind::Timeout { body: shape.left()?, limit: Seconds::positive(seconds.get())? }
            }
            "MAP" => {
                shape.only(["condition", "left"])?;
                let MapQuery { item, parallelism } = optional_settings(raw)?;
                if parallelism == 0 {
                    return Err("the parallelism of a MAP is at least 1".to_owned());
                }
                let items = raw.condition.ok_or("MAP needs a condition node, which gives the items")?;
                Kind::Map { items, body: shape.left()?, item, parallelism }
            }
            "TASK" => {
                shape.only([])?;
                let TaskQuery { task, input, max_attempts } = settings(raw)?;
                if !(1..=MAX_ATTEMPTS).contains(&max_attempts) {
                    return Err(format!("max_attempts of a TASK is from 1 to {MAX_ATTEMPTS}"));
                }
                Kind::Task { name: task, input, max_attempts }
            }
            "CALL" => {
                shape.only(["left"])?;
                let CallQuery { label, awaited, queue, priority, partition } = optional_settings(raw)?;
                let queue = queue.map(|queue| Waiting { queue, priority, partition });
                Kind::Call { root: shape.left()?, label, awaited, queue }
            }
            other => return Err(format!("its type {other:?} is unknown to this version")),
        })
    }
}

impl RetryPolicy {
    fn check(&self) -> Result<(), String> {
        if !(1..=MAX_ATTEMPTS).contains(&self.max_attempts) {
            return Err(format!("max_attempts of a RETRY is from 1 to {MAX_ATTEMPTS}"));
        }
        let times = [self.initial_backoff_s, self.max_backoff_s, self.multiplier];
        if times.iter().any(|number| !number.is_finite() || *number < 0.0) {
            return Err("the backoff and the multiplier of a RETRY are 0 or more".to_owned());
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err("the jitter of a RETRY is from 0 to 1".to_owned());
        }
        Ok(())
    }
}

impl HttpSettings {
    fn parse(raw: &RawNode) -> Result<HttpSettings, String> {
        let HttpQuery { url, method, body, parts, headers, timeout_seconds } = settings(raw)?;
        let multipart = raw.kind == "HTTP_MULTIPART";
        if multipart != parts.is_some() || (multipart && body.is_some()) {
            return Err("HTTP_MULTIPART has parts and no body, HTTP has no parts".to_owned());
        }
        let headers = headers.unwrap_or_default().into_iter();
        Ok(HttpSettings {
            url,
            method: method.unwrap_or_else(|| "POST".to_owned()).to_ascii_uppercase(),
            body,
            parts,
            headers: headers.map(|(name, value)| (name, text_of(&value))).collect(),
            timeout_s: timeout_seconds.unwrap_or(30),
        })
    }
}

/// The text of a JSON string; any other JSON as it is written.
fn text_of(json: &RawValue) -> String {
    serde_json::from_str::<String>(json.get()).unwrap_or_else(|_| json.get().to_owned())
}

/// Which children a node has.
struct Shape<'a>(&'a RawNode);

impl Shape<'_> {
    /// Refuses children that the type does not know.
    fn only<const N: usize>(&self, known: [&str; N]) -> Result<(), String> {
        let raw = self.0;
        let present = [
            ("condition", raw.condition.is_some()),
            ("left", raw.left.is_some()),
            ("right", raw.right.is_some()),
            ("extra", !raw.extra.is_empty()),
        ];
        match present.iter().find(|(name, there)| *there && !known.contains(name)) {
            Some((name, _)) => Err(format!("{} takes no {name} node", raw.kind)),
            None => Ok(()),
        }
    }

    fn left(&self) -> Result<u32, String> {
        self.0.left.ok_or_else(|| format!("{} needs a left node", self.0.kind))
    }

    fn right(&self) -> Result<u32, String> {
        self.0.right.ok_or_else(|| format!("{} needs a right node", self.0.kind))
    }
}

fn query(raw: &RawNode) -> Result<&str, String> {
    raw.query.as_deref().ok_or_else(|| format!("{} needs a query", raw.kind))
}

/// The settings that a query has as JSON.
fn settings<'a, T: Deserialize<'a>>(raw: &'a RawNode) -> Result<T, String> {
    serde_json::from_str(query(raw)?)
        .map_err(|error| format!("the query of {} is not as expected: {error}", raw.kind))
}

/// The settings where each has a default of its own.
fn optional_settings<'a, T: Deserialize<'a>>(raw: &'a RawNode) -> Result<T, String> {
    let text = raw.query.as_deref().unwrap_or("{}");
    serde_json::from_str(text)
        .map_err(|error| format!("the query of {} is not as expected: {error}", raw.kind))
}
