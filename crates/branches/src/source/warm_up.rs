//! What every session of a branch does before the branch is called hot, and whether it can.

use super::{connection, flights, import::invalid, manifest::SourceRecord, refusal::read_error};
use crate::{
    error::EngineError,
    model::{Origin, Sanitised},
};
use duramen_postgres::{quote_identifier, quote_literal};
use tokio_postgres::{Client, Config, Row};

/// How many tables the default warm-up plans for.
const WARM_TABLES: usize = 50;
/// How long a statement of it may take.
const STATEMENT_LIMIT: &str = "60s";

/// The warm-up of a source: what its settings say, else a row of each of its largest tables.
pub(super) async fn statements(
    record: &SourceRecord,
    database: &Config,
    major: u32,
) -> Result<Vec<String>, EngineError> {
    if !record.settings.warm.is_empty() {
        return Ok(record.settings.warm.clone());
    }
    if matches!(record.origin, Origin::Flights { .. }) {
        return Ok(flights::WARM.iter().map(|sql| (*sql).to_owned()).collect());
    }
    let client = connection::own(database, major).await?;
    let rows = client
        .query(
            &format!(
                "select n.nspname::text, c.relname::text from pg_catalog.pg_class c \
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind in ('r', 'p') and c.oid >= 16384::oid and c.relpersistence <> 't' \
                 order by c.relpages desc, 1, 2 limit {WARM_TABLES}"
            ),
            &[],
        )
        .await
        .map_err(|error| read_error(&error))?;
    let table = |row: &Row| format!("{}.{}", quote_identifier(row.get(0)), quote_identifier(row.get(1)));
    Ok(rows.iter().map(|row| format!("select * from {} limit 1", table(row))).collect())
}

/// Runs the warm-up once as a holder of a branch and rolls it back, to see which sequences it moves; returns what can be run,
/// and what puts the sequences back, having done so itself. A statement that fails is an error now rather than a silent loss
/// later, if somebody asked for it. One of the default is left out, and said to be: a table may have columns that raise, or
/// parts elsewhere.
pub(super) async fn rehearse(
    own: &Client,
    holder: &Client,
    wanted: Vec<String>,
    is_default: bool,
    report: &mut Vec<Sanitised>,
) -> Result<(Vec<String>, Option<String>), EngineError> {
    let read = |error: tokio_postgres::Error| read_error(&error);
    let sequences = "select n.nspname::text, c.relname::text, pg_catalog.pg_sequence_last_value(s.seqrelid::regclass), s.seqstart \
                     from pg_catalog.pg_sequence s join pg_catalog.pg_class c on c.oid = s.seqrelid \
                     join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relpersistence <> 't' order by s.seqrelid";
    let before = own.query(sequences, &[]).await.map_err(read)?;
    holder.batch_execute(&format!("set statement_timeout = '{STATEMENT_LIMIT}'")).await.map_err(read)?;
    let mut warm = Vec::with_capacity(wanted.len());
    for statement in wanted {
        let outcome = async {
            holder.batch_execute("begin").await?;
            holder.execute(statement.as_str(), &[]).await?;
            holder.batch_execute("rollback").await
        };
        match outcome.await {
            Ok(()) => warm.push(statement),
            Err(error) => {
                let Some(refusal) = error.as_db_error().filter(|_| is_default) else {
                    let reason = error
                        .as_db_error()
                        .map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned());
                    return Err(invalid(
                        "bad_warm_statement",
                        format!("the warm-up statement {statement:?} fails: {reason}"),
                    ));
                };
                let action = format!("left out: {}", refusal.message());
                report.push(Sanitised { kind: "warm-up".to_owned(), object: statement, action });
                holder.batch_execute("rollback").await.map_err(read)?;
            }
        }
    }
    let after = own.query(sequences, &[]).await.map_err(read)?;
    let mut restore = Vec::new();
    for (old, new) in before.iter().zip(&after) {
        let name = format!("{}.{}", quote_identifier(old.get(0)), quote_identifier(old.get(1)));
        let (last, start): (Option<i64>, i64) = (old.get(2), old.get(3));
        if last != new.get::<_, Option<i64>>(2) {
            let value = last.unwrap_or(start);
            restore.push(format!(
                "pg_catalog.setval({}::pg_catalog.regclass, {value}::pg_catalog.int8, {})",
                quote_literal(&name),
                last.is_some()
            ));
        }
    }
    if restore.is_empty() {
        return Ok((warm, None));
    }
    let restore = format!("select {}", restore.join(", "));
    own.batch_execute(&restore).await.map_err(read)?;
    Ok((warm, Some(restore)))
}
