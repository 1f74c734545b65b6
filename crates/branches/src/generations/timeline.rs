//! What branches of a source can be made of, in the order of time.

use crate::{
    doors::Holder,
    engine::Engine,
    error::EngineError,
    model::{Moment, MomentKind},
    source::{manifest::Manifest, wal::Position},
};
use jiff::Timestamp;

impl Engine {
    /// The moments of a source of which branches can be made: its generations, the snapshots of branches of it, and the stretches of
    /// its history. The earliest first.
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
        let home = &self.shared.environment.home;
        let generations = self.generations(name)?.into_iter().map(|view| {
            let made =
                view.moment.as_ref().and_then(|_| Manifest::load(home, name, view.generation).ok()?.moment);
            let kind = if view.moment.is_some() { MomentKind::Moment } else { MomentKind::Generation };
            // What was promoted is from when it was taken of its branch; how long the rest took tells nobody anything.
            let taken_at = view.promoted.as_ref().map(|of| of.taken_at);
            Moment {
                at: made.map(|of| of.about).or(taken_at).unwrap_or(view.imported_at),
                labels: view.labels,
                lsn: view.moment.map(|of| of.lsn.unwrap_or(of.replayed_to)),
                ..bare(kind, view.generation)
            }
        });
        let snapshots = self.shared.registry.snapshots_of_source(name, by);
        let snapshots = snapshots.into_iter().map(|(branch, generation, view)| Moment {
            at: view.taken_at,
            branch: Some(branch),
            snapshot: Some(view.name.unwrap_or(view.id)),
            ..bare(MomentKind::Snapshot, generation)
        });
        let stretches = self.shared.stretches(name)?.into_iter().filter_map(|stretch| {
            let (from, until) = stretch.ends()?;
            Some(Moment {
                at: from.at,
                until: Some(until.at),
                lsn: Some(Position(from.position).to_string()),
                until_lsn: Some(Position(until.position).to_string()),
                bytes: Some(stretch.bytes()),
                ended: stretch.ended,
                ..bare(MomentKind::Stretch, 0)
            })
        });
        let mut moments: Vec<Moment> = generations.chain(snapshots).chain(stretches).collect();
        moments.sort_by_key(|moment| moment.at);
        Ok(moments)
    }
}

fn bare(kind: MomentKind, generation: u32) -> Moment {
    Moment {
        at: Timestamp::UNIX_EPOCH,
        kind,
        generation,
        until: None,
        lsn: None,
        until_lsn: None,
        bytes: None,
        ended: None,
        labels: Vec::new(),
        branch: None,
        snapshot: None,
    }
}
