//! From an instance, as a turn leaves it, to spans: what they are called and what they tell.

use std::time::Duration;

use duramen_traces::attribute::{
    cut, event, long_text, nanoseconds, number, text, truth, FLAGS_LOCAL, FLAGS_REMOTE, NAME_BYTES,
    TEXT_BYTES,
};
use duramen_traces::{Event, KeyValue, Outbox, SpanKind, Status, StatusCode, TraceSettings};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::context::Trace;
use super::Span;
use crate::graph::Kind;
use crate::interpret::{EndedStep, Failure, Outcome, StepEnd};
use crate::worker::instance::Instance;
use crate::worker::metrics::{add, Metrics};
use crate::worker::session::Place;

/// What `error.type` is when there is no code.
const OTHER: &str = "_OTHER";

/// What a worker traces with.
pub(crate) struct Tracer {
    /// By role, so that nobody drowns the others' spans.
    pub(super) outbox: Outbox<u32>,
    /// The database that the instances are of: ids are computed from it.
    identity: String,
    /// The host of the database.
    address: String,
}

impl Tracer {
    pub(crate) fn new(settings: TraceSettings, identity: String, address: String) -> Self {
        Self { outbox: Outbox::new(settings), identity, address }
    }

    /// The trace of an instance.
    pub(crate) fn trace(&self, seq: i64, created_at: Timestamp, traceparent: Option<&str>) -> Trace {
        Trace::new(&self.identity, self.outbox.settings().sampler(), (seq, created_at), traceparent)
    }

    /// Writes down what a turn has ended of an instance: steps, and perhaps itself.
    pub(crate) fn note(&self, spans: &mut Vec<Span>, instance: &mut Instance, place: &Place, now: Timestamp) {
        let mut steps = std::mem::take(&mut instance.steps);
        // A turn whose time was up has not gone on after them.
        steps.extend(instance.state.take_steps());
        let Some(trace) = instance.trace.as_ref().filter(|trace| trace.is_sampled()) else { return };
        let database = instance.database.as_deref().unwrap_or(&place.database);
        for step in steps {
            spans.push(self.of_step(trace, instance, step, database));
        }
        if let Some(outcome) = &instance.outcome {
            spans.push(of_instance(trace, instance, outcome, place, self.outbox.settings().has_texts(), now));
        }
    }

    /// Takes over the spans of a turn that has committed. It waits for nothing.
    pub(crate) fn record(&self, role: u32, spans: Vec<Span>, metrics: &Metrics) {
        if !spans.is_empty() {
            add(&metrics.dropped_spans_total, self.outbox.put(&role, spans));
        }
    }

    /// Sends what is there, for at most this time.
    pub(crate) async fn flush(&self, exporter: JoinHandle<()>, limit: Duration, metrics: &Metrics) {
        add(&metrics.dropped_spans_total, self.outbox.flush(exporter, limit).await);
    }

    fn of_step(&self, trace: &Trace, instance: &Instance, step: EndedStep, database: &str) -> Span {
        let id = trace.step_span(&step.cell, step.asked_at);
        let node = instance.node(step.cell.node());
        let mut attributes = vec![
            text("duramen.instance.id", &instance.id),
            text("duramen.step.cell", step.cell.as_str()),
            text("duramen.step.generation", &step.path),
        ];
        let mut kind = SpanKind::Internal;
        let mut what = "step";
        let is_sql = match node.map(|node| &node.kind) {
            _ if step.is_child => {
                what = "call";
                false
            }
            Some(Kind::Sql { text: sql, .. }) => {
                kind = SpanKind::Client;
                what = verb(sql);
                attributes.extend([
                    text("db.system.name", "postgresql"),
                    text("db.namespace", database),
                    text("db.operation.name", what),
                    text("server.address", &self.address),
                ]);
                if self.outbox.settings().has_texts() {
                    // As it was written, with names in the place of what was inserted.
                    attributes.push(long_text("db.query.text", sql));
                }
                true
            }
            Some(Kind::Http(http)) => {
                kind = SpanKind::Client;
                what = "HTTP";
                attributes.push(text("http.request.method", &http.method));
                false
            }
            Some(Kind::Task { name, .. }) => {
                what = "task";
                attributes.push(text("duramen.task", name));
                false
            }
            _ => false,
        };
        if let Some(name) = node.and_then(|node| node.name.as_deref()) {
            attributes.push(text("duramen.step.name", name));
        }
        let mut events = Vec::new();
        if let Some(attempt) = step.attempt {
            attributes.push(number("duramen.retry.attempt", attempt.into()));
            if attempt > 1 {
                let attributes = vec![number("duramen.retry.attempt", attempt.into())];
                events.push(event("retry", step.asked_at, attributes));
            }
        }
        if let Some((attempt, at)) = instance.ran.as_ref().filter(|ran| ran.0 == step.cell).map(|ran| ran.1) {
            events.push(event("began", at, vec![number("duramen.activity.attempt", attempt.into())]));
        }
        let mut status = Status::default();
        match &step.end {
            StepEnd::Completed { http_status } => {
                let code = http_status.map(|code| number("http.response.status_code", code.into()));
                attributes.extend(code);
            }
            StepEnd::GivenUp => attributes.push(truth("duramen.step.given_up")),
            StepEnd::Failed(failure) => {
                if let Some(code) = failure.sqlstate.as_deref().filter(|_| is_sql) {
                    attributes.push(text("db.response.status_code", code));
                }
                status = failed(
                    failure,
                    self.outbox.settings().has_texts(),
                    step.ended_at,
                    &mut attributes,
                    &mut events,
                );
            }
        }
        let name = match node.and_then(|node| node.name.as_deref()) {
            Some(name) => cut(&format!("{what} {name}"), NAME_BYTES).to_owned(),
            None => what.to_owned(),
        };
        Span {
            trace_id: trace.id.to_vec(),
            span_id: id.to_vec(),
            parent_span_id: trace.span().to_vec(),
            flags: FLAGS_LOCAL,
            name,
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(step.asked_at),
            end_time_unix_nano: nanoseconds(step.ended_at.max(step.asked_at)),
            attributes,
            events,
            status: Some(status),
            ..Span::default()
        }
    }
}

fn of_instance(
    trace: &Trace,
    instance: &Instance,
    outcome: &Outcome,
    place: &Place,
    texts: bool,
    now: Timestamp,
) -> Span {
    let started_at = instance.state.started_at();
    let mut attributes = vec![
        text("duramen.instance.id", &instance.id),
        text("duramen.submitter", &place.role_name),
        text("db.namespace", &place.database),
    ];
    attributes.extend(instance.label().map(|label| text("duramen.instance.label", label)));
    let mut events = vec![event("started", started_at, Vec::new())];
    let mut status = Status::default();
    let ended = match outcome {
        Outcome::Completed(_) => "completed",
        Outcome::Failed(failure) => {
            status = failed(failure, texts, now, &mut attributes, &mut events);
            "failed"
        }
        Outcome::Cancelled(_) => "cancelled",
    };
    attributes.push(text("duramen.instance.status", ended));
    Span {
        trace_id: trace.id.to_vec(),
        span_id: trace.span().to_vec(),
        parent_span_id: trace.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        flags: if trace.parent.is_some() { FLAGS_REMOTE } else { FLAGS_LOCAL },
        name: "durable function".to_owned(),
        kind: SpanKind::Consumer.into(),
        start_time_unix_nano: nanoseconds(instance.created_at),
        end_time_unix_nano: nanoseconds(now.max(instance.created_at)),
        attributes,
        events,
        status: Some(status),
        ..Span::default()
    }
}

/// Writes down a failure. Its message may hold data, as the one of a value that is none of its type does.
fn failed(
    failure: &Failure,
    texts: bool,
    at: Timestamp,
    attributes: &mut Vec<KeyValue>,
    events: &mut Vec<Event>,
) -> Status {
    let code = failure.sqlstate.as_deref().unwrap_or(OTHER);
    attributes.push(text("error.type", code));
    if !texts {
        return Status { code: StatusCode::Error.into(), message: String::new() };
    }
    let told = vec![text("exception.type", code), long_text("exception.message", &failure.message)];
    events.push(event("exception", at, told));
    Status { code: StatusCode::Error.into(), message: cut(&failure.message, TEXT_BYTES).to_owned() }
}

/// The word that a statement begins with, if it is one that says what it does.
fn verb(sql: &str) -> &'static str {
    const VERBS: [&str; 24] = [
        "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE", "CALL", "DO", "COPY",
        "CREATE", "ALTER", "DROP", "TRUNCATE", "REFRESH", "VACUUM", "ANALYZE", "REINDEX", "CLUSTER", "GRANT",
        "REVOKE", "NOTIFY", "SET",
    ];
    let start = &sql[crate::substitute::lex::blank(sql)..];
    let word = &start[..start.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(start.len())];
    VERBS.into_iter().find(|verb| verb.eq_ignore_ascii_case(word)).unwrap_or("SQL")
}

#[cfg(test)]
mod tests;
