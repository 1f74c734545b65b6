//! Starting instances and waiting for them, as a program does it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;

use duramen_postgres::connection::{with_sources, ConnectError, Target};

/// How many ends are remembered that nobody has asked for yet.
const RECENT_MAX: usize = 100_000;
/// How often a waiter asks, should a notification have been lost with a connection.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// What a session begins with: to compile its queries would take longer than to answer them. Not by the startup packet,
/// because poolers refuse settings there.
const PREPARE: &str = "SET jit = off";

/// The status of an instance, as a worker has written it: one whose cancelling was asked for may end otherwise yet.
const STATUS: &str = "
    SELECT CASE WHEN s.status = 'cancelled' AND NOT EXISTS (SELECT FROM df._done d WHERE d.seq = df._seq($1))
        THEN 'running' ELSE s.status END
    FROM df.status($1) AS s(status)";

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
    result: tokio_postgres::Statement,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let client = Target::parse(url)?.application_name("duramen fn client").connect().await?;
        client.batch_execute(PREPARE).await?;
        let start = client.prepare_typed("SELECT df.start($1, $2)", &[Type::TEXT, Type::TEXT]).await?;
        let result = client.prepare_typed("SELECT df.result($1)", &[Type::TEXT]).await?;
        Ok(Self { client, start, result })
    }

    /// Starts an instance and returns its id: `df.start`.
    ///
    /// # Errors
    /// [`ClientError::Server`]: what is wrong with the graph, or the right to start it.
    pub async fn start(&self, graph: &str, label: Option<&str>) -> Result<String, ClientError> {
        Ok(self.client.query_one(&self.start, &[&graph, &label]).await?.get(0))
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

/// Waits for the ends of instances by notification: any number of tasks over one connection.
///
/// While it lives, workers announce ends; without one they save themselves the trouble.
pub struct Waiter {
    client: tokio_postgres::Client,
    ends: Arc<Mutex<Ends>>,
}

#[derive(Default)]
struct Ends {
    waiting: HashMap<String, Vec<oneshot::Sender<()>>>,
    recent: HashMap<String, ()>,
    order: VecDeque<String>,
}

impl Ends {
    fn ended(&mut self, id: &str) {
        if let Some(waiting) = self.waiting.remove(id) {
            for sender in waiting {
                // Who has given up waiting is not told.
                let _ = sender.send(());
            }
            return;
        }
        if self.order.len() >= RECENT_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.recent.remove(&oldest);
            }
        }
        if self.recent.insert(id.to_owned(), ()).is_none() {
            self.order.push_back(id.to_owned());
        }
    }
}

impl Waiter {
    /// Connects and listens for the ends of the role's own instances; those of others are asked for.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let target = Target::parse(url)?.application_name("duramen fn waiter");
        let (client, mut notifications) = target.connect_listening().await?;
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
        let ends: Arc<Mutex<Ends>> = Arc::default();
        let heard = Arc::clone(&ends);
        tokio::spawn(async move {
            while let Some(notification) = notifications.recv().await {
                let mut ends = heard.lock();
                for id in notification.payload().split(',') {
                    ends.ended(id);
                }
            }
        });
        Ok(Self { client, ends })
    }

    /// Waits for an instance that was started after this waiter connected. It asks the database nothing unless the
    /// notification stays away for two seconds. It takes notifications at their word; whoever may connect to the database
    /// can send one, so look at the result.
    ///
    /// # Errors
    /// [`ClientError::Timeout`], [`ClientError::Unknown`], or a lost connection.
    pub async fn ended(&self, id: &str, limit: Duration) -> Result<(), ClientError> {
        let receiver = {
            let mut ends = self.ends.lock();
            if ends.recent.remove(id).is_some() {
                return Ok(());
            }
            let (sender, receiver) = oneshot::channel();
            ends.waiting.entry(id.to_owned()).or_default().push(sender);
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
        self.client
            .query_typed_one(STATUS, &[(&id, Type::TEXT)])
            .await?
            .get::<_, Option<String>>(0)
            .ok_or_else(|| ClientError::Unknown(id.to_owned()))
    }
}

fn is_final(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}
