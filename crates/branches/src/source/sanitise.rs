//! Making a snapshot harmless: no branch of it can reach out, or do what its policy forbids.
//!
//! The SQL lies beside this file: roles of branches, then what concerns the whole cluster, then each database. Nothing
//! that a user of the source wrote runs in it; what calls code of theirs comes after it, as a role that may no more than
//! the holder of a branch.

use super::{
    connection::{self, LOGIN_TRIGGERS_SINCE},
    inventory,
    own_role::{self, OwnRoles},
    refusal::read_error,
};
use crate::{
    error::{EngineError, Kind},
    model::Sanitised,
};
use duramen_base::file::read_plain;
use duramen_postgres::{quote_identifier, quote_literal, Installation, Secret, Settings};
use std::{collections::BTreeMap, num::NonZeroU32, path::Path};
use tokio_postgres::{Client, Config};

/// The superuser of snapshots. Only the daemon knows its secret.
pub(crate) const ADMIN: &str = "duramen_admin";
/// As whom an import runs what was written in the source, once it is harmless: the holder with the most rights.
pub(crate) const HOLDER: &str = "duramen_ddl";

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

/// Libraries that stay inside the server when they are loaded at its start: most others are loaded for a worker.
const PRELOADED: &[&str] = &["auto_explain", "pg_hint_plan", "pg_stat_statements", "pgaudit", "plpgsql"];

/// The longest configuration file that is read, in bytes.
const CONF_MAX: u64 = 4 << 20;

/// Reads the origin's configuration files in a copied data directory, and returns the settings that are carried
/// over, with a report of those that were disabled.
pub(crate) fn carry_settings(data_dir: &Path, installation: &Installation) -> (Settings, Vec<Sanitised>) {
    let mut origin = Settings::new();
    for file in ["postgresql.conf", "postgresql.auto.conf"] {
        if let Ok(text) = read_plain(&data_dir.join(file), CONF_MAX) {
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
        if !PRELOADED.contains(&library) {
            let action = "removed: it is not known to stay inside the server";
            report.push(sanitised("preloaded library", library, action));
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

/// Makes the administrator, in single-user mode: no settings of databases or roles and no event triggers are in force
/// there. One that the source had under this name is taken over, without the settings that it had.
pub(crate) fn make_admin(secret: &Secret) -> String {
    format!(
        "set search_path = pg_catalog, pg_temp;\n\
         create role duramen_admin;\n\
         alter role duramen_admin superuser login password '{}' valid until 'infinity' connection limit -1;\n\
         delete from pg_catalog.pg_db_role_setting where setrole = (select oid from pg_catalog.pg_authid where rolname = 'duramen_admin');\n",
        secret.verifier(NonZeroU32::MIN)
    )
}

/// The databases of a running copy that have login triggers.
pub(crate) async fn login_triggers(server: &Config, major: u32) -> Result<Vec<String>, EngineError> {
    if major < LOGIN_TRIGGERS_SINCE {
        return Ok(Vec::new());
    }
    let client = connection::own(server, major).await?;
    let rows = client
        .query("select datname::text from pg_catalog.pg_database where dathasloginevt order by 1", &[])
        .await
        .map_err(|error| read_error(&error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// What sanitising found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What was done.
    pub(crate) report: Vec<Sanitised>,
    /// The roles that could log in in the source.
    login_roles: BTreeMap<String, Option<String>>,
    /// By database, what branches under one of these roles are given back.
    give_back: BTreeMap<String, Vec<String>>,
}

impl Found {
    /// What branches that serve this database need to be entered as a role of the source.
    pub(crate) fn own_roles(&mut self, database: &str) -> OwnRoles {
        let give_back = self.give_back.remove(database).unwrap_or_default();
        OwnRoles::new(std::mem::take(&mut self.login_roles), give_back)
    }
}

/// What a copy of a branch had in the source, and lost when the branch's own snapshot was made harmless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Earlier<'a> {
    /// The database that the branch served.
    pub(crate) database: &'a str,
    pub(crate) own_roles: &'a OwnRoles,
}

/// Sanitises every database of a running snapshot-to-be.
pub(crate) async fn run(
    server: &Config,
    major: u32,
    earlier: Option<Earlier<'_>>,
) -> Result<Found, EngineError> {
    let mut found = Found::default();
    let report = &mut found.report;
    let maintain = if major >= LOGIN_TRIGGERS_SINCE { ", maintain" } else { "" };
    let databases = databases(server, major).await?;
    disown(server, major, &databases, report).await?;
    for (index, database) in databases.iter().enumerate() {
        let mut config = server.clone();
        config.dbname(database);
        let client = connection::uncounted(&config, major).await?;
        let fail = |error: tokio_postgres::Error| failed(database, &error);
        let stilled = still_event_triggers(&client, major).await.map_err(fail)?;
        client
            .batch_execute("create temporary table report (kind text, object text, action text)")
            .await
            .map_err(fail)?;
        roll_back_prepared(&client, database, report).await?;
        if index == 0 {
            found.login_roles = match earlier {
                Some(earlier) => earlier.own_roles.still_there(&client).await.map_err(fail)?,
                None => own_role::login_roles(&client).await.map_err(fail)?,
            };
            let cluster = [include_str!("branch_roles.sql"), include_str!("cluster_sanitise.sql")];
            client.batch_execute(&cluster.concat()).await.map_err(fail)?;
        }
        if let Some(earlier) = earlier.filter(|earlier| earlier.database == database) {
            earlier.own_roles.give_back_first(&client).await;
        }
        let give_back = own_role::give_back(&client, &stilled).await.map_err(fail)?;
        found.give_back.insert(database.clone(), give_back);
        let sql = include_str!("database_sanitise.sql").replace("{maintain}", maintain);
        client.batch_execute(&sql).await.map_err(fail)?;
        let rows = client
            .query("select distinct kind, object, action from pg_temp.report order by 1, 2, 3", &[])
            .await
            .map_err(fail)?;
        report.extend(rows.iter().map(|row| Sanitised {
            kind: row.get(0),
            object: row.get(1),
            action: row.get(2),
        }));
        release_event_triggers(&client, major, &stilled, report).await.map_err(fail)?;
    }
    if major >= LOGIN_TRIGGERS_SINCE {
        // Of those who may be the administrator of a branch nobody shall run the source's event triggers as superuser.
        let quiet = format!(
            "update pg_catalog.pg_database set dathasloginevt = false where dathasloginevt; \
             alter role {ADMIN} set event_triggers = off"
        );
        let client = connection::own(server, major).await?;
        client.batch_execute(&quiet).await.map_err(|error| read_error(&error))?;
    }
    Ok(found)
}

/// Takes what the roles of holders own and were allowed, in a copy that has them already.
async fn disown(
    server: &Config,
    major: u32,
    databases: &[String],
    report: &mut Vec<Sanitised>,
) -> Result<(), EngineError> {
    for (index, database) in databases.iter().enumerate() {
        let mut config = server.clone();
        config.dbname(database);
        let client = connection::uncounted(&config, major).await?;
        let fail = |error: tokio_postgres::Error| failed(database, &error);
        if index == 0 {
            let ours = "select exists (select from pg_catalog.pg_authid where rolname in ('duramen_read', 'duramen_write', 'duramen_ddl'))";
            if !client.query_one(ours, &[]).await.map_err(fail)?.get::<_, bool>(0) {
                return Ok(());
            }
        }
        let stilled = still_event_triggers(&client, major).await.map_err(fail)?;
        // Its locks would be waited for.
        roll_back_prepared(&client, database, report).await?;
        if index == 0 {
            client.batch_execute(include_str!("branch_roles.sql")).await.map_err(fail)?;
        }
        client.batch_execute(include_str!("disown.sql")).await.map_err(fail)?;
        for trigger in &stilled {
            client.batch_execute(trigger.enable()).await.map_err(fail)?;
        }
    }
    Ok(())
}

/// An event trigger that is disabled for a while.
#[derive(Debug)]
pub(crate) struct Stilled {
    /// Quoted.
    name: String,
    enable: String,
}

impl Stilled {
    /// What its statements begin with.
    pub(crate) const STATEMENT: &str = "alter event trigger ";

    /// The statement that disables it.
    pub(crate) fn disable(&self) -> String {
        format!("{}{} disable", Stilled::STATEMENT, self.name)
    }

    /// The statement that makes it again what it was.
    pub(crate) fn enable(&self) -> &str {
        &self.enable
    }
}

/// Disables the event triggers of a database, and returns them. Event triggers do not
/// fire for statements about event triggers. From 17 on the session and its server have them off.
pub(crate) async fn still_event_triggers(
    client: &Client,
    major: u32,
) -> Result<Vec<Stilled>, tokio_postgres::Error> {
    if major >= LOGIN_TRIGGERS_SINCE {
        return Ok(Vec::new());
    }
    let rows = client
        .query(
            "select evtname::text, case evtenabled when 'R' then 'enable replica' when 'A' then 'enable always' else 'enable' end \
             from pg_catalog.pg_event_trigger where evtenabled <> 'D' order by 1",
            &[],
        )
        .await?;
    let mut stilled = Vec::with_capacity(rows.len());
    for row in rows {
        let name = quote_identifier(row.get(0));
        let enable = format!("{}{name} {}", Stilled::STATEMENT, row.get::<_, &str>(1));
        let trigger = Stilled { name, enable };
        client.batch_execute(&trigger.disable()).await?;
        stilled.push(trigger);
    }
    Ok(stilled)
}

/// Event triggers act in branches as they did in the source, with the rights of whoever gives the command. Those that
/// run at login do not: a branch's logins are not the source's, and one that writes would keep `read-only` out.
pub(super) async fn release_event_triggers(
    client: &Client,
    major: u32,
    stilled: &[Stilled],
    report: &mut Vec<Sanitised>,
) -> Result<(), tokio_postgres::Error> {
    for trigger in stilled {
        client.batch_execute(trigger.enable()).await?;
    }
    if major < LOGIN_TRIGGERS_SINCE {
        return Ok(());
    }
    let rows = client
        .query(
            "select evtname::text from pg_catalog.pg_event_trigger where evtevent = 'login' and evtenabled <> 'D' order by 1",
            &[],
        )
        .await?;
    for row in rows {
        let name: &str = row.get(0);
        client.batch_execute(&format!("alter event trigger {} disable", quote_identifier(name))).await?;
        report.push(sanitised("event trigger", name, "disabled (ran at login)"));
    }
    Ok(())
}

/// Disables scheduled jobs, in a session as the holder of a branch: the table, its triggers and rules are the source's.
/// What may not be written, such as that of an extension, is left: nothing runs jobs in a branch.
pub(crate) async fn disable_jobs(holder: &Config) -> Vec<Sanitised> {
    let mut report = Vec::new();
    let Ok(holder) = connection::as_holder(holder).await else {
        // A database that lets in superusers alone lets in nobody who could run them by hand.
        return report;
    };
    for (table, flag) in [("cron.job", "active"), ("pgagent.pga_job", "jobenabled")] {
        let found = format!("select pg_catalog.to_regclass('{table}') is not null");
        let found = holder.query_one(&found, &[]).await;
        if !found.is_ok_and(|row| row.get(0)) {
            continue;
        }
        let update = format!("update {table} set {flag} = false where {flag}");
        let action = match holder.batch_execute(&update).await {
            Ok(()) => "disabled",
            Err(_) => "left as they are: nothing runs them in a branch",
        };
        report.push(sanitised("scheduled jobs", table, action));
    }
    report
}

/// The databases that can be connected to, template databases included (what is granted there is inherited).
pub(crate) async fn databases(server: &Config, major: u32) -> Result<Vec<String>, EngineError> {
    let client = connection::own(server, major).await?;
    let rows = client
        .query(
            "select datname::text from pg_catalog.pg_database where datallowconn order by datistemplate, 1",
            &[],
        )
        .await
        .map_err(|error| read_error(&error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// How much of a copy is vacuumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vacuum {
    /// All of it is read and frozen, and its statistics are gathered, so that no branch does it for itself.
    Whole,
    /// What was changed since it was vacuumed the last time. Statistics are those that it came with.
    Changes,
}

impl Vacuum {
    const fn statements(self) -> (&'static str, &'static str) {
        match self {
            Vacuum::Whole => ("vacuum (freeze, analyze)", "vacuum (freeze)"),
            Vacuum::Changes => ("vacuum", "vacuum"),
        }
    }
}

/// Clears every table of a database, one table at a time if one of them cannot be: the index expressions of tables run, with their
/// owners' rights and none of the administrator's. Counters are for databases whose holders may look at them.
pub(crate) async fn vacuum(
    database: &Config,
    major: u32,
    how: Vacuum,
    is_counted: bool,
    report: &mut Vec<Sanitised>,
) -> Result<(), EngineError> {
    let client = if is_counted {
        connection::own(database, major).await?
    } else {
        connection::uncounted(database, major).await?
    };
    let fail = |error: tokio_postgres::Error| read_error(&error);
    let (all, without_statistics) = how.statements();
    if client.batch_execute(all).await.is_ok() {
        return Ok(());
    }
    let outcome = client.batch_execute(without_statistics).await;
    // An index of types whose library is missing ends it for all tables, and is said to be there for its own.
    let lacking = report.iter().any(|entry| entry.kind == inventory::MISSING_LIBRARY);
    let one_by_one = outcome.is_err() && lacking;
    if !one_by_one {
        outcome.map_err(fail)?;
    }
    let tables = client
        .query(
            "select n.nspname::text, c.relname::text from pg_catalog.pg_class c \
             join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             where c.relkind in ('r', 'p', 'm') and c.relpersistence <> 't' order by 1, 2",
            &[],
        )
        .await
        .map_err(fail)?;
    for row in tables {
        let table = format!("{}.{}", quote_identifier(row.get(0)), quote_identifier(row.get(1)));
        for (kind, lost, sql) in
            [("table", "not vacuumed", without_statistics), ("statistics", "not gathered", "analyze")]
        {
            let is_done = match kind {
                "table" => !one_by_one,
                _ => how == Vacuum::Changes,
            };
            if is_done {
                continue;
            }
            if let Err(error) = client.batch_execute(&format!("{sql} {table}")).await {
                let Some(refusal) = error.as_db_error() else { return Err(fail(error)) };
                report.push(sanitised(kind, &table, &format!("{lost}: {}", refusal.message())));
            }
        }
    }
    Ok(())
}

/// A transaction that the origin had prepared would keep its locks in every branch for ever.
async fn roll_back_prepared(
    client: &Client,
    database: &str,
    report: &mut Vec<Sanitised>,
) -> Result<(), EngineError> {
    let rows = client
        .query(
            "select gid from pg_catalog.pg_prepared_xacts where database = pg_catalog.current_database()",
            &[],
        )
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
