//! One instance in the hands of a turn.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::traces::{Trace, Tracer, TRACEPARENT};
use super::turn::{self, TurnError};
use crate::graph::Graph;
use crate::interpret::{Cell, EndedStep, FinishedExecution, Request};
use crate::interpret::{Context, Event, Failure, Outcome, Progress, State};
use crate::json::Json;

/// What the database has of an instance, and what a turn makes of it.
pub(crate) struct Instance {
    pub(crate) seq: i64,
    pub(crate) id: String,
    /// No turn has seen it before.
    pub(crate) fresh: bool,
    pub(crate) created_at: Timestamp,
    /// This is its first turn.
    pub(crate) is_first: bool,
    pub(crate) database: Option<String>,
    pub(crate) parent: Option<(i64, String)>,
    /// The queue that it came through, which must know when it ends.
    pub(crate) queue: Option<i64>,
    /// And the partition of it to which it belongs, if this turn lets it in.
    pub(crate) partition: Option<String>,
    pub(crate) state: State,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) executions: Vec<FinishedExecution>,
    pub(crate) dropped: Vec<Cell>,
    pub(crate) dropped_children: Vec<String>,
    pub(crate) retries: usize,
    /// Tasks whose end has come by mail.
    pub(crate) answered: Vec<Cell>,
    pub(crate) due_at: Option<Timestamp>,
    /// The trace that it belongs to, if there is a tracer.
    pub(crate) trace: Option<Trace>,
    /// Steps that have ended, if it is traced.
    pub(crate) steps: Vec<EndedStep>,
    /// The cell of a step that has just run outside of a turn; which attempt it was, and when that began.
    pub(crate) ran: Option<(Cell, (i32, Timestamp))>,
    label: Option<String>,
    /// `None`: it cannot be read, and `outcome` says why.
    graph: Option<Graph>,
    vars: BTreeMap<String, String>,
    input: Option<Json>,
    inherited: BTreeMap<String, Json>,
}

/// What a claim says of an instance, beside its number.
pub(crate) struct Claimed<'a> {
    pub(crate) seq: i64,
    pub(crate) fresh: bool,
    pub(crate) row: &'a Row,
    pub(crate) tracer: Option<&'a Tracer>,
}

impl Instance {
    /// Reads a row of `df._claim` or `df._end_activity`. An instance that cannot be read (its submitter may have
    /// written the row by hand) fails with the reason.
    pub(crate) fn read(claimed: &Claimed<'_>) -> Self {
        let Claimed { seq, fresh, row, tracer } = *claimed;
        let started_at: Timestamp = row.get("started_at");
        let mut instance = Self {
            seq,
            id: id(seq),
            fresh,
            created_at: row.get("created_at"),
            is_first: row.get::<_, Option<&str>>("state").is_none(),
            database: row.get("database"),
            parent: row.get::<_, Option<i64>>("parent").zip(row.get("parent_cell")),
            queue: row.get("queue"),
            partition: if fresh { row.get("partition") } else { None },
            state: State::new(started_at),
            outcome: None,
            executions: Vec::new(),
            dropped: Vec::new(),
            dropped_children: Vec::new(),
            retries: 0,
            answered: Vec::new(),
            due_at: None,
            trace: None,
            steps: Vec::new(),
            ran: None,
            label: row.get("label"),
            graph: None,
            vars: BTreeMap::new(),
            input: None,
            inherited: BTreeMap::new(),
        };
        if let Err(message) = instance.fill(row, tracer) {
            let message = format!("instance {} cannot be read: {message}", instance.id);
            if let Some(tracer) = tracer.filter(|_| instance.trace.is_none()) {
                instance.begin_trace(tracer);
            }
            instance.outcome = Some(Outcome::Failed(Failure { message, sqlstate: None }));
        }
        instance
    }

    fn fill(&mut self, row: &Row, tracer: Option<&Tracer>) -> Result<(), String> {
        self.graph = Some(Graph::parse(row.get("graph")).map_err(|error| error.to_string())?);
        if let Some(state) = row.get::<_, Option<&str>>("state") {
            self.state = State::from_json(state).map_err(|error| error.to_string())?;
        }
        if let Some(vars) = row.get::<_, Option<&str>>("vars") {
            self.vars = serde_json::from_str(vars).map_err(|error| format!("its variables: {error}"))?;
        }
        // Before the mail, which ends steps.
        if let Some(tracer) = tracer {
            self.begin_trace(tracer);
        }
        if let Some(input) = row.get::<_, Option<&str>>("input") {
            if self.parent.is_some() {
                self.inherited =
                    serde_json::from_str(input).map_err(|error| format!("its environment: {error}"))?;
            } else {
                self.input = Some(Json::parse(input).map_err(|error| format!("its input: {error}"))?);
            }
        }
        if let Some(mail) = row.get::<_, Option<&str>>("mail") {
            let letters: Vec<Letter> =
                serde_json::from_str(mail).map_err(|error| format!("its mail: {error}"))?;
            let at = row.get("at");
            for letter in letters {
                match letter.event() {
                    Ok(event) => {
                        if let Event::Answer { cell, .. } = &event {
                            self.answered.push(cell.clone());
                        }
                        self.event(at, event);
                    }
                    // The worker writes none like it. A submitter may have, by hand, and has lost nothing then.
                    Err(reason) => {
                        tracing::warn!(instance = self.id, reason, "a letter to an instance is ignored");
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_trace(&mut self, tracer: &Tracer) {
        let traceparent = self.vars.get(TRACEPARENT).map(String::as_str);
        let trace = tracer.trace(self.seq, self.created_at, traceparent);
        if trace.is_sampled() {
            self.state.observe();
        }
        self.trace = Some(trace);
    }

    /// What a step hands on of its trace: a `traceparent`.
    pub(crate) fn traceparent_of(&self, cell: &Cell) -> Option<String> {
        Some(self.trace.as_ref()?.of_step(cell, self.state.asked_at(cell)?))
    }

    /// Tells the interpreter of an event.
    pub(crate) fn event(&mut self, now: Timestamp, event: Event) {
        self.with_context(now, |state, context| state.event(context, event));
    }

    /// Goes on as far as possible. What is to be run is returned.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Vec<Request> {
        if self.outcome.is_some() {
            return Vec::new();
        }
        let Some(progress) = self.with_context(now, |state, context| state.advance(context)) else {
            unreachable!("an instance without a graph has an outcome, from its reading on")
        };
        let Progress { requests, outcome, due_at, executions, dropped, dropped_children, retries, steps } =
            progress;
        self.outcome = outcome;
        self.due_at = due_at;
        self.executions.extend(executions);
        self.dropped.extend(dropped);
        self.dropped_children.extend(dropped_children);
        self.retries += retries;
        self.steps.extend(steps);
        requests
    }

    /// Ends the instance for a reason of the worker's. What it was is not kept: it may be what cannot be written.
    pub(crate) fn condemn(&mut self, reason: Option<String>) {
        if let Some(message) = reason {
            self.state = State::new(self.state.started_at());
            self.graph = None;
            self.outcome = Some(Outcome::Failed(Failure { message, sqlstate: None }));
        }
    }

    /// Goes on if that runs nothing: to the end, or to a wait. What is to be run is left to a turn, which begins at once.
    pub(crate) fn end_or_pass_on(&mut self, now: Timestamp) {
        self.steps.extend(self.state.take_steps());
        let steps = self.steps.len();
        let before = self.state.to_json();
        if self.advance(now).is_empty() {
            return;
        }
        // What this came to comes again in that turn.
        self.steps.truncate(steps);
        match State::from_json(&before) {
            Ok(state) => self.state = state,
            Err(error) => unreachable!("a state that was written just now cannot be read: {error}"),
        }
        self.executions.clear();
        self.dropped.clear();
        self.dropped_children.clear();
        self.retries = 0;
        self.due_at = Some(now);
    }

    /// Gives the interpreter the result of what it asked for.
    pub(crate) fn complete(&mut self, now: Timestamp, cell: &Cell, result: Result<Json, Failure>) {
        self.with_context(now, |state, context| state.complete(context, cell, result));
    }

    fn with_context<T>(
        &mut self,
        now: Timestamp,
        act: impl FnOnce(&mut State, &Context<'_>) -> T,
    ) -> Option<T> {
        let context = Context {
            graph: self.graph.as_ref()?,
            instance_id: &self.id,
            label: self.label.as_deref(),
            vars: &self.vars,
            input: self.input.as_ref(),
            inherited: &self.inherited,
            now,
            // Jitter: different for every instance, the same for every turn of one.
            seed: (self.seq as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        Some(act(&mut self.state, &context))
    }

    /// What `df._start_child` needs of the parent, beside the child itself. If the parent is traced, the child is, too.
    pub(crate) fn vars_json(&self, of_child: &Cell) -> Result<Option<String>, TurnError> {
        const WHAT: &str = "the variables of an instance";
        if let Some(traceparent) = self.traceparent_of(of_child) {
            let mut vars = self.vars.clone();
            vars.insert(TRACEPARENT.to_owned(), traceparent);
            return turn::to_json(WHAT, &vars).map(Some);
        }
        if self.vars.is_empty() {
            return Ok(None);
        }
        turn::to_json(WHAT, &self.vars).map(Some)
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn node(&self, index: u32) -> Option<&crate::graph::Node> {
        self.graph.as_ref()?.get(index)
    }

    /// Whether `_done.state` says more than `_done.output`.
    pub(crate) fn keeps_state(&self) -> bool {
        self.graph.as_ref().is_none_or(|graph| graph.len() > 1)
    }
}

/// A row of `_inbox`.
#[derive(serde::Deserialize)]
struct Letter {
    kind: String,
    name: Option<String>,
    data: Option<Json>,
}

/// What the end of a child or a task is, in a letter to whoever waits for it.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct ChildEnd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sqlstate: Option<String>,
}

impl ChildEnd {
    /// The result of the child. The letter comes once: what cannot be read fails the step that waits for it, which would
    /// else wait for ever.
    fn read(data: &Json) -> Result<Json, Failure> {
        let end: ChildEnd = serde_json::from_str(data.text()).map_err(|error| Failure {
            message: format!("the end of what this step waited for cannot be read: {error}"),
            sqlstate: None,
        })?;
        match (end.result, end.failure) {
            (_, Some(message)) => Err(Failure { message, sqlstate: end.sqlstate }),
            (result, None) => Ok(result.unwrap_or_else(Json::null)),
        }
    }
}

impl Letter {
    /// What it says, or why it says nothing.
    fn event(self) -> Result<Event, &'static str> {
        let data = self.data.unwrap_or_else(Json::null);
        Ok(match self.kind.as_str() {
            "signal" => Event::Signal { name: self.name.ok_or("a signal without a name")?, data },
            "cancel" => Event::Cancel {
                // The reason does not have to be a JSON string: any other text is used as it is.
                reason: serde_json::from_str(data.text()).unwrap_or_else(|_| data.text().to_owned()),
            },
            "pause" => Event::Pause,
            "resume" => Event::Resume,
            "activity" => {
                let name = self.name.ok_or("the end of a task, of no cell")?;
                let cell = Cell::parse(&name).ok_or("the end of a task, of something that is not a cell")?;
                Event::Answer { cell, result: ChildEnd::read(&data) }
            }
            "child" => {
                let name = self.name.ok_or("the end of a child, of no cell")?;
                let cell = Cell::parse(&name).ok_or("the end of a child, of something that is not a cell")?;
                Event::Child { cell, result: ChildEnd::read(&data) }
            }
            _ => return Err("of no known kind"),
        })
    }
}

/// The public id of an instance: the same bijection as `df._id`.
///
/// ```
/// assert_eq!(duramen_functions::worker::id(1), "49735a1d");
/// assert_eq!(duramen_functions::worker::id((1 << 32) + 1), "0000000149735a1d");
/// ```
#[must_use]
pub fn id(seq: i64) -> String {
    const MASK: i64 = 0xffff_ffff;
    let low = (1_232_296_477 * (seq & MASK)) & MASK;
    match seq >> 32 {
        0 => format!("{low:08x}"),
        high => format!("{high:08x}{low:08x}"),
    }
}

/// The shard of a public id: the upper 10 of the 62 bits of its number. `None` if the text is not an id.
///
/// ```
/// assert_eq!(duramen_functions::worker::shard_of("49735a1d"), Some(0));
/// assert_eq!(duramen_functions::worker::shard_of("0030000049735a1d"), Some(3));
/// assert_eq!(duramen_functions::worker::shard_of("order 7"), None);
/// ```
#[must_use]
pub fn shard_of(id: &str) -> Option<u16> {
    u16::try_from(seq(id)? >> 52).ok()
}

/// The number behind a public id: the same as `df._seq`.
pub(crate) fn seq(id: &str) -> Option<i64> {
    const MASK: i64 = 0xffff_ffff;
    let digits = |part: &str| u32::from_str_radix(part, 16).ok().map(i64::from);
    let (high, low) = match id.len() {
        8 => (0, digits(id)?),
        16 => (digits(id.get(..8)?).filter(|high| (1..1 << 30).contains(high))?, digits(id.get(8..)?)?),
        _ => return None,
    };
    Some((high << 32) | ((1_887_975_477 * low) & MASK))
}

#[cfg(test)]
mod tests;
