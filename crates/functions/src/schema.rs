//! The schema `df`: what is installed, and how it gets there.
//!
//! The SQL lies in files beside the crate's sources and is compiled in. Tables are made once and changed by
//! migrations; functions, views, triggers and operators are made anew by every installation. All of it happens in one
//! transaction, under a lock, with instances in flight: workers see the old schema or the new one.

mod adopt;
pub(crate) mod trust;
mod uninstall;
mod worker_role;

use std::time::Duration;

use duramen_base::clock;
use tokio_postgres::{error::SqlState, types::Type, Client};

use duramen_postgres::connection::{with_sources, ConnectError, Target};

pub use adopt::{adopt, adopt_as, as_owner, Adopted, External};
pub use uninstall::{uninstall, Uninstalled};
pub use worker_role::WorkerRole;

/// The version of the tables that this library works with.
pub const SCHEMA_VERSION: i32 = 6;

/// The oldest server that has what the schema uses, as `server_version_num`: views with the rights of the caller.
const OLDEST_SERVER: i32 = 150_000;

/// Tables, one entry a version, in order.
const MIGRATIONS: [&str; 6] = [
    include_str!("../sql/20_tables.sql"),
    include_str!("../sql/21_tables.sql"),
    include_str!("../sql/22_tables.sql"),
    include_str!("../sql/23_tables.sql"),
    include_str!("../sql/24_tables.sql"),
    include_str!("../sql/25_tables.sql"),
];

/// Before the tables: what they use.
const BEFORE: [&str; 3] = [
    include_str!("../sql/00_schema.sql"),
    include_str!("../sql/10_ids.sql"),
    include_str!("../sql/11_identity.sql"),
];

/// After the tables: everything that is replaced by every installation.
const AFTER: [&str; 26] = [
    include_str!("../sql/30_dsl.sql"),
    include_str!("../sql/31_operators.sql"),
    include_str!("../sql/32_cron.sql"),
    include_str!("../sql/33_envelope.sql"),
    include_str!("../sql/34_explain.sql"),
    include_str!("../sql/40_views.sql"),
    include_str!("../sql/41_start.sql"),
    include_str!("../sql/42_inspect.sql"),
    include_str!("../sql/43_control.sql"),
    include_str!("../sql/44_grants.sql"),
    include_str!("../sql/45_queues.sql"),
    include_str!("../sql/46_revive.sql"),
    include_str!("../sql/47_events.sql"),
    include_str!("../sql/48_tasks.sql"),
    include_str!("../sql/49_schedules.sql"),
    include_str!("../sql/50_search.sql"),
    include_str!("../sql/51_traces.sql"),
    include_str!("../sql/52_shards.sql"),
    include_str!("../sql/60_executor.sql"),
    include_str!("../sql/61_turn.sql"),
    include_str!("../sql/62_wake.sql"),
    include_str!("../sql/63_workers.sql"),
    include_str!("../sql/64_retention.sql"),
    include_str!("../sql/65_copies.sql"),
    VERSION,
    // Last, because it looks at all of them.
    include_str!("../sql/70_paths.sql"),
];

/// What SQL is told of the program that installed the schema.
const VERSION: &str = concat!(
    "CREATE OR REPLACE FUNCTION df.version() RETURNS text
     LANGUAGE sql STABLE AS $$
         SELECT '",
    env!("CARGO_PKG_VERSION"),
    " (schema ' || coalesce((SELECT m.schema_version::text FROM df._meta m), 'unknown') || ')'
     $$"
);

/// The schemas, unless they are there. Whose they are is looked at behind this, so that nobody can come in between. Of two
/// sessions that make them at once one waits here for the other.
const SCHEMAS: &str = "
    DO $$
    DECLARE
        place text;
    BEGIN
        FOREACH place IN ARRAY ARRAY['df', 'df_run'] LOOP
            IF to_regnamespace(place) IS NULL THEN
                BEGIN
                    EXECUTE format('CREATE SCHEMA %I', place);
                EXCEPTION WHEN unique_violation OR duplicate_schema THEN
                    NULL;
                END;
            END IF;
        END LOOP;
    END $$";

/// How long an installation waits for a lock: while it waits for a strong one, everybody waits behind it.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = 300";
/// How long it tries again, when somebody holds a lock that it needs.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// The pause in which those go on who have waited behind it.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// Who holds locks on tables of the schemas, and for how long by now.
const HOLDERS: &str = "
    SELECT string_agg(format('process %s of %s, in a transaction for %s s', a.pid, a.usename,
        round(extract(epoch FROM clock_timestamp() - a.xact_start))), '; ' ORDER BY a.xact_start)
    FROM pg_stat_activity a
    WHERE a.pid <> pg_backend_pid() AND a.pid IN (
        SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
        WHERE l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND c.relnamespace IN (to_regnamespace('df'), to_regnamespace('df_run')))";

/// What a session begins with that uses the schema as somebody with rights: the database's owner chooses the search path
/// of others.
const GUARD: [(&str, &str); 2] = [("search_path", "pg_catalog, pg_temp"), NO_JIT];

/// What sessions that use the schema say of compiling queries: it takes longer than to answer them.
pub(crate) const NO_JIT: (&str, &str) = ("jit", "off");

/// What an installation has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The version before; `None`: there was nothing.
    pub from: Option<i32>,
    /// The version now.
    pub to: i32,
    /// The schema that the operators are in: `pg_catalog`, where they are found without further ado, or `df`, which
    /// `search_path` must then name.
    pub operators_in: String,
}

/// Why nothing was installed, or why a worker cannot work with what is installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server is too old.
    #[error("the server is PostgreSQL {found}, and durable functions need 15 or newer")]
    OldServer {
        /// What the server says of itself.
        found: String,
    },
    /// There is no schema in the database.
    #[error("{target} has no durable functions: run `duramen fn install URL` on it first")]
    Missing {
        /// Host and database.
        target: String,
    },
    /// The schema is of a version that this program does not know.
    #[error("{target} has version {found} of the schema, and this program knows {SCHEMA_VERSION}: use a newer duramen")]
    Newer {
        /// Host and database.
        target: String,
        /// Its version.
        found: i32,
    },
    /// The schema is older than the program.
    #[error("{target} has version {found} of the schema, and this program needs {SCHEMA_VERSION}: run `duramen fn install URL` again; instances in flight go on")]
    Older {
        /// Host and database.
        target: String,
        /// Its version.
        found: i32,
    },
    /// Somebody else made the schemas, or something in them, and would have this session run what he likes.
    #[error("{target} has {what}, which belongs to {owner}: {role} would run whatever {owner} has put there; if {owner} installed durable functions, connect as {owner} (a member of it does with `?options=-c%20role%3D{owner}`), else have it dropped")]
    Foreign {
        /// Host and database.
        target: String,
        /// What is not to be trusted.
        what: String,
        /// Whose it is.
        owner: String,
        /// The role that connected.
        role: String,
    },
    /// The instances were begun in another copy of the database: it is a branch, a clone, or was restored.
    #[error("{target} is a copy of the database in which its instances were begun, and to run them here would repeat what they do outside of it: decide with `duramen fn adopt URL --external=skip|stub|run`")]
    Copy {
        /// Host and database.
        target: String,
    },
    /// It was decided before, and otherwise.
    #[error("{target} was adopted with --external={found} before, and {wanted} would come too late: what reached outside since then has ended so; pass --external={found}, or put the branch back with `duramen branch reset` and begin anew")]
    Decided {
        /// Host and database.
        target: String,
        /// The rule that it has.
        found: &'static str,
        /// The rule that was asked for.
        wanted: &'static str,
    },
    /// The role may not do what it must.
    #[error("role {role} may not {what} in {target}: {hint}")]
    Rights {
        /// The role that connected.
        role: String,
        /// What it may not do.
        what: String,
        /// Host and database.
        target: String,
        /// How to help it.
        hint: String,
    },
    /// Somebody holds locks that are in the way.
    #[error("{target} is in use, and nothing was changed: {holders} - let that end, and run it again")]
    Busy {
        /// Host and database.
        target: String,
        /// Who holds locks on tables of the schema.
        holders: String,
    },
    /// It is still needed.
    #[error("{target} has {running} instances that have not ended{}: cancel or await them, or pass --force, and they are gone", dependents.as_ref().map_or_else(String::new, |what| format!(", and what depends on the schema would go with it: {what}")))]
    InUse {
        /// Host and database.
        target: String,
        /// How many instances have not ended.
        running: i64,
        /// What others have made that depends on it.
        dependents: Option<String>,
    },
    /// The role that workers are to connect as has more rights than they need.
    #[error("role {role} is there and is {powers}, and a worker's role may have nothing of that: name another role, or run ALTER ROLE {role} LOGIN NOSUPERUSER NOINHERIT NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS on {target}")]
    WorkerRole {
        /// The role.
        role: String,
        /// Attributes that it has and must not have.
        powers: String,
        /// Host and database.
        target: String,
    },
    /// The server refused a statement.
    #[error("{target}: {cause}")]
    Server {
        /// Host and database.
        target: String,
        /// The server's words.
        cause: String,
    },
}

/// Puts the schema into a database, or brings it up to date.
///
/// # Errors
/// [`SchemaError`]; then the database is as it was.
pub async fn install(url: &str) -> Result<Installed, SchemaError> {
    install_for(url, None).await
}

/// As [`install`]; with a role, everything is made that role's own, and workers connect as it. Whoever installs must be able
/// to make roles and memberships.
///
/// # Errors
/// [`SchemaError`]; then the database is as it was.
pub async fn install_for(url: &str, role: Option<&WorkerRole>) -> Result<Installed, SchemaError> {
    let target = Target::parse(url)?.application_name("duramen fn install").settings(GUARD);
    let mut client = target.connect().await?;
    check_server(&client, &target).await?;
    let began = clock::now();
    loop {
        match attempt(&mut client, &target, role).await {
            Err(SchemaError::Busy { .. }) if began.elapsed() < LOCK_PATIENCE => {
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(SchemaError::Busy { target: place, .. }) => {
                let holders: Option<String> = client
                    .query_typed_one(HOLDERS, &[])
                    .await
                    .map_err(|error| SchemaError::Server {
                        target: place.clone(),
                        cause: with_sources(&error),
                    })?
                    .get(0);
                let holders = holders.unwrap_or_else(|| "somebody who has gone since".to_owned());
                return Err(SchemaError::Busy { target: place, holders });
            }
            result => return result,
        }
    }
}

/// What a refusal of the server means while the schema is installed.
fn refused(error: &tokio_postgres::Error, target: &Target) -> SchemaError {
    const BUSY: [SqlState; 2] = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];
    match error.code() {
        Some(code) if BUSY.contains(code) => {
            SchemaError::Busy { target: target.describe(), holders: String::new() }
        }
        _ => SchemaError::Server { target: target.describe(), cause: with_sources(error) },
    }
}

/// One attempt at an installation. It waits for no lock for long.
async fn attempt(
    client: &mut Client,
    target: &Target,
    role: Option<&WorkerRole>,
) -> Result<Installed, SchemaError> {
    let server = |error: tokio_postgres::Error| refused(&error, target);
    let transaction = client.transaction().await.map_err(server)?;
    let run = |sql: &'static str| {
        let transaction = &transaction;
        async move {
            transaction.batch_execute(sql).await.map_err(|error| match error.code() {
                Some(&SqlState::INSUFFICIENT_PRIVILEGE) => SchemaError::Rights {
                    role: target.role().to_owned(),
                    what: "install durable functions".to_owned(),
                    target: target.describe(),
                    hint: format!(
                        "connect as the database's owner, or GRANT CREATE ON DATABASE to the role ({})",
                        with_sources(&error)
                    ),
                },
                _ => refused(&error, target),
            })
        }
    };
    run(LOCK_TIMEOUT).await?;
    run("SET LOCAL client_min_messages = warning; SET LOCAL check_function_bodies = off").await?;
    match role {
        Some(role) => worker_role::prepare(transaction.client(), target, role).await?,
        None => run(SCHEMAS).await?,
    }
    trust::require(transaction.client(), target).await?;
    run(trust::RESTORE_OWNER).await?;
    run(trust::LOCK).await?;
    let from = version(transaction.client(), target).await?;
    if let Some(found) = from.filter(|found| *found > SCHEMA_VERSION) {
        return Err(SchemaError::Newer { target: target.describe(), found });
    }
    for sql in BEFORE {
        run(sql).await?;
    }
    let done = usize::try_from(from.unwrap_or(0)).unwrap_or(0);
    for sql in &MIGRATIONS[done.min(MIGRATIONS.len())..] {
        run(sql).await?;
    }
    for sql in AFTER {
        run(sql).await?;
    }
    let operators_in: String =
        transaction.query_typed_one("SELECT df._operators_schema()", &[]).await.map_err(server)?.get(0);
    transaction
        .query_typed(
            "INSERT INTO df._meta (schema_version, operators_in, identity) VALUES ($1, $2, df._identity())
             ON CONFLICT (singleton) DO UPDATE SET schema_version = $1, operators_in = $2",
            &[(&SCHEMA_VERSION, Type::INT4), (&operators_in, Type::TEXT)],
        )
        .await
        .map_err(server)?;
    if let Some(role) = role {
        worker_role::let_in(transaction.client(), role).await.map_err(server)?;
    }
    transaction.commit().await.map_err(server)?;
    Ok(Installed { from, to: SCHEMA_VERSION, operators_in })
}

/// Says whether a worker of this program can work on the database, and returns the identity of this copy of it.
///
/// # Errors
/// [`SchemaError`]: the reason why not.
pub(crate) async fn check(client: &Client, target: &Target) -> Result<String, SchemaError> {
    check_parts(client, target).await?;
    adopt::require(client, target).await
}

/// Whether the schema is there, is to be trusted, and is of this program's version.
async fn check_parts(client: &Client, target: &Target) -> Result<(), SchemaError> {
    check_server(client, target).await?;
    // Before anything of it is read: a table may be a view that calls functions.
    trust::require(client, target).await?;
    match version(client, target).await? {
        None => Err(SchemaError::Missing { target: target.describe() }),
        Some(found) if found > SCHEMA_VERSION => Err(SchemaError::Newer { target: target.describe(), found }),
        Some(found) if found < SCHEMA_VERSION => Err(SchemaError::Older { target: target.describe(), found }),
        Some(_) => Ok(()),
    }
}

async fn check_server(client: &Client, target: &Target) -> Result<(), SchemaError> {
    let row = client
        .query_typed_one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version')",
            &[],
        )
        .await
        .map_err(|error| SchemaError::Server { target: target.describe(), cause: with_sources(&error) })?;
    if row.get::<_, i32>(0) < OLDEST_SERVER {
        return Err(SchemaError::OldServer { found: row.get(1) });
    }
    Ok(())
}

/// The installed version; `None`: nothing is installed.
pub(crate) async fn version(client: &Client, target: &Target) -> Result<Option<i32>, SchemaError> {
    let server = |error: tokio_postgres::Error| SchemaError::Server {
        target: target.describe(),
        cause: with_sources(&error),
    };
    let exists: bool = client
        .query_typed_one(
            "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = 'df' AND c.relname = '_meta')",
            &[],
        )
        .await
        .map_err(server)?
        .get(0);
    if !exists {
        return Ok(None);
    }
    match client.query_typed_opt("SELECT schema_version FROM df._meta", &[]).await {
        Ok(row) => Ok(row.map(|row| row.get(0))),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Err(SchemaError::Rights {
            role: target.role().to_owned(),
            what: "read the schema df".to_owned(),
            target: target.describe(),
            hint: "connect as the role that installed it, or as a member of it".to_owned(),
        }),
        Err(error) => Err(server(error)),
    }
}
