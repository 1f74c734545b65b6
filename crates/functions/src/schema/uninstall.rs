//! Removes the schema from a database, and what its steps have left in other databases.

use tokio_postgres::{types::Type, Client};

use duramen_postgres::{
    connection::{with_sources, Target},
    quote_identifier,
};

use super::{refused, trust, version, SchemaError, GUARD, LOCK_TIMEOUT};

/// What was removed, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uninstalled {
    /// How many instances had not ended.
    pub running: i64,
    /// The other databases from which something was taken.
    pub elsewhere: Vec<String>,
    /// What stays, and why.
    pub left: Vec<String>,
}

/// Objects of others that would go with the schema: what is neither in it nor an operator that belongs to it.
const DEPENDENTS: &str = "
    WITH ours (class, object) AS (
        SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relnamespace IN ('df'::regnamespace, 'df_run'::regnamespace)
        UNION ALL
        SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE pronamespace IN ('df'::regnamespace, 'df_run'::regnamespace)
        UNION ALL
        SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typnamespace IN ('df'::regnamespace, 'df_run'::regnamespace)
    ), parts (class, object) AS (
        SELECT o.class, o.object FROM ours o
        UNION ALL SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN ours o ON o.object = r.ev_class
        UNION ALL SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a JOIN ours o ON o.object = a.adrelid
        UNION ALL SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t JOIN ours o ON o.object = t.tgrelid
        UNION ALL SELECT 'pg_policy'::regclass, p.oid FROM pg_policy p JOIN ours o ON o.object = p.polrelid
        UNION ALL SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c JOIN ours o ON o.object = c.conrelid
        UNION ALL SELECT 'pg_operator'::regclass, p.oid FROM pg_operator p JOIN ours o ON o.object = p.oprcode
    )
    SELECT string_agg(DISTINCT pg_describe_object(d.classid, d.objid, 0), ', ')
    FROM pg_depend d JOIN ours o ON o.class = d.refclassid AND o.object = d.refobjid
    WHERE d.deptype = 'n' AND NOT EXISTS (SELECT FROM parts p WHERE p.class = d.classid AND p.object = d.objid)";

/// Statements that reset what was set for this database, and for roles in it, by what may be done of them.
const SETTINGS: &str = "
    SELECT format('ALTER %s RESET %I', CASE s.setrole WHEN 0 THEN format('DATABASE %I', d.datname)
            ELSE format('ROLE %I IN DATABASE %I', pg_get_userbyid(s.setrole), d.datname) END, split_part(c, '=', 1))
    FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) AS c
    WHERE d.datname = current_database() AND c LIKE 'df.%'";

/// Removes durable functions from a database: the schemas, the operators, the settings, the executors, and the marks and
/// executors in other databases of the server. With `force` also if instances have not ended or something of others
/// depends on it, which goes, too.
///
/// # Errors
/// [`SchemaError`]; then the database is as it was.
pub async fn uninstall(url: &str, force: bool) -> Result<Uninstalled, SchemaError> {
    let target = Target::parse(url)?.application_name("duramen fn uninstall").settings(GUARD);
    let mut client = target.connect().await?;
    let server = |error: tokio_postgres::Error| refused(&error, &target);
    let transaction = client.transaction().await.map_err(server)?;
    transaction.batch_execute(LOCK_TIMEOUT).await.map_err(server)?;
    trust::require(transaction.client(), &target).await?;
    let Some(_) = version(transaction.client(), &target).await? else {
        return Err(SchemaError::Missing { target: target.describe() });
    };
    trust::lock(transaction.client()).await.map_err(server)?;
    let row = transaction
        .query_typed_one(
            "SELECT (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._queued)
                + (SELECT count(*) FROM df._work),
                (SELECT m.installation::text FROM df._meta m)",
            &[],
        )
        .await
        .map_err(server)?;
    let (running, installation): (i64, String) = (row.get(0), row.get(1));
    let dependents: Option<String> =
        transaction.query_typed_one(DEPENDENTS, &[]).await.map_err(server)?.get(0);
    if !force && (running > 0 || dependents.is_some()) {
        return Err(SchemaError::InUse { target: target.describe(), running, dependents });
    }
    // This disconnects the workers. Their work in progress is rolled back, or fails because the table that would record it is
    // gone.
    transaction
        .query_typed(
            "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN df._worker_epoch e
             ON a.application_name = 'duramen fn ' || e.epoch_id WHERE a.pid <> pg_backend_pid()",
            &[],
        )
        .await
        .map_err(server)?;
    let mut left = Vec::new();
    for row in transaction.query_typed(SETTINGS, &[]).await.map_err(server)? {
        let reset: String = row.get(0);
        transaction.batch_execute("SAVEPOINT reset").await.map_err(server)?;
        if let Err(error) = transaction.batch_execute(&reset).await {
            left.push(format!("a setting ({reset}): {}", with_sources(&error)));
            transaction.batch_execute("ROLLBACK TO reset").await.map_err(server)?;
        }
    }
    transaction
        .batch_execute("SET LOCAL client_min_messages = error; DROP SCHEMA df, df_run CASCADE")
        .await
        .map_err(server)?;
    // The tables are dropped, but that is not committed yet, so no worker can begin anything in those databases.
    let mut elsewhere = Vec::new();
    let others = transaction
        .query_typed(
            "SELECT d.datname FROM pg_database d
             WHERE d.datallowconn AND NOT d.datistemplate AND d.datname <> current_database() ORDER BY 1",
            &[],
        )
        .await
        .map_err(server)?;
    for row in &others {
        let database: String = row.get(0);
        match clear(&target.clone().database(&database), &installation).await {
            Ok(true) => elsewhere.push(database),
            Ok(false) => {}
            Err(error) => left.push(format!("whatever there is in database {database}: {error}")),
        }
    }
    transaction.commit().await.map_err(server)?;
    Ok(Uninstalled { running, elsewhere, left })
}

/// Removes what steps of this installation have left in another database, unless another installation uses it as well.
/// Returns whether there was anything.
async fn clear(target: &Target, installation: &str) -> Result<bool, SchemaError> {
    let server = |error: tokio_postgres::Error| refused(&error, target);
    let client: Client = target.connect().await?;
    client.batch_execute("SET lock_timeout = 2000").await.map_err(server)?;
    let row = client
        .query_typed_one(
            "SELECT to_regnamespace('df_run') IS NOT NULL, to_regnamespace('df') IS NOT NULL",
            &[],
        )
        .await
        .map_err(server)?;
    // What has a schema df besides belongs to the installation there.
    if !row.get::<_, bool>(0) {
        return Ok(false);
    }
    if trust::foreign(&client, &["df_run"]).await.map_err(server)?.is_some() {
        return Ok(false);
    }
    let has_own = row.get::<_, bool>(1);
    let marks = client
        .execute_typed(
            "DELETE FROM df_run.marker WHERE installation = $1::text::uuid",
            &[(&installation, Type::TEXT)],
        )
        .await
        .map_err(server)?;
    let others: bool = client
        .query_typed_one("SELECT EXISTS (SELECT FROM df_run.marker)", &[])
        .await
        .map_err(server)?
        .get(0);
    if has_own || others {
        return Ok(marks > 0);
    }
    let drop = format!("SET client_min_messages = error; DROP SCHEMA {} CASCADE", quote_identifier("df_run"));
    client.batch_execute(&drop).await.map_err(server)?;
    Ok(true)
}
