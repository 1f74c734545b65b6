//! The same work by a program of Node with the package `pg`: one process for all branches of a round, and in it a new
//! client for each branch.
//!
//! A process for each branch would measure the start of Node, which nobody pays for each connection. So the process is
//! ready before the barrier, and a client begins when its lease has come.

mod package;

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::client::{Failure, Lived, DEADLOCK, STEP_DEADLINE};
use super::program;
use super::statement;
use super::workload::{Change, Key, Plan, Read, AIRLINE_READ, EVENT_INSERT, PLAIN_READ, POINT_READ};
pub(crate) use package::{NodeError, Package};

/// The program that Node runs.
const SCRIPT: &str = include_str!("node/client.js");
/// It is ready within this.
const START_LIMIT: Duration = Duration::from_secs(30);
/// It ends within this once its input has ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// The script gives up a client this much later than we do, so that it is we who say what happened.
const GRACE: Duration = Duration::from_secs(5);
/// So much of what it complains of is kept.
const COMPLAINTS_MAX: u64 = 8192;

/// The clients that wait for their answers; nothing once there are no more answers.
type Waiting = Mutex<Option<HashMap<u64, oneshot::Sender<Reply>>>>;

/// A process that is ready. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    handle: Handle,
    /// What writes, what reads, and what listens to complaints.
    tasks: [JoinHandle<()>; 3],
}

/// What a client asks the process through.
#[derive(Clone)]
pub(crate) struct Handle {
    jobs: mpsc::UnboundedSender<String>,
    waiting: Arc<Waiting>,
    complaints: Arc<Mutex<String>>,
    next: Arc<AtomicU64>,
}

/// A line of the process: first that it is ready, then one for each job.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reply {
    ready: bool,
    id: u64,
    step: String,
    connect_ms: Option<f64>,
    first_query_ms: Option<f64>,
    second_query_ms: Option<f64>,
    write_ms: Option<f64>,
    answers: Vec<Vec<Vec<Value>>>,
    error: Option<String>,
    sqlstate: Option<String>,
}

impl Process {
    /// Starts it, and waits until it is ready.
    pub(crate) async fn start(package: &Package) -> Result<Process, NodeError> {
        let mut command = Command::new(package.node());
        // Packages are looked for from the working directory on.
        command.args(["--input-type=commonjs", "-e", SCRIPT]).current_dir(package.folder());
        Process::start_with(command).await
    }

    async fn start_with(mut command: Command) -> Result<Process, NodeError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let not_started = |detail: String| NodeError::NotStarted { detail };
        let started = program::start(command).await;
        let (mut child, _) = started.map_err(|error| not_started(error.to_string()))?;
        let (Some(mut input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(not_started("it has no input or no output".to_owned()));
        };
        let (jobs, mut asked) = mpsc::unbounded_channel::<String>();
        let writing = tokio::spawn(async move {
            while let Some(line) = asked.recv().await {
                // A process that has ended shows where answers are read.
                if input.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
        let complaints = Arc::new(Mutex::new(String::new()));
        let listening = tokio::spawn(listen(errors, Arc::clone(&complaints)));
        let waiting: Arc<Waiting> = Arc::new(Mutex::new(Some(HashMap::new())));
        let (tell_ready, ready) = oneshot::channel();
        let reading = tokio::spawn(answer(output, tell_ready, Arc::clone(&waiting)));
        let handle = Handle { jobs, waiting, complaints, next: Arc::default() };
        let mut process = Process { child, handle, tasks: [writing, reading, listening] };
        match timeout(START_LIMIT, ready).await {
            Ok(Ok(())) => Ok(process),
            Ok(Err(_)) => {
                // What it complained of may still be in the pipe.
                let _ = timeout(CLOSE_LIMIT, &mut process.tasks[2]).await;
                let detail = format!("it ended before it was ready: {}", process.handle.complained());
                process.stop().await;
                Err(not_started(detail))
            }
            Err(_) => {
                process.stop().await;
                Err(not_started(format!("it was not ready within {} s", START_LIMIT.as_secs())))
            }
        }
    }

    /// What clients ask it through.
    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends it, and waits until it is gone.
    pub(crate) async fn stop(mut self) {
        // With the task goes its input, which is how it is asked to end.
        self.tasks[0].abort();
        if timeout(CLOSE_LIMIT, self.child.wait()).await.is_err() {
            program::end(&mut self.child).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Handle {
    /// Has a new client connect, read twice and write.
    pub(crate) async fn work(&self, url: &str, plan: &Plan, lived: &mut Lived) -> Result<(), Failure> {
        const STEP: &str = "node-pg";
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        match self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(waiting) => drop(waiting.insert(id, sender)),
            None => return Err(self.ended(STEP)),
        }
        if self.jobs.send(format!("{}\n", job(id, url, plan))).is_err() {
            return Err(self.ended(STEP));
        }
        match timeout(STEP_DEADLINE, receiver).await {
            Ok(Ok(reply)) => reply.judge(plan, lived),
            Ok(Err(_)) => Err(self.ended(STEP)),
            Err(_) => Err(Failure::deadline(STEP)),
        }
    }

    fn ended(&self, step: &'static str) -> Failure {
        Failure::wrong(step, format!("the process of Node has ended: {}", self.complained()))
    }

    fn complained(&self) -> String {
        let said = self.complaints.lock().unwrap_or_else(PoisonError::into_inner).trim().to_owned();
        if said.is_empty() {
            "it said nothing".to_owned()
        } else {
            said
        }
    }
}

impl Reply {
    /// Takes the latencies, unless an answer is wrong.
    fn judge(&self, plan: &Plan, lived: &mut Lived) -> Result<(), Failure> {
        let step = self.step();
        let took = |ms: Option<f64>| Duration::try_from_secs_f64(ms? / 1_000.0).ok();
        let mut note = |name, ms| took(ms).into_iter().for_each(|took| lived.note(name, took));
        note("node_pg_connect_ms", self.connect_ms);
        let reads = [
            ("node_pg_first_query_ms", self.first_query_ms),
            ("node_pg_second_query_ms", self.second_query_ms),
        ];
        let steps = ["first query", "second query"];
        for (at, (read, (name, ms))) in plan.reads.iter().zip(reads).enumerate() {
            let Some(rows) = self.answers.get(at) else { break };
            if statement::expected_text(read).as_deref() != Some(statement::rows_as_text(rows).as_str()) {
                let found = Value::from(rows.iter().cloned().map(Value::from).collect::<Vec<_>>());
                return Err(Failure::wrong(steps[at], format!("expected {}, got {found}", read.expected)));
            }
            note(name, ms);
        }
        if let (Some(change), Some(rows)) = (&plan.change, self.answers.get(2)) {
            let wanted = usize::from(matches!(change, Change::Event { .. }));
            if rows.len() != wanted {
                return Err(Failure::wrong("write", format!("{} rows instead of {wanted}", rows.len())));
            }
            note("node_pg_write_ms", self.write_ms);
        }
        if let Some(error) = &self.error {
            let deadlock = self.sqlstate.as_deref() == Some(DEADLOCK);
            return Err(Failure { deadlock, ..Failure::wrong(step, error.as_str()) });
        }
        let wanted = plan.reads.len() + usize::from(plan.change.is_some());
        if self.answers.len() != wanted {
            return Err(Failure::wrong(step, format!("{} answers instead of {wanted}", self.answers.len())));
        }
        Ok(())
    }

    fn step(&self) -> &'static str {
        let known = ["connect", "first query", "second query", "write", "end"];
        known.into_iter().find(|step| *step == self.step).unwrap_or("node-pg")
    }
}

/// The line that asks for the work of a plan.
fn job(id: u64, url: &str, plan: &Plan) -> Value {
    let read = |read: &Read| match &read.key {
        Key::Nothing => json!({ "text": PLAIN_READ }),
        Key::Airline(carrier) => json!({ "text": AIRLINE_READ, "values": [carrier] }),
        Key::Flight(flight) => json!({ "text": POINT_READ, "values": [flight] }),
    };
    let write = plan.change.as_ref().map(|change| match change {
        Change::Event { flight, kind, payload, .. } => {
            json!({ "text": EVENT_INSERT, "values": [flight, kind, payload] })
        }
        // Without values it is one simple query, and so one implicit transaction, as it is over the wire.
        Change::Schema { .. } => json!({ "text": statement::of_change(change) }),
    });
    let limit = u64::try_from((STEP_DEADLINE + GRACE).as_millis()).unwrap_or(u64::MAX);
    json!({ "id": id, "url": url, "limit_ms": limit, "reads": plan.reads.each_ref().map(read), "write": write })
}

/// Hands each answer to the client that waits for it. When there are no more, all that wait are told.
async fn answer(output: ChildStdout, ready: oneshot::Sender<()>, waiting: Arc<Waiting>) {
    let mut ready = Some(ready);
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(reply) = serde_json::from_str::<Reply>(&line) else { continue };
        // Who waited may have given up.
        if reply.ready {
            if let Some(ready) = ready.take() {
                let _ = ready.send(());
            }
            continue;
        }
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = waiting.as_mut().and_then(|waiting| waiting.remove(&reply.id)) {
            let _ = client.send(reply);
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// Keeps the beginning of what it complains of, and reads the rest, so that it never waits for a reader.
async fn listen(errors: impl tokio::io::AsyncRead + Unpin, complaints: Arc<Mutex<String>>) {
    let mut errors = errors;
    let mut first = Vec::new();
    let mut beginning = (&mut errors).take(COMPLAINTS_MAX);
    while let Ok(1..) = beginning.read_buf(&mut first).await {
        *complaints.lock().unwrap_or_else(PoisonError::into_inner) = program::said(&first);
    }
    // It ends when the process does.
    let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
}

#[cfg(test)]
#[path = "../../tests/unit/branches/node.rs"]
mod tests;
