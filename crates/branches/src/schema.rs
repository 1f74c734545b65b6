//! What a branch defines, compared with what it was made of or with another branch.

use crate::{
    baseline::{self, Baseline},
    branch::Branch,
    doors::Holder,
    engine::Engine,
    error::{EngineError, SchemaError},
    leases::named,
    model::{SchemaChange, SchemaDiff, SchemaDifference, SchemaStatement, SchemaWarning},
};
use duramen_base::clock::{self, ms};
use duramen_schema::{Catalogue, Diff, How, Key};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// How long reading one side may take, the start of its server included.
const SIDE_LIMIT: Duration = Duration::from_secs(120);

impl Engine {
    /// Compares what a branch defines with what it was made of, or with what another branch defines. That it was
    /// compared stands in the audit log.
    ///
    /// # Errors
    /// Unknown branch, one that does not work, a limit, or too many comparisons at a time.
    pub async fn schema_diff(&self, name: &str, against: Option<&str>) -> Result<SchemaDiff, EngineError> {
        self.schema_diff_by(None, name, against).await
    }

    /// [`Engine::schema_diff`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::schema_diff`], and when the holder does not have both branches.
    pub async fn schema_diff_for(
        &self,
        holder: &Holder,
        name: &str,
        against: Option<&str>,
    ) -> Result<SchemaDiff, EngineError> {
        self.schema_diff_by(Some(holder), name, against).await
    }

    async fn schema_diff_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        against: Option<&str>,
    ) -> Result<SchemaDiff, EngineError> {
        let _place = baseline::place().await?;
        let _active = self.shared.activity.enter();
        let registry = &self.shared.registry;
        let view = self.branch_by(by, name)?;
        let session = registry.working_session_of(name, by)?;
        let (from_name, from) = match against {
            Some(other) => {
                let session = registry.working_session_of(other, by)?;
                (format!("branch {other}"), read(&session.branch).await?)
            }
            None => {
                let from_name = match &view.parent {
                    Some(parent) => format!("branch {}, as it was at {}", parent.name, parent.taken_at),
                    None => format!("source {}, generation {}", view.source, view.generation),
                };
                let base = registry.base_of(name, &session.id)?;
                let baseline = Baseline::of(&self.shared, &session.branch.generation, base.as_ref()).await?;
                (from_name, read(&baseline.branch).await?)
            }
        };
        let to = read(&session.branch).await?;
        let begin = clock::now();
        let diff = compared(from_name, &from, format!("branch {name}"), &to);
        tracing::debug!(branch = name, objects = to.objects().count(), ms = ms(begin.elapsed()), "compared");
        let counted =
            json!({ "branch": session.id, "name": name, "against": against, "changes": diff.changes.len() });
        self.shared.audit("schema_compared", named(counted, by))?;
        Ok(diff)
    }
}

/// What leads from one side to the other, each with what it is called.
pub(crate) fn compared(from_name: String, from: &Catalogue, to_name: String, to: &Catalogue) -> SchemaDiff {
    let diff = tokio::task::block_in_place(|| Diff::between(from, to));
    told(from_name, to_name, &diff)
}

/// Reads what a branch defines, as its administrator. It does not sleep meanwhile.
pub(crate) async fn read(branch: &Arc<Branch>) -> Result<Catalogue, EngineError> {
    let _visit = branch.visit();
    let work = async {
        let client = branch.administrator_client().await?;
        Catalogue::read(&client).await.map_err(|error| SchemaError::NotRead(error).into())
    };
    tokio::time::timeout(SIDE_LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(SchemaError::TooSlow { limit: SIDE_LIMIT }.into()))
}

fn told(from: String, to: String, diff: &Diff) -> SchemaDiff {
    let words = |key: &Key| (key.kind.name().to_owned(), key.name.clone());
    let changes = diff.changes().iter().map(|change| {
        let (kind, name) = words(&change.key);
        let how = match change.how {
            How::Added => "added",
            How::Removed => "removed",
            How::Changed => "changed",
        };
        let differences = change.differences.iter().map(|it| SchemaDifference {
            what: it.what.clone(),
            from: it.from.clone(),
            to: it.to.clone(),
        });
        SchemaChange { how: how.to_owned(), kind, name, differences: differences.collect() }
    });
    let warnings = diff.warnings().iter().map(|warning| {
        let (kind, name) = words(&warning.key);
        SchemaWarning { risk: warning.risk.name().to_owned(), kind, name, message: warning.message.clone() }
    });
    let ddl = diff
        .ddl()
        .iter()
        .map(|step| SchemaStatement { sql: step.sql.clone(), in_transaction: step.in_transaction });
    SchemaDiff {
        from,
        to,
        changes: changes.collect(),
        warnings: warnings.collect(),
        ddl: ddl.collect(),
        script: diff.script(),
        text: diff.to_string(),
    }
}
