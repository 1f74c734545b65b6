//! What a node does when it begins, and when its timer fires.

use std::sync::Arc;

use jiff::SignedDuration;

use super::turn::Turn;
use super::types::Failure;
use crate::graph::{Kind, Seconds, Test};
use crate::interpret::state::{Control, Frame, Key, MapProgress, Status};
use crate::json::{quoted, Json};
use crate::schedule::Schedule;

impl Turn<'_, '_> {
    /// Begins an activation.
    pub(super) fn start(&mut self, key: Key) {
        let node = self.node(&key);
        if node.scope == key.node && key != Key::ROOT {
            // A MAP has put the item into the scope of its body already.
            self.state.scopes.entry(key.clone()).or_default();
        }
        if self.completed_before(&key) {
            return;
        }
        let (path, now) = (self.path(&key), self.cx.now);
        let frame = Frame {
            at: now,
            path,
            status: Status::Running,
            reported: false,
            due: None,
            control: control(&key, &node.kind, self),
        };
        self.state.frames.insert(key.clone(), frame);
        self.state.events += 1;
        match &node.kind {
            Kind::Sql { text, params } => self.ask_sql(&key, text, params.as_ref()),
            Kind::Http(settings) => self.ask_http(&key, settings),
            Kind::Task { name, input, max_attempts } => self.ask_task(&key, name, input, *max_attempts),
            Kind::Call { root, label, awaited, queue } => {
                self.ask_child(&key, *root, label.as_deref(), queue.as_ref(), *awaited);
            }
            Kind::Then { left: first, .. }
            | Kind::Loop { body: first, .. }
            | Kind::Retry { body: first, .. }
            | Kind::Catch { body: first, .. }
            | Kind::Step { body: first, .. }
            | Kind::Map { items: first, .. } => self.push_start(key.child(*first)),
            Kind::If { test: Test::Node(condition), .. } => self.push_start(key.child(*condition)),
            Kind::If { test: Test::HasRows(name), then, otherwise } => match self.has_rows(&key, name) {
                Ok(true) => self.push_start(key.child(*then)),
                Ok(false) => self.push_start(key.child(*otherwise)),
                Err(failure) => self.fail_cell(&key, failure),
            },
            Kind::Join { branches } => {
                for branch in branches.iter().rev() {
                    self.push_start(key.child(*branch));
                }
            }
            Kind::Race { left, right } => {
                self.push_start(key.child(*right));
                self.push_start(key.child(*left));
            }
            Kind::Break { value } => self.start_break(&key, value.as_deref()),
            Kind::Sleep { time } => {
                if time.duration.is_zero() {
                    self.complete_cell(&key, slept(time));
                } else {
                    self.wait_for(&key, time, "df.sleep");
                }
            }
            Kind::WaitSchedule { cron, time_zone } => self.start_schedule(&key, cron, time_zone),
            Kind::Signal { name, timeout } => self.start_signal(&key, name, timeout.as_ref()),
            Kind::Timeout { body, limit } => {
                if self.wait_for(&key, limit, "df.timeout") {
                    self.push_start(key.child(*body));
                }
            }
        }
    }

    /// The generation path of an activation that begins.
    pub(super) fn path(&self, key: &Key) -> Arc<str> {
        let parent =
            key.parent(self.graph).and_then(|parent| Some((self.state.frames.get(&parent)?, parent)));
        match parent {
            Some((Frame { control: Control::Loop { iteration, .. }, path, .. }, parent))
                if parent != Key::ROOT =>
            {
                format!("{path}.{iteration}").into()
            }
            Some((frame, _)) => Arc::clone(&frame.path),
            None => self.state.execution.to_string().into(),
        }
    }

    /// Sets a timer so many seconds from now; `false` if that is not a time, and the cell has failed.
    fn wait_for(&mut self, key: &Key, time: &Seconds, what: &str) -> bool {
        match self.cx.now.checked_add(time.duration) {
            Ok(due) => {
                self.set_timer(key, due);
                true
            }
            Err(_) => {
                let text =
                    format!("{what}: {} seconds from now is beyond the end of the calendar", time.text);
                self.fail_cell(key, Failure::new(text));
                false
            }
        }
    }

    fn start_schedule(&mut self, key: &Key, cron: &str, time_zone: &str) {
        let next = match Schedule::parse(cron, time_zone) {
            Ok(schedule) => schedule
                .next_after(self.cx.now)
                .ok_or_else(|| format!("df.wait_for_schedule: {cron:?} never comes again")),
            Err(error) => Err(error.to_string()),
        };
        match next {
            Ok(due) => self.set_timer(key, due),
            Err(text) => self.fail_cell(key, Failure::new(text)),
        }
    }

    fn start_signal(&mut self, key: &Key, name: &str, timeout: Option<&Seconds>) {
        if let Some(place) = self.state.signals.iter().position(|(kept, _)| kept == name) {
            if let Some((_, data)) = self.state.signals.remove(place) {
                return self.complete_cell(key, signalled(name, Some(&data)));
            }
        }
        if timeout.is_none_or(|timeout| self.wait_for(key, timeout, "df.wait_for_signal")) {
            self.state.memory.waits.insert(key.clone());
        }
    }

    /// A timer has come.
    pub(super) fn fire(&mut self, key: &Key) {
        let node = self.node(key);
        match &node.kind {
            Kind::Sleep { time } => self.complete_cell(key, slept(time)),
            Kind::WaitSchedule { .. } => self.complete_cell(key, Json::from_valid(r#"{"scheduled": true}"#)),
            Kind::Signal { name, .. } => self.complete_cell(key, signalled(name, None)),
            Kind::Timeout { body, limit } => {
                self.give_up(&key.child(*body));
                let text = format!("df.timeout: not finished within {} s", limit.text);
                self.fail_cell(key, Failure::new(text));
            }
            Kind::Loop { .. } => self.next_iteration(key),
            Kind::Retry { .. } => self.next_attempt(key),
            // No other type sets a timer; a state that says so does no harm.
            _ => {}
        }
    }
}

/// What a cell remembers from its beginning.
fn control(key: &Key, kind: &Kind, turn: &Turn<'_, '_>) -> Control {
    match kind {
        Kind::Join { branches } => Control::Join { open: branches.len() as u32 },
        Kind::Loop { .. } => {
            let memo = turn.state.memory.memo.as_ref();
            let iteration = memo.and_then(|memo| memo.iteration(key)).unwrap_or(1);
            Control::Loop { iteration, began: turn.cx.now }
        }
        Kind::Retry { .. } => Control::Retry { attempt: 1 },
        Kind::Map { .. } => Control::Map(Box::<MapProgress>::default()),
        Kind::Signal { .. } => Control::Wait,
        _ => Control::Plain,
    }
}

/// The result of a SLEEP.
fn slept(time: &Seconds) -> Json {
    Json::from_valid(format!(r#"{{"slept": true, "seconds": {}}}"#, time.text))
}

/// The result of a SIGNAL: with the data of one that came, or without.
pub(super) fn signalled(name: &str, data: Option<&Json>) -> Json {
    let (name, timed_out, data) = (quoted(name), data.is_none(), data.map_or("null", Json::text));
    Json::from_valid(format!(r#"{{"signal_name": {name}, "timed_out": {timed_out}, "data": {data}}}"#))
}

/// How far apart the iterations of a loop begin at the least.
pub(super) const ITERATION_GAP: SignedDuration = SignedDuration::from_secs(1);
