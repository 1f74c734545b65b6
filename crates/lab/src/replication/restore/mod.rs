//! Putting back what a run has changed on servers that are not its own.
//!
//! Everything is written into a file before it is changed ([`RestoreFile`]); [`put_back`] undoes what such a file says,
//! however often it is called; a guardian process ([`watch`]) calls it when the run is killed.

mod guardian;
mod record;

use std::path::PathBuf;
use std::time::Duration;

use duramen_functions::connect::Target;
use duramen_measure::clock;
use duramen_postgres::quote_identifier;
use tokio_postgres::Client;

use super::error::ReplicationError;
use super::pair::{node_name, settings, APPLICATION_NAME};
use super::scenario::Node;

pub use guardian::watch;
pub(super) use guardian::Guardian;
pub(super) use record::Server;
pub use record::{Record, RestoreFile};

/// What the sessions are called that put things back; they are not to end each other.
const RESTORER: &str = "duramen-lab-restore";
/// Sessions that were asked to end have ended within this.
const GONE: Duration = Duration::from_secs(20);
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(20);

/// What came of putting things back.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Outcome {
    /// What was put back, a line each.
    pub done: Vec<String>,
    /// What could not be, and why. Empty: the file is gone.
    pub left: Vec<String>,
    /// The file, if it is still there.
    pub file: Option<PathBuf>,
}

/// Undoes what the file says, and removes it if nothing is left. What was undone is taken out of the file at once, so
/// that it is not undone again when somebody has changed it since.
///
/// # Errors
/// When the file cannot be written or removed. That a server refuses something is told in [`Outcome::left`].
pub async fn put_back(mut file: RestoreFile) -> Result<Outcome, ReplicationError> {
    let mut outcome = Outcome::default();
    let mut sessions: Vec<(Node, Client)> = Vec::new();
    for node in [Node::Standby, Node::Primary] {
        match session(file.record(), node).await {
            Ok(client) => {
                match end_sessions(&client, node).await {
                    Ok(0) => {}
                    Ok(ended) => outcome.done.push(format!("{}: ended {ended} sessions", node_name(node))),
                    Err(error) => outcome.left.push(error.to_string()),
                }
                sessions.push((node, client));
            }
            Err(error) => outcome.left.push(error.to_string()),
        }
    }
    for (node, client) in &sessions {
        restore_settings(&mut file, *node, client, &mut outcome).await?;
    }
    // Since the run began the two may have changed their roles.
    let mut writer = None;
    for (node, client) in &sessions {
        let row = client.query_one("SELECT NOT pg_is_in_recovery()", &[]).await;
        if row.map_err(super::pair::database("ask for the role", *node))?.get(0) {
            writer = Some((*node, client));
        }
    }
    match writer {
        Some((node, client)) => remove_objects(&mut file, node, client, &mut outcome).await?,
        None if file.record().slots.is_empty() && file.record().database.is_none() => {}
        None => outcome.left.push("neither server takes writes: what was made is still there".to_owned()),
    }
    if outcome.left.is_empty() {
        file.remove()?;
    } else {
        outcome.file = Some(file.path().to_owned());
    }
    Ok(outcome)
}

/// A session on the server that the file means, if it is still that one.
async fn session(record: &Record, node: Node) -> Result<Client, ReplicationError> {
    let refused = |source| ReplicationError::Connect { node: node_name(node), source };
    let server = record.server(node);
    let target = Target::parse(&server.dsn).map_err(refused)?;
    let target = super::pair::untimed(target).application_name(RESTORER);
    let client = target.connect().await.map_err(refused)?;
    let doing = || super::pair::database("ask which cluster it is", node);
    let row = client
        .query_one("SELECT system_identifier::text FROM pg_control_system()", &[])
        .await
        .map_err(doing())?;
    let found: String = row.get(0);
    if found != server.system_identifier {
        return Err(ReplicationError::Options(format!(
            "the {} at {} is another cluster now ({found}, not {}): nothing was changed there",
            node_name(node),
            target.describe(),
            server.system_identifier
        )));
    }
    client.batch_execute("SET synchronous_commit TO local").await.map_err(doing())?;
    Ok(client)
}

/// Ends what is left of the run: sessions with our name, no others.
async fn end_sessions(client: &Client, node: Node) -> Result<u64, ReplicationError> {
    let mut ended = 0;
    let begin = clock::now();
    loop {
        let rows = client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name = $1 AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
                &[&APPLICATION_NAME],
            )
            .await
            .map_err(super::pair::database("end the sessions of the run", node))?;
        if rows.is_empty() {
            return Ok(ended);
        }
        ended = ended.max(rows.len() as u64);
        if begin.elapsed() > GONE {
            return Err(super::pair::timeout("the sessions of the run to end", GONE));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn restore_settings(
    file: &mut RestoreFile,
    node: Node,
    client: &Client,
    outcome: &mut Outcome,
) -> Result<(), ReplicationError> {
    let changed: Vec<_> = file.record().settings.iter().filter(|s| s.is_on(node)).cloned().collect();
    for setting in changed {
        let name = &setting.name;
        let restored = async {
            let found = settings::automatic(client, node, name).await?;
            if found == setting.before {
                return Ok(None);
            }
            if found.as_ref().is_some_and(|found| !setting.ours.contains(found)) {
                return Ok(Some(format!("{name} was set by somebody else meanwhile, and left as it is")));
            }
            settings::alter(client, node, name, setting.before.as_deref()).await?;
            Ok(Some(match &setting.before {
                Some(before) => format!("{name} is {before} again"),
                None => format!("{name} is what it was without ALTER SYSTEM again"),
            }))
        };
        match restored.await {
            Ok(told) => {
                outcome.done.extend(told.map(|told| format!("{}: {told}", node_name(node))));
                file.update(|record| record.settings.retain(|other| *other != setting))?;
            }
            Err::<_, ReplicationError>(error) => outcome.left.push(error.to_string()),
        }
    }
    Ok(())
}

/// Drops the slots and the database that the run has made.
async fn remove_objects(
    file: &mut RestoreFile,
    node: Node,
    client: &Client,
    outcome: &mut Outcome,
) -> Result<(), ReplicationError> {
    let record = file.record().clone();
    let database = record.database.clone().unwrap_or_default();
    for slot in record.slots {
        let dropped = client
            .query(
                // Only if it is in our database: a name can be taken by somebody else.
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
                 WHERE slot_name = $1 AND database = $2",
                &[&slot, &database],
            )
            .await
            .map_err(super::pair::database(format!("drop the slot {slot}"), node));
        match dropped {
            Ok(rows) => {
                if !rows.is_empty() {
                    outcome.done.push(format!("{}: the slot {slot} is dropped", node_name(node)));
                }
                file.update(|record| record.slots.retain(|other| *other != slot))?;
            }
            Err(error) => outcome.left.push(error.to_string()),
        }
    }
    let Some(database) = record.database else { return Ok(()) };
    let dropped = async {
        let there = client.query_opt("SELECT FROM pg_database WHERE datname = $1", &[&database]).await?;
        // Not WITH (FORCE): sessions of others are not ours to end.
        client.batch_execute(&format!("DROP DATABASE IF EXISTS {}", quote_identifier(&database))).await?;
        Ok(there.is_some())
    };
    match dropped.await.map_err(super::pair::database(format!("drop the database {database}"), node)) {
        Ok(was_there) => {
            if was_there {
                outcome.done.push(format!("{}: the database {database} is dropped", node_name(node)));
            }
            file.update(|record| record.database = None)?;
        }
        Err(error) => outcome.left.push(error.to_string()),
    }
    Ok(())
}
