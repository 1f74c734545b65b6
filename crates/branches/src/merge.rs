//! What a branch changed, brought into the branch that it was made of. Invariants M1 to M10 of docs/design/merging.md; how
//! rows are merged is `merge` of the crate `carry`.

mod definitions;
mod folder;
mod registry;

pub(crate) use folder::sweep;

use crate::{
    baseline::{self, Baseline},
    branch::Branch,
    doors::Holder,
    engine::Engine,
    error::{EngineError, MergeError},
    journal::SnapshotRecord,
    leases::named,
    model::{self, MergeBranch, MergeEqual, MergeReport, MergeStatus, MergeStrategy, MergeTriggers, Policy},
    registry::Session,
    schema::read,
};
use definitions::Compared;
use duramen_base::clock::{self, ms};
use duramen_carry::{
    merge, ApplyOptions, ChangeSet, ChangeSetWriter, Equal, MergeConflict, MergeOptions, MergeOutcome,
    Merged, Origin, Strategy, Triggers,
};
use duramen_changes::{compare, Part, Request, Side, Written, ROWS_MAX};
use duramen_postgres::connection::Target;
use folder::Folder;
use serde_json::json;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// How long comparing the child may take.
const COMPARISON_LIMIT: Duration = Duration::from_secs(3600);
/// Bytes of values that the child changed, both sides.
const MERGE_BYTES_MAX: u64 = 1 << 30;
/// Parts that were told and are not written yet.
const WAITING_PARTS: usize = 256;

/// Both sides, and what they have in common.
struct Sides<'a> {
    child_name: &'a str,
    child: Session,
    parent_name: &'a str,
    parent: Session,
    /// `None`: the snapshot of the generation.
    base: Option<SnapshotRecord>,
    /// In words.
    base_name: String,
}

/// A merge that has begun to write, and of whose end nothing is known yet: the parent may have all of it, whoever asked being
/// gone. It is in the audit log in any case.
struct Unfinished<'a> {
    engine: &'a Engine,
    details: Option<serde_json::Value>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let Some(mut details) = self.details.take() else { return };
        details["status"] = json!("unfinished");
        if let Err(error) = self.engine.shared.audit("branch_merged", details) {
            tracing::error!(%error, "a merge without an end could not be logged");
        }
    }
}

impl Engine {
    /// Merges a branch, the child, into the branch that it was made of. `by` is whoever came through a door. If the future is
    /// dropped, the merge is given up.
    ///
    /// # Errors
    /// Unknown branches, branches that are not related, definitions that both changed; what a comparison fails with; and what
    /// keeps the parent from being written. Conflicts are not among them: they are told.
    pub async fn merge(
        self: &Arc<Self>,
        by: Option<&Holder>,
        child: &str,
        wanted: &MergeBranch,
    ) -> Result<MergeReport, EngineError> {
        let begin = clock::now();
        let sides = self.sides(by, child, &wanted.into)?;
        let _place = baseline::place().await?;
        let _visits = (sides.child.branch.visit(), sides.parent.branch.visit());
        let _active = self.shared.activity.enter();
        let folder = Folder::make(&self.shared.environment.home).map_err(MergeError::Folder)?;
        let baseline =
            Baseline::of(&self.shared, &sides.child.branch.generation, sides.base.as_ref()).await?;
        let compared = definitions::compare(&sides, &baseline.branch).await?;
        let file = folder.path().join("child.dpack");
        let set = timeout(COMPARISON_LIMIT, self.change_set(&sides, &baseline, &compared, &file)).await;
        let set = set.map_err(|_| MergeError::TooSlow { limit: COMPARISON_LIMIT })??;
        drop(baseline);
        let compared_ms = ms(begin.elapsed());
        let details = json!({
            "branch": sides.parent.id, "name": sides.parent_name, "child": sides.child.id, "child_name": child,
            "strategy": wanted.strategy, "dry_run": wanted.dry_run,
        });
        let mut details = named(details, by);
        let mut unfinished = None;
        let report = match &set {
            None => sides.nothing(),
            Some(set) => {
                if !wanted.dry_run {
                    registry::prepare(&sides.parent, sides.parent_name).await?;
                }
                // Its secret is in force once a session of its role was opened.
                drop(sides.parent.branch.open_session().await?);
                let target =
                    Target::parse(&sides.parent.branch.url()).map_err(duramen_carry::ApplyError::from);
                let options = options(wanted, &compared);
                unfinished =
                    (!wanted.dry_run).then(|| Unfinished { engine: self, details: Some(details.clone()) });
                let merged = merge(set, &target.map_err(MergeError::Apply)?, &options, folder.path()).await;
                sides.report(set, &compared, merged.map_err(MergeError::Apply)?)
            }
        };
        tracing::debug!(child, parent = sides.parent_name, status = ?report.status, compared_ms, ms = ms(begin.elapsed()), "merged");
        if let Some(mut unfinished) = unfinished {
            unfinished.details = None;
        }
        for (key, value) in [
            ("status", json!(report.status)),
            ("statements", json!(report.statements.len())),
            ("tables", json!(report.tables)),
            ("conflicts", json!(report.conflicts.len())),
        ] {
            details[key] = value;
        }
        self.shared.audit("branch_merged", details)?;
        Ok(report)
    }

    /// M5, M6, M7: before anything is compared.
    fn sides<'a>(
        &self,
        by: Option<&Holder>,
        child_name: &'a str,
        parent_name: &'a str,
    ) -> Result<Sides<'a>, EngineError> {
        let registry = &self.shared.registry;
        if child_name == parent_name {
            return Err(MergeError::Itself { name: child_name.to_owned() }.into());
        }
        let child = registry.working_session_of(child_name, by)?;
        let parent = registry.working_session_of(parent_name, by)?;
        let base = registry.base_of(child_name, &child.id)?;
        let generation = &child.branch.generation;
        let is_of_same = generation.snapshot == parent.branch.generation.snapshot;
        let is_related = match &base {
            Some(base) if base.lease == parent.id => true,
            Some(base) => registry.base_of(parent_name, &parent.id)?.is_some_and(|other| other.id == base.id),
            None => is_of_same && registry.base_of(parent_name, &parent.id)?.is_none(),
        };
        if !is_related {
            let of = self.branch_by(by, child_name)?.parent.map(|parent| parent.name);
            let (child, parent) = (child_name.to_owned(), parent_name.to_owned());
            return Err(MergeError::Unrelated { child, parent, of }.into());
        }
        if parent.policy == Policy::ReadOnly {
            let (parent, policy) = (parent_name.to_owned(), parent.policy);
            return Err(MergeError::ReadOnly { parent, policy }.into());
        }
        let base_name = match &base {
            Some(base) => format!("snapshot {} of {}", base.id, base.taken_at),
            None => format!("source {}, generation {}", generation.source, generation.manifest.generation),
        };
        Ok(Sides { child_name, child, parent_name, parent, base, base_name })
    }

    /// What the child changed, in a file; `None` if nothing.
    async fn change_set(
        &self,
        sides: &Sides<'_>,
        baseline: &Baseline,
        compared: &Compared,
        file: &Path,
    ) -> Result<Option<ChangeSet>, EngineError> {
        let branch = &sides.child.branch;
        let manifest = &branch.generation.manifest;
        let origin = Origin {
            branch: sides.child_name.to_owned(),
            branch_id: sides.child.id.clone(),
            source: branch.generation.source.clone(),
            generation: manifest.generation,
            snapshot_digest: sides
                .base
                .is_none()
                .then(|| manifest.digest.clone())
                .filter(|it| !it.is_empty()),
            compared_with: sides.base_name.clone(),
            data: branch.generation.data().to_owned(),
        };
        let writer = ChangeSetWriter::create(file, origin, Vec::new(), &compared.ddl);
        let mut writer = writer.map_err(MergeError::Set)?;
        let (told, mut parts) = mpsc::channel(WAITING_PARTS);
        // What cannot be written ends the comparison, too: nobody receives any more.
        let write = async move {
            let mut bytes = 0_u64;
            while let Some(part) = parts.recv().await {
                bytes += bytes_of(&part);
                if bytes > MERGE_BYTES_MAX {
                    let name = sides.child_name.to_owned();
                    return Err(MergeError::TooMuch { name, limit: MERGE_BYTES_MAX, what: "bytes" });
                }
                writer.part(&part)?;
            }
            Ok::<_, MergeError>(writer)
        };
        let look = async {
            let looked = self.rows(sides, baseline, &told).await;
            drop(told);
            looked
        };
        let (looked, written) = tokio::join!(look, write);
        let writer = match (looked, written) {
            (_, Err(error)) => return Err(error.into()),
            (Err(error), _) => return Err(error),
            (Ok(()), Ok(writer)) => writer,
        };
        // Definitions and rows were looked at one after the other (M10).
        if definitions::of_child(sides, &baseline.branch).await? != compared.ddl {
            return Err(MergeError::Restless { name: sides.child_name.to_owned() }.into());
        }
        if writer.is_empty() {
            return Ok(None);
        }
        writer.finish().map_err(MergeError::Set)?;
        Ok(Some(ChangeSet::open(file).map_err(MergeError::Set)?))
    }

    async fn rows(
        &self,
        sides: &Sides<'_>,
        baseline: &Baseline,
        told: &mpsc::Sender<Part>,
    ) -> Result<(), EngineError> {
        let branch = &sides.child.branch;
        let snapshot = match &sides.base {
            Some(base) => self.shared.environment.volume(&base.id),
            None => branch.generation.snapshot.clone(),
        };
        let (old, new, holding) = tokio::try_join!(
            baseline.branch.administrator_client(),
            branch.administrator_client(),
            branch.administrator_client()
        )?;
        let request = Request {
            branch: Side { client: &new, files: branch.data_dir() },
            holding: &holding,
            baseline: Side { client: &old, files: baseline.branch.data_dir() },
            snapshot: &snapshot,
            // As for every comparison of a branch with what it was made of.
            written: &Written::Nothing,
            only: &[],
            whole: true,
            rows: ROWS_MAX,
        };
        let summary = compare(request, told).await?;
        if summary.rows.is_cut() {
            let name = sides.child_name.to_owned();
            return Err(MergeError::TooMuch { name, limit: ROWS_MAX, what: "rows" }.into());
        }
        Ok(())
    }
}

fn bytes_of(part: &Part) -> u64 {
    let Part::Row(row) = part else { return 0 };
    let values = [&row.old, &row.new].into_iter().flatten().flatten();
    values.map(|value| value.as_ref().map_or(1, |text| text.len() as u64 + 1)).sum()
}

fn options(wanted: &MergeBranch, compared: &Compared) -> MergeOptions {
    MergeOptions {
        strategy: match wanted.strategy {
            MergeStrategy::Fail => Strategy::Fail,
            MergeStrategy::Ours => Strategy::Ours,
            MergeStrategy::Theirs => Strategy::Theirs,
        },
        equal: match wanted.equal {
            MergeEqual::Agree => Equal::Agree,
            MergeEqual::Conflict => Equal::Conflict,
        },
        definitions: compared.parent,
        apply: ApplyOptions {
            dry_run: wanted.dry_run,
            triggers: match wanted.triggers {
                MergeTriggers::Refuse => Triggers::Refuse,
                MergeTriggers::Fire => Triggers::Fire,
                MergeTriggers::Off => Triggers::Off,
            },
            // Of an origin, or of a generation that was promoted, it is that of a role of the source's; all is done as the holder (M6).
            any_registry: true,
            ..ApplyOptions::default()
        },
    }
}

impl Sides<'_> {
    fn nothing(&self) -> MergeReport {
        MergeReport {
            status: MergeStatus::NothingToDo,
            child: self.child_name.to_owned(),
            parent: self.parent_name.to_owned(),
            base: self.base_name.clone(),
            statements: Vec::new(),
            tables: Vec::new(),
            sequences: 0,
            conflicts: Vec::new(),
            more_conflicts: false,
            merged_at: None,
        }
    }

    fn report(&self, set: &ChangeSet, compared: &Compared, merged: Merged) -> MergeReport {
        let Merged { outcome, tables, conflicts, more } = merged;
        let (status, sequences, merged_at) = match &outcome {
            MergeOutcome::Merged(counts) => (MergeStatus::Merged, counts.sequences, None),
            MergeOutcome::WouldMerge(_) => (MergeStatus::WouldMerge, 0, None),
            MergeOutcome::AlreadyMerged(applied) => (MergeStatus::AlreadyMerged, 0, Some(applied.at)),
            MergeOutcome::Conflicts => (MergeStatus::Conflicts, 0, None),
        };
        let is_done_before = status == MergeStatus::AlreadyMerged || !compared.is_to_define();
        let statements = set.ddl().iter().filter(|_| !is_done_before).map(|ddl| ddl.sql.clone());
        let tables = tables.into_iter().map(|table| model::MergedTable {
            schema: table.schema,
            name: table.name,
            inserted: table.inserted,
            updated: table.updated,
            deleted: table.deleted,
        });
        MergeReport {
            status,
            statements: statements.collect(),
            tables: tables.collect(),
            sequences,
            conflicts: conflicts.iter().map(told).collect(),
            more_conflicts: more,
            merged_at,
            ..self.nothing()
        }
    }
}

fn told(conflict: &MergeConflict) -> model::MergeConflict {
    let word = |value: serde_json::Value| value.as_str().map(str::to_owned);
    let key = conflict.key.iter().cloned().map(|(column, value)| model::MergeKey { column, value });
    let columns = conflict.columns.iter().cloned().map(|it| model::MergeValues {
        column: it.column,
        base: it.base,
        ours: it.ours,
        theirs: it.theirs,
    });
    model::MergeConflict {
        reason: word(json!(conflict.reason)).unwrap_or_default(),
        schema: conflict.schema.clone(),
        table: conflict.table.clone(),
        key: key.collect(),
        columns: columns.collect(),
        taken: word(json!(conflict.taken)),
        message: conflict.to_string(),
    }
}

/// What a branch defines, of both sides and of the base.
async fn catalogue(branch: &Arc<Branch>) -> Result<duramen_schema::Catalogue, EngineError> {
    read(branch).await
}
