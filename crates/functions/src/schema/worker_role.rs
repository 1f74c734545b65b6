//! A role for workers that is not a superuser. It owns the schemas and nothing else. It may become any submitter, and has none
//! of a submitter's rights until it does.

use tokio_postgres::{error::SqlState, types::Type, Client};

use duramen_postgres::{
    connection::{with_sources, Target},
    quote_identifier,
};

use super::SchemaError;

/// The first server version in which each membership says whether rights are inherited and whether `SET ROLE` is allowed.
const MEMBERSHIPS_SAY_MORE: i32 = 160_000;

/// The role that workers connect as, and for whom they act.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerRole {
    /// Its name. A role that does not exist is created.
    pub name: String,
    /// The roles that may use durable functions: their names.
    pub submitters: Vec<String>,
}

/// Creates the role, its memberships, and the schemas that it owns. From here on, the transaction acts as the role.
pub(super) async fn prepare(client: &Client, target: &Target, role: &WorkerRole) -> Result<(), SchemaError> {
    let run = |sql: String| async move {
        client.batch_execute(&sql).await.map_err(|error| match error.code() {
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => SchemaError::Rights {
                role: target.role().to_owned(),
                what: format!("make {} the role of the workers", role.name),
                target: target.describe(),
                hint: format!(
                    "connect as a superuser, or as a role with CREATEROLE, CREATE on the database, and ADMIN OPTION on each submitter ({})",
                    with_sources(&error)
                ),
            },
            _ => SchemaError::Server { target: target.describe(), cause: with_sources(&error) },
        })
    };
    let server = |error: tokio_postgres::Error| SchemaError::Server {
        target: target.describe(),
        cause: with_sources(&error),
    };
    let name = quote_identifier(&role.name);
    let found = client
        .query_typed_opt(
            "SELECT concat_ws(', ', CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolinherit THEN 'INHERIT' END,
                CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END, CASE WHEN r.rolcreatedb THEN 'CREATEDB' END,
                CASE WHEN r.rolreplication THEN 'REPLICATION' END, CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END,
                CASE WHEN NOT r.rolcanlogin THEN 'NOLOGIN' END)
             FROM pg_roles r WHERE r.rolname = $1",
            &[(&role.name, Type::TEXT)],
        )
        .await
        .map_err(server)?;
    match found.map(|row| row.get::<_, String>(0)) {
        None => run(format!("CREATE ROLE {name} LOGIN NOINHERIT")).await?,
        Some(powers) if powers.is_empty() => {}
        Some(powers) => {
            return Err(SchemaError::WorkerRole {
                role: role.name.clone(),
                powers,
                target: target.describe(),
            });
        }
    }
    let version: i32 = client
        .query_typed_one("SELECT current_setting('server_version_num')::int", &[])
        .await
        .map_err(server)?
        .get(0);
    let terms = if version >= MEMBERSHIPS_SAY_MORE { " WITH INHERIT FALSE, SET TRUE" } else { "" };
    for submitter in &role.submitters {
        run(format!("GRANT {} TO {name}{terms}", quote_identifier(submitter))).await?;
    }
    // An installing role that is not a superuser must be able to become the role, even if it has just created it.
    let lend: bool = client
        .query_typed_one("SELECT NOT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user", &[])
        .await
        .map_err(server)?
        .get(0);
    if lend {
        run(format!("GRANT {name} TO CURRENT_USER")).await?;
    }
    for schema in ["df", "df_run"] {
        run(format!("CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {name}")).await?;
    }
    run(format!("SET LOCAL ROLE {name}")).await
}

/// Lets the submitters use what has been installed. The transaction acts as the schema's owner.
pub(super) async fn let_in(client: &Client, role: &WorkerRole) -> Result<(), tokio_postgres::Error> {
    for submitter in &role.submitters {
        client.query_typed("SELECT df.grant_usage($1)", &[(submitter, Type::TEXT)]).await?;
    }
    Ok(())
}
