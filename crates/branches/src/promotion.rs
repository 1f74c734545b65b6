//! A branch becomes the next generation of its source, and goes on living. Invariants G1 to G6 of
//! docs/design/generations.md.

use crate::{
    doors::Holder,
    engine::Engine,
    error::{EngineError, PromotionError},
    interrupt::Interrupt,
    lineage::capture::{Subject, Wanted},
    model::{PromoteBranch, PromotedBranch, SnapshotKind, SourceView},
    shared::Shared,
    source::{import::Report, promote::Promotion},
    sources::Of,
};
use std::sync::Arc;

impl Engine {
    /// Makes a branch, as it is now, the next generation of its source: new branches are made of it from then on. The branch
    /// goes on, and so do those of earlier generations.
    ///
    /// If the future is dropped, the promotion is given up.
    ///
    /// # Errors
    /// No such branch, one that does not work, one whose source has other rules for masking by now; or what an import fails
    /// with. The current generation then stays current, and nothing is left behind.
    pub async fn promote(
        self: &Arc<Self>,
        name: &str,
        request: PromoteBranch,
        progress: impl Fn(&str, Option<f64>) + Send + Sync + 'static,
    ) -> Result<SourceView, EngineError> {
        self.promote_by(None, name, request, Arc::new(progress)).await
    }

    /// [`Engine::promote`] for somebody who came through a door.
    ///
    /// # Errors
    /// As for [`Engine::promote`], and when the holder does not have the branch.
    pub async fn promote_for(
        self: &Arc<Self>,
        holder: &Holder,
        name: &str,
        request: PromoteBranch,
        progress: impl Fn(&str, Option<f64>) + Send + Sync + 'static,
    ) -> Result<SourceView, EngineError> {
        self.promote_by(Some(holder.clone()), name, request, Arc::new(progress)).await
    }

    async fn promote_by(
        self: &Arc<Self>,
        by: Option<Holder>,
        name: &str,
        request: PromoteBranch,
        progress: Report,
    ) -> Result<SourceView, EngineError> {
        let (engine, name) = (Arc::clone(self), name.to_owned());
        self.importing(|interrupt| async move {
            // What its caller may not have is refused without waiting for other imports.
            engine.shared.registry.working_session_of(&name, by.as_ref())?;
            let _one = engine.turn(&interrupt).await?;
            engine.promote_now(by.as_ref(), &name, request, progress, &interrupt).await
        })
        .await
    }

    async fn promote_now(
        &self,
        by: Option<&Holder>,
        name: &str,
        request: PromoteBranch,
        progress: Report,
        interrupt: &Interrupt,
    ) -> Result<SourceView, EngineError> {
        let shared = &self.shared;
        let session = shared.registry.working_session_of(name, by)?;
        let generation = Arc::clone(&session.branch.generation);
        generation.usable()?;
        let mut record = self.record(&generation.source)?;
        if record.fleet.as_ref().is_some_and(|of| !of.is_kept_here) {
            record.is_made_here()?;
        }
        let (branch, source_name) = (name.to_owned(), record.name.clone());
        if !generation.manifest.is_current() {
            return Err(PromotionError::Outdated { branch, source_name }.into());
        }
        // G4.
        let made_of = generation.manifest.generation;
        if generation.check_rules(record.settings.masking.as_ref()).is_err() {
            return Err(PromotionError::OtherRules { branch, source_name, generation: made_of }.into());
        }
        progress("taking a snapshot of the branch", None);
        let subject = Subject::of(name, &session);
        let wanted = Wanted { name: None, kind: SnapshotKind::Base, quiesce: request.quiesce };
        let taken = shared.capture(&subject, &wanted).await?;
        let copy = Copied { shared, id: &taken.id };
        interrupt.check()?;
        let branch = PromotedBranch {
            name: branch,
            id: subject.id.clone(),
            generation: made_of,
            taken_at: taken.taken_at,
        };
        let snapshot = shared.environment.volume(copy.id);
        let promotion = Promotion::of(&generation, branch, &snapshot);
        record.generation = self.next_generation(&record);
        self.import(record, Of::Branch { promotion: &promotion, by }, progress, interrupt).await
    }
}

/// A snapshot that only a promotion needs. It stands nowhere, so that an opening sweeps what a killed daemon left of one.
struct Copied<'a> {
    shared: &'a Shared,
    id: &'a str,
}

impl Drop for Copied<'_> {
    fn drop(&mut self) {
        tokio::task::block_in_place(|| self.shared.environment.delete_volume(self.id));
    }
}
