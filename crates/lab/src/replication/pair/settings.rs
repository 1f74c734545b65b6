//! Server settings through SQL: what they are, where they come from, and changing them so that it can be undone.

use std::time::Duration;

use duramen_measure::clock;
use duramen_postgres::{quote_identifier, quote_literal};
use tokio_postgres::Client;

use super::super::error::ReplicationError;
use super::super::scenario::Node;
use super::{database, timeout};

/// A server has read its configuration again within this.
const RELOAD: Duration = Duration::from_secs(10);
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(5);

/// The value of a setting as `pg_settings` has it (in its own unit).
pub(super) async fn current(client: &Client, node: Node, name: &str) -> Result<String, ReplicationError> {
    let row = client
        .query_opt("SELECT setting FROM pg_settings WHERE name = lower($1)", &[&name])
        .await
        .map_err(database(format!("read the setting {name}"), node))?;
    match row {
        Some(row) => Ok(row.get(0)),
        None => {
            Err(ReplicationError::Options(format!("the {} has no setting {name}", super::node_name(node))))
        }
    }
}

/// The value of a setting in `postgresql.auto.conf`, word for word; `None` if it is not there.
pub(super) async fn automatic(
    client: &Client,
    node: Node,
    name: &str,
) -> Result<Option<String>, ReplicationError> {
    let row = client
        .query_opt(
            "SELECT setting FROM pg_file_settings
             WHERE sourcefile = current_setting('data_directory') || '/postgresql.auto.conf' AND lower(name) = lower($1)
             ORDER BY seqno DESC LIMIT 1",
            &[&name],
        )
        .await
        .map_err(database(format!("read the automatic value of {name}"), node))?;
    Ok(row.and_then(|row| row.get(0)))
}

/// Writes a setting into `postgresql.auto.conf` (`None`: takes it out), and returns when the server uses it.
pub(super) async fn alter(
    client: &Client,
    node: Node,
    name: &str,
    value: Option<&str>,
) -> Result<(), ReplicationError> {
    let changing = || format!("change the setting {name}");
    let loaded = loaded(client, node).await?;
    let quoted = quote_identifier(name);
    let statement = match value {
        Some(value) => format!("ALTER SYSTEM SET {quoted} TO {}", quote_literal(value)),
        None => format!("ALTER SYSTEM RESET {quoted}"),
    };
    client.batch_execute(&statement).await.map_err(database(changing(), node))?;
    client.batch_execute("SELECT pg_reload_conf()").await.map_err(database(changing(), node))?;
    // The time at which this session read the configuration again: the server signals all of its processes at once.
    let begin = clock::now();
    while self::loaded(client, node).await? == loaded {
        if begin.elapsed() > RELOAD {
            return Err(timeout(format!("the {} to read its configuration", super::node_name(node)), RELOAD));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// When the session last read the configuration.
async fn loaded(client: &Client, node: Node) -> Result<String, ReplicationError> {
    let row = client
        .query_one("SELECT pg_conf_load_time()::text", &[])
        .await
        .map_err(database("ask when the configuration was read".to_owned(), node))?;
    Ok(row.get(0))
}
