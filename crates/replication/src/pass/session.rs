//! One session of the load, and the numbers that it sends.

use crate::error::{refused, said};
use std::time::Duration;

use bytes::BytesMut;
use duramen_postgres::connection::Target;
use tokio::time::timeout;
use tokio_postgres::types::{to_sql_checked, IsNull, ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::super::level::Level;
use super::super::pair::Pair;
use super::super::scenario::Node;
use duramen_reports::suite::SuiteError;

/// How long what takes no time may take.
pub(in super::super) const PATIENCE: Duration = Duration::from_secs(30);

/// A session on the primary with the statements of the load prepared.
pub(super) struct Session {
    client: Client,
    statements: Vec<Statement>,
    target: Target,
}

impl Session {
    /// Opens one and prepares the statements.
    pub(super) async fn open(pair: &Pair, texts: &[String]) -> Result<Self, SuiteError> {
        let client = pair.connect(Node::Primary).await?;
        let mut statements = Vec::with_capacity(texts.len());
        for text in texts {
            let doing = format!("prepare {text:?}");
            let prepared = within(PATIENCE, &doing, client.prepare(text)).await?;
            statements.push(prepared.map_err(refused(doing.clone(), Node::Primary))?);
        }
        Ok(Self { client, statements, target: pair.target(Node::Primary).clone() })
    }

    /// From now on it commits at this level.
    pub(super) async fn set_level(&self, level: Level) -> Result<(), SuiteError> {
        let doing = format!("set synchronous_commit to {level}");
        let sql = format!("SET synchronous_commit = {level}");
        within(PATIENCE, &doing, self.client.batch_execute(&sql))
            .await?
            .map_err(refused(doing.clone(), Node::Primary))
    }

    /// One transaction. One that changes nothing does not wait for anything, so it counts as failed.
    pub(super) async fn commit(&self, statement: usize, numbers: &[i64]) -> Result<(), String> {
        let statement = &self.statements[statement];
        let numbers: Vec<Number> = numbers.iter().copied().map(Number).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = numbers
            .iter()
            .take(statement.params().len())
            .map(|number| number as &(dyn ToSql + Sync))
            .collect();
        match self.client.execute(statement, &parameters).await {
            Ok(0) => Err("the statement changed nothing".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(said(&error)),
        }
    }

    /// Asks the server to end what the session does. Whether it hears is seen when the session is used again.
    pub(super) async fn cancel(&self) {
        if let Ok(tls) = self.target.tls() {
            // A server that cannot be reached has nothing to cancel.
            let _ = timeout(PATIENCE, self.client.cancel_token().cancel_query(tls)).await;
        }
    }
}

/// A whole number as a parameter of whatever type the statement has.
#[derive(Debug)]
pub(super) struct Number(pub(super) i64);

impl ToSql for Number {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match *kind {
            Type::INT2 => i16::try_from(self.0)?.to_sql(kind, out),
            Type::INT4 => i32::try_from(self.0)?.to_sql(kind, out),
            Type::FLOAT8 => (self.0 as f64).to_sql(kind, out),
            Type::TEXT => self.0.to_string().to_sql(kind, out),
            _ => self.0.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT8, Type::TEXT].contains(kind)
    }

    to_sql_checked!();
}

/// What is not done in time is an error.
pub(in super::super) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl std::future::Future<Output = T>,
) -> Result<T, SuiteError> {
    tokio::time::timeout(limit, work).await.map_err(|_| crate::error::timeout(what, limit))
}
