//! Putting back what a run has changed on servers that are not its own.
//!
//! Everything is written into a file before it is changed ([`RestoreFile`]); [`put_back`] undoes what such a file says,
//! however often it is called; a guardian process ([`watch`]) calls it when the run is killed.

mod guardian;
mod record;

use crate::error::{cannot_reach, refused, timeout};
use std::path::PathBuf;
use std::time::Duration;

use duramen_base::clock;
use duramen_postgres::connection::Target;
use duramen_postgres::quote_identifier;
use tokio_postgres::{types::ToSql, Client};

use super::pair::{answered, settings, untimed, APPLICATION_NAME};
use super::pass::within;
use super::scenario::Node;
use duramen_reports::suite::SuiteError;

pub(super) use guardian::guard;
pub use guardian::watch;
use record::Setting;
pub(super) use record::{Place, Server};
pub use record::{Record, RestoreFile};

/// What the sessions are called that put things back; they are not to end each other.
const RESTORER: &str = "duramen-lab-restore";
/// Sessions that were asked to end have ended within this.
const GONE: Duration = Duration::from_secs(20);
/// A statement has been answered within this.
const ANSWER: Duration = Duration::from_secs(30);
/// A database is dropped within this: the server writes a checkpoint for it.
const DROP: Duration = Duration::from_secs(300);
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(20);

/// What came of putting things back.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Outcome {
    /// What was put back, a line each.
    pub done: Vec<String>,
    /// What somebody else has set meanwhile, a line each: it is left as it is.
    pub theirs: Vec<String>,
    /// What could not be, and why. Empty: the file is gone.
    pub left: Vec<String>,
    /// The file, if it is still there.
    pub file: Option<PathBuf>,
}

/// What the sessions of a run are called that work outside of its database.
pub(super) fn run_name(oid: u32) -> String {
    format!("{APPLICATION_NAME}-{oid}")
}

/// The role of the run's workload.
fn load_role(record: &Record) -> Option<String> {
    record.load.map(|run| format!("{}{run}", duramen_workload::ROLE))
}

/// Undoes what the file says, and removes it if nothing is left. What was undone is taken out of the file at once, so
/// that it is not undone again when somebody has changed it since. What fails keeps nothing else from being undone.
///
/// # Errors
/// When the file cannot be removed although everything is back. All else is told in [`Outcome::left`].
pub async fn put_back(file: RestoreFile) -> Result<Outcome, SuiteError> {
    let mut work = Work { file, outcome: Outcome::default(), unwritten: Vec::new() };
    let mut sessions: Vec<(Node, Client)> = Vec::new();
    for node in [Node::Standby, Node::Primary] {
        match session(work.file.record(), node).await {
            Ok(client) => {
                match end_sessions(&client, node, work.file.record()).await {
                    Ok(0) => {}
                    Ok(ended) => work.done(node, format!("ended {ended} sessions")),
                    Err(error) => work.left(error),
                }
                sessions.push((node, client));
            }
            Err(error) => work.left(error),
        }
    }
    for (node, client) in &sessions {
        work.restore_settings(*node, client).await;
    }
    // Since the run began the two may have changed their roles.
    let mut writer = None;
    for (node, client) in &sessions {
        let question = client.query_one("SELECT NOT pg_is_in_recovery()", &[]);
        match answered("ask for the role", *node, question).await {
            Ok(row) if row.get(0) => writer = Some((*node, client)),
            Ok(_) => {}
            Err(error) => work.left(error),
        }
    }
    match writer {
        Some((node, client)) => work.remove_objects(node, client).await,
        None if !work.has_objects() => {}
        None => work.left("neither server takes writes: what was made is still there"),
    }
    work.end()
}

/// A session on the server that the file means, if it is still that one.
async fn session(record: &Record, node: Node) -> Result<Client, SuiteError> {
    let unreached = cannot_reach(node);
    let server = record.server(node);
    let target = Target::parse(&server.dsn).map_err(unreached)?;
    let target = untimed(target).application_name(RESTORER);
    let client = target.connect().await.map_err(unreached)?;
    let question = client.query_one("SELECT system_identifier::text FROM pg_control_system()", &[]);
    let found: String = answered("ask which cluster it is", node, question).await?.get(0);
    if found != server.system_identifier {
        return Err(SuiteError::Options(format!(
            "the {} at {} is another cluster now ({found}, not {}): nothing was changed there",
            node,
            target.describe(),
            server.system_identifier
        )));
    }
    if let Some(place) = &server.place {
        let found = Place::read(&client, node).await?;
        if found != *place {
            return Err(SuiteError::Options(format!(
                "what {} leads to is another server now ({found}) than the {} was ({place}): nothing was changed there; \
                 write into the file how the right one is reached",
                target.describe(),
                node
            )));
        }
    }
    let prepare = client.batch_execute(
        "SET default_transaction_read_only TO off;
         SET synchronous_commit TO local;
         -- Not every version has them.
         SELECT set_config(name, '0', false) FROM pg_settings
         WHERE name IN ('idle_session_timeout', 'transaction_timeout')",
    );
    answered("prepare a session", node, prepare).await?;
    Ok(client)
}

/// Ends what is left of the run, and nobody else's session: those in its own database that have our name, and those that
/// have the run's.
/// And those of the role that a workload has, which may call themselves what they like.
async fn end_sessions(client: &Client, node: Node, record: &Record) -> Result<u64, SuiteError> {
    let (mut ended, oid) = (0, record.oid);
    let begin = clock::now();
    let (run, load) = (run_name(oid), load_role(record));
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE (application_name = $1 AND datid = $2 OR application_name = $3 OR usename = $4)
                     AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let parameters: [&(dyn ToSql + Sync); 4] = [&APPLICATION_NAME, &oid, &run, &load];
    loop {
        let question = client.query(sql, &parameters);
        let rows = answered("end the sessions of the run", node, question).await?;
        if rows.is_empty() {
            return Ok(ended);
        }
        ended = ended.max(rows.len() as u64);
        if begin.elapsed() > GONE {
            return Err(timeout("the sessions of the run to end", GONE));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Putting back under way.
struct Work {
    file: RestoreFile,
    outcome: Outcome,
    /// What is back, but could not be taken out of the file. That matters only if the file is kept.
    unwritten: Vec<String>,
}

impl Work {
    fn done(&mut self, node: Node, what: impl std::fmt::Display) {
        self.outcome.done.push(format!("{}: {what}", node));
    }

    fn left(&mut self, why: impl std::fmt::Display) {
        self.outcome.left.push(why.to_string());
    }

    /// Takes out of the file what is back.
    fn strike(&mut self, change: impl FnOnce(&mut Record)) {
        if let Err(error) = self.file.update(change) {
            self.unwritten.push(error.to_string());
        }
    }

    fn has_objects(&self) -> bool {
        let record = self.file.record();
        !record.slots.is_empty() || record.database.is_some() || record.load.is_some()
    }

    fn end(mut self) -> Result<Outcome, SuiteError> {
        if self.outcome.left.is_empty() {
            self.file.remove()?;
        } else {
            self.outcome.left.append(&mut self.unwritten);
            self.outcome.file = Some(self.file.path().to_owned());
        }
        Ok(self.outcome)
    }

    async fn restore_settings(&mut self, node: Node, client: &Client) {
        let record = self.file.record();
        let changed: Vec<Setting> = record.settings.iter().filter(|s| s.is_on(node)).cloned().collect();
        for setting in changed {
            let what = format!("the {} to put back {}", node, setting.name);
            match within(ANSWER, &what, restore_setting(client, node, &setting)).await {
                Ok(Ok(restored)) => {
                    match restored {
                        Restored::Already => {}
                        Restored::Back(entry) => self.done(node, entry),
                        Restored::Theirs(entry) => {
                            self.outcome.theirs.push(format!("{}: {entry}", node));
                        }
                    }
                    self.strike(|record| record.settings.retain(|other| *other != setting));
                }
                Ok(Err(error)) | Err(error) => self.left(error),
            }
        }
    }

    /// Drops the slots and the database that the run has made.
    async fn remove_objects(&mut self, node: Node, client: &Client) {
        let record = self.file.record().clone();
        let role = load_role(&record);
        // Only what is in our database: a name can be taken by somebody else.
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
                    WHERE slot_name = $1 AND datoid = $2";
        for slot in record.slots {
            let parameters: [&(dyn ToSql + Sync); 2] = [&slot, &record.oid];
            let drop = client.query(drop, &parameters);
            match answered(format!("drop the slot {slot}"), node, drop).await {
                Ok(rows) => {
                    if !rows.is_empty() {
                        self.done(node, format!("the slot {slot} is dropped"));
                    }
                    self.strike(|record| record.slots.retain(|other| *other != slot));
                }
                Err(error) => self.left(error),
            }
        }
        self.drop_database(node, client, record.database, record.oid).await;
        // What it owned or had rights in was in the database.
        let Some(role) = role else { return };
        let drop = format!("DROP ROLE IF EXISTS {}", quote_identifier(&role));
        match answered(format!("drop the role {role}"), node, client.batch_execute(&drop)).await {
            Ok(()) => {
                self.done(node, format!("the role {role} is dropped"));
                self.strike(|record| record.load = None);
            }
            Err(error) => self.left(error),
        }
    }

    async fn drop_database(&mut self, node: Node, client: &Client, name: Option<String>, oid: u32) {
        let Some(name) = name else { return };
        let what = format!("the {} to drop the database {name}", node);
        match within(DROP, &what, drop_database(client, node, &name, oid)).await {
            Ok(Ok(entry)) => {
                if let Some(entry) = entry {
                    self.done(node, entry);
                }
                self.strike(|record| record.database = None);
            }
            Ok(Err(error)) | Err(error) => self.left(error),
        }
    }
}

/// What came of a setting, with what there is to tell of it.
enum Restored {
    Already,
    Back(String),
    Theirs(String),
}

/// Puts one setting back, and sees that it is in force.
async fn restore_setting(client: &Client, node: Node, setting: &Setting) -> Result<Restored, SuiteError> {
    let name = &setting.name;
    let found = settings::automatic(client, node, name).await?;
    if found == setting.before {
        // Whoever wrote it may have been killed before the server was told to read it.
        settings::reload(client, node).await?;
        settings::check_in_force(client, node, name).await?;
        return Ok(Restored::Already);
    }
    if setting.is_taken(found.as_deref()) {
        return Ok(Restored::Theirs(format!("{name} was set by somebody else meanwhile, and left as it is")));
    }
    settings::alter(client, node, name, setting.before.as_deref()).await?;
    settings::check_in_force(client, node, name).await?;
    Ok(Restored::Back(match &setting.before {
        Some(before) => format!("{name} is {before} again"),
        None => format!("{name} is what it was without ALTER SYSTEM again"),
    }))
}

/// Drops the run's database, if it is there. One of its name with another OID is somebody else's.
async fn drop_database(
    client: &Client,
    node: Node,
    name: &str,
    oid: u32,
) -> Result<Option<String>, SuiteError> {
    let doing = || refused(format!("drop the database {name}"), node);
    let found = client.query_opt("SELECT oid FROM pg_database WHERE datname = $1", &[&name]).await;
    match found.map_err(doing())?.map(|row| row.get::<_, u32>(0)) {
        None => Ok(None),
        Some(found) if found != oid => {
            Ok(Some(format!("the database {name} is another one than the run's, and left as it is")))
        }
        Some(_) => {
            // Not WITH (FORCE): sessions of others are not ours to end.
            let drop = format!("DROP DATABASE IF EXISTS {}", quote_identifier(name));
            client.batch_execute(&drop).await.map_err(doing())?;
            Ok(Some(format!("the database {name} is dropped")))
        }
    }
}
