//! One transaction in the database that a change set is applied to.

use super::ApplyOptions;
use crate::error::{ApplyError, Place};
use duramen_postgres::connection::{with_sources, Target};
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{error::SqlState, types::ToSql, Client, Error, Row};

/// How values are written, as when they were read in the branch; and names mean what the system means.
const PINNED: &str = "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL datestyle = 'ISO, YMD'; \
    SET LOCAL intervalstyle = 'postgres'; SET LOCAL timezone = 'UTC'; SET LOCAL extra_float_digits = 1; \
    SET LOCAL bytea_output = 'hex'; SET LOCAL lc_monetary = 'C'; SET LOCAL xmloption = 'content'";
/// The same as names and values.
pub(crate) const PINS: [(&str, &str); 8] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("datestyle", "ISO, YMD"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
    ("xmloption", "content"),
];
/// What triggers and defaults of users find: what they find in any other session of the role.
const AS_USUAL: &str = "SET LOCAL search_path TO DEFAULT; SET LOCAL datestyle TO DEFAULT; \
    SET LOCAL intervalstyle TO DEFAULT; SET LOCAL timezone TO DEFAULT; SET LOCAL extra_float_digits TO DEFAULT; \
    SET LOCAL bytea_output TO DEFAULT; SET LOCAL lc_monetary TO DEFAULT; SET LOCAL xmloption TO DEFAULT";
/// How long taking back may take.
const BACK_LIMIT: Duration = Duration::from_secs(10);

/// The transaction, and how long it waits for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) client: &'a Client,
    target: &'a Target,
    pub(crate) options: &'a ApplyOptions,
}

impl<'a> Run<'a> {
    pub(crate) fn new(client: &'a Client, target: &'a Target, options: &'a ApplyOptions) -> Run<'a> {
        Run { client, target, options }
    }

    /// The same transaction, with other options.
    pub(crate) fn with(&self, options: &'a ApplyOptions) -> Run<'a> {
        Run { options, ..*self }
    }

    /// Begins. Rows are locked before they are looked at, so each statement sees what is committed.
    pub(crate) async fn begin(&self) -> Result<(), ApplyError> {
        let (lock, statement) = (self.options.lock_timeout, self.options.statement_timeout);
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL lock_timeout = {}; \
             SET LOCAL statement_timeout = {}; SET LOCAL idle_in_transaction_session_timeout = '5min'; \
             SET LOCAL row_security = off; {PINNED}",
            lock.as_millis(),
            statement.as_millis()
        );
        self.batch("the beginning of the transaction", &begin).await
    }

    pub(crate) async fn pinned(&self) -> Result<(), ApplyError> {
        self.batch("setting how values are written", PINNED).await
    }

    pub(crate) async fn as_usual(&self) -> Result<(), ApplyError> {
        self.batch("setting the session back", AS_USUAL).await
    }

    /// Ends the transaction without a trace. If that fails, the server does it when the connection ends.
    pub(crate) async fn take_back(&self) {
        let _ = timeout(BACK_LIMIT, self.client.batch_execute("ROLLBACK")).await;
    }

    pub(crate) async fn batch(&self, doing: &str, sql: &str) -> Result<(), ApplyError> {
        self.client.batch_execute(sql).await.map_err(|error| self.failed(doing, error))
    }

    /// Runs exactly one statement: the protocol refuses several.
    pub(crate) async fn one(&self, doing: &str, sql: &str) -> Result<u64, ApplyError> {
        self.client.execute(sql, &[]).await.map_err(|error| self.failed(doing, error))
    }

    pub(crate) async fn rows(
        &self,
        doing: &str,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, ApplyError> {
        self.client.query(sql, values).await.map_err(|error| self.failed(doing, error))
    }

    /// What a statement's failure means.
    pub(crate) fn failed(&self, doing: &str, error: Error) -> ApplyError {
        let doing = doing.to_owned();
        let Some(server) = error.as_db_error() else {
            if self.client.is_closed() || error.is_closed() {
                return ApplyError::Lost { target: self.target.describe(), cause: with_sources(&error) };
            }
            return ApplyError::Refused { doing, cause: with_sources(&error), code: None, place: None };
        };
        if *server.code() == SqlState::LOCK_NOT_AVAILABLE {
            return ApplyError::Locked { doing, limit: self.options.lock_timeout };
        }
        let mut cause = server.message().to_owned();
        for more in [server.detail(), server.hint()].into_iter().flatten() {
            cause = format!("{cause}; {more}");
        }
        if *server.code() == SqlState::UNSAFE_NEW_ENUM_VALUE_USAGE {
            cause.push_str("; add the value by itself first, and apply the change set then");
        }
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let place =
            server.table().map(|table| Place { schema: text(server.schema()), table: table.to_owned() });
        let (code, place) = (Some(server.code().code().to_owned()), place.map(Box::new));
        ApplyError::Refused { doing, cause, code, place }
    }
}

#[cfg(test)]
mod tests {
    use super::{AS_USUAL, PINNED, PINS};

    #[test]
    fn c16_both_ways_to_apply_have_the_same_settings() {
        let pinned = PINNED.replace('\'', "");
        for (name, value) in PINS {
            assert!(pinned.split("; ").any(|set| set == format!("SET LOCAL {name} = {value}")), "{name}");
            assert!(AS_USUAL.contains(&format!("SET LOCAL {name} TO DEFAULT")), "{name}");
        }
        assert_eq!(PINNED.split(';').count(), PINS.len());
    }
}
