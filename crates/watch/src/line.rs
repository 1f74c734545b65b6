//! A connection that is opened again when it was lost, and never waited for longer than a moment.

use crate::error::WatchError;
use duramen_postgres::connection::{with_sources, Target};
use futures_util::future::try_join_all;
use std::{future::Future, time::Duration};
use tokio::time::timeout;
use tokio_postgres::{Client, Row, Statement};

/// A server that does not answer within this has not answered.
pub(crate) const LIMIT: Duration = Duration::from_millis(900);
/// The same for what is asked once, at the beginning.
const PATIENCE: Duration = Duration::from_secs(10);
/// What our sessions are called.
pub(crate) const APPLICATION_NAME: &str = "duramen-watch";
/// Sessions that can change nothing, hold nothing up, and end by themselves if we are not there to end them.
const SETTINGS: [(&str, &str); 4] = [
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "5s"),
    ("lock_timeout", "1s"),
    ("idle_in_transaction_session_timeout", "5s"),
];

/// Why a server was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It refuses connections, or has closed this one.
    Gone(String),
    /// It did not answer in time.
    Late,
    /// It answered with an error.
    Error(String),
}

impl std::fmt::Display for Unread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unread::Gone(why) | Unread::Error(why) => out.write_str(why),
            Unread::Late => write!(out, "it did not answer within {} ms", LIMIT.as_millis()),
        }
    }
}

/// A connection with its statements.
pub(crate) struct Line<const N: usize> {
    target: Target,
    texts: [&'static str; N],
    open: Option<(Client, [Statement; N])>,
}

impl<const N: usize> Line<N> {
    /// To a server, for these statements; it is opened when it is first needed.
    pub(crate) fn new(target: &Target, texts: [&'static str; N]) -> Self {
        Self { target: target.clone(), texts, open: None }
    }

    /// Asks all of its questions at once; the server answers in their order.
    pub(crate) async fn ask(&mut self) -> Result<[Vec<Row>; N], Unread> {
        if self.open.is_none() {
            self.open = Some(self.connect().await?);
        }
        let Some((client, statements)) = &self.open else { return Err(Unread::Late) };
        let asked = statements.each_ref().map(|statement| client.query(statement, &[]));
        let answer = match timeout(LIMIT, all(asked)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if error.as_db_error().is_some() && !client.is_closed() => {
                return Err(Unread::Error(with_sources(&error)));
            }
            Ok(Err(error)) => Unread::Gone(with_sources(&error)),
            Err(_) => Unread::Late,
        };
        // What it still has to say would be taken for the answer to the next question.
        self.open = None;
        Err(answer)
    }

    async fn connect(&self) -> Result<(Client, [Statement; N]), Unread> {
        let gone = |error: &dyn std::error::Error| Unread::Gone(with_sources(error));
        let connect = async {
            let client = self.target.connect().await.map_err(|error| gone(&error))?;
            let prepared = self.texts.each_ref().map(|text| client.prepare(text));
            let statements = all(prepared).await.map_err(|error| gone(&error))?;
            Ok((client, statements))
        };
        timeout(LIMIT, connect).await.unwrap_or(Err(Unread::Late))
    }
}

/// Waits for all, which are sent before the first is answered.
async fn all<T, F: Future<Output = Result<T, tokio_postgres::Error>>, const N: usize>(
    futures: [F; N],
) -> Result<[T; N], tokio_postgres::Error> {
    let answers = try_join_all(futures).await?;
    Ok(answers.try_into().unwrap_or_else(|_| unreachable!("as many answers as questions")))
}

/// Where to connect, with the settings of our sessions.
pub(crate) fn target(node: &'static str, dsn: &str) -> Result<Target, WatchError> {
    let target = Target::parse(dsn).map_err(|source| WatchError::Connect { node, source })?;
    Ok(target.application_name(APPLICATION_NAME).settings(SETTINGS))
}

/// Asks one question that has one row as its answer, once.
pub(crate) async fn ask_once(
    node: &'static str,
    target: &Target,
    client: &Client,
    sql: &str,
) -> Result<Row, WatchError> {
    let refused = |reason: String| WatchError::Refused { node, described: target.describe(), reason };
    match timeout(PATIENCE, client.query_one(sql, &[])).await {
        Ok(Ok(row)) => Ok(row),
        Ok(Err(error)) => Err(refused(with_sources(&error))),
        Err(_) => Err(refused(format!("it did not answer within {} s", PATIENCE.as_secs()))),
    }
}
