//! What happens more than once: LOOP and RETRY; and BREAK, which ends the first.

use std::sync::Arc;

use duramen_base::entropy;
use jiff::{SignedDuration, Timestamp};

use super::propagate::Ended;
use super::start::ITERATION_GAP;
use super::turn::Turn;
use super::types::{ExecutionStatus, Failure};
use super::MAX_ITERATIONS;
use crate::graph::{Kind, RetryPolicy, Slot};
use crate::interpret::state::{Control, Fault, Key, Status};
use crate::json::Json;
use crate::truth::is_true;

impl Turn<'_, '_> {
    /// The body or the condition of a LOOP has ended.
    pub(super) fn iteration_ended(&mut self, key: &Key, slot: Slot, ended: Ended) {
        let Kind::Loop { body, condition, continue_on_failure } = &self.node(key).kind else { return };
        let body = key.child(*body);
        if slot == Slot::Left {
            match (ended, condition) {
                (Err(fault), _) if !continue_on_failure => self.pass_fault(key, fault),
                (_, Some(condition)) => self.push_start(key.child(*condition)),
                (_, None) => self.iteration_over(key, &body),
            }
        } else {
            match ended {
                Err(fault) => self.pass_fault(key, fault),
                Ok(value) if is_true(&value) => self.iteration_over(key, &body),
                Ok(_) => {
                    // A failure of the last body was one that the loop goes on after.
                    let result = self.ended(&body).and_then(Result::ok).unwrap_or_else(Json::null);
                    self.complete_cell(key, result);
                }
            }
        }
    }

    /// An iteration has ended, and another one follows: now, or a second after this one began.
    fn iteration_over(&mut self, key: &Key, body: &Key) {
        let Some(frame) = self.running(key) else { return };
        let Control::Loop { iteration, began } = frame.control else { return };
        if iteration >= MAX_ITERATIONS {
            let text = format!("df.loop: not finished after {MAX_ITERATIONS} iterations, which is the limit");
            return self.fail_cell(key, Failure::new(text));
        }
        if *key == Key::ROOT {
            let output = match self.ended(body) {
                Some(Ok(result)) => Some(result),
                Some(Err(fault)) => Some(Json::string(&fault.failure.message)),
                None => None,
            };
            self.finish_execution(ExecutionStatus::Continued, output);
            let (now, state) = (self.cx.now, &mut *self.state);
            state.execution += 1;
            state.execution_started_at = now;
            state.events = 0;
            if let Some(frame) = state.frames.get_mut(key) {
                frame.path = state.execution.to_string().into();
                frame.at = now;
            }
        }
        match began.checked_add(ITERATION_GAP) {
            Ok(due) if due > self.cx.now => self.set_timer(key, due),
            _ => self.next_iteration(key),
        }
    }

    /// Begins the next iteration of a LOOP.
    pub(super) fn next_iteration(&mut self, key: &Key) {
        let Kind::Loop { body, condition, .. } = &self.node(key).kind else { return };
        let now = self.cx.now;
        let Some(frame) = self.running(key) else { return };
        let Control::Loop { iteration, began } = &mut frame.control else { return };
        *iteration += 1;
        *began = now;
        self.clear(&key.child(*body));
        if let Some(condition) = condition {
            self.clear(&key.child(*condition));
        }
        self.push_start(key.child(*body));
    }

    /// The body of a RETRY has failed.
    pub(super) fn attempt_failed(&mut self, key: &Key, policy: &RetryPolicy, fault: Arc<Fault>) {
        let Some(frame) = self.running(key) else { return };
        let Control::Retry { attempt } = frame.control else { return };
        let sqlstate = fault.failure.sqlstate.as_deref().unwrap_or_default();
        let is_passing = policy.sqlstates.is_empty()
            || policy.sqlstates.iter().any(|class| sqlstate.starts_with(class.as_str()));
        if attempt >= policy.max_attempts || !is_passing {
            return self.pass_fault(key, fault);
        }
        let chance = spread(key, &frame.path, attempt);
        self.state.memory.out.retries += 1;
        let due = after(self.cx.now, backoff_s(policy, attempt, self.cx.seed ^ chance));
        if due > self.cx.now {
            self.set_timer(key, due);
        } else {
            self.next_attempt(key);
        }
    }

    /// How long a RETRY waits before its next attempt.
    pub(super) fn backoff(&self, key: &Key, policy: &RetryPolicy) -> Option<SignedDuration> {
        let frame = self.state.frames.get(key)?;
        let Control::Retry { attempt } = frame.control else { return None };
        let chance = spread(key, &frame.path, attempt);
        SignedDuration::try_from_secs_f64(backoff_s(policy, attempt, self.cx.seed ^ chance)).ok()
    }

    /// Begins the next attempt of a RETRY.
    pub(super) fn next_attempt(&mut self, key: &Key) {
        let Kind::Retry { body, .. } = &self.node(key).kind else { return };
        let Some(frame) = self.running(key) else { return };
        let Control::Retry { attempt } = &mut frame.control else { return };
        *attempt += 1;
        let body = key.child(*body);
        self.clear(&body);
        self.push_start(body);
    }

    /// A BREAK begins: it completes with its value and ends the nearest LOOP with it, or fails.
    pub(super) fn start_break(&mut self, key: &Key, value: Option<&str>) {
        let Some(target) = self.node(key).enclosing_loop else {
            return self.fail_cell(key, Failure::new("df.break() was called outside of a loop"));
        };
        let value = match value.map_or_else(|| Ok(Json::null()), |text| self.break_value(key, text)) {
            Ok(value) => value,
            Err(failure) => return self.fail_cell(key, failure),
        };
        self.admit(value.text().len());
        self.end_cell(key, Status::Completed(value.clone()));
        let target = key.above(self.graph, target);
        let mut inner = key.clone();
        while let Some(outer) = inner.parent(self.graph) {
            // The names of a branch go with the one that leaves it; an item's end with the item.
            if self.node(&inner).scope == inner.node {
                if !matches!(self.node(&outer).kind, Kind::Map { .. }) {
                    self.merge_names(&inner, &outer);
                }
                self.state.scopes.remove(&inner);
            }
            if outer == target {
                break;
            }
            self.leave(&outer, &value);
            inner = outer;
        }
        // `inner` is now the loop's body, or its condition.
        self.give_up(&inner);
        self.complete_cell(&target, value);
    }

    /// A cell between a BREAK and its LOOP ends; its own name is not given to what is not a result of it.
    fn leave(&mut self, key: &Key, value: &Json) {
        self.restore_error(key);
        let now = self.cx.now;
        let Some(frame) = self.state.frames.get_mut(key) else { return };
        if let Some(due) = frame.due.take() {
            self.state.memory.timers.remove(&(due, key.clone()));
        }
        frame.status = Status::Completed(value.clone());
        frame.control = Control::Plain;
        frame.at = now;
        self.state.events += 1;
    }
}

/// How long to wait after this attempt (from 1) has failed, in seconds.
fn backoff_s(policy: &RetryPolicy, attempt: u32, seed: u64) -> f64 {
    let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    // 0 times infinity is not a number; `min` takes the limit then, so zero is told first.
    let grown = if policy.initial_backoff_s == 0.0 {
        0.0
    } else {
        (policy.initial_backoff_s * policy.multiplier.powi(exponent)).min(policy.max_backoff_s)
    };
    let chance = entropy::rng(seed).f64() * 2.0 - 1.0;
    grown * (1.0 + policy.jitter * chance)
}

/// That many seconds later, or the end of time.
fn after(now: Timestamp, seconds: f64) -> Timestamp {
    let wait = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// A number for this attempt of this activation, so that no two draw the same chance (FNV-1a).
fn spread(key: &Key, path: &str, attempt: u32) -> u64 {
    let text = format!("{key}/{path}/{attempt}");
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
