//! The state as a JSON document, and back.
//!
//! A cell has the keys `s` (`running`, `completed` or `failed`), `at`, `x`, and when it has ended well `r`, its result,
//! else `e`, its message. Values of more than [`SHARED`] bytes are written once: a cell whose value stands in another
//! cell already has `rc`, that cell's key, instead of `r` or `e`. All other keys are nobody else's business.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::{Control, Fault, Frame, Key, MapProgress, Memory, Scope, State, StateError, Status, Task};
use crate::interpret::revive::Revival;
use crate::interpret::{Failure, Outcome};
use crate::json::{quoted, Json};

/// The version of the document.
const VERSION: u32 = 1;
/// Up to how many bytes a value is simply repeated.
const SHARED: usize = 200;

/// Writes the document.
pub(super) fn write(state: &State) -> String {
    let mut writer =
        Writer { out: String::with_capacity(256 + state.frames.len() * 128), seen: HashMap::new() };
    writer.state(state);
    writer.out
}

/// Writes text that shares large values: `seen` tells in which cell a value stands, by its address.
struct Writer {
    out: String,
    seen: HashMap<(usize, usize), String>,
}

impl Writer {
    fn state(&mut self, state: &State) {
        let _ = write!(self.out, r#"{{"v":{VERSION},"execution":{},"cells":{{"#, state.execution);
        for (index, (key, frame)) in state.frames.iter().enumerate() {
            self.comma(index);
            self.frame(key, frame);
        }
        let (started, execution_started) = (state.started_at, state.execution_started_at);
        let _ = write!(self.out, r#"}},"started_at":"{started}","turned_at":"{execution_started}""#);
        let _ = write!(self.out, r#","events":{}"#, state.events);
        self.scopes(state);
        if !state.signals.is_empty() {
            self.out.push_str(r#","signals":["#);
            for (index, (name, data)) in state.signals.iter().enumerate() {
                self.comma(index);
                let _ = write!(self.out, "[{},{}]", quoted(name), data.text());
            }
            self.out.push(']');
        }
        if state.signals_lost > 0 {
            let _ = write!(self.out, r#","signals_lost":{}"#, state.signals_lost);
        }
        self.tasks("stack", state.stack.iter());
        self.tasks("inbox", state.inbox.iter());
        if state.dropped > 0 {
            let _ = write!(self.out, r#","dropped":{}"#, state.dropped);
        }
        if state.paused {
            self.out.push_str(r#","paused":true"#);
        }
        if let Some(reason) = &state.cancel {
            let _ = write!(self.out, r#","cancel":{}"#, quoted(reason));
        }
        if !state.undo.is_empty() {
            self.out.push_str(r#","undo":["#);
            for (index, (key, names)) in state.undo.iter().enumerate() {
                self.comma(index);
                let _ = write!(self.out, r#"["{key}",{}]"#, names.text());
            }
            self.out.push(']');
        }
        if state.undone > 0 {
            let _ = write!(self.out, r#","undone":{}"#, state.undone);
        }
        match &state.undoing {
            None | Some(Outcome::Completed(_)) => {}
            Some(Outcome::Failed(failure)) => {
                let _ = write!(
                    self.out,
                    r#","undoing":{{"ended":"failed","reason":{}"#,
                    quoted(&failure.message)
                );
                if let Some(sqlstate) = &failure.sqlstate {
                    let _ = write!(self.out, r#","sqlstate":{}"#, quoted(sqlstate));
                }
                self.out.push('}');
            }
            Some(Outcome::Cancelled(reason)) => {
                let _ = write!(self.out, r#","undoing":{{"ended":"cancelled","reason":{}}}"#, quoted(reason));
            }
        }
        if let Some(Revival { state, from }) = &state.revival {
            let from = from.map_or_else(|| "null".to_owned(), |from| from.to_string());
            let _ = write!(self.out, r#","revive":{{"from":{from},"state":{}}}"#, state.text());
        }
        match &state.outcome {
            None => {}
            Some(Outcome::Completed(_)) => self.out.push_str(r#","ended":"completed""#),
            Some(Outcome::Failed(failure)) => {
                // A state that did not fit its graph has no cell that says why.
                let _ = write!(self.out, r#","ended":"failed","reason":{}"#, quoted(&failure.message));
                if let Some(sqlstate) = &failure.sqlstate {
                    let _ = write!(self.out, r#","sqlstate":{}"#, quoted(sqlstate));
                }
            }
            Some(Outcome::Cancelled(reason)) => {
                let _ = write!(self.out, r#","ended":"cancelled","reason":{}"#, quoted(reason));
            }
        }
        self.out.push('}');
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.out.push(',');
        }
    }

    fn frame(&mut self, key: &Key, frame: &Frame) {
        let status = match frame.status {
            Status::Running => "running",
            Status::Completed(_) => "completed",
            Status::Failed(_) => "failed",
        };
        let _ = write!(self.out, r#""{key}":{{"s":"{status}","at":"{}","x":"{}""#, frame.at, frame.path);
        match &frame.status {
            Status::Running => {}
            Status::Completed(result) => {
                self.shared("r", result.text(), key, |out| out.push_str(result.text()))
            }
            Status::Failed(fault) => {
                let message = fault.failure.message.as_str();
                self.shared("e", message, key, |out| out.push_str(&quoted(message)));
                if let Some(sqlstate) = &fault.failure.sqlstate {
                    let _ = write!(self.out, r#","sqlstate":{}"#, quoted(sqlstate));
                }
                if fault.origin != *key {
                    let _ = write!(self.out, r#","origin":"{}""#, fault.origin);
                }
            }
        }
        if let Some(due) = frame.due {
            let _ = write!(self.out, r#","due":"{due}""#);
        }
        self.control(&frame.control);
        self.out.push('}');
    }

    /// A value under `name`, or under `rc` the cell that has it already.
    fn shared(&mut self, name: &str, value: &str, key: &Key, push: impl FnOnce(&mut String)) {
        if value.len() > SHARED {
            if let Some(other) = self.seen.get(&address(value)) {
                let _ = write!(self.out, r#","rc":"{other}""#);
                return;
            }
            self.seen.insert(address(value), key.to_string());
        }
        let _ = write!(self.out, r#","{name}":"#);
        push(&mut self.out);
    }

    fn control(&mut self, control: &Control) {
        let _ = match control {
            Control::Plain => Ok(()),
            Control::Asked { token } => write!(self.out, r#","asked":{token}"#),
            Control::Wait => write!(self.out, r#","wait":true"#),
            Control::Join { open } => write!(self.out, r#","open":{open}"#),
            Control::Loop { iteration, began } => {
                write!(self.out, r#","iteration":{iteration},"began":"{began}""#)
            }
            Control::Retry { attempt } => write!(self.out, r#","attempt":{attempt}"#),
            Control::Child { token, awaited, instance_id: None } => {
                write!(self.out, r#","asked":{token},"awaited":{awaited}"#)
            }
            Control::Child { token, awaited, instance_id: Some(id) } => {
                write!(self.out, r#","asked":{token},"awaited":{awaited},"child":{}"#, quoted(id))
            }
            Control::Handler { before } => {
                write!(self.out, r#","handler":true"#).and_then(|()| match before {
                    Some(before) => write!(self.out, r#","before":{}"#, before.text()),
                    None => Ok(()),
                })
            }
            Control::Map(progress) => {
                let MapProgress { next, open, failed, last_done, done, .. } = &**progress;
                let _ = write!(self.out, r#","map":{{"next":{next},"open":{open}"#);
                if let Some(failed) = failed {
                    let _ = write!(self.out, r#","failed":{failed}"#);
                }
                if let Some(last_done) = last_done {
                    let _ = write!(self.out, r#","shown":{last_done}"#);
                }
                self.out.push_str(r#","done":{"#);
                for (index, (item, result)) in done.iter().enumerate() {
                    self.comma(index);
                    let _ = write!(self.out, r#""{item}":{}"#, result.text());
                }
                write!(self.out, "}}}}")
            }
        };
    }

    fn scopes(&mut self, state: &State) {
        self.out.push_str(r#","names":{"#);
        for (index, (key, scope)) in state.scopes.iter().enumerate() {
            self.comma(index);
            let _ = write!(self.out, r#""{key}":{{"#);
            for (index, (name, result)) in scope.own.iter().enumerate() {
                self.comma(index);
                let _ = write!(self.out, "{}:", quoted(name));
                let _ = match self.seen.get(&address(result.text())) {
                    Some(cell) => write!(self.out, r#"{{"rc":"{cell}"}}"#),
                    None => write!(self.out, r#"{{"r":{}}}"#, result.text()),
                };
            }
            self.out.push('}');
        }
        self.out.push('}');
    }

    fn tasks<'a>(&mut self, name: &str, tasks: impl ExactSizeIterator<Item = &'a Task>) {
        if tasks.len() == 0 {
            return;
        }
        let _ = write!(self.out, r#","{name}":["#);
        for (index, task) in tasks.enumerate() {
            self.comma(index);
            let what = match task {
                Task::Start(_) => "start",
                Task::Ended(_) => "settled",
                Task::ChildStarted(_) => "child",
            };
            let _ = write!(self.out, r#"["{what}","{}"]"#, task.key());
        }
        self.out.push(']');
    }
}

/// Where a value stands in memory, which tells shared values: looking for equal ones would cost more than it saves.
fn address(value: &str) -> (usize, usize) {
    (value.as_ptr() as usize, value.len())
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Deserialize)]
struct Document {
    execution: u64,
    cells: BTreeMap<String, CellDocument>,
    started_at: Timestamp,
    turned_at: Timestamp,
    events: u64,
    names: BTreeMap<String, BTreeMap<String, NameDocument>>,
    #[serde(default)]
    signals: VecDeque<(String, Json)>,
    #[serde(default)]
    signals_lost: u64,
    #[serde(default)]
    stack: Vec<(String, String)>,
    #[serde(default)]
    inbox: Vec<(String, String)>,
    #[serde(default)]
    dropped: u64,
    #[serde(default)]
    paused: bool,
    cancel: Option<String>,
    ended: Option<String>,
    reason: Option<String>,
    sqlstate: Option<String>,
    #[serde(default)]
    undo: Vec<(String, Json)>,
    undoing: Option<EndDocument>,
    #[serde(default)]
    undone: u64,
    revive: Option<ReviveDocument>,
}

#[derive(Deserialize)]
struct EndDocument {
    ended: String,
    reason: String,
    sqlstate: Option<String>,
}

#[derive(Deserialize)]
struct ReviveDocument {
    from: Option<u32>,
    state: Json,
}

#[derive(Deserialize)]
struct CellDocument {
    s: String,
    at: Timestamp,
    x: String,
    #[serde(default, deserialize_with = "even_null")]
    r: Option<Json>,
    e: Option<String>,
    rc: Option<String>,
    sqlstate: Option<String>,
    origin: Option<String>,
    due: Option<Timestamp>,
    asked: Option<u64>,
    #[serde(default)]
    wait: bool,
    open: Option<u32>,
    iteration: Option<u32>,
    began: Option<Timestamp>,
    attempt: Option<u32>,
    awaited: Option<bool>,
    child: Option<String>,
    #[serde(default)]
    handler: bool,
    #[serde(default, deserialize_with = "even_null")]
    before: Option<Json>,
    map: Option<MapDocument>,
}

#[derive(Deserialize)]
struct MapDocument {
    next: u32,
    open: u32,
    failed: Option<u32>,
    #[serde(rename = "shown")]
    last_done: Option<u32>,
    done: BTreeMap<u32, Json>,
}

#[derive(Deserialize)]
struct NameDocument {
    #[serde(default, deserialize_with = "even_null")]
    r: Option<Json>,
    rc: Option<String>,
}

/// A value that is there, be it `null`.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Reads the document.
pub(super) fn read(json: &str) -> Result<State, StateError> {
    let Version { v } = serde_json::from_str(json)?;
    if v != VERSION {
        return Err(StateError::Version { found: v });
    }
    let mut document: Document = serde_json::from_str(json)?;
    let mut frames = BTreeMap::new();
    let mut faults = HashMap::new();
    // First the cells that have their value, then those that point to one.
    let (own, pointing): (Vec<_>, Vec<_>) =
        std::mem::take(&mut document.cells).into_iter().partition(|(_, cell)| cell.rc.is_none());
    for (text, mut cell) in own.into_iter().chain(pointing) {
        let key = key(&text)?;
        let status = status(&key, &cell, &frames, &mut faults)?;
        let control = control(&text, &mut cell)?;
        let (path, reported) = (cell.x.into(), !matches!(status, Status::Running));
        frames.insert(key, Frame { at: cell.at, path, status, reported, due: cell.due, control });
    }
    let mut scopes = BTreeMap::new();
    for (text, names) in &document.names {
        let mut scope = Scope::default();
        for (name, value) in names {
            let result = match (&value.r, &value.rc) {
                (Some(result), _) => result.clone(),
                (None, Some(cell)) => result_of(&frames, cell)?,
                (None, None) => return Err(damaged(format!("the result named {name:?} is missing"))),
            };
            scope.own.insert(name.clone(), result);
        }
        scopes.insert(key(text)?, scope);
    }
    let stack = document.stack.iter().map(task).collect::<Result<Vec<Task>, StateError>>()?;
    let inbox = document.inbox.iter().map(task).collect::<Result<VecDeque<Task>, StateError>>()?;
    for task in stack.iter().chain(&inbox) {
        if let (Task::Ended(_), Some(frame)) = (task, frames.get_mut(task.key())) {
            frame.reported = false;
        }
    }
    let outcome = outcome(&document, &frames)?;
    let mut memory = Memory::default();
    for (key, frame) in &frames {
        if let Some(due) = frame.due {
            memory.timers.insert((due, key.clone()));
        }
        if matches!(frame.control, Control::Wait) {
            memory.waits.insert(key.clone());
        }
    }
    let undo = document.undo.into_iter().map(|(text, names)| Ok((key(&text)?, names)));
    let undo = undo.collect::<Result<Vec<(Key, Json)>, StateError>>()?;
    let undoing = match document.undoing {
        None => None,
        Some(EndDocument { ended, reason, sqlstate }) => Some(match ended.as_str() {
            "failed" => Outcome::Failed(Failure { message: reason, sqlstate }),
            "cancelled" => Outcome::Cancelled(reason),
            other => return Err(damaged(format!("{other:?} is not an end that is undone"))),
        }),
    };
    let revival = document.revive.map(|ReviveDocument { from, state }| Revival { state, from });
    Ok(State {
        execution: document.execution,
        started_at: document.started_at,
        execution_started_at: document.turned_at,
        events: document.events,
        frames,
        scopes,
        signals: document.signals,
        signals_lost: document.signals_lost,
        stack,
        inbox,
        dropped: document.dropped,
        paused: document.paused,
        cancel: document.cancel,
        outcome,
        undo,
        undoing,
        undone: document.undone,
        revival,
        memory,
    })
}

fn damaged(text: String) -> StateError {
    StateError::Damaged(text)
}

fn key(text: &str) -> Result<Key, StateError> {
    Key::parse(text).ok_or_else(|| damaged(format!("{text:?} is not a cell")))
}

fn task((what, cell): &(String, String)) -> Result<Task, StateError> {
    let key = key(cell)?;
    match what.as_str() {
        "start" => Ok(Task::Start(key)),
        "settled" => Ok(Task::Ended(key)),
        "child" => Ok(Task::ChildStarted(key)),
        _ => Err(damaged(format!("{what:?} is nothing to do"))),
    }
}

fn result_of(frames: &BTreeMap<Key, Frame>, cell: &str) -> Result<Json, StateError> {
    match frames.get(&key(cell)?).map(|frame| &frame.status) {
        Some(Status::Completed(result)) => Ok(result.clone()),
        _ => Err(damaged(format!("the cell {cell} has no result, and another one points to it"))),
    }
}

/// How a cell stands. The message of a failure that came from below is that of the cell where it arose, so that
/// they share it again.
fn status(
    key: &Key,
    cell: &CellDocument,
    frames: &BTreeMap<Key, Frame>,
    faults: &mut HashMap<(Key, String), Arc<Fault>>,
) -> Result<Status, StateError> {
    match (cell.s.as_str(), &cell.r, &cell.e, &cell.rc) {
        ("running", None, None, None) => Ok(Status::Running),
        ("completed", Some(result), None, None) => Ok(Status::Completed(result.clone())),
        ("completed", None, None, Some(other)) => Ok(Status::Completed(result_of(frames, other)?)),
        ("failed", None, Some(message), None) => {
            let origin = cell.origin.as_deref().map_or_else(|| Ok(key.clone()), self::key)?;
            let fault = faults.entry((origin.clone(), message.clone())).or_insert_with(|| {
                let failure = Failure { message: message.clone(), sqlstate: cell.sqlstate.clone() };
                Arc::new(Fault { failure, origin })
            });
            Ok(Status::Failed(Arc::clone(fault)))
        }
        ("failed", None, None, Some(other)) => {
            match frames.get(&self::key(other)?).map(|frame| &frame.status) {
                Some(Status::Failed(fault)) => Ok(Status::Failed(Arc::clone(fault))),
                _ => Err(damaged(format!("the cell {other} has no failure, and {key} points to it"))),
            }
        }
        (status, ..) => Err(damaged(format!("the cell {key} is {status:?} without what belongs to that"))),
    }
}

/// What a cell remembers: one thing at the most.
fn control(text: &str, cell: &mut CellDocument) -> Result<Control, StateError> {
    let mut found = Vec::new();
    match (cell.asked, cell.awaited) {
        (Some(token), Some(awaited)) => {
            found.push(Control::Child { token, awaited, instance_id: cell.child.take() });
        }
        (Some(token), None) => found.push(Control::Asked { token }),
        (None, _) => {}
    }
    if cell.wait {
        found.push(Control::Wait);
    }
    if let Some(open) = cell.open {
        found.push(Control::Join { open });
    }
    if let (Some(iteration), Some(began)) = (cell.iteration, cell.began) {
        found.push(Control::Loop { iteration, began });
    }
    if let Some(attempt) = cell.attempt {
        found.push(Control::Retry { attempt });
    }
    if cell.handler {
        found.push(Control::Handler { before: cell.before.take() });
    }
    if let Some(MapDocument { next, open, failed, last_done, done }) = cell.map.take() {
        found.push(Control::Map(Box::new(MapProgress {
            next,
            open,
            failed,
            last_done,
            done,
            rows: Vec::new(),
        })));
    }
    if found.len() > 1 {
        return Err(damaged(format!("the cell {text} remembers two things")));
    }
    Ok(found.pop().unwrap_or_default())
}

fn outcome(document: &Document, frames: &BTreeMap<Key, Frame>) -> Result<Option<Outcome>, StateError> {
    let reason = document.reason.clone().unwrap_or_default();
    Ok(match document.ended.as_deref() {
        None => None,
        Some("completed") => Some(Outcome::Completed(result_of(frames, "0")?)),
        Some("failed") => {
            Some(Outcome::Failed(Failure { message: reason, sqlstate: document.sqlstate.clone() }))
        }
        Some("cancelled") => Some(Outcome::Cancelled(reason)),
        Some(other) => return Err(damaged(format!("{other:?} is not an end"))),
    })
}
