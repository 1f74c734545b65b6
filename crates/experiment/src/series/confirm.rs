//! New samples for what seems to help: at all scales, held-out ones too (X9), in fresh folders (X8).

use super::{
    carry::{believed, ended},
    place::{Sides, FRESH_BASE, FRESH_CANDIDATE},
    short, Current, Series, SeriesError,
};
use crate::{
    event::{Design, Judgement, Purpose, Sample, Verdict},
    spec::{Scale, Spec},
    state::Try,
    verdict::{self, looks},
};

impl Series<'_> {
    pub(super) fn confirm(
        &mut self,
        current: &Current,
        open: &Try,
        first: &Judgement,
    ) -> Result<Judgement, SeriesError> {
        let spec = &current.spec;
        let purpose = Purpose::Confirm(open.number);
        self.say("measuring it anew in fresh folders, without caches");
        let sides = self.fresh(&open.base, &open.candidate, spec, &format!("confirm-{}", open.number))?;
        let judgement = match sides {
            Err(why) => {
                let reason = format!("the candidate does not build again: {why}");
                Judgement { confirmed: Some(false), ..verdict::unmeasured(spec, Verdict::Crash, reason) }
            }
            Ok(sides) => {
                let current = &self.with_drawn(current, purpose)?;
                let spec = &current.spec;
                let scales: Vec<Scale> = spec.scales_or_default();
                self.say(&format!("confirming at {} scales", scales.len()));
                let second = match current.design {
                    Design::Fixed => {
                        let (samples, bad) = self.take(current, purpose, &scales, &sides)?;
                        believed(verdict::confirm(spec, first, &samples), bad)
                    }
                    Design::Looks => {
                        let known = self.known(current)?;
                        let judge = |samples: &[Sample]| looks::confirm(spec, &known, first, samples);
                        let (samples, bad) =
                            self.take_until(current, purpose, &scales, &sides, Some(&judge))?;
                        let second = believed(ended(spec, judge(&samples)), bad);
                        Judgement { confirmed: Some(second.verdict == Verdict::Keep), ..second }
                    }
                };
                match self.tampered(spec, open, &sides)? {
                    Some(reason) if second.verdict == Verdict::Keep => {
                        Judgement { verdict: Verdict::Invalid, reason, confirmed: Some(false), ..second }
                    }
                    _ => second,
                }
            }
        };
        self.clear(&[FRESH_BASE, FRESH_CANDIDATE])?;
        Ok(judgement)
    }

    /// Both sides in new folders without caches, or why the candidate does not build there.
    pub(super) fn fresh(
        &self,
        base: &str,
        candidate: &str,
        spec: &Spec,
        word: &str,
    ) -> Result<Result<Sides, String>, SeriesError> {
        let base = self.place(FRESH_BASE, base, spec, Some(word))?.map_err(|detail| SeriesError::Build {
            what: "base",
            commit: short(base).to_owned(),
            detail,
        })?;
        Ok(self
            .place(FRESH_CANDIDATE, candidate, spec, Some(word))?
            .map(|candidate| Sides { base, candidate }))
    }
}
