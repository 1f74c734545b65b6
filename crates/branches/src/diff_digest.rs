//! The digest of what a branch changed, for its evidence.

use crate::{
    data_diff::WantedDiff,
    doors::Holder,
    engine::Engine,
    error::EngineError,
    model::{BranchEvidence, DiffEvidence},
};
use duramen_api::data_diff::DiffCounts;
use duramen_changes::{DiffDigest, Part, ROWS_MAX};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Parts that were told and are not in the digest yet.
const WAITING_PARTS: usize = 256;

impl Engine {
    /// [`Engine::evidence_with`] with the digest of all that the branch changed: a comparison of what it defines, and one of its rows.
    ///
    /// # Errors
    /// As for that, for [`Engine::schema_diff`] and for [`Engine::data_diff`].
    pub async fn evidence_and_diff(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        table: Option<&str>,
    ) -> Result<BranchEvidence, EngineError> {
        // First, so that the events in the evidence tell of it.
        let diff = self.diff_evidence(by, name).await?;
        let mut evidence = self.evidence_by(by, name, table).await?;
        evidence.diff = Some(diff);
        Ok(evidence)
    }

    async fn diff_evidence(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
    ) -> Result<DiffEvidence, EngineError> {
        let schema = match by {
            Some(holder) => self.schema_diff_for(holder, name, None).await?,
            None => self.schema_diff(name, None).await?,
        };
        let mut digest = DiffDigest::new(schema.ddl.iter().map(|statement| statement.sql.as_str()));
        let (told, mut parts) = mpsc::channel(WAITING_PARTS);
        let wanted = WantedDiff { whole: true, rows: ROWS_MAX, ..WantedDiff::default() };
        let work = async {
            let done = self.data_diff(by, name, wanted, &told).await;
            drop(told);
            done
        };
        let take = async {
            let mut last = None;
            while let Some(part) = parts.recv().await {
                digest.part(&part);
                if let Part::Summary(summary) = part {
                    last = Some(summary);
                }
            }
            last.unwrap_or_default()
        };
        let (done, summary) = tokio::join!(work, take);
        done?;
        let rows = summary.rows;
        Ok(DiffEvidence {
            digest: digest.finish(),
            statements: schema.ddl.len() as u64,
            rows: DiffCounts {
                added: rows.added,
                removed: rows.removed,
                changed: rows.changed,
                listed: rows.listed,
            },
            sequences: summary.sequences,
        })
    }
}
