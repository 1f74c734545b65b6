//! What branches of a source can be made of, in the order of time.

use crate::{
    doors::Holder,
    engine::Engine,
    error::EngineError,
    model::{Moment, MomentKind},
};

impl Engine {
    /// The moments of a source of which branches can be made: its generations, and the snapshots of branches of it. The
    /// earliest first.
    ///
    /// # Errors
    /// Unknown source.
    pub fn timeline(&self, name: &str) -> Result<Vec<Moment>, EngineError> {
        self.timeline_by(None, name)
    }

    /// [`Engine::timeline`] with the snapshots of branches that the holder has.
    ///
    /// # Errors
    /// As for [`Engine::timeline`].
    pub fn timeline_for(&self, holder: &Holder, name: &str) -> Result<Vec<Moment>, EngineError> {
        self.timeline_by(Some(holder), name)
    }

    fn timeline_by(&self, by: Option<&Holder>, name: &str) -> Result<Vec<Moment>, EngineError> {
        let generations = self.generations(name)?.into_iter().map(|view| Moment {
            // What was promoted is from when it was taken of its branch; how long the rest took tells nobody anything.
            at: view.promoted.as_ref().map_or(view.imported_at, |of| of.taken_at),
            kind: MomentKind::Generation,
            generation: view.generation,
            labels: view.labels,
            branch: None,
            snapshot: None,
        });
        let snapshots = self.shared.registry.snapshots_of_source(name, by);
        let snapshots = snapshots.into_iter().map(|(branch, generation, view)| Moment {
            at: view.taken_at,
            kind: MomentKind::Snapshot,
            generation,
            labels: Vec::new(),
            branch: Some(branch),
            snapshot: Some(view.name.unwrap_or(view.id)),
        });
        let mut moments: Vec<Moment> = generations.chain(snapshots).collect();
        moments.sort_by_key(|moment| moment.at);
        Ok(moments)
    }
}
