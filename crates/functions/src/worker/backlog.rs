//! What waits in the database, read when somebody asks for figures, and seldom.
//!
//! Whoever can reach the port reads this, so that it has counts, times and the names of queues, and nothing else of anybody:
//! queues of one name are added up, whosever they are. Names come from submitters: how many are shown, and how many new ones
//! within a time, is limited, because a monitoring system keeps every name that it has ever seen.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use duramen_base::clock;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio_postgres::Client;

use super::metrics::{add, head};
use super::shared::Shared;
use super::turn::TurnError;

/// How long what was read is shown.
const KEEP: Duration = Duration::from_secs(10);
/// Reading may take this part of the time at most, when a lot waits.
const SHARE: u32 = 20;
/// How long reading may take, with connecting.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for the server, as it is told.
const STATEMENT_TIMEOUT_MS: &str = "1500";
/// How many queues are shown. The rest is added up.
const QUEUES_MAX: usize = 50;
/// One name that was not shown before may be shown in this time, beside as many as there may be at once.
const NEW_NAME_EVERY: Duration = Duration::from_secs(60);
/// How many names are remembered as shown.
const NAMES_MAX: usize = 1_000;

/// One row. Of each role its fullest queue comes first, so that nobody's many queues hide those of others. What waits is
/// counted from an index; the oldest of a queue is the one of the smallest number.
const BACKLOG: &str = "
    WITH waiting AS (
        SELECT n.queue, count(*) AS many, min(n.seq) AS first
        FROM (SELECT w.queue, w.seq FROM df._queued w WHERE w.due_at IS NULL
              UNION ALL SELECT r.queue, r.seq FROM df._ready r WHERE r.queue IS NOT NULL) n
        GROUP BY n.queue
    ), delayed AS (
        SELECT n.queue, count(*) AS many FROM df._queued n WHERE n.due_at IS NOT NULL GROUP BY n.queue
    ), running AS (
        SELECT s.queue, count(*) AS many FROM df._slot s GROUP BY s.queue
    ), each AS (
        SELECT q.name, coalesce(w.many, 0) AS waiting, coalesce(d.many, 0) AS delayed, coalesce(r.many, 0) AS running,
            (SELECT extract(epoch FROM clock_timestamp() - min(o.created_at)) FROM (
                SELECT n.created_at FROM df._queued n WHERE n.submitted_by = q.submitted_by AND n.seq = w.first
                UNION ALL SELECT r.created_at FROM df._ready r WHERE r.submitted_by = q.submitted_by AND r.seq = w.first) o
            ) AS oldest_s,
            row_number() OVER (PARTITION BY q.submitted_by
                ORDER BY coalesce(w.many, 0) DESC, coalesce(d.many, 0) + coalesce(r.many, 0) DESC, q.name) AS place
        FROM df._queue q LEFT JOIN waiting w ON w.queue = q.id LEFT JOIN delayed d ON d.queue = q.id
            LEFT JOIN running r ON r.queue = q.id
    ), named AS (
        SELECT e.name, sum(e.waiting) AS waiting, sum(e.delayed) AS delayed, sum(e.running) AS running,
            max(e.oldest_s) AS oldest_s, min(e.place) AS place
        FROM each e GROUP BY e.name ORDER BY min(e.place), sum(e.waiting) DESC, e.name
    )
    SELECT (SELECT count(*) FROM df._ready r WHERE r.queue IS NULL),
        (SELECT extract(epoch FROM clock_timestamp() - min(r.created_at))::float8 FROM df._ready r WHERE r.queue IS NULL),
        (SELECT count(*) FROM df._work),
        (SELECT count(*) FROM df._activity a WHERE a.owner IS NULL),
        coalesce((SELECT json_agg(n ORDER BY n.place, n.waiting DESC, n.name) FROM named n), '[]')::text";

/// A queue, or several of one name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
struct Queue {
    name: String,
    waiting: u64,
    delayed: u64,
    running: u64,
    oldest_s: Option<f64>,
}

/// What was read.
#[derive(Debug)]
struct Read {
    ready: i64,
    oldest_s: Option<f64>,
    working: i64,
    activities: i64,
    /// Those that are shown, and the rest together.
    shown: Vec<Queue>,
    others: Queue,
}

/// What was read last, and when the next may be.
#[derive(Default)]
pub(crate) struct Backlog {
    state: tokio::sync::Mutex<State>,
    text: Mutex<String>,
}

#[derive(Default)]
struct State {
    client: Option<Client>,
    next: Option<Instant>,
    names: Names,
}

impl Backlog {
    /// The lines for what waits; none if the database does not say it in time.
    pub(crate) async fn prometheus(&self, shared: &Shared) -> String {
        // Whoever comes while it is being read has what was read before.
        if let Ok(mut state) = self.state.try_lock() {
            if state.next.is_none_or(|next| next <= clock::now()) {
                let text = state.refresh(shared).await;
                *self.text.lock() = text;
            }
        }
        self.text.lock().clone()
    }
}

impl State {
    async fn refresh(&mut self, shared: &Shared) -> String {
        let began = clock::now();
        // Both before it is waited for: whoever asked may go away meanwhile, and the next one neither asks at once, nor behind this.
        self.next = Some(began + KEEP);
        let mut client = self.client.take();
        let read = tokio::time::timeout(PATIENCE, read(shared, &mut client)).await;
        let took = began.elapsed();
        self.next = Some(clock::now() + KEEP.max(took * SHARE));
        let error = match read {
            Ok(Ok((mut read, queues))) => {
                self.client = client;
                (read.shown, read.others) = self.names.choose(queues, clock::now());
                return read.prometheus();
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        add(&shared.metrics.failed_backlogs_total, 1);
        tracing::debug!(error, "what waits cannot be read for the metrics");
        String::new()
    }
}

async fn read(shared: &Shared, client: &mut Option<Client>) -> Result<(Read, Vec<Queue>), TurnError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        let target = shared.guarded().settings([("statement_timeout", STATEMENT_TIMEOUT_MS)]);
        *client = Some(shared.sessions.at_home(&target).await?);
    }
    let Some(client) = client else { unreachable!("it was set above") };
    let row = client.query_typed_one(BACKLOG, &[]).await?;
    let queues = serde_json::from_str(row.get(4))
        .map_err(|source| TurnError::Encoding { what: "the list of queues", source })?;
    let read = Read {
        ready: row.get(0),
        oldest_s: row.get(1),
        working: row.get(2),
        activities: row.get(3),
        shown: Vec::new(),
        others: Queue::default(),
    };
    Ok((read, queues))
}

/// The names that were shown, and how many new ones may be.
#[derive(Default)]
struct Names {
    shown: HashMap<String, Instant>,
    /// From when on the next new name may be shown; those that were not used are kept, up to [`QUEUES_MAX`].
    since: Option<Instant>,
}

impl Names {
    /// Which queues are shown, of those in the order in which they should be; the others are added up.
    fn choose(&mut self, queues: Vec<Queue>, now: Instant) -> (Vec<Queue>, Queue) {
        let most = NEW_NAME_EVERY * QUEUES_MAX as u32;
        let mut allowance = self.since.map_or(most, |since| now.duration_since(since).min(most));
        let (mut shown, mut others) = (Vec::new(), Queue::default());
        for queue in queues {
            let is_known = self.shown.contains_key(&queue.name);
            if shown.len() < QUEUES_MAX && (is_known || allowance >= NEW_NAME_EVERY) {
                if !is_known {
                    allowance -= NEW_NAME_EVERY;
                }
                self.shown.insert(queue.name.clone(), now);
                shown.push(queue);
            } else {
                others.waiting += queue.waiting;
                others.delayed += queue.delayed;
                others.running += queue.running;
                others.oldest_s = Some(age(others.oldest_s).max(age(queue.oldest_s)));
            }
        }
        self.since = now.checked_sub(allowance);
        while self.shown.len() > NAMES_MAX {
            let Some(oldest) = self.shown.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
            else {
                break;
            };
            self.shown.remove(&oldest);
        }
        (shown, others)
    }
}

impl Read {
    fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut gauge = |name: &str, help: &str, values: &[(String, f64)]| {
            let name = head(&mut text, name, "gauge", help);
            for (label, value) in values {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{name}{label} {value}");
            }
        };
        let plain = |value: f64| [(String::new(), value)];
        gauge(
            "ready_instances",
            "Instances of the database that wait for their first turn, in no queue.",
            &plain(self.ready as f64),
        );
        gauge(
            "ready_oldest_seconds",
            "How long the oldest of them has waited; 0 if there is none.",
            &plain(age(self.oldest_s)),
        );
        gauge(
            "begun_instances",
            "Instances of the database that have begun and not ended.",
            &plain(self.working as f64),
        );
        gauge(
            "waiting_activities",
            "Activities of the database that no worker runs.",
            &plain(self.activities as f64),
        );
        let of_queues = |figure: fn(&Queue) -> f64| {
            let shown = self
                .shown
                .iter()
                .map(|queue| (format!("{{queue=\"{}\"}}", escaped(&queue.name)), figure(queue)));
            // No queue has an empty name.
            shown.chain([("{queue=\"\"}".to_owned(), figure(&self.others))]).collect::<Vec<_>>()
        };
        gauge(
            "queue_waiting",
            "Instances in queues that wait to be let in, by the name of the queue; an empty name: all queues that are not shown.",
            &of_queues(|queue| queue.waiting as f64),
        );
        gauge(
            "queue_delayed",
            "Instances in queues whose delay has not passed.",
            &of_queues(|queue| queue.delayed as f64),
        );
        gauge(
            "queue_oldest_seconds",
            "How long the oldest instance has waited that may be let in; 0 if there is none.",
            &of_queues(|queue| age(queue.oldest_s)),
        );
        gauge(
            "queue_running",
            "Instances that queues have let in and that go on.",
            &of_queues(|queue| queue.running as f64),
        );
        text
    }
}

/// An age for the figures. If the server's clock was set back, it is nothing.
fn age(seconds: Option<f64>) -> f64 {
    seconds.unwrap_or(0.0).max(0.0)
}

/// The value of a label, as the format wants it.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
