//! The table in which a branch remembers what was merged into it, made for a role that may not make it itself.
//!
//! This is the one thing that is done in a parent with an administrator's rights: a schema and a table of constants, whose
//! names the system looks up in `pg_catalog` alone, while event triggers are disabled in the same transaction. No statement of it reads or
//! calls what the branch's holder, or its source, made.

use crate::{
    error::{EngineError, MergeError},
    registry::Session,
    source::sanitise::{still_event_triggers, Stilled},
};
use duramen_carry::{make_registry, registry_is_made};
use std::time::Duration;
use tokio::time::timeout;

/// How long making it may take.
const MAKE_LIMIT: Duration = Duration::from_secs(30);
/// How long it may wait for a lock, in milliseconds.
const LOCK_LIMIT_MS: u32 = 5000;

/// Makes the table, unless it is there or the role can make it.
pub(super) async fn prepare(parent: &Session, name: &str) -> Result<(), EngineError> {
    let made = async {
        let client = parent.branch.administrator_client().await?;
        let role = parent.policy.role();
        let refused = |error: tokio_postgres::Error| {
            let reason = duramen_postgres::connection::with_sources(&error);
            EngineError::from(MergeError::Registry { parent: name.to_owned(), reason })
        };
        let is_made = client.query_one(&registry_is_made(), &[&role]).await.map_err(refused)?;
        if is_made.get(0) {
            return Ok(());
        }
        let begin = format!("begin read write; set local lock_timeout = {LOCK_LIMIT_MS}");
        client.batch_execute(&begin).await.map_err(refused)?;
        let major = parent.branch.generation.manifest.server_version.major;
        let stilled = still_event_triggers(&client, major).await.map_err(refused)?;
        let enable: Vec<&str> = stilled.iter().map(Stilled::enable).collect();
        let all = [make_registry(role), enable.join("; "), "commit".to_owned()];
        let all: Vec<String> = all.into_iter().filter(|part| !part.is_empty()).collect();
        client.batch_execute(&all.join("; ")).await.map_err(refused)
    };
    timeout(MAKE_LIMIT, made).await.unwrap_or_else(|_| {
        let reason = format!("it was not made within {} s", MAKE_LIMIT.as_secs());
        Err(MergeError::Registry { parent: name.to_owned(), reason }.into())
    })
}
