//! Server settings through SQL: what they are, where they come from, and changing them so that it can be undone.

use crate::error::timeout;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duramen_base::clock;
use duramen_postgres::connection::without_password;
use duramen_postgres::{quote_identifier, quote_literal};
use tokio_postgres::Client;

use super::super::scenario::Node;
use super::answered;
use duramen_reports::suite::SuiteError;

/// A server has read its configuration again within this.
const RELOAD: Duration = Duration::from_secs(10);
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(5);

/// The value of a setting as `pg_settings` has it (in its own unit).
pub(in super::super) async fn current(client: &Client, node: Node, name: &str) -> Result<String, SuiteError> {
    let row = answered(
        format!("read the setting {name}"),
        node,
        client.query_opt("SELECT setting FROM pg_settings WHERE name = lower($1)", &[&name]),
    )
    .await?;
    match row {
        Some(row) => Ok(row.get(0)),
        None => Err(SuiteError::Options(format!("the {} has no setting {name}", node))),
    }
}

/// What is wrong with the files of a server, with file and line. It keeps the server from reading them, and after a
/// syntax error `pg_file_settings` says nothing of the files after it. A value that only waits for a restart is not an error.
pub(in super::super) async fn file_error(client: &Client, node: Node) -> Result<Option<String>, SuiteError> {
    let row = answered(
        "look for errors in the configuration files",
        node,
        client.query_opt(
            "SELECT concat_ws(': ', concat_ws(' line ', f.sourcefile, f.sourceline), f.name, f.error)
             FROM pg_file_settings f LEFT JOIN pg_settings s ON lower(s.name) = lower(f.name)
             WHERE f.error IS NOT NULL AND NOT coalesce(s.pending_restart, false)
             ORDER BY f.seqno LIMIT 1",
            &[],
        ),
    )
    .await?;
    Ok(row.map(|row| row.get(0)))
}

/// The value of a setting in `postgresql.auto.conf`, word for word; `None` if it is not there.
///
/// # Errors
/// Also when that cannot be known, because the files of the server have errors.
pub(in super::super) async fn automatic(
    client: &Client,
    node: Node,
    name: &str,
) -> Result<Option<String>, SuiteError> {
    let row = answered(
        format!("read the automatic value of {name}"),
        node,
        client.query_opt(
            "SELECT setting FROM pg_file_settings
             WHERE sourcefile ~ '/postgresql\\.auto\\.conf$' AND lower(name) = lower($1)
             ORDER BY seqno DESC LIMIT 1",
            &[&name],
        ),
    )
    .await?;
    match file_error(client, node).await? {
        None => Ok(row.and_then(|row| row.get(0))),
        Some(error) => Err(SuiteError::Options(format!(
            "cannot know what the {} is set to: its configuration has an error ({error}); fix it",
            node
        ))),
    }
}

/// Writes a setting into `postgresql.auto.conf` (`None`: takes it out), and returns when the server uses it.
pub(in super::super) async fn alter(
    client: &Client,
    node: Node,
    name: &str,
    value: Option<&str>,
) -> Result<(), SuiteError> {
    let quoted = quote_identifier(name);
    let statement = match value {
        Some(value) => format!("ALTER SYSTEM SET {quoted} TO {}", quote_literal(value)),
        None => format!("ALTER SYSTEM RESET {quoted}"),
    };
    answered(format!("change the setting {name}"), node, client.batch_execute(&statement)).await?;
    reload(client, node).await
}

/// Lets the server read its configuration, and returns when it has.
pub(in super::super) async fn reload(client: &Client, node: Node) -> Result<(), SuiteError> {
    let loaded = loaded(client, node).await?;
    answered("let the server read its configuration", node, client.batch_execute("SELECT pg_reload_conf()"))
        .await?;
    // The time at which this session read the configuration again: the server signals all of its processes at once.
    let begin = clock::now();
    while self::loaded(client, node).await? == loaded {
        if begin.elapsed() > RELOAD {
            return Err(timeout(format!("the {} to read its configuration", node), RELOAD));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// That what the files say of a setting is what the server uses, as far as nothing that stands above them sets it.
pub(in super::super) async fn check_in_force(
    client: &Client,
    node: Node,
    name: &str,
) -> Result<(), SuiteError> {
    let row = answered(
        format!("look at the setting {name}"),
        node,
        client.query_opt(
            "SELECT CASE s.source
                      WHEN 'configuration file'
                        THEN (f.sourcefile, f.sourceline) IS NOT DISTINCT FROM (s.sourcefile, s.sourceline)
                      WHEN 'default' THEN f.name IS NULL
                      ELSE true
                    END
             FROM pg_settings s
             LEFT JOIN pg_file_settings f ON lower(f.name) = lower(s.name) AND f.applied
             WHERE s.name = lower($1)",
            &[&name],
        ),
    )
    .await?;
    if row.is_none_or(|row| row.get(0)) {
        return Ok(());
    }
    Err(SuiteError::Options(format!(
        "the {} does not use the value of {name} that its files give; see pg_file_settings there for what is wrong with it",
        node
    )))
}

/// When the session last read the configuration.
async fn loaded(client: &Client, node: Node) -> Result<String, SuiteError> {
    let row = answered(
        "ask when the configuration was read".to_owned(),
        node,
        client.query_one("SELECT pg_conf_load_time()::text", &[]),
    )
    .await?;
    Ok(row.get(0))
}

/// What keeps a setting from being changed, if something does: seen before anything is changed.
pub(in super::super) async fn obstacle(
    client: &Client,
    node: Node,
    name: &str,
) -> Result<Option<String>, SuiteError> {
    let row = answered(
        format!("look at the setting {name}"),
        node,
        client.query_opt("SELECT context, source FROM pg_settings WHERE name = lower($1)", &[&name]),
    )
    .await?;
    Ok(row.and_then(|row| match (row.get(0), row.get(1)) {
        ("internal" | "postmaster", _) => Some(format!("the setting {name} of the {node} needs a restart")),
        (_, "command line") => Some(format!(
            "the setting {name} of the {node} is an argument that the server was started with, so that ALTER SYSTEM has no effect on it; start it without"
        )),
        // One that is not there is refused by the server, in its own words.
        _ => None,
    }))
}

/// What keeps ALTER SYSTEM from having an effect, if something does: where the value in force comes from instead.
pub(in super::super) async fn overridden(
    client: &Client,
    node: Node,
    name: &str,
) -> Result<Option<String>, SuiteError> {
    let row = answered(
        format!("look at the setting {name}"),
        node,
        client.query_one("SELECT source FROM pg_settings WHERE name = lower($1)", &[&name]),
    )
    .await?;
    let source: String = row.get(0);
    Ok((source != "configuration file").then_some(source))
}

/// All settings of a server as a new session sees them, and what `postgresql.auto.conf` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Snapshot {
    /// Value, source, and file of each.
    settings: BTreeMap<String, String>,
    automatic: BTreeMap<String, String>,
}

impl Snapshot {
    /// Looks at them. The session must be new: it is to see what is in force now.
    pub(in super::super) async fn take(client: &Client, node: Node) -> Result<Self, SuiteError> {
        let rows = answered(
            "read the settings",
            node,
            client.query(
                "SELECT name, concat_ws(', ', quote_nullable(setting), source, sourcefile)
                 FROM pg_settings WHERE source NOT IN ('client', 'session')",
                &[],
            ),
        )
        .await?;
        let settings = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let rows = answered(
            "read postgresql.auto.conf",
            node,
            client.query(
                "SELECT lower(name), coalesce(setting, '') FROM pg_file_settings
                 WHERE sourcefile ~ '/postgresql\\.auto\\.conf$' AND name IS NOT NULL
                 ORDER BY seqno",
                &[],
            ),
        )
        .await?;
        let automatic = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok(Self { settings, automatic })
    }

    /// How many settings there are.
    pub(in super::super) fn len(&self) -> usize {
        self.settings.len()
    }

    /// What is different in a later one, a line each. Values are told only of settings that are `ours`: others may hold
    /// secrets.
    pub(in super::super) fn differences(&self, later: &Self, ours: &BTreeSet<String>) -> Vec<String> {
        let mut lines = Vec::new();
        for (what, before, after) in [
            ("", &self.settings, &later.settings),
            ("postgresql.auto.conf: ", &self.automatic, &later.automatic),
        ] {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let (one, two) = (before.get(name), after.get(name));
                if one == two {
                    continue;
                }
                if !ours.contains(&name.to_ascii_lowercase()) {
                    lines.push(format!("{what}{name} has changed"));
                    continue;
                }
                let shown = |value: Option<&String>| value.map_or("nothing", String::as_str).to_owned();
                let line = format!("{what}{name} was {} and is {}", shown(one), shown(two));
                lines.push(without_password(&line));
            }
        }
        lines
    }
}
