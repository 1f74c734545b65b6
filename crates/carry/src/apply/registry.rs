//! Which change sets were applied to a database: a table in it, which is written in the transaction that applies one.

use super::{run::Run, Applied, Counts};
use crate::{
    error::ApplyError,
    set::{Head, REGISTRY_SCHEMA, REGISTRY_TABLE},
};
use duramen_postgres::{quote_identifier, quote_literal};
use jiff::Timestamp;

/// The lock under which change sets are applied to a database, one at a time. A transaction holds it for as long as it lives, also
/// when its client has gone.
pub(crate) const LOCK: i64 = 0x6475_7261_6d65_6e01;

/// What is written down.
pub(crate) struct Entry<'a> {
    pub(crate) digest: &'a str,
    pub(crate) head: &'a Head,
    pub(crate) counts: &'a Counts,
}

/// Waits until no other change set is being applied, makes the table if it is not there, and looks whether this one was applied.
pub(crate) async fn enter(run: &Run<'_>, digest: &str) -> Result<Option<Applied>, ApplyError> {
    let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
    run.rows("waiting for other change sets", lock, &[&LOCK]).await?;
    look(run, digest).await
}

/// Looks whether one was applied, without waiting for others that are being applied.
pub(crate) async fn look(run: &Run<'_>, digest: &str) -> Result<Option<Applied>, ApplyError> {
    if !is_there(run).await? {
        return Ok(None);
    }
    let found = run.rows("looking whether it was applied", &found_as_text(digest), &[]).await?;
    Ok(found.first().map(|row| Applied { at: row.get::<_, Timestamp>(0), by: row.get(1) }))
}

/// A query for when one was applied, and by whom.
pub(crate) fn found_as_text(digest: &str) -> String {
    format!(
        "SELECT applied_at, applied_by FROM ONLY {REGISTRY_SCHEMA}.{REGISTRY_TABLE} \
         WHERE digest OPERATOR(pg_catalog.=) {}",
        quote_literal(digest)
    )
}

/// The last change set of a branch that was applied, or merged, here. After [`enter`].
pub(crate) async fn of_branch(run: &Run<'_>, branch_id: &str) -> Result<Option<Applied>, ApplyError> {
    if !is_there(run).await? {
        return Ok(None);
    }
    let sql = format!(
        "SELECT applied_at, applied_by FROM ONLY {REGISTRY_SCHEMA}.{REGISTRY_TABLE} \
         WHERE branch_id OPERATOR(pg_catalog.=) $1 ORDER BY applied_at DESC LIMIT 1"
    );
    let found = run.rows("looking whether the branch was merged before", &sql, &[&branch_id]).await?;
    Ok(found.first().map(|row| Applied { at: row.get::<_, Timestamp>(0), by: row.get(1) }))
}

/// The statement that makes the table, in a schema that has to be there.
fn definition() -> String {
    let (schema, table) = (REGISTRY_SCHEMA, REGISTRY_TABLE);
    format!(
        "CREATE TABLE {schema}.{table} (digest pg_catalog.text PRIMARY KEY, \
           applied_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now(), \
           applied_by pg_catalog.text NOT NULL DEFAULT current_user, source pg_catalog.text NOT NULL, \
           generation pg_catalog.int8 NOT NULL, branch pg_catalog.text NOT NULL, \
           branch_id pg_catalog.text NOT NULL, made_at pg_catalog.timestamptz NOT NULL, \
           inserted pg_catalog.int8 NOT NULL, updated pg_catalog.int8 NOT NULL, deleted pg_catalog.int8 NOT NULL, \
           statements pg_catalog.int8 NOT NULL); \
         COMMENT ON TABLE {schema}.{table} IS 'Change sets that `duramen change apply` and `duramen branch merge` brought here. A digest that stands here is not applied again.'"
    )
}

/// The statements by which an administrator makes the table for a role that may not create schemas, and lets it write down and look up
/// what it applied. Nobody may have a schema of that name.
#[must_use]
pub fn made_for(role: &str) -> String {
    let (schema, table, role) = (REGISTRY_SCHEMA, REGISTRY_TABLE, quote_identifier(role));
    format!(
        "CREATE SCHEMA {schema}; {}; GRANT USAGE ON SCHEMA {schema} TO {role}; \
         GRANT SELECT, INSERT ON TABLE {schema}.{table} TO {role}",
        definition()
    )
}

/// A query that says, as one column, whether a schema of that name is there, or the role (`$1`) may create one.
#[must_use]
pub fn is_made() -> String {
    format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) '{REGISTRY_SCHEMA}'::pg_catalog.name) \
           OR pg_catalog.has_database_privilege($1::pg_catalog.text::pg_catalog.name, pg_catalog.current_database()::pg_catalog.text, 'CREATE'::pg_catalog.text)"
    )
}

/// Whether the table is there, and somebody's who may change this database anyway: else its triggers would run with our rights. A
/// superuser is a member of every role, which says nothing about these.
async fn is_there(run: &Run<'_>) -> Result<bool, ApplyError> {
    let doing = "looking for the table of applied change sets";
    let found = run.rows(doing, &trusted_as_text(), &[]).await?;
    let Some(row) = found.into_iter().next() else { return Ok(false) };
    let (is_table, is_trusted): (bool, bool) = (row.get(0), row.get(1));
    if is_table && (is_trusted || run.options.any_registry) {
        return Ok(true);
    }
    Err(ApplyError::Registry(format!(
        "{REGISTRY_SCHEMA}.{REGISTRY_TABLE} is not a table of this role, of a superuser or of the database's owner ({}); \
         look at who made it, and remove or transfer it",
        row.get::<_, String>(2)
    )))
}

/// A query for whether it is a table, and somebody's who may change this database anyway, and whose. No row: it is not there.
pub(crate) fn trusted_as_text() -> String {
    format!(
        "SELECT c.relkind = 'r' AS is_table,
          bool_and(o.rolsuper OR o.oid = d.datdba OR o.rolname = current_user
            OR (NOT me.rolsuper AND pg_has_role(me.oid, o.oid, 'USAGE'))) AS is_trusted,
          min(o.rolname::text)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_database d ON d.datname = current_database()
          JOIN pg_roles o ON o.oid IN (c.relowner, n.nspowner)
          JOIN pg_roles me ON me.rolname = current_user
        WHERE n.nspname = '{REGISTRY_SCHEMA}' AND c.relname = '{REGISTRY_TABLE}' GROUP BY c.relkind"
    )
}

/// Makes the table if it is not there, while no change set is being applied, whose transaction might make it too.
pub(crate) async fn ensure_alone(run: &Run<'_>) -> Result<(), ApplyError> {
    if is_there(run).await? {
        return Ok(());
    }
    let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
    run.rows("waiting for other change sets", lock, &[&LOCK]).await?;
    ensure(run).await
}

/// Makes the table if it is not there.
pub(crate) async fn ensure(run: &Run<'_>) -> Result<(), ApplyError> {
    let (schema, table) = (REGISTRY_SCHEMA, REGISTRY_TABLE);
    if is_there(run).await? {
        return Ok(());
    }
    let make = format!("CREATE SCHEMA IF NOT EXISTS {schema}; {}", definition());
    run.batch(
        "making the table of applied change sets (a role that may create schemas can make it once)",
        &make,
    )
    .await?;
    // Nobody else's, if the schema was there.
    match is_there(run).await? {
        true => Ok(()),
        false => Err(ApplyError::Registry(format!("{schema}.{table} was made, and is not there"))),
    }
}

/// The statement that writes down that one is applied: `$1`, `$2` and `$3` are rows that were inserted, updated and deleted.
pub(crate) fn entry_as_text(digest: &str, head: &Head) -> String {
    let origin = &head.origin;
    let [digest, source, branch, id] =
        [digest, &origin.source, &origin.branch, &origin.branch_id].map(quote_literal);
    format!(
        "INSERT INTO {REGISTRY_SCHEMA}.{REGISTRY_TABLE} \
           (digest, source, generation, branch, branch_id, made_at, inserted, updated, deleted, statements) \
         VALUES ({digest}, {source}, {}, {branch}, {id}, {}, $1, $2, $3, 0)",
        origin.generation,
        quote_literal(&head.made_at.to_string())
    )
}

/// Writes down that a change set is applied.
pub(crate) async fn write(run: &Run<'_>, entry: &Entry<'_>) -> Result<(), ApplyError> {
    run.pinned().await?;
    let (schema, table) = (REGISTRY_SCHEMA, REGISTRY_TABLE);
    ensure(run).await?;
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let Entry { digest, head, counts } = entry;
    let sql = format!(
        "INSERT INTO {schema}.{table} (digest, source, generation, branch, branch_id, made_at, inserted, updated, deleted, statements) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
    );
    run.rows(
        "writing down that it is applied",
        &sql,
        &[
            digest,
            &head.origin.source,
            &i64::from(head.origin.generation),
            &head.origin.branch,
            &head.origin.branch_id,
            &head.made_at,
            &number(counts.inserted),
            &number(counts.updated),
            &number(counts.deleted),
            &number(counts.statements),
        ],
    )
    .await?;
    Ok(())
}
