//! Where a workload runs, and as whom: a role of its own in a schema of its own, so that a script which means harm can do
//! none but to itself. See docs/design/workloads.md.

use std::num::NonZeroU32;
use std::time::Duration;

use duramen_postgres::connection::Target;
use duramen_postgres::{quote_identifier, quote_literal, Secret};
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::error::WorkloadError;
use crate::tally::Failed;
use crate::workload::Workload;

/// The schema.
pub const SCHEMA: &str = "duramen_workload";
/// What all names of such roles begin with.
pub const ROLE: &str = "duramen_load_";
/// Rounds of the verifier: what clients think safe. The secret has 130 bits.
const ROUNDS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);
/// The role may log in no longer than this after it was made.
const VALID_HOURS: u32 = 6;
/// What one session may write to temporary files.
const TEMPORARY: &str = "1GB";
/// Making and removing a role and a schema takes no longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// The whole set-up takes no longer.
const SET_UP: Duration = Duration::from_secs(1_800);

/// A role with its secret.
#[derive(Debug, Clone)]
pub struct Place {
    role: String,
    secret: Secret,
}

impl Place {
    /// The role of a run, by a number that no other run has.
    #[must_use]
    pub fn new(run: u32) -> Self {
        Self { role: format!("{ROLE}{run}"), secret: Secret::random() }
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> &str {
        &self.role
    }

    /// Makes the role and the schema in the database of the session, which is the run's own; nobody else may enter it.
    ///
    /// # Errors
    /// What the server says.
    pub async fn make(&self, superuser: &Client, database: &str, clients: u32) -> Result<(), WorkloadError> {
        let (role, database) = (quote_identifier(&self.role), quote_identifier(database));
        let verifier = quote_literal(&self.secret.verifier(ROUNDS));
        let limit = clients.saturating_mul(2).saturating_add(16);
        // In one transaction: there is no moment in which the role has more than it is to have.
        let sql = format!(
            "BEGIN;
             SET LOCAL synchronous_commit TO local;
             CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS
                 CONNECTION LIMIT {limit} PASSWORD {verifier};
             ALTER ROLE {role} SET temp_file_limit = '{TEMPORARY}';
             REVOKE ALL ON DATABASE {database} FROM PUBLIC;
             GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {role};
             REVOKE ALL ON SCHEMA public FROM PUBLIC;
             CREATE SCHEMA {SCHEMA};
             GRANT USAGE, CREATE ON SCHEMA {SCHEMA} TO {role};
             COMMIT"
        );
        run(superuser, &sql, PATIENCE, "make the role and the schema of the workload").await?;
        let until = format!(
            "SELECT format('ALTER ROLE {role} VALID UNTIL %L', now() + interval '{VALID_HOURS} hours')"
        );
        let doing = "limit the role of the workload";
        let asked = timeout(PATIENCE, superuser.query_one(&until, &[])).await;
        let asked = asked.map_err(|_| late(doing, PATIENCE))?.map_err(|error| refused(doing, &error))?;
        run(superuser, &asked.get::<_, String>(0), PATIENCE, doing).await
    }

    /// The same server and database, as this role, in this schema.
    #[must_use]
    pub fn target(&self, target: &Target) -> Target {
        let target = target.clone().login(&self.role, self.secret.expose());
        target.settings([("search_path", SCHEMA)])
    }

    /// Runs the set-up of a workload, as its role.
    ///
    /// # Errors
    /// When the role is not let in, or what the server says, with the line.
    pub async fn set_up(&self, target: &Target, workload: &Workload) -> Result<(), WorkloadError> {
        let target = self.target(target);
        let client = target.connect().await.map_err(|error| WorkloadError::Server {
            doing: format!(
                "the role of the workload ({}) cannot log in on the primary, so that nothing was run: let {}* in by a \
                 password (scram-sha-256) in pg_hba.conf",
                self.role, ROLE
            ),
            said: error.to_string(),
        })?;
        let Some(schema) = workload.schema() else { return Ok(()) };
        let work = async {
            run(&client, "SET synchronous_commit TO local", PATIENCE, "begin the set-up").await?;
            for (line, statement) in schema.statements(workload.scale()) {
                let doing = format!("run the set-up, {}, line {line}", schema.file());
                drain(&client, &statement).await.map_err(|said| WorkloadError::Server { doing, said })?;
            }
            Ok(())
        };
        timeout(SET_UP, work).await.map_err(|_| late("run the set-up", SET_UP))?
    }

    /// Ends the sessions of the role and removes it with everything that it has in the database of the session.
    ///
    /// # Errors
    /// What the server says.
    pub async fn remove(&self, superuser: &Client) -> Result<(), WorkloadError> {
        let role = quote_identifier(&self.role);
        let literal = quote_literal(&self.role);
        let sql = format!(
            "SET synchronous_commit TO local;
             DO $do$ BEGIN
                 PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                     WHERE usename = {literal} AND pid <> pg_backend_pid();
                 IF EXISTS (SELECT FROM pg_roles WHERE rolname = {literal}) THEN
                     EXECUTE 'DROP OWNED BY ' || quote_ident({literal}) || ' CASCADE';
                 END IF;
             END $do$;
             DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
             DROP ROLE IF EXISTS {role}"
        );
        run(superuser, &sql, PATIENCE * 5, "remove the role and the schema of the workload").await
    }
}

/// Runs a statement and drops its rows.
async fn drain(client: &Client, sql: &str) -> Result<(), String> {
    use futures_util::TryStreamExt as _;
    let said = |error: tokio_postgres::Error| Failed::of_server(&error).text;
    let mut stream = std::pin::pin!(client.simple_query_raw(sql).await.map_err(said)?);
    while stream.try_next().await.map_err(said)?.is_some() {}
    Ok(())
}

async fn run(client: &Client, sql: &str, limit: Duration, doing: &str) -> Result<(), WorkloadError> {
    match timeout(limit, client.batch_execute(sql)).await {
        Ok(done) => done.map_err(|error| refused(doing, &error)),
        Err(_) => Err(late(doing, limit)),
    }
}

fn refused(doing: &str, error: &tokio_postgres::Error) -> WorkloadError {
    WorkloadError::Server { doing: doing.to_owned(), said: Failed::of_server(error).text }
}

fn late(doing: &str, limit: Duration) -> WorkloadError {
    WorkloadError::Server { doing: doing.to_owned(), said: format!("not done within {} s", limit.as_secs()) }
}
