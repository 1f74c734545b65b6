//! Sees to it that a role has its executor, here and in other databases of the server.

use tokio_postgres::{types::Type, Client};

use super::session::Place;
use super::shared::Shared;
use super::turn::TurnError;
use crate::interpret::Failure;
use crate::schema::trust::{self, Foreign};

/// What another database needs before a step can run there.
const ELSEWHERE: &str =
    concat!("REVOKE ALL ON SCHEMA df_run FROM PUBLIC;\n", include_str!("../../sql/60_executor.sql"));

/// The version of what [`ELSEWHERE`] makes, which stands in the comment of the schema.
const VERSION: i32 = 5;

/// The version of `df_run` in a database; NULL: it is not there; 1, if it does not say.
const FOUND: &str = "SELECT (SELECT coalesce(
        substring(obj_description(n.oid, 'pg_namespace') FROM '^durable functions, version ([0-9]{1,8}):')::int, 1)
    FROM pg_namespace n WHERE n.nspname = 'df_run')";

/// Makes the executor of a role in the database that has the schema. False: there is no such role any more.
pub(crate) async fn ensure(shared: &Shared, place: &Place) -> Result<bool, TurnError> {
    if shared.executors.lock().contains(&place.role) {
        return Ok(true);
    }
    let client = shared.home().await?;
    let exists = make(&client, place.role).await?;
    if exists {
        shared.executors.lock().insert(place.role);
    }
    Ok(exists)
}

async fn make(client: &Client, role: u32) -> Result<bool, TurnError> {
    let row = client.query_typed_one("SELECT df_run.ensure_executor($1)", &[(&role, Type::OID)]).await?;
    Ok(row.get(0))
}

/// Makes the executor of a role in another database, if the role may connect there; returns the name under which steps
/// of this installation are marked there.
pub(crate) async fn ensure_elsewhere(shared: &Shared, place: &Place) -> Result<String, TurnError> {
    let home = shared.home().await?;
    may_connect(&home, place).await?;
    let client = shared.guarded().database(&place.database).connect().await?;
    match standing(&client).await? {
        Standing::Foreign(what) => {
            return Err(TurnError::Elsewhere(format!(
                "database {} has {what}, made by somebody else than the worker's role: drop the schema df_run there",
                place.database
            )));
        }
        Standing::Missing => bring_up_to_date(&client).await?,
        Standing::Ours => {}
    }
    make(&client, place.role).await?;
    installation(&home).await
}

/// The name under which steps of this installation are marked in another database; `None`: nothing can run there.
pub(crate) async fn standing_elsewhere(shared: &Shared, database: &str) -> Result<Option<String>, TurnError> {
    let home = shared.home().await?;
    let exists = home
        .query_typed_opt(
            "SELECT FROM pg_database d WHERE d.datname = $1 AND d.datallowconn AND NOT d.datistemplate",
            &[(&database, Type::TEXT)],
        )
        .await?;
    if exists.is_none() {
        return Ok(None);
    }
    let client = shared.guarded().database(database).connect().await?;
    match standing(&client).await? {
        Standing::Ours => installation(&home).await.map(Some),
        Standing::Missing | Standing::Foreign(_) => Ok(None),
    }
}

async fn installation(home: &Client) -> Result<String, TurnError> {
    Ok(home.query_typed_one("SELECT installation::text FROM df._meta", &[]).await?.get(0))
}

/// What another database has of what steps need there.
enum Standing {
    Missing,
    /// All of it, of this version or a newer one.
    Ours,
    /// Something of somebody else's, who would have the worker run code of his.
    Foreign(String),
}

/// Looks whose the schema `df_run` is, and brings it up to date if it is the worker's own.
async fn standing(client: &Client) -> Result<Standing, TurnError> {
    if let Some(Foreign { what, .. }) = trust::foreign(client, &["df_run"]).await? {
        return Ok(Standing::Foreign(what));
    }
    let Some(found) = version(client).await? else { return Ok(Standing::Missing) };
    if found < VERSION {
        bring_up_to_date(client).await?;
    }
    Ok(Standing::Ours)
}

async fn version(client: &Client) -> Result<Option<i32>, TurnError> {
    Ok(client.query_typed_one(FOUND, &[]).await?.get(0))
}

/// Makes what steps need in another database, or brings it up to date: one session at a time, because two that change the
/// same rows of the catalogue fail, and their steps with them. It is one round trip, so that a worker that is cut off holds
/// the lock no longer than the server works.
async fn bring_up_to_date(client: &Client) -> Result<(), TurnError> {
    let steps = ["BEGIN", OWN_SCHEMA, trust::RESTORE_OWNER, trust::LOCK, ELSEWHERE, "COMMIT"];
    Ok(client.batch_execute(&steps.join("; ")).await?)
}

/// The schema, unless somebody else has made one since it was looked for. Who makes it at the same time waits here for the
/// other.
const OWN_SCHEMA: &str = "
    DO $$
    DECLARE
        owner oid;
    BEGIN
        IF to_regnamespace('df_run') IS NULL THEN
            BEGIN
                CREATE SCHEMA df_run;
            EXCEPTION WHEN unique_violation OR duplicate_schema THEN
                NULL;
            END;
        END IF;
        owner := (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'df_run');
        IF NOT (pg_has_role(owner, 'USAGE') OR (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = owner)) THEN
            RAISE EXCEPTION 'the schema df_run was made by somebody else: drop it';
        END IF;
    END $$";

/// Whether the submitter may connect to the database of its step: it may have named it by hand, or lost the right.
pub(crate) async fn may_connect(home: &Client, place: &Place) -> Result<(), TurnError> {
    let allowed = home
        .query_typed_opt(
            "SELECT FROM pg_database d WHERE d.datname = $1 AND d.datallowconn AND NOT d.datistemplate
             AND has_database_privilege($2::oid, d.oid, 'CONNECT')",
            &[(&place.database, Type::TEXT), (&place.role, Type::OID)],
        )
        .await?;
    allowed.map(drop).ok_or_else(|| {
        TurnError::Elsewhere(format!(
            "role {} may not connect to database {}",
            place.role_name, place.database
        ))
    })
}

/// Whether a step could not run because the executor of its role is not there any more, or belongs to somebody else.
pub(crate) fn is_gone(failure: &Failure, role: u32) -> bool {
    match failure.sqlstate.as_deref() {
        Some("DFEXE") => true,
        Some("42883") => failure.message.contains(&format!("df_run.r{role}(")),
        _ => false,
    }
}

/// The failure of a step whose submitter is gone.
pub(crate) fn no_role(place: &Place) -> Failure {
    Failure {
        message: format!("the role with oid {} that submitted this instance no longer exists", place.role),
        sqlstate: Some("42704".to_owned()),
    }
}
