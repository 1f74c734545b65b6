//! What is known of a branch and its source, for keeping.

use crate::{
    doors::Holder,
    engine::Engine,
    error::{EngineError, Kind},
    files::io_error,
    leases::named,
    model::{BranchEvidence, BranchView, ContentHash, SourceFingerprint, WatchedTable},
    source::{contents, fingerprint, manifest},
};
use serde_json::json;

/// How many events an evidence reply holds at most.
const EVENTS_MAX: usize = 10_000;

impl Engine {
    /// What is known of a branch and its source, for keeping.
    ///
    /// # Errors
    /// Unknown branch, or a source that cannot be reached.
    pub async fn evidence(&self, name: &str) -> Result<BranchEvidence, EngineError> {
        self.evidence_with(name, None).await
    }

    /// The same; of `table` (`schema.table`, as the contents of fingerprints name
    /// it) the rows are compared in the source and in the branch, and the comparison goes into the audit log: so what was
    /// seen before a write stands in the evidence after it.
    ///
    /// # Errors
    /// Unknown branch or table, or a source that cannot be reached.
    pub async fn evidence_with(
        &self,
        name: &str,
        table: Option<&str>,
    ) -> Result<BranchEvidence, EngineError> {
        self.evidence_by(None, name, table).await
    }

    pub(crate) async fn evidence_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        table: Option<&str>,
    ) -> Result<BranchEvidence, EngineError> {
        let mut branch = self.branch_by(by, name)?;
        // Evidence is kept and passed on; the way in is not.
        if let Some(end) = branch.url.find("&password=") {
            branch.url.truncate(end);
        }
        let home = &self.shared.environment.home;
        let mut manifest = manifest::Manifest::load(home, &branch.source, branch.generation)?;
        let source_now = match fingerprint::is_of_none(&manifest.source_at_import) {
            // Nothing is known that it could be compared with.
            true => manifest.source_at_import.clone(),
            false => self.fingerprint_source(&branch.source).await?,
        };
        let source = fingerprint::compare(&manifest.source_at_import, &source_now);
        let table = match table {
            Some(table) => {
                let watched = self.watch(&branch, table, &manifest, &source_now).await?;
                let details = json!({ "branch": branch.id, "name": name, "table": watched });
                self.shared.audit("table_compared", named(details, by))?;
                Some(watched)
            }
            None => None,
        };
        let snapshot_digest_now = self.snapshot_digest(&branch.source, branch.generation).await?;
        if manifest.digest.is_empty() {
            // Nobody waited for it when it was made; from now on it holds.
            manifest.digest =
                self.shared.hold_digest(&branch.source, &manifest, snapshot_digest_now.clone())?;
        }
        let events = self
            .shared
            .audit
            .events_of(&branch.id, EVENTS_MAX)
            .map_err(|error| io_error("read the audit log in", &home.audit(), &error))?;
        Ok(BranchEvidence {
            branch,
            snapshot_digest: manifest.digest,
            snapshot_digest_now,
            source_at_import: manifest.source_at_import,
            source_now,
            source,
            table,
            diff: None,
            events,
        })
    }

    /// Reads one table in a branch, and looks it up in the fingerprints of its source.
    async fn watch(
        &self,
        branch: &BranchView,
        table: &str,
        manifest: &manifest::Manifest,
        now: &SourceFingerprint,
    ) -> Result<WatchedTable, EngineError> {
        let database = &manifest.database;
        let prefix = format!("{}.", contents::key([database]));
        let name = if table.starts_with(&prefix) { table.to_owned() } else { format!("{prefix}{table}") };
        let session = self.shared.registry.held_session(&branch.name, &branch.id)?;
        let client = session.branch.administrator_client().await?;
        let wanted = |schema: &str, table: &str| contents::key([database, schema, table]) == name;
        let read = contents::read_only(&client, database, wanted).await?;
        let (then, now) = (&manifest.source_at_import, now);
        let known =
            |at: &SourceFingerprint| at.contents.contains_key(&name) || at.left_out.contains_key(&name);
        if read.hashes.is_empty() && read.left_out.is_empty() && !known(then) && !known(now) {
            return Err(EngineError::new(
                Kind::NotFound,
                "unknown_table",
                format!(
                    "neither the source nor the branch has a table {table:?} with rows of its own; write it SCHEMA.TABLE, \
                     as `duramen source fingerprint` names it, and name the partitions of a partitioned table"
                ),
            ));
        }
        let branch_now = read.hashes.get(&name).cloned();
        let not_read = match (&branch_now, read.left_out.get(&name)) {
            (Some(_), _) => None,
            (None, Some(why)) => Some(why.clone()),
            (None, None) => Some("the branch has no such table any more".to_owned()),
        };
        // Those of another method are other hashes.
        let comparable = then.method == now.method;
        let same = |a: &Option<ContentHash>, b: &Option<ContentHash>| Some(a.as_ref()? == b.as_ref()?);
        let (source_at_import, source_now) =
            (then.contents.get(&name).cloned(), now.contents.get(&name).cloned());
        Ok(WatchedTable {
            source_unchanged: same(&source_at_import, &source_now).filter(|_| comparable),
            branch_differs: same(&source_at_import, &branch_now).filter(|_| comparable).map(|same| !same),
            name,
            source_at_import,
            source_now,
            branch_now,
            not_read,
        })
    }
}
