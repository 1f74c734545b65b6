//! Making a snapshot harmless: no branch of it can reach out, or do what its policy forbids.
//!
//! The SQL lies beside this file: roles of branches, then what concerns the whole cluster, then each database.

use super::fingerprint::{connect, read_error};
use crate::{
    error::{EngineError, Kind},
    model::Sanitised,
};
use duramen_postgres::{quote_literal, Installation, Settings};
use std::{fs, path::Path};
use tokio_postgres::{Client, Config};

/// The superuser of snapshots. Only the operating-system users that own the files can be it (`pg_ident.conf`).
pub(crate) const ADMIN: &str = "duramen_admin";

/// Settings of the origin that change what SQL means, and are kept. All others are left behind.
const CARRIED: &[&str] = &[
    "timezone",
    "datestyle",
    "intervalstyle",
    "lc_messages",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "default_text_search_config",
    "bytea_output",
    "xmlbinary",
    "xmloption",
    "standard_conforming_strings",
    "backslash_quote",
    "extra_float_digits",
    "default_transaction_isolation",
    "search_path",
];

/// Settings of the origin that would make a branch reach out or use a secret; each is reported as left out.
const REACHING_OUT: &[&str] = &[
    "archive_command",
    "archive_library",
    "archive_cleanup_command",
    "recovery_end_command",
    "restore_command",
    "primary_conninfo",
    "primary_slot_name",
    "ssl_passphrase_command",
    "local_preload_libraries",
    "session_preload_libraries",
    "cron.database_name",
    "oauth_validator_libraries",
];

/// Libraries whose workers reach out, wherever they are installed.
const REACHING_LIBRARIES: &[&str] =
    &["pg_cron", "pg_net", "pglogical", "bdr", "pg_failover_slots", "pg_partman_bgw"];

/// Reads the origin's configuration files in a copied data directory, and returns the settings that are carried
/// over, with a report of those that were disabled.
pub(crate) fn carry_settings(data_dir: &Path, installation: &Installation) -> (Settings, Vec<Sanitised>) {
    let mut origin = Settings::new();
    for file in ["postgresql.conf", "postgresql.auto.conf"] {
        if let Ok(text) = fs::read_to_string(data_dir.join(file)) {
            origin.merge(&Settings::from_conf(&text));
        }
    }
    let mut carried = Settings::new();
    let mut report = Vec::new();
    for name in CARRIED {
        if let Some(value) = origin.get(name) {
            carried.set(name, value);
        }
    }
    for name in REACHING_OUT {
        if origin.get(name).is_some_and(|value| !value.is_empty()) {
            report.push(sanitised("setting", name, "removed"));
        }
    }
    let libraries = origin.get("shared_preload_libraries").unwrap_or_default().to_owned();
    let mut kept = Vec::new();
    for library in
        libraries.split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty())
    {
        if REACHING_LIBRARIES.contains(&library) {
            report.push(sanitised("preloaded library", library, "removed: its workers reach out"));
        } else if installation.has_library(library) {
            kept.push(library);
        } else {
            report.push(sanitised("preloaded library", library, "removed: not installed with this server"));
        }
    }
    if !kept.is_empty() {
        carried.set("shared_preload_libraries", &kept.join(", "));
    }
    (carried, report)
}

fn sanitised(kind: &str, object: &str, action: &str) -> Sanitised {
    Sanitised { kind: kind.to_owned(), object: object.to_owned(), action: action.to_owned() }
}

/// Sanitises every database of a running snapshot-to-be.
pub(crate) async fn run(server: &Config) -> Result<Vec<Sanitised>, EngineError> {
    let mut report = Vec::new();
    let databases = databases(server).await?;
    for (index, database) in databases.iter().enumerate() {
        let mut config = server.clone();
        config.dbname(database);
        let client = connect(&config).await?;
        client
            .batch_execute("create temporary table report (kind text, object text, action text)")
            .await
            .map_err(|error| failed(database, &error))?;
        roll_back_prepared(&client, database, &mut report).await?;
        if index == 0 {
            let cluster = [include_str!("branch_roles.sql"), include_str!("cluster_sanitise.sql")];
            client.batch_execute(&cluster.concat()).await.map_err(|error| failed(database, &error))?;
        }
        client
            .batch_execute(include_str!("database_sanitise.sql"))
            .await
            .map_err(|error| failed(database, &error))?;
        let rows = client
            .query("select distinct kind, object, action from pg_temp.report order by 1, 2, 3", &[])
            .await
            .map_err(|error| failed(database, &error))?;
        report.extend(rows.iter().map(|row| Sanitised {
            kind: row.get(0),
            object: row.get(1),
            action: row.get(2),
        }));
    }
    Ok(report)
}

/// The databases that can be connected to, template databases included (what is granted there is inherited).
pub(crate) async fn databases(server: &Config) -> Result<Vec<String>, EngineError> {
    let client = connect(server).await?;
    let rows = client
        .query("select datname::text from pg_database where datallowconn order by datistemplate, 1", &[])
        .await
        .map_err(|error| read_error(&error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// A transaction that the origin had prepared would keep its locks in every branch for ever.
async fn roll_back_prepared(
    client: &Client,
    database: &str,
    report: &mut Vec<Sanitised>,
) -> Result<(), EngineError> {
    let rows = client
        .query("select gid from pg_prepared_xacts where database = current_database()", &[])
        .await
        .map_err(|error| failed(database, &error))?;
    for row in rows {
        let gid: String = row.get(0);
        client
            .batch_execute(&format!("rollback prepared {}", quote_literal(&gid)))
            .await
            .map_err(|error| failed(database, &error))?;
        report.push(sanitised("prepared transaction", &gid, "rolled back"));
    }
    Ok(())
}

fn failed(database: &str, error: &tokio_postgres::Error) -> EngineError {
    let reason = error.as_db_error().map_or_else(
        || error.to_string(),
        |refusal| {
            format!(
                "{}{}",
                refusal.message(),
                refusal.where_().map(|place| format!(" ({place})")).unwrap_or_default()
            )
        },
    );
    EngineError::new(
        Kind::Failed,
        "sanitise_failed",
        format!(
            "the copy of database {database} could not be made harmless, so it was thrown away: {reason}"
        ),
    )
}
