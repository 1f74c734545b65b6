//! Copies of a database. A branch, a clone or a restored dump has the rows of running instances, and a worker there would
//! do again what they do outside. So the schema keeps the identity of the copy in which its instances were begun, and in
//! another one a worker runs nothing before somebody has decided.

use tokio_postgres::{types::Type, Client};

use duramen_postgres::connection::{with_sources, Target};

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
}

/// What an adoption has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// How many instances that go on are this copy's own now; `None`: they were before, and nothing was changed.
    pub instances: Option<i64>,
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
    transaction.commit().await.map_err(server)?;
    Ok(Adopted { instances })
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
