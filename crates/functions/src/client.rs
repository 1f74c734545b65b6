//! Starting instances and waiting for them, as a program does it.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc::UnboundedReceiver, oneshot, OnceCell};
use tokio_postgres::{types::Type, Notification};

use duramen_postgres::connection::{with_sources, ConnectError, Target};

/// How many ends are remembered that nobody has asked for yet.
const RECENT_MAX: usize = 100_000;
/// How often a waiter asks, should a notification have been lost with a connection.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How many results are read at once, and how many bytes; the last one may go beyond that.
const RESULTS_AT_ONCE: usize = 500;
const RESULT_BYTES_AT_ONCE: i64 = 16 << 20;

/// What a session begins with: to compile its queries would take longer than to answer them. Not by the startup packet,
/// because poolers refuse settings there.
const PREPARE: &str = "SET jit = off";

/// The status of an instance, as a worker has written it: one whose cancelling was asked for may end otherwise yet.
const STATUS: &str = "
    SELECT CASE WHEN s.status = 'cancelled' AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq = df._seq($1))
        THEN 'running' ELSE s.status END
    FROM df.status($1) AS s(status)";

const RESULTS: &str = "SELECT instance_id, status, output FROM df.results($1, $2)";

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refused; its words.
    #[error("{0}")]
    Server(String),
    /// The instance had not ended in time.
    #[error("Timeout after {after_s}s waiting for instance {id}, which is {status}")]
    Timeout {
        /// The instance.
        id: String,
        /// How long was waited, in seconds.
        after_s: f64,
        /// Its status at the end.
        status: String,
    },
    /// There is no such instance, or it is another role's.
    #[error("Instance not found or access denied: {0}")]
    Unknown(String),
}

impl From<tokio_postgres::Error> for ClientError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = error.as_db_error().map_or_else(
            || with_sources(&error),
            |error| {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                format!("{}{hint}", error.message())
            },
        );
        Self::Server(text)
    }
}

/// A connection that starts instances and reads results, through the public functions of the schema.
pub struct Client {
    client: tokio_postgres::Client,
    start: tokio_postgres::Statement,
    /// Made ready when something is first started in a queue.
    start_in: OnceCell<tokio_postgres::Statement>,
    result: tokio_postgres::Statement,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let client =
            Target::parse(url)?.noticing_loss().application_name("duramen fn client").connect().await?;
        client.batch_execute(PREPARE).await?;
        let start = client.prepare_typed("SELECT df.start($1, $2)", &[Type::TEXT, Type::TEXT]).await?;
        let result = client.prepare_typed("SELECT df.result($1)", &[Type::TEXT]).await?;
        Ok(Self { client, start, start_in: OnceCell::new(), result })
    }

    /// Starts an instance and returns its id: `df.start`.
    ///
    /// # Errors
    /// [`ClientError::Server`]: what is wrong with the graph, or the right to start it.
    pub async fn start(&self, graph: &str, label: Option<&str>) -> Result<String, ClientError> {
        Ok(self.client.query_one(&self.start, &[&graph, &label]).await?.get(0))
    }

    /// Starts an instance that goes through a queue of the role's, and returns its id: `df.start` with `queue`.
    ///
    /// # Errors
    /// [`ClientError::Server`]: what is wrong with the graph, or that there is no such queue.
    pub async fn start_in(&self, queue: &str, graph: &str) -> Result<String, ClientError> {
        let prepare =
            || self.client.prepare_typed("SELECT df.start($1, queue => $2)", &[Type::TEXT, Type::TEXT]);
        let statement = self.start_in.get_or_try_init(prepare).await?;
        Ok(self.client.query_one(statement, &[&graph, &queue]).await?.get(0))
    }

    /// Starts many instances in one transaction and returns their ids in order: `df.start_many`.
    ///
    /// # Errors
    /// [`ClientError::Server`].
    pub async fn start_many(&self, graphs: &[&str]) -> Result<Vec<String>, ClientError> {
        let rows =
            self.client.query_typed("SELECT df.start_many($1)", &[(&graphs, Type::TEXT_ARRAY)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// The result of a completed instance as JSON text; `None`: it has not completed.
    ///
    /// # Errors
    /// [`ClientError::Server`].
    pub async fn result(&self, id: &str) -> Result<Option<String>, ClientError> {
        Ok(self.client.query_one(&self.result, &[&id]).await?.get(0))
    }

    /// The status of an instance; `None`: unknown, or another role's.
    ///
    /// # Errors
    /// [`ClientError::Server`].
    pub async fn status(&self, id: &str) -> Result<Option<String>, ClientError> {
        Ok(self.client.query_typed_one("SELECT df.status($1)", &[(&id, Type::TEXT)]).await?.get(0))
    }

    /// The connection itself.
    #[must_use]
    pub fn raw(&self) -> &tokio_postgres::Client {
        &self.client
    }
}

/// How an instance ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `completed`, `failed` or `cancelled`.
    pub status: String,
    /// The result as JSON text, or the text of the failure or of the reason.
    pub output: Option<String>,
}

/// Waits for the ends of instances by notification: any number of tasks over one connection.
///
/// While it lives, workers announce ends; without one they save themselves the trouble.
pub struct Waiter {
    listening: Arc<Listening>,
}

/// The connection of a waiter, and who waits.
struct Listening {
    client: tokio_postgres::Client,
    /// Made ready when results are first read.
    results: OnceCell<tokio_postgres::Statement>,
    ends: Mutex<Ends>,
}

impl Listening {
    /// How those of these instances ended that have ended.
    async fn results(&self, ids: &[String]) -> Result<HashMap<String, Ended>, tokio_postgres::Error> {
        let prepare = || self.client.prepare_typed(RESULTS, &[Type::TEXT_ARRAY, Type::INT8]);
        let statement = self.results.get_or_try_init(prepare).await?;
        let rows = self.client.query(statement, &[&ids, &RESULT_BYTES_AT_ONCE]).await?;
        Ok(rows.iter().map(|row| (row.get(0), Ended { status: row.get(1), output: row.get(2) })).collect())
    }
}

/// Somebody who waits for an end.
enum Waiting {
    /// For the end alone.
    End(oneshot::Sender<()>),
    /// For how it ended. `None`: it could not be read, and is asked for again.
    Result(oneshot::Sender<Option<Ended>>),
}

#[derive(Default)]
struct Ends {
    waiting: HashMap<String, Vec<Waiting>>,
    recent: HashMap<String, ()>,
    order: VecDeque<String>,
}

impl Ends {
    /// Tells those who wait for the end alone. Those who wait for the result are told later, and it is returned that there
    /// are some.
    fn ended(&mut self, id: &str) -> bool {
        if let Some(waiting) = self.waiting.remove(id) {
            let mut results = Vec::new();
            for waiting in waiting {
                match waiting {
                    // Who has given up waiting is not told.
                    Waiting::End(sender) => drop(sender.send(())),
                    Waiting::Result(sender) => results.push(Waiting::Result(sender)),
                }
            }
            let wanted = !results.is_empty();
            if wanted {
                self.waiting.insert(id.to_owned(), results);
            }
            return wanted;
        }
        if self.order.len() >= RECENT_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.recent.remove(&oldest);
            }
        }
        if self.recent.insert(id.to_owned(), ()).is_none() {
            self.order.push_back(id.to_owned());
        }
        false
    }

    /// Forgets those who have given up waiting for this instance.
    fn forget(&mut self, id: &str) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            waiting.retain(|waiting| match waiting {
                Waiting::End(sender) => !sender.is_closed(),
                Waiting::Result(sender) => !sender.is_closed(),
            });
            if waiting.is_empty() {
                self.waiting.remove(id);
            }
        }
    }

    /// Tells those who wait for the results of these instances.
    fn answered(&mut self, ids: &[String], mut results: HashMap<String, Ended>) {
        for id in ids {
            let result = results.remove(id);
            for waiting in self.waiting.remove(id).into_iter().flatten() {
                match waiting {
                    Waiting::Result(sender) => drop(sender.send(result.clone())),
                    Waiting::End(sender) => drop(sender.send(())),
                }
            }
        }
    }
}

/// Hears of ends until the connection or the waiter is gone, and reads the results that somebody waits for: all those of which
/// it heard while it read the ones before, at once.
async fn hear(mut notifications: UnboundedReceiver<Notification>, waiter: Weak<Listening>) {
    while let Some(notification) = notifications.recv().await {
        let Some(waiter) = waiter.upgrade() else { return };
        let mut wanted: Vec<String> = Vec::new();
        let mut next = Some(notification);
        while let Some(notification) = next {
            let mut ends = waiter.ends.lock();
            let heard = notification.payload().split(',').filter(|id| ends.ended(id)).map(str::to_owned);
            wanted.extend(heard);
            next = (wanted.len() < RESULTS_AT_ONCE).then(|| notifications.try_recv().ok()).flatten();
        }
        for ids in wanted.chunks(RESULTS_AT_ONCE) {
            // Who waits for what cannot be read asks by himself, and is told why.
            let results = waiter.results(ids).await.unwrap_or_default();
            waiter.ends.lock().answered(ids, results);
        }
    }
}

impl Waiter {
    /// Connects and listens for the ends of the role's own instances; those of others are asked for.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let target = Target::parse(url)?.noticing_loss().application_name("duramen fn waiter");
        let (client, notifications) = target.connect_listening().await?;
        // Should somebody else hold the lock alone, then workers cannot have it either, and announce.
        client.batch_execute(PREPARE).await?;
        let listen = match client.query_typed_one("SELECT df._done_channel()", &[]).await {
            Ok(row) => format!("LISTEN {}; ", duramen_postgres::quote_identifier(row.get(0))),
            // Without the schema, or a right to it, there is nothing to wait for: whatever is asked for next says so.
            Err(error) if error.as_db_error().is_some() => String::new(),
            Err(error) => return Err(error.into()),
        };
        let listen = format!("{listen}SELECT pg_try_advisory_lock_shared(6579571, 1)");
        client.batch_execute(&listen).await?;
        let listening = Arc::new(Listening { client, results: OnceCell::new(), ends: Mutex::default() });
        tokio::spawn(hear(notifications, Arc::downgrade(&listening)));
        Ok(Self { listening })
    }

    /// Waits for the end of an instance that was started after this waiter connected, and returns how it ended. The results of
    /// instances that end together are read together. Like [`Waiter::ended`] it asks for itself every two seconds.
    ///
    /// # Errors
    /// As for [`Waiter::ended`].
    pub async fn result(&self, id: &str, limit: Duration) -> Result<Ended, ClientError> {
        answered(id, limit, self.result_of(id, limit)).await
    }

    async fn result_of(&self, id: &str, limit: Duration) -> Result<Ended, ClientError> {
        let deadline = duramen_base::clock::now() + limit;
        loop {
            let receiver = {
                let mut ends = self.listening.ends.lock();
                let (sender, receiver) = oneshot::channel();
                if ends.recent.remove(id).is_none() {
                    ends.waiting.entry(id.to_owned()).or_default().push(Waiting::Result(sender));
                }
                receiver
            };
            let left = deadline.saturating_duration_since(duramen_base::clock::now());
            if let Ok(Ok(Some(ended))) = tokio::time::timeout(left.min(ASK_EVERY), receiver).await {
                return Ok(ended);
            }
            self.listening.ends.lock().forget(id);
            // It ended before anybody waited, somebody else said that it has, or the notification was lost.
            let ids = [id.to_owned()];
            if let Some(ended) = self.listening.results(&ids).await?.remove(id) {
                return Ok(ended);
            }
            let status = self.status(id).await?;
            if left <= ASK_EVERY {
                return Err(ClientError::Timeout { id: id.to_owned(), after_s: limit.as_secs_f64(), status });
            }
        }
    }

    /// Waits for an instance that was started after this waiter connected. It asks the database nothing unless the
    /// notification stays away for two seconds. It takes notifications at their word; whoever may connect to the database
    /// can send one, so look at the result.
    ///
    /// # Errors
    /// [`ClientError::Timeout`], [`ClientError::Unknown`], or a lost connection.
    pub async fn ended(&self, id: &str, limit: Duration) -> Result<(), ClientError> {
        answered(id, limit, self.end_of(id, limit)).await
    }

    async fn end_of(&self, id: &str, limit: Duration) -> Result<(), ClientError> {
        let receiver = {
            let mut ends = self.listening.ends.lock();
            if ends.recent.remove(id).is_some() {
                return Ok(());
            }
            let (sender, receiver) = oneshot::channel();
            ends.waiting.entry(id.to_owned()).or_default().push(Waiting::End(sender));
            receiver
        };
        let mut receiver = receiver;
        let deadline = duramen_base::clock::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(duramen_base::clock::now());
            if tokio::time::timeout(left.min(ASK_EVERY), &mut receiver).await.is_ok() {
                return Ok(());
            }
            let status = self.status(id).await?;
            if is_final(&status) {
                return Ok(());
            }
            if left <= ASK_EVERY {
                drop(receiver);
                self.listening.ends.lock().forget(id);
                return Err(ClientError::Timeout { id: id.to_owned(), after_s: limit.as_secs_f64(), status });
            }
        }
    }

    /// Waits for any instance and returns its final status.
    ///
    /// # Errors
    /// As for [`Waiter::ended`].
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<String, ClientError> {
        let status = self.status(id).await?;
        if is_final(&status) {
            return Ok(status);
        }
        // Anybody can notify: what counts is the status.
        let deadline = duramen_base::clock::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(duramen_base::clock::now());
            self.ended(id, left).await?;
            let status = self.status(id).await?;
            if is_final(&status) {
                return Ok(status);
            }
        }
    }

    async fn status(&self, id: &str) -> Result<String, ClientError> {
        self.listening
            .client
            .query_typed_one(STATUS, &[(&id, Type::TEXT)])
            .await?
            .get::<_, Option<String>>(0)
            .ok_or_else(|| ClientError::Unknown(id.to_owned()))
    }
}

/// Waits for what asks the server now and then, and no longer than its own limit and one question take, should the server not
/// answer.
async fn answered<T>(
    id: &str,
    limit: Duration,
    waiting: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::time::timeout(limit.saturating_add(ASK_EVERY), waiting).await.unwrap_or_else(|_| {
        let status = "unknown, because the server does not answer".to_owned();
        Err(ClientError::Timeout { id: id.to_owned(), after_s: limit.as_secs_f64(), status })
    })
}

fn is_final(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}
