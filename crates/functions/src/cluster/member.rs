//! A session with one shard: short, with a deadline for whatever is asked.

use std::future::Future;
use std::time::Duration;

use tokio_postgres::{
    types::{ToSql, Type},
    Client, Row,
};

use super::ClusterError;
use crate::schema::{self, NO_JIT};
use duramen_postgres::connection::{with_sources, Target};

/// How long one question to a shard may take, the connection included.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// What a session begins with: names lead to nobody's objects, and no statement or lock is waited for longer than the answer.
const SETTINGS: [(&str, &str); 4] = [
    ("search_path", "pg_catalog, pg_temp"),
    NO_JIT,
    ("statement_timeout", "10000"),
    ("lock_timeout", "5000"),
];

/// A session with a shard, or with a database that is to become one.
pub(super) struct Member {
    target: Target,
    client: Client,
}

impl Member {
    /// Opens a session to ask what anybody may who may use durable functions there.
    pub(super) async fn open(target: &Target) -> Result<Member, ClusterError> {
        let target = target.clone().noticing_loss().application_name("duramen fn cluster").settings(SETTINGS);
        let client = timely(&target, async { Ok(target.connect().await?) }).await?;
        Ok(Member { target, client })
    }

    /// Opens a session to change something with the rights of the schema's owner: whatever is called there must be the owner's, and
    /// the database no copy that nobody has adopted.
    pub(super) async fn own(target: &Target) -> Result<Member, ClusterError> {
        let member = Member::open(target).await?;
        timely(&member.target, async { Ok(schema::check(&member.client, &member.target).await?) }).await?;
        Ok(member)
    }

    /// The rows of a query.
    pub(super) async fn rows(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, ClusterError> {
        let asked = async { self.client.query_typed(sql, parameters).await.map_err(|e| self.refused(&e)) };
        timely(&self.target, asked).await
    }

    /// The row of a query that has one.
    pub(super) async fn row(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, ClusterError> {
        let cause = || "no row came for what always has one".to_owned();
        let server = || ClusterError::Server { target: self.target.describe(), cause: cause() };
        self.rows(sql, parameters).await?.into_iter().next().ok_or_else(server)
    }

    /// Where it is.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    fn refused(&self, error: &tokio_postgres::Error) -> ClusterError {
        let cause = error.as_db_error().map_or_else(
            || with_sources(error),
            |said| match said.hint() {
                Some(hint) => format!("{}; {hint}", said.message()),
                None => said.message().to_owned(),
            },
        );
        ClusterError::Server { target: self.target.describe(), cause }
    }
}

async fn timely<T>(
    target: &Target,
    asked: impl Future<Output = Result<T, ClusterError>>,
) -> Result<T, ClusterError> {
    tokio::time::timeout(ANSWER_WITHIN, asked).await.unwrap_or_else(|_| {
        Err(ClusterError::Late { target: target.describe(), after_s: ANSWER_WITHIN.as_secs() })
    })
}
