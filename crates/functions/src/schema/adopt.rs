//! Copies of a database. A branch, a clone or a restored dump has the rows of running instances, and a worker there would
//! do again what they do outside. So the schema keeps the identity of the copy in which its instances were begun, and in
//! another one a worker runs nothing before somebody has decided.

use tokio_postgres::{types::Type, Client};

use duramen_postgres::connection::{with_sources, Target};
use duramen_postgres::quote_identifier;

use super::{check_parts, trust, SchemaError, GUARD};

/// What becomes of the steps that reach outside the database, of instances that were begun in another copy of it: HTTP
/// calls, steps in another database, and statements that act on the whole server or on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum External {
    /// They fail, and say why.
    Skip,
    /// They complete with the result `null`, and nothing is done.
    Stub,
    /// They run, as all others do.
    Run,
}

impl External {
    fn rule(self) -> Option<&'static str> {
        match self {
            Self::Skip => Some("skip"),
            Self::Stub => Some("stub"),
            Self::Run => None,
        }
    }

    fn from_rule(rule: Option<&str>) -> External {
        match rule {
            Some("skip") => Self::Skip,
            Some(_) => Self::Stub,
            None => Self::Run,
        }
    }

    /// How it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.rule().unwrap_or("run")
    }
}

/// What an adoption has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// How many instances that go on are this copy's own now; `None`: they were before, and nothing was changed.
    pub instances: Option<i64>,
    /// The rule that is in force for those that were begun elsewhere; [`External::Run`], too, if none were.
    pub external: External,
}

/// Makes the instances of a copy its own, so that workers run them there.
///
/// # Errors
/// [`SchemaError`]; then the database is as it was.
pub async fn adopt(url: &str, external: External) -> Result<Adopted, SchemaError> {
    let target = Target::parse(url)?.application_name("duramen fn adopt").settings(GUARD);
    let mut client = target.connect().await?;
    let server = |error: tokio_postgres::Error| SchemaError::Server {
        target: target.describe(),
        cause: with_sources(&error),
    };
    let transaction = client.transaction().await.map_err(server)?;
    check_parts(transaction.client(), &target).await?;
    trust::lock(transaction.client()).await.map_err(server)?;
    let instances = if is_at_home(transaction.client()).await.map_err(server)? {
        None
    } else {
        let adopted = transaction
            .query_typed_one("SELECT df._adopt($1)", &[(&external.rule(), Type::TEXT)])
            .await
            .map_err(server)?;
        Some(adopted.get(0))
    };
    let found: Option<String> = transaction
        .query_typed_one("SELECT (SELECT m.external FROM df._meta m)", &[])
        .await
        .map_err(server)?
        .get(0);
    transaction.commit().await.map_err(server)?;
    Ok(Adopted { instances, external: External::from_rule(found.as_deref()) })
}

/// The same, and refuses a copy that was adopted before with another rule: what that has skipped, or done, cannot be had again.
/// Where nothing was skipped or stubbed so far, the worker may still rehearse.
///
/// # Errors
/// [`SchemaError::Decided`], and what [`adopt`] has; then the database is as it was.
pub async fn adopt_as(url: &str, external: External) -> Result<Adopted, SchemaError> {
    let adopted = adopt(url, external).await?;
    if adopted.external != external && adopted.external != External::Run {
        return Err(SchemaError::Decided {
            target: Target::parse(url)?.describe(),
            found: adopted.external.name(),
            wanted: external.name(),
        });
    }
    Ok(adopted)
}

/// Takes the right to create something in the schemas from everybody but their owner: a branch gives it to the role of its policy.
/// What was created there by then is refused later, as everywhere.
const CLOSE: &str = "
    DO $$
    DECLARE
        given record;
    BEGIN
        FOR given IN
            SELECT DISTINCT n.nspname,
                CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
            FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
            WHERE n.nspname IN ('df', 'df_run') AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
        LOOP
            EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM %s', given.nspname, given.grantee);
        END LOOP;
    END $$";

/// Makes the owner of the schemas a member of the submitters, so that a worker can act for them: what a superuser owned in a source
/// belongs to an ordinary role in its branches. Who is a member of the owner cannot have it as a member.
const SUBMITTERS: &str = "
    SELECT r.rolname::text, current_setting('server_version_num')::int
    FROM pg_roles r
    WHERE NOT r.rolsuper AND r.rolname <> current_user AND NOT pg_has_role(r.oid, current_user, 'MEMBER')
      AND r.oid IN (
        SELECT a.grantee FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
        WHERE n.nspname = 'df' AND a.privilege_type = 'USAGE'
        UNION SELECT w.submitted_by FROM df._work w UNION SELECT r.submitted_by FROM df._ready r
        UNION SELECT q.submitted_by FROM df._queued q UNION SELECT s.submitted_by FROM df._schedule s)";
/// Who owns in a branch what superusers owned in its source.
const OWNER: &str = "duramen_owner";
/// From this version on a member can be one that inherits nothing.
const WITHOUT_INHERITING: i32 = 160_000;

/// Lets the holder of a branch work there for the owner of the schema: makes it a member of that role, which becomes one of the
/// submitters, and returns its connection string with sessions that are the owner's, because whatever a worker makes must be its
/// owner's. Nobody else may create anything in the schemas from then on.
///
/// The administrator only says who is a member of whom, which runs nothing of the database's. All else, and the worker, is a session of
/// the holder's: whatever the source or the holder left there cannot become more than the two roles are.
///
/// # Errors
/// [`SchemaError`].
pub async fn as_owner(administrator: &str, holder: &str) -> Result<String, SchemaError> {
    let admin = Target::parse(administrator)?.application_name("duramen fn adopt").settings(GUARD);
    let client = admin.connect().await?;
    let refused = |target: &Target, error: &tokio_postgres::Error| SchemaError::Server {
        target: target.describe(),
        cause: with_sources(error),
    };
    let sql =
        "SELECT pg_get_userbyid(n.nspowner)::text FROM pg_catalog.pg_namespace n WHERE n.nspname = 'df'";
    let row = client.query_typed_opt(sql, &[]).await.map_err(|error| refused(&admin, &error))?;
    let Some(row) = row else { return Err(SchemaError::Missing { target: admin.describe() }) };
    let owner: String = row.get(0);
    let role = Target::parse(holder)?.role().to_owned();
    if owner != OWNER && !is_ordinary(&client, &owner).await.map_err(|error| refused(&admin, &error))? {
        let what = "the schema df".to_owned();
        return Err(SchemaError::Foreign { target: admin.describe(), what, owner, role });
    }
    let member = format!("GRANT {} TO {}", quote_identifier(&owner), quote_identifier(&role));
    client.batch_execute(&member).await.map_err(|error| refused(&admin, &error))?;

    let url = with_role(holder, &owner);
    let target = Target::parse(&url)?.application_name("duramen fn adopt").settings(GUARD);
    let session = target.connect().await?;
    session.batch_execute(CLOSE).await.map_err(|error| refused(&target, &error))?;
    // Nothing of the schemas is read before it is known whose it is; the owner's own is what a worker trusts, too.
    check_parts(&session, &target).await?;
    let submitters = session.query_typed(SUBMITTERS, &[]).await.map_err(|error| refused(&target, &error))?;
    for row in submitters {
        // What that session says may be the holder's words.
        if !is_ordinary(&client, row.get(0)).await.map_err(|error| refused(&admin, &error))? {
            continue;
        }
        let how =
            if row.get::<_, i32>(1) >= WITHOUT_INHERITING { " WITH INHERIT FALSE, SET TRUE" } else { "" };
        let grant = format!("GRANT {} TO {}{how}", quote_identifier(row.get(0)), quote_identifier(&owner));
        client.batch_execute(&grant).await.map_err(|error| refused(&admin, &error))?;
    }
    Ok(url)
}

/// Whether a role is one that a user of the source made, and no superuser: to be a member of others can be to run programs.
async fn is_ordinary(client: &Client, role: &str) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT NOT r.rolsuper AND r.rolname !~ '^(pg_|duramen_)'::text FROM pg_catalog.pg_roles r WHERE r.rolname = $1::text";
    let row = client.query_typed_opt(sql, &[(&role, Type::TEXT)]).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// A connection string whose sessions are of a role.
fn with_role(url: &str, role: &str) -> String {
    // In the options a blank ends a word, and a backslash takes what follows for a letter.
    let mut option = "-c role=".to_owned();
    for sign in role.chars() {
        if sign == '\\' || sign.is_ascii_whitespace() || sign == '\u{b}' {
            option.push('\\');
        }
        option.push(sign);
    }
    let option: String = option.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}options={option}")
}

/// Whether the instances were begun in this copy of the database.
async fn is_at_home(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let sql = "SELECT coalesce((SELECT m.identity = df._identity() FROM df._meta m), false)";
    Ok(client.query_typed_one(sql, &[]).await?.get(0))
}

/// Refuses a copy that nobody has adopted; returns its identity.
pub(super) async fn require(client: &Client, target: &Target) -> Result<String, SchemaError> {
    let server = |error: tokio_postgres::Error| SchemaError::Server {
        target: target.describe(),
        cause: with_sources(&error),
    };
    if !is_at_home(client).await.map_err(server)? {
        return Err(SchemaError::Copy { target: target.describe() });
    }
    Ok(client.query_typed_one("SELECT df._identity()", &[]).await.map_err(server)?.get(0))
}
