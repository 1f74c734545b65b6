//! Sees to it that a role has its executor, here and in other databases of the server.

use tokio_postgres::{types::Type, Client};

use super::session::Place;
use super::shared::Shared;
use super::turn::TurnError;
use crate::interpret::Failure;

/// What another database needs before a step can run there.
const ELSEWHERE: &str = concat!(
    "CREATE SCHEMA df_run; REVOKE ALL ON SCHEMA df_run FROM PUBLIC;\n",
    include_str!("../../sql/60_executor.sql")
);

/// Whether `df_run` is there, and if so, whether all of it is the worker's own or a superuser's. Whoever else had made it
/// would have the worker run code of his.
const STANDING: &str = "
    SELECT n.oid IS NOT NULL,
        bool_and(coalesce(r.rolsuper OR r.rolname = current_user, n.oid IS NULL))
    FROM (SELECT) one
    LEFT JOIN pg_namespace n ON n.nspname = 'df_run'
    LEFT JOIN (
        SELECT oid AS namespace, nspowner AS owner FROM pg_namespace
        UNION ALL SELECT relnamespace, relowner FROM pg_class
        UNION ALL SELECT pronamespace, proowner FROM pg_proc WHERE proname !~ '^r[0-9]+$'
        UNION ALL SELECT typnamespace, typowner FROM pg_type
    ) o ON o.namespace = n.oid
    LEFT JOIN pg_roles r ON r.oid = o.owner
    GROUP BY n.oid";

/// Makes the executor of a role in the database that has the schema. False: there is no such role any more.
pub(crate) async fn ensure(shared: &Shared, place: &Place) -> Result<bool, TurnError> {
    if shared.executors.lock().contains(&place.role) {
        return Ok(true);
    }
    let client = shared.guarded().connect().await?;
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
    let home = shared.guarded().connect().await?;
    may_connect(&home, place).await?;
    let installation: String =
        home.query_typed_one("SELECT installation::text FROM df._meta", &[]).await?.get(0);
    let client = shared.guarded().database(&place.database).connect().await?;
    let standing = client.query_typed_one(STANDING, &[]).await?;
    if !standing.get::<_, bool>(1) {
        return Err(TurnError::Elsewhere(format!(
            "the schema df_run of database {} was made by somebody else than the worker's role: drop it there",
            place.database
        )));
    }
    if !standing.get::<_, bool>(0) {
        // Two workers may try at once; one of them fails and tries again.
        client.batch_execute(&format!("BEGIN; {ELSEWHERE}; COMMIT")).await?;
    }
    make(&client, place.role).await?;
    Ok(installation)
}

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

/// The failure of a step whose submitter is gone.
pub(crate) fn no_role(place: &Place) -> Failure {
    Failure {
        message: format!("the role with oid {} that submitted this instance no longer exists", place.role),
        sqlstate: Some("42704".to_owned()),
    }
}
