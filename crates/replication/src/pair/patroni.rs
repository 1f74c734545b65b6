//! Whether a pair is managed by Patroni, which owns its settings.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::config::{Config, Host};
use tokio_postgres::Client;

use super::super::scenario::Node;
use super::answered;
use duramen_reports::suite::SuiteError;

/// Where its REST API listens if nobody has said otherwise.
const PORT: u16 = 8008;
/// It answers within this, or is not there.
const ANSWER: Duration = Duration::from_secs(1);
/// The longest answer that is read.
const ANSWER_BYTES: u64 = 256 << 10;

/// A cluster that Patroni manages.
#[derive(Debug, Clone)]
pub struct Patroni {
    /// What `patronictl` calls the cluster.
    pub scope: Option<String>,
    /// By what it was recognised.
    pub sign: String,
}

impl Patroni {
    /// The command that sets settings in the dynamic configuration of the cluster.
    #[must_use]
    pub fn command(&self, settings: &[(&str, &str)]) -> String {
        let mut command = format!("patronictl edit-config {}", self.scope.as_deref().unwrap_or("CLUSTER"));
        for (name, value) in settings {
            command.push_str(&format!(" --pg {name}={value}"));
        }
        command
    }
}

/// Looks for the marks that Patroni leaves on a server, and for its REST API.
pub(super) async fn recognise(
    client: &Client,
    node: Node,
    dsn: &str,
    system_identifier: &str,
) -> Result<Option<Patroni>, SuiteError> {
    let row = answered("look for Patroni", node, client
        .query_one(
            "SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name ~* '^patroni') > 0,
                    (SELECT count(*) FROM pg_settings WHERE source = 'command line' AND name IN
                       ('cluster_name', 'max_locks_per_transaction', 'max_prepared_transactions',
                        'track_commit_timestamp', 'wal_log_hints')) = 5,
                    (SELECT count(*) FROM pg_file_settings WHERE sourcefile ~ '/postgresql\\.base\\.conf$') > 0,
                    current_setting('cluster_name')",
            &[],
        )).await?;
    let signs = [
        (row.get(0), "it has sessions on the server"),
        (row.get(1), "the server was started with the arguments that it gives"),
        (row.get(2), "the configuration is made of its files"),
    ];
    let scope = Some(row.get::<_, String>(3)).filter(|name| !name.is_empty());
    if let Some((_, sign)) = signs.into_iter().find(|(seen, _)| *seen) {
        return Ok(Some(Patroni { scope, sign: sign.to_owned() }));
    }
    let host = match dsn.parse::<Config>().ok().and_then(|config| config.get_hosts().first().cloned()) {
        Some(Host::Tcp(name)) => name,
        // A socket is of this machine.
        _ => "127.0.0.1".to_owned(),
    };
    Ok(ask(&host, PORT, system_identifier).await)
}

/// Asks the REST API of a host whether it manages this cluster.
pub async fn ask(host: &str, port: u16, system_identifier: &str) -> Option<Patroni> {
    let answer = async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        let request = format!("GET /patroni HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer).await.ok()?;
        let text = String::from_utf8(answer).ok()?;
        serde_json::from_str::<Value>(text.split_once("\r\n\r\n")?.1).ok()
    };
    // Whoever does not answer so is not Patroni, or cannot be asked.
    let entry = tokio::time::timeout(ANSWER, answer).await.ok()??;
    let about = entry.get("database_system_identifier").and_then(Value::as_str);
    if about.is_some_and(|other| other != system_identifier) {
        return None;
    }
    let scope = entry.get("patroni")?.get("scope")?.as_str()?;
    Some(Patroni { scope: Some(scope.to_owned()), sign: format!("its REST API answers at {host}:{port}") })
}
