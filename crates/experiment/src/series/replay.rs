//! What was kept, all together, against the start: in fresh folders, at all scales.

use super::{
    carry::believed,
    place::{FRESH_BASE, FRESH_CANDIDATE},
    Replayed, Series, SeriesError,
};
use crate::{
    event::{Event, Judgement, Purpose, Verdict},
    spec::Scale,
    verdict,
};

impl Series<'_> {
    /// Measures the head against the start anew, in fresh folders without caches, at all scales. A replay
    /// that was broken off is gone on with.
    ///
    /// # Errors
    /// When nothing is kept, the start does not build, the caller asked to end, or git or the log refuse.
    pub fn replay(&mut self) -> Result<Replayed, SeriesError> {
        self.within_walls()?;
        self.finish_open()?;
        let current = self.current()?;
        let (start, head) = (current.start.clone(), current.head.clone());
        if start == head {
            return Err(SeriesError::NothingKept { segment: current.number, doing: "replay" });
        }
        self.restore_head(&current)?;
        let done = self.state.current().map_or(0, |segment| segment.replays.len());
        let number = u32::try_from(done).unwrap_or(u32::MAX).saturating_add(1);
        let purpose = Purpose::Replay(number);
        let spec = &current.spec;
        self.say("replaying what was kept against the start, in fresh folders");
        let word = format!("replay-{}-{number}", current.number);
        let judgement = match self.fresh(&start, &head, spec, &word)? {
            Err(why) => {
                let reason = format!("the head does not build in a fresh folder: {why}");
                Judgement { alpha: verdict::ERROR_RATE, ..verdict::unmeasured(spec, Verdict::Crash, reason) }
            }
            Ok(sides) => {
                let current = self.with_drawn(&current, purpose)?;
                let spec = &current.spec;
                let scales: Vec<Scale> = spec.scales_or_default();
                let (samples, bad) = self.take(&current, purpose, &scales, &sides)?;
                believed(verdict::replay(spec, &samples), bad)
            }
        };
        self.append(Event::Replayed {
            start: start.clone(),
            head: head.clone(),
            judgement: judgement.clone(),
        })?;
        self.clear(&[FRESH_BASE, FRESH_CANDIDATE])?;
        Ok(Replayed { start, head, judgement })
    }

    /// Carries out a try that was left open, before something else is measured.
    pub(super) fn finish_open(&mut self) -> Result<(), SeriesError> {
        if let Some(open) = self.state.open_try().cloned() {
            self.say(&format!("try {} is open and comes first", open.number));
            self.carry_out(&open)?;
        }
        Ok(())
    }
}
