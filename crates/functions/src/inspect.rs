//! Looking at instances, queues and schedules of a database, and steering one instance, for whoever shows them to people: the command line and
//! the daemon.
//!
//! [`Database`] does one thing with one session, in one transaction, within limits of its own: what only looks cannot write, and no statement
//! runs longer than [`STATEMENT_LIMIT`]. Whoever has a session already uses the parts that take one. All of it sees what the role that is
//! connected sees: its own instances, or as the schema's owner those of all.
//!
//! Graphs, labels and inputs are what submitters wrote. Texts are cut at [`VALUE_MAX`] bytes, and say how long they are; a graph that is none
//! gives an instance without steps that says so.

mod control;
mod instance;
mod list;
mod overview;
mod queues;
mod schedules;
mod steps;

pub use control::{Action, Controlled};
pub use instance::{Activity, Child, Event, Execution, Instance, Node, Signal};
pub use list::{At, Filter, Listed, Page};
pub use overview::{Count, Counts, Overview, Worker};
pub use queues::{queues, Queue};
pub use schedules::{schedules, Scheduled, NEXT_TIMES};
pub use steps::{Edge, Slot, Step};

use crate::schema::{self, SchemaError, SCHEMA_VERSION};
use duramen_postgres::connection::{with_sources, ConnectError, Target};
use std::{future::Future, time::Duration};
use tokio_postgres::{error::SqlState, Client};

/// How long a connection may take to open.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long one statement may run.
pub const STATEMENT_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer may take in all: the connection and some statements.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of an input, a result, a query or a reason that are told at most.
pub const VALUE_MAX: usize = 64 << 10;
/// Instances on a page at most.
pub const PAGE_MAX: u32 = 1000;
/// Queues and schedules that are told at most, and workers.
pub const LIST_MAX: usize = 10_000;

/// What a session is called in `pg_stat_activity`.
const APPLICATION: &str = "duramen console";
/// How a transaction begins. Local settings, because poolers keep no others. The search path is nobody's but the server's.
const BEGIN: &str =
    "; SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '5s'; SET LOCAL jit = off; \
    SET LOCAL idle_in_transaction_session_timeout = '30s'; SET LOCAL search_path = pg_catalog, pg_temp";

/// Why something cannot be shown or done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The database has no durable functions that this program knows.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The functions there are not this program's.
    #[error("the functions of the schema df in {target} are not those of this program ({cause}): run `duramen fn install URL` again; instances in flight go on")]
    OtherFunctions {
        /// Host and database.
        target: String,
        /// The server's words.
        cause: String,
    },
    /// It took too long to connect, or to answer.
    #[error("{target} did not answer within {after_s} s; is the address right, and the server up?")]
    Late {
        /// Host and database.
        target: String,
        /// How long was waited, in seconds.
        after_s: u64,
    },
    /// One statement took too long.
    #[error("{target} needed more than {} s for it; ask for less: another status, a queue, a label", STATEMENT_LIMIT.as_secs())]
    Slow {
        /// Host and database.
        target: String,
    },
    /// There is no such instance, or it is another role's.
    #[error("Instance not found or access denied: {0}")]
    Unknown(String),
    /// What was asked for is nothing that there can be.
    #[error("{0}")]
    Invalid(String),
    /// The database refused it; its words.
    #[error("{message}")]
    Refused {
        /// What it said, with its hint.
        message: String,
        /// The SQLSTATE.
        sqlstate: String,
    },
    /// The connection broke.
    #[error("{target}: {cause}; is the server still up?")]
    Broken {
        /// Host and database.
        target: String,
        /// What happened.
        cause: String,
    },
}

/// A text that may be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The text, or its beginning.
    pub text: String,
    /// How many bytes the whole of it has.
    pub bytes: u64,
}

impl Value {
    /// A text, cut at a limit in bytes; `bytes` is how many the whole has.
    ///
    /// # Examples
    /// ```
    /// use duramen_functions::inspect::Value;
    /// let value = Value::cut("gr\u{fc}n".to_owned(), 5, 3);
    /// assert_eq!((value.text.as_str(), value.is_cut()), ("gr", true));
    /// ```
    #[must_use]
    pub fn cut(mut text: String, bytes: u64, max: usize) -> Value {
        if text.len() > max {
            let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
        }
        Value { text, bytes }
    }

    /// Whether something of it is missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        (self.text.len() as u64) < self.bytes
    }

    /// Two columns of a row: the text, and its length.
    fn of(
        row: &tokio_postgres::Row,
        text: &str,
        bytes: &str,
    ) -> Result<Option<Value>, tokio_postgres::Error> {
        let (text, bytes): (Option<String>, Option<i32>) = (row.try_get(text)?, row.try_get(bytes)?);
        Ok(text.map(|text| {
            let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(text.len() as u64);
            Value::cut(text, bytes, VALUE_MAX)
        }))
    }
}

/// A database with durable functions. Nothing is connected before something is asked.
///
/// ```no_run
/// # async fn example() -> Result<(), duramen_functions::inspect::InspectError> {
/// use duramen_functions::inspect::{Database, Filter};
/// let database = Database::at("postgres://app@localhost/shop")?;
/// let page = database.page(&Filter { status: Some("failed".to_owned()), ..Filter::default() }, 100, None).await?;
/// for listed in &page.instances {
///     println!("{} {:?}", listed.id, listed.reason);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Database {
    target: Target,
}

#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    Write,
}

impl Database {
    /// The database of a connection string.
    ///
    /// # Errors
    /// [`InspectError::Connect`]: it is none.
    pub fn at(url: &str) -> Result<Database, InspectError> {
        Ok(Database { target: Target::parse(url)?.application_name(APPLICATION) })
    }

    /// Whose database it is, what goes on there, and how many instances there are.
    ///
    /// # Errors
    /// [`InspectError`].
    pub async fn overview(&self) -> Result<Overview, InspectError> {
        self.asking(Access::Read, async |client| {
            Ok(overview::read(client, self.target.database_name()).await?)
        })
        .await
    }

    /// Instances, the newest first: at most so many, behind the cursor of the page before.
    ///
    /// # Errors
    /// [`InspectError`].
    pub async fn page(&self, filter: &Filter, many: u32, cursor: Option<&str>) -> Result<Page, InspectError> {
        filter.check()?;
        self.asking(Access::Read, async |client| Ok(list::read(client, filter, many, cursor).await?)).await
    }

    /// One instance, with its steps.
    ///
    /// # Errors
    /// [`InspectError::Unknown`], and as for the others.
    pub async fn instance(&self, id: &str) -> Result<Instance, InspectError> {
        if !is_id(id) {
            return Err(unknown(id));
        }
        let found = self.asking(Access::Read, async |client| Ok(instance::read(client, id).await?)).await?;
        let mut found = found.ok_or_else(|| unknown(id))?;
        // In a transaction of its own: of a graph that is none the server says so, and ends the transaction.
        match self.asking(Access::Read, async |client| Ok(instance::steps(client, id).await?)).await {
            Ok(parts) => found.take(parts),
            Err(InspectError::Refused { message, .. }) => found.problem = Some(message),
            Err(error) => return Err(error),
        }
        if found.may_have_children() {
            let children = async |client: &Client| Ok(instance::children(client, id).await?);
            found.children = self.asking(Access::Read, children).await?;
        }
        Ok(found)
    }

    /// The queues, by role and name.
    ///
    /// # Errors
    /// [`InspectError`].
    pub async fn queues(&self) -> Result<Vec<Queue>, InspectError> {
        self.asking(Access::Read, async |client| Ok(queues(client).await?)).await
    }

    /// The schedules, by role and name.
    ///
    /// # Errors
    /// [`InspectError`].
    pub async fn schedules(&self) -> Result<Vec<Scheduled>, InspectError> {
        self.asking(Access::Read, async |client| Ok(schedules(client).await?)).await
    }

    /// Does something with one instance.
    ///
    /// # Errors
    /// [`InspectError::Unknown`], [`InspectError::Refused`], and as for the others.
    pub async fn control(&self, id: &str, action: &Action) -> Result<Controlled, InspectError> {
        if !is_id(id) {
            return Err(unknown(id));
        }
        let done = self.asking(Access::Write, async |client| Ok(action.run(client, id).await?)).await;
        match done {
            Ok(Some(done)) => Ok(done),
            Ok(None) => Err(unknown(id)),
            // What `df._find` says.
            Err(InspectError::Refused { sqlstate, .. }) if sqlstate == SqlState::NO_DATA_FOUND.code() => {
                Err(unknown(id))
            }
            Err(error) => Err(error),
        }
    }

    /// Does something in one transaction of a session of its own.
    async fn asking<T>(
        &self,
        access: Access,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failed>,
    ) -> Result<T, InspectError> {
        self.within(ANSWER_LIMIT, async {
            let client = self.within(CONNECT_LIMIT, async { Ok(self.target.connect().await?) }).await?;
            let mode = match access {
                Access::Read => "BEGIN READ ONLY",
                Access::Write => "BEGIN READ WRITE",
            };
            let failed = |error: tokio_postgres::Error| self.failed(&error);
            client.batch_execute(&format!("{mode}{BEGIN}")).await.map_err(failed)?;
            match schema::version(&client, &self.target).await? {
                None => return Err(SchemaError::Missing { target: self.target.describe() }.into()),
                Some(found) if found < SCHEMA_VERSION => {
                    return Err(SchemaError::Older { target: self.target.describe(), found }.into());
                }
                Some(found) if found > SCHEMA_VERSION => {
                    return Err(SchemaError::Newer { target: self.target.describe(), found }.into());
                }
                Some(_) => {}
            }
            let answer = work(&client).await.map_err(|Failed(error)| self.failed(&error))?;
            if let Access::Write = access {
                client.batch_execute("COMMIT").await.map_err(failed)?;
            }
            Ok(answer)
        })
        .await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, InspectError>>,
    ) -> Result<T, InspectError> {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(InspectError::Late { target: self.target.describe(), after_s: limit.as_secs() })
        })
    }

    /// What it means that a statement failed.
    fn failed(&self, error: &tokio_postgres::Error) -> InspectError {
        let target = self.target.describe();
        let Some(said) = error.as_db_error() else {
            return InspectError::Broken { target, cause: with_sources(error) };
        };
        let code = said.code();
        if [SqlState::UNDEFINED_FUNCTION, SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE]
            .contains(code)
        {
            return InspectError::OtherFunctions { target, cause: said.message().to_owned() };
        }
        if *code == SqlState::QUERY_CANCELED {
            return InspectError::Slow { target };
        }
        let hint = match said.hint() {
            Some(hint) => format!("; {hint}"),
            None if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                let role = self.target.role();
                format!("; the owner of the schema may run: SELECT df.grant_usage('{role}')")
            }
            None => String::new(),
        };
        let message = format!("{}{hint}", said.message());
        InspectError::Refused {
            message: Value::cut(message, 0, VALUE_MAX).text,
            sqlstate: code.code().to_owned(),
        }
    }
}

/// A statement that failed.
struct Failed(tokio_postgres::Error);

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Failed {
        Failed(error)
    }
}

/// Whether a text can be the id of an instance.
fn is_id(text: &str) -> bool {
    matches!(text.len(), 8 | 16) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn unknown(id: &str) -> InspectError {
    InspectError::Unknown(id.chars().take(100).collect())
}
