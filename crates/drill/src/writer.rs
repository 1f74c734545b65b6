//! Clients that write rows, one after another, to whichever node takes writes, and never give up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_postgres::connection::{with_sources, Target};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::error::DrillError;
use crate::ledger::{Attempt, Ledger};

/// A node has answered within this, or the next one is tried.
const CONNECTED: Duration = Duration::from_secs(1);
/// A row is acknowledged within this, or the client gives up the connection, and never knows.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two attempts that fail.
const PAUSE: Duration = Duration::from_millis(30);
/// After a row, so that the disk is not all that is measured.
const BREATH: Duration = Duration::from_millis(2);
/// Who is under way ends within this.
const DRAIN: Duration = Duration::from_secs(10);

/// What a client does to a node: rows of a ledger, or commits that leave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Rows of the table `drill_ledger`, under the number of a run.
    Rows(i64),
    /// Transactional messages: a commit as any other, and no object in the database. Their numbers are those of their
    /// transactions.
    Messages,
}

impl Work {
    fn statement(self) -> &'static str {
        match self {
            Work::Rows(_) => {
                "INSERT INTO public.drill_ledger VALUES ($1, $2, $3) RETURNING n"
            }
            Work::Messages => {
                "SELECT pg_current_xact_id()::text::bigint
                 FROM pg_logical_emit_message(true, 'duramen-drill', $1::bigint::text || $2::int::text || $3::bigint::text)"
            }
        }
    }
}

/// The table that [`Work::Rows`] are in.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS public.drill_ledger
    (run bigint, client integer, n bigint, PRIMARY KEY (run, client, n))";

/// Clients under way.
pub struct Writers {
    clients: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Writers {
    /// Begins: one client for each of `ways`, which are the nodes that it may write to, with their numbers. Times count from
    /// `origin`.
    #[must_use]
    pub fn begin(ways: Vec<Vec<(usize, Target)>>, work: Work, ledger: &Arc<Ledger>, origin: Instant) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        for (client, nodes) in ways.into_iter().enumerate() {
            let writer = Writer {
                client: i32::try_from(client).unwrap_or(i32::MAX),
                nodes,
                work,
                ledger: Arc::clone(ledger),
                origin,
                stopped: stopped.clone(),
            };
            clients.spawn(writer.write());
        }
        Self { clients, stop }
    }

    /// Ends them, and waits for what is under way.
    ///
    /// # Errors
    /// [`DrillError::Timeout`].
    pub async fn end(mut self) -> Result<(), DrillError> {
        // Without a client nobody listens.
        let _ = self.stop.send(true);
        let joined = async { while self.clients.join_next().await.is_some() {} };
        tokio::time::timeout(DRAIN, joined).await.map_err(|_| DrillError::Timeout {
            what: "clients to end".to_owned(),
            seconds: DRAIN.as_secs(),
            said: String::new(),
        })
    }
}

struct Writer {
    client: i32,
    nodes: Vec<(usize, Target)>,
    work: Work,
    ledger: Arc<Ledger>,
    origin: Instant,
    stopped: watch::Receiver<bool>,
}

/// A session with a node that takes writes.
struct Session {
    node: usize,
    client: Client,
    statement: Statement,
}

impl Writer {
    async fn write(self) {
        let mut number = 0;
        let mut session: Option<Session> = None;
        let mut next = 0;
        while !*self.stopped.borrow() {
            let Some(open) = &session else {
                session = self.connect(&mut next).await;
                if session.is_none() {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            };
            number += 1;
            let begin = self.since();
            let run = match self.work {
                Work::Rows(run) => run,
                Work::Messages => 0,
            };
            let parameters: [&(dyn ToSql + Sync); 3] = [&run, &self.client, &number];
            let row = open.client.query_one(&open.statement, &parameters);
            let told = match tokio::time::timeout(PATIENCE, row).await {
                Ok(Ok(row)) => Ok(row.get::<_, i64>(0)),
                Ok(Err(error)) => Err(said(&error)),
                Err(_) => Err(format!("no answer within {PATIENCE:?}")),
            };
            let node = open.node;
            let note = |number, is_acknowledged| {
                let (client, end) = (self.client, self.since());
                self.ledger.note(Attempt { client, number, node, begin, end, is_acknowledged });
            };
            match told {
                Ok(told) => {
                    note(if self.work == Work::Messages { told } else { number }, true);
                    tokio::time::sleep(BREATH).await;
                }
                Err(text) => {
                    note(if self.work == Work::Messages { -number } else { number }, false);
                    self.ledger.complain(&text);
                    session = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// The next node that takes writes.
    async fn connect(&self, next: &mut usize) -> Option<Session> {
        for _ in 0..self.nodes.len() {
            let (node, target) = &self.nodes[*next % self.nodes.len()];
            *next += 1;
            let connecting = async {
                let client = target.connect().await.map_err(|error| error.to_string())?;
                let ask = client.query_one("SELECT pg_is_in_recovery()", &[]).await;
                if ask.map_err(|error| said(&error))?.get::<_, bool>(0) {
                    return Ok(None);
                }
                let prepared = client.prepare(self.work.statement()).await;
                let statement = prepared.map_err(|error| said(&error))?;
                Ok::<_, String>(Some(Session { node: *node, client, statement }))
            };
            // That a node cannot be reached is what a drill is about: it is seen in the gap.
            if let Ok(Ok(Some(session))) = tokio::time::timeout(CONNECTED, connecting).await {
                // Whoever is cut off comes here again first.
                *next -= 1;
                return Some(session);
            }
            if *self.stopped.borrow() {
                return None;
            }
        }
        None
    }

    fn since(&self) -> Duration {
        clock::now().duration_since(self.origin)
    }
}

/// What a server or the network said, in a line.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} {}", error.code().code(), error.message()),
        None => with_sources(error),
    }
}
