//! The state of a live source, in figures that change when anybody writes to it.
//!
//! A snapshot that is read-only proves little by staying the same, so the *origin* is looked at: every table of
//! every database is read in one read-only transaction and hashed row by row (the sum of the rows' 64-bit hashes
//! does not depend on their order), sequences and the definitions of objects too, and the server's own counters of
//! written rows and its write position are recorded. Reading changes none of these.

use crate::{
    error::{EngineError, Kind},
    model::{ContentHash, SourceComparison, SourceFingerprint},
};
use duramen_measure::clock;
use duramen_postgres::{quote_identifier, quote_literal};
use std::{collections::BTreeMap, path::Path, time::Duration};
use tokio_postgres::{Client, Config, NoTls};

/// How long one database of a source may take to be read.
const READ_LIMIT: Duration = Duration::from_secs(3600);

/// Connects, and drives the connection in the background.
pub(crate) async fn connect(config: &Config) -> Result<Client, EngineError> {
    let mut config = config.clone();
    config.connect_timeout(Duration::from_secs(10)).application_name("duramen");
    let (client, connection) = config.connect(NoTls).await.map_err(|error| unreachable_source(&error))?;
    tokio::spawn(connection);
    Ok(client)
}

/// Errors about the origin never show its address: only what the server or the network said.
fn unreachable_source(error: &tokio_postgres::Error) -> EngineError {
    let reason = error.as_db_error().map_or_else(
        || {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(inner) = cause {
                text = format!("{text}: {inner}");
                cause = inner.source();
            }
            text
        },
        |refusal| refusal.message().to_owned(),
    );
    EngineError::new(
        Kind::Failed,
        "source_unreachable",
        format!("the source's server cannot be reached ({reason}); check that it runs and accepts this user without TLS"),
    )
}

pub(crate) fn read_error(error: &tokio_postgres::Error) -> EngineError {
    let reason =
        error.as_db_error().map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned());
    EngineError::new(
        Kind::Failed,
        "source_error",
        format!("the source's server refused to be read: {reason}"),
    )
}

/// The fingerprint of a running server.
pub(crate) async fn of_server(config: &Config) -> Result<SourceFingerprint, EngineError> {
    let taken_at = clock::utc_now();
    let client = connect(config).await?;
    let position = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end::text";
    let write_position: String =
        client.query_one(position, &[]).await.map_err(|error| read_error(&error))?.get(0);
    // Sessions report their counters when they end a transaction, at most once a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let rows_written: i64 = client
        .query_one(
            "select coalesce(sum(tup_inserted + tup_updated + tup_deleted), 0)::bigint from pg_stat_database \
             where datname is not null",
            &[],
        )
        .await
        .map_err(|error| read_error(&error))?
        .get(0);
    let databases = client
        .query(
            "select datname::text from pg_database where datallowconn and not datistemplate order by 1",
            &[],
        )
        .await
        .map_err(|error| read_error(&error))?;
    let mut contents = BTreeMap::new();
    for row in databases {
        let database: String = row.get(0);
        let mut config = config.clone();
        config.dbname(&database);
        let client = connect(&config).await?;
        tokio::time::timeout(READ_LIMIT, read_database(&client, &database, &mut contents)).await.map_err(
            |_| {
                EngineError::new(
                    Kind::Timeout,
                    "source_slow",
                    format!("reading database {database} took more than {READ_LIMIT:?}"),
                )
            },
        )??;
    }
    Ok(assemble(taken_at, "server", write_position, u64::try_from(rows_written).ok(), contents))
}

async fn read_database(
    client: &Client,
    database: &str,
    contents: &mut BTreeMap<String, ContentHash>,
) -> Result<(), EngineError> {
    let fail = |error: tokio_postgres::Error| read_error(&error);
    client
        .batch_execute(
            "begin isolation level repeatable read read only; \
             set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres'; set local timezone = 'UTC'; \
             set local extra_float_digits = 1; set local bytea_output = 'hex'; set local statement_timeout = 0",
        )
        .await
        .map_err(fail)?;
    let user_schemas = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";
    let tables = client
        .query(
            &format!(
                "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                 where c.relkind in ('r', 'm') and c.relpersistence <> 't' and {user_schemas} order by 1, 2"
            ),
            &[],
        )
        .await
        .map_err(fail)?;
    for row in tables {
        let (schema, table): (String, String) = (row.get(0), row.get(1));
        let hash = client
            .query_one(
                &format!(
                    "select count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text from only {}.{} t",
                    quote_identifier(&schema),
                    quote_identifier(&table)
                ),
                &[],
            )
            .await
            .map_err(fail)?;
        let count = u64::try_from(hash.get::<_, i64>(0)).unwrap_or_default();
        contents.insert(format!("{database}.{schema}.{table}"), ContentHash { count, hash: hash.get(1) });
    }
    // Definitions: a rewritten, altered or added object changes one of these.
    for (name, query) in [
        ("sequences", "select row(schemaname, sequencename, last_value)::text as x from pg_sequences".to_owned()),
        (
            "relations",
            format!("select row(c.oid, c.relname, c.relkind, c.relfilenode, c.relowner)::text as x from pg_class c join pg_namespace n on n.oid = c.relnamespace where {user_schemas} and c.relpersistence <> 't'"),
        ),
        (
            "columns",
            format!("select row(a.attrelid, a.attnum, a.attname, a.atttypid, a.attnotnull)::text as x from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace where {user_schemas} and c.relpersistence <> 't'"),
        ),
        ("functions", format!("select row(p.oid, p.proname, p.prosrc)::text as x from pg_proc p join pg_namespace n on n.oid = p.pronamespace where {user_schemas}")),
        ("roles", "select row(oid, rolname, rolsuper, rolcanlogin)::text as x from pg_roles".to_owned()),
    ] {
        let row = client
            .query_one(&format!("select count(*), coalesce(md5(string_agg(x, ',' order by x)), {}) from ({query}) q", quote_literal("")), &[])
            .await
            .map_err(fail)?;
        let count = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
        contents.insert(format!("{database} ({name})"), ContentHash { count, hash: row.get(1) });
    }
    client.batch_execute("commit").await.map_err(fail)
}

/// The fingerprint of an origin that is files: one script, or a data directory.
pub(crate) fn of_files(path: &Path) -> Result<SourceFingerprint, EngineError> {
    let taken_at = clock::utc_now();
    let mut contents = BTreeMap::new();
    for (name, file) in super::digest::files(path).map_err(|error| origin_io(path, &error))? {
        let (count, hash) = super::digest::file(&file).map_err(|error| origin_io(&file, &error))?;
        contents.insert(name, ContentHash { count, hash: hash.to_hex().to_string() });
    }
    Ok(assemble(taken_at, "files", String::new(), None, contents))
}

fn origin_io(path: &Path, error: &std::io::Error) -> EngineError {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    EngineError::new(Kind::Failed, "source_unreachable", format!("cannot read {name} of the source: {error}"))
}

fn assemble(
    taken_at: jiff::Timestamp,
    method: &str,
    write_position: String,
    rows_written: Option<u64>,
    contents: BTreeMap<String, ContentHash>,
) -> SourceFingerprint {
    let mut hasher = blake3::Hasher::new();
    for (name, content) in &contents {
        hasher.update(format!("{name}\0{}\0{}\n", content.count, content.hash).as_bytes());
    }
    let content_hash = hasher.finalize().to_hex().to_string();
    SourceFingerprint {
        taken_at,
        method: method.to_owned(),
        write_position,
        rows_written,
        contents,
        content_hash,
    }
}

/// Compares two fingerprints of one source.
#[must_use]
pub fn compare(before: &SourceFingerprint, after: &SourceFingerprint) -> SourceComparison {
    let mut differences = Vec::new();
    for (name, old) in &before.contents {
        match after.contents.get(name) {
            None => differences.push(format!("{name} is gone")),
            Some(new) if new != old => {
                differences
                    .push(format!("{name}: {} rows then, {} rows now, other content", old.count, new.count));
            }
            Some(_) => {}
        }
    }
    for name in after.contents.keys().filter(|name| !before.contents.contains_key(*name)) {
        differences.push(format!("{name} is new"));
    }
    if before.rows_written != after.rows_written {
        differences.push(format!(
            "the server counted {} rows written then, {} now",
            before.rows_written.unwrap_or_default(),
            after.rows_written.unwrap_or_default()
        ));
    }
    SourceComparison {
        unchanged: differences.is_empty(),
        nothing_written: differences.is_empty() && before.write_position == after.write_position,
        differences,
    }
}
