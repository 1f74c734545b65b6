//! Whose the schemas are. Whoever owns a schema, or anything in it, decides what a session runs that uses it, with the
//! rights of that session: so a worker, and an installation, use only what is their own role's or a superuser's.

use tokio_postgres::{types::Type, Client};

use duramen_postgres::connection::{with_sources, Target};

use super::SchemaError;

/// Everything in the schemas `$1` that belongs to somebody who is neither a superuser nor the session's own role, and the
/// right to create something there. The executors are their submitters' own, and are looked at before each is used.
const FOREIGN: &str = "
    WITH place AS (
        SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_namespace n WHERE n.nspname = ANY ($1)
    ), thing (class, object, namespace, owner) AS (
        SELECT 'pg_namespace'::regclass, p.oid, p.oid, p.nspowner FROM place p
        UNION ALL SELECT 'pg_class'::regclass, oid, relnamespace, relowner FROM pg_class
        UNION ALL SELECT 'pg_proc'::regclass, oid, pronamespace, proowner FROM pg_proc
            WHERE NOT (pronamespace = to_regnamespace('df_run') AND proname ~ '^r[0-9]+$')
        UNION ALL SELECT 'pg_type'::regclass, oid, typnamespace, typowner FROM pg_type
        UNION ALL SELECT 'pg_operator'::regclass, oid, oprnamespace, oprowner FROM pg_operator
        UNION ALL SELECT 'pg_opclass'::regclass, oid, opcnamespace, opcowner FROM pg_opclass
        UNION ALL SELECT 'pg_opfamily'::regclass, oid, opfnamespace, opfowner FROM pg_opfamily
        UNION ALL SELECT 'pg_collation'::regclass, oid, collnamespace, collowner FROM pg_collation
        UNION ALL SELECT 'pg_conversion'::regclass, oid, connamespace, conowner FROM pg_conversion
        UNION ALL SELECT 'pg_statistic_ext'::regclass, oid, stxnamespace, stxowner FROM pg_statistic_ext
        UNION ALL SELECT 'pg_ts_config'::regclass, oid, cfgnamespace, cfgowner FROM pg_ts_config
        UNION ALL SELECT 'pg_ts_dict'::regclass, oid, dictnamespace, dictowner FROM pg_ts_dict
    )
    SELECT f.what, f.owner FROM (
        SELECT pg_describe_object(t.class, t.object, 0) AS what, t.owner
        FROM thing t JOIN place p ON p.oid = t.namespace
        UNION ALL
        SELECT 'the right to create in schema ' || p.nspname, a.grantee
        FROM place p CROSS JOIN LATERAL aclexplode(p.nspacl) a WHERE a.privilege_type = 'CREATE'
    ) f (what, owner)
    LEFT JOIN pg_roles r ON r.oid = f.owner
    WHERE NOT coalesce(r.rolsuper OR r.rolname = current_user, false)
    LIMIT 1";

/// Something that somebody else made.
pub(crate) struct Foreign {
    /// It, as the server describes it.
    pub(crate) what: String,
    /// Whose it is.
    pub(crate) owner: String,
}

/// Looks for something in the schemas that somebody else made. What is not there is nobody's.
pub(crate) async fn foreign(
    client: &Client,
    schemas: &[&str],
) -> Result<Option<Foreign>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT f.what, CASE f.owner WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(f.owner)::text END FROM ({FOREIGN}) f"
    );
    let row = client.query_typed_opt(&sql, &[(&schemas, Type::TEXT_ARRAY)]).await?;
    Ok(row.map(|row| Foreign { what: row.get(0), owner: row.get(1) }))
}

/// Refuses the schemas of a database if somebody else made them, or anything in them.
pub(super) async fn require(client: &Client, target: &Target) -> Result<(), SchemaError> {
    let server = |error: tokio_postgres::Error| SchemaError::Server {
        target: target.describe(),
        cause: with_sources(&error),
    };
    match foreign(client, &["df", "df_run"]).await.map_err(server)? {
        None => Ok(()),
        Some(Foreign { what, owner }) => {
            let role = client
                .query_typed_one("SELECT current_user::text", &[])
                .await
                .map_err(server)?
                .get::<_, String>(0);
            Err(SchemaError::Foreign { target: target.describe(), what, owner, role })
        }
    }
}

/// Two installations at once would trip over each other's tables.
pub(super) async fn lock(client: &Client) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(LOCK).await
}

/// What takes the lock of installations, to the end of the transaction. It is a table in a schema that is nobody else's, because
/// everybody can take every advisory lock. The schema must be there, and be trusted.
pub(crate) const LOCK: &str =
    "CREATE TABLE IF NOT EXISTS df_run.mutex (); LOCK TABLE df_run.mutex IN ACCESS EXCLUSIVE MODE";

/// Gives the owner of `df_run` back what is an owner's: version 0.1 took it away when the owner itself had started an
/// instance. An owner may always grant itself that.
pub(crate) const RESTORE_OWNER: &str = "
    DO $$
    DECLARE
        owner name := (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n WHERE n.nspname = 'df_run');
    BEGIN
        IF NOT (has_schema_privilege(owner, 'df_run', 'CREATE') AND has_schema_privilege(owner, 'df_run', 'USAGE')) THEN
            EXECUTE format('GRANT ALL ON SCHEMA df_run TO %I', owner);
        END IF;
    END $$";
