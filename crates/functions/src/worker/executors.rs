//! Sees to it that a role has its executor, here and in other databases of the server.

use tokio_postgres::types::Type;

use super::session::Place;
use super::shared::Shared;
use super::turn::TurnError;
use crate::interpret::Failure;

/// What another database needs before a step can run there.
const ELSEWHERE: &str = concat!(
    "CREATE SCHEMA IF NOT EXISTS df_run; REVOKE ALL ON SCHEMA df_run FROM PUBLIC;\n",
    include_str!("../../sql/60_executor.sql")
);

/// Makes the executor of a role in the database that has the schema. False: there is no such role any more.
pub(crate) async fn ensure(shared: &Shared, place: &Place) -> Result<bool, TurnError> {
    // One at a time, and the answer is kept: a role rarely goes.
    let mut known = shared.executors.lock().await;
    if known.contains(&place.role) {
        return Ok(true);
    }
    let client = shared.target.connect().await?;
    let exists: bool = client
        .query_typed_one("SELECT df_run.ensure_executor($1)", &[(&place.role, Type::OID)])
        .await?
        .get(0);
    if exists {
        known.insert(place.role);
    }
    Ok(exists)
}

/// Makes the executor of a role in another database; returns the name under which steps of this installation are
/// marked there.
pub(crate) async fn ensure_elsewhere(shared: &Shared, place: &Place) -> Result<String, TurnError> {
    let _one_at_a_time = shared.executors.lock().await;
    let home = shared.target.connect().await?;
    let installation: String =
        home.query_typed_one("SELECT installation::text FROM df._meta", &[]).await?.get(0);
    let client = shared.target.clone().database(&place.database).connect().await?;
    let ready: bool = client
        .query_typed_one("SELECT to_regclass('df_run.marker') IS NOT NULL", &[])
        .await?
        .get(0);
    if !ready {
        client.batch_execute(&format!("BEGIN; SET LOCAL client_min_messages = warning; {ELSEWHERE}; COMMIT")).await?;
    }
    client.query_typed_one("SELECT df_run.ensure_executor($1)", &[(&place.role, Type::OID)]).await?;
    Ok(installation)
}

/// The failure of a step whose submitter is gone.
pub(crate) fn no_role(place: &Place) -> Failure {
    Failure {
        message: format!("the role with oid {} that submitted this instance no longer exists", place.role),
        sqlstate: Some("42704".to_owned()),
    }
}
