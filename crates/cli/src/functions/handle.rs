//! Which database is meant, how it is asked, and what it means when it refuses.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::Args;
use duramen_functions::{client::ClientError, schema::SchemaError, worker::WorkerError};
use duramen_postgres::connection::{ConnectError, Target};
use serde::Serialize;
use std::{error::Error as _, fmt::Display, io::Write, process::ExitCode};
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
    Client, Row,
};

/// Names the database when no option does.
const VARIABLE: &str = "DURAMEN_FN_URL";

/// The options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Database")]
pub(crate) struct Place {
    /// The database, as postgres://ROLE@HOST/DATABASE or 'host=... dbname=...' [default: DURAMEN_FN_URL]
    #[arg(id = "place", long = "url", global = true, value_name = "URL")]
    url: Option<String>,
}

/// The database that a command works on. Nothing is connected before [`connect`](Handle::connect).
#[derive(Debug)]
pub(crate) struct Handle {
    /// The connection string.
    pub(crate) url: String,
    /// The same, taken apart.
    pub(crate) target: Target,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

/// Values for $1, $2, ...
pub(crate) type Parameters<'a> = [(&'a (dyn ToSql + Sync), Type)];

impl Place {
    /// Whether an option of its own names the database.
    pub(crate) fn is_named(&self) -> bool {
        self.url.is_some()
    }
}

impl Handle {
    /// `named` is the database that a command takes as an argument, and wins.
    pub(crate) fn new(context: &Context, place: &Place, named: Option<&String>) -> Result<Handle, Failure> {
        let variable = || std::env::var(VARIABLE).ok().filter(|url| !url.trim().is_empty());
        let url = named.or(place.url.as_ref()).cloned().or_else(variable).ok_or_else(|| {
            Failure::Usage(format!(
                "no database is named; pass --url postgres://ROLE@HOST/DATABASE, or set {VARIABLE}"
            ))
        })?;
        let target = Target::parse(&url)?;
        Ok(Handle { url, target, json: context.json })
    }

    /// A database that no option names.
    pub(crate) fn at(context: &Context, url: String) -> Result<Handle, Failure> {
        let target = Target::parse(&url)?;
        Ok(Handle { url, target, json: context.json })
    }

    /// Opens a session.
    pub(crate) async fn connect(&self) -> Result<Session<'_>, Failure> {
        // Compiling a query for a screenful of rows takes longer than answering it.
        let target = self.target.clone().application_name("duramen fn").settings([("jit", "off")]);
        let client = target.connect().await?;
        Ok(Session { handle: self, client })
    }

    /// The database of an instance: this one, or that of its shard. What cannot be told here is left to whatever is asked next.
    pub(crate) async fn of(self, id: &str) -> Result<Handle, Failure> {
        let route = "SELECT r.place FROM df.route($1) r WHERE NOT r.here";
        let session = self.connect().await?;
        let place: Option<String> = match session.client.query_typed_opt(route, &[(&id, Type::TEXT)]).await {
            Ok(row) => row.map(|row| row.get(0)),
            // There is a cluster, and it has no such shard.
            Err(error) if error.code() == Some(&SqlState::NO_DATA_FOUND) => return Err(self.refused(&error)),
            Err(error) if error.as_db_error().is_some() => None,
            Err(error) => return Err(self.refused(&error)),
        };
        drop(session);
        match place {
            None => Ok(self),
            Some(place) => self.at_place(&place),
        }
    }

    /// The database of a shard, with the role and the password of this one.
    pub(crate) fn at_place(&self, place: &str) -> Result<Handle, Failure> {
        let target = Target::parse(place)?.login_of(&self.target);
        Ok(Handle { url: target.exposed(), target, json: self.json })
    }

    /// Prints an answer in the form that was asked for.
    pub(crate) fn say(&self, value: &impl Serialize, text: impl Display) -> Outcome {
        if self.json {
            output::json(value)?;
        } else {
            output::line(text);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What the server's refusal means.
    fn refused(&self, error: &tokio_postgres::Error) -> Failure {
        let target = self.target.describe();
        let Some(said) = error.as_db_error() else {
            let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
            return Failure::Other(format!("{target}: {error}{cause}; is the server still up?"));
        };
        let message = said.message();
        Failure::Other(match (said.code(), said.hint()) {
            (&SqlState::INVALID_SCHEMA_NAME | &SqlState::UNDEFINED_TABLE, _) if message.contains("\"df") => {
                format!("{target} has no durable functions: run `duramen fn install URL` on it first")
            }
            (_, Some(hint)) => format!("{message}; {hint}"),
            (&SqlState::INSUFFICIENT_PRIVILEGE, None) => {
                let role = self.target.role();
                format!(
                    "{target}: {message}; the owner of the schema may run: SELECT df.grant_usage('{role}')"
                )
            }
            _ => message.to_owned(),
        })
    }
}

/// A connection to the database of a handle.
pub(crate) struct Session<'a> {
    handle: &'a Handle,
    client: Client,
}

impl Session<'_> {
    /// The rows of a query.
    pub(crate) async fn rows(&self, sql: &str, parameters: &Parameters<'_>) -> Result<Vec<Row>, Failure> {
        self.client.query_typed(sql, parameters).await.map_err(|error| self.handle.refused(&error))
    }

    /// The row of a query that has one or none.
    pub(crate) async fn maybe(&self, sql: &str, parameters: &Parameters<'_>) -> Result<Option<Row>, Failure> {
        Ok(self.rows(sql, parameters).await?.into_iter().next())
    }

    /// What the library asks by this session.
    pub(crate) async fn asked<T>(
        &self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Failure> {
        ask(&self.client).await.map_err(|error| self.handle.refused(&error))
    }

    /// The only row of a query.
    pub(crate) async fn row(&self, sql: &str, parameters: &Parameters<'_>) -> Result<Row, Failure> {
        let row = self.maybe(sql, parameters).await?;
        row.ok_or_else(|| Failure::Other(format!("the server gave no row for: {sql}")))
    }
}

/// An instance that is not there, or another role's.
pub(crate) fn unknown(id: &str) -> Failure {
    Failure::Other(format!(
        "Instance not found or access denied: {id}; `duramen fn list` shows those that you may see"
    ))
}

/// Says something beside the answer, on the standard error.
pub(crate) fn note(text: impl Display) {
    // Who has left hears nothing.
    let _ = writeln!(std::io::stderr().lock(), "note: {text}");
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        match error {
            ConnectError::Url { .. } => Failure::Usage(error.to_string()),
            ConnectError::Refused { .. } => {
                Failure::Other(format!("{error}; are the address, the role and its password right?"))
            }
            _ => Failure::Other(error.to_string()),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Connect(error) => error.into(),
            ClientError::Unknown(id) => unknown(&id),
            ClientError::Timeout { ref id, .. } => Failure::Other(format!(
                "{error}; it goes on: wait again with `duramen fn await {id}`. Does a worker run?"
            )),
            _ => Failure::Other(error.to_string()),
        }
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Failure {
        match error {
            SchemaError::Connect(error) => error.into(),
            _ => Failure::Other(error.to_string()),
        }
    }
}

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Failure {
        match error {
            WorkerError::Connect(error) => error.into(),
            WorkerError::Schema(error) => error.into(),
            _ => Failure::Other(error.to_string()),
        }
    }
}
