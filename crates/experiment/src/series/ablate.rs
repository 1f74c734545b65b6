//! Does each kept try still help? The stack is measured without it.

use super::{
    carry::believed,
    place::{Sides, CANDIDATE},
    Ablated, Current, Series, SeriesError,
};
use crate::{
    event::{Event, Judgement, Purpose},
    spec::Scale,
    verdict,
};

impl Series<'_> {
    /// Measures the head without each of the kept tries, one after another, against the head. What was
    /// measured of this head already is not measured again.
    ///
    /// # Errors
    /// When nothing is kept, the head does not build, the caller asked to end, or git or the log refuse.
    pub fn ablate(&mut self) -> Result<Vec<Ablated>, SeriesError> {
        self.within_walls()?;
        self.finish_open()?;
        let current = self.current()?;
        let segment = self.state.current().ok_or(SeriesError::NoBaseline)?;
        let keeps = segment.keeps.clone();
        if keeps.is_empty() {
            return Err(SeriesError::NothingKept { segment: current.number, doing: "leave out" });
        }
        self.restore_head(&current)?;
        let stack: Vec<String> = keeps.iter().map(|kept| kept.commit.clone()).collect();
        let mut all = Vec::new();
        for kept in &keeps {
            if self.known_ablation(&current, kept.number).is_none() {
                let (judgement, words) = self.without(&current, &stack, kept)?;
                let (number, head) = (kept.number, current.head.clone());
                self.say(&format!("without try {number}: {words}"));
                self.append(Event::Ablated { number, head, judgement, words })?;
            }
            all.extend(self.known_ablation(&current, kept.number));
        }
        Ok(all)
    }

    fn known_ablation(&self, current: &Current, number: u32) -> Option<Ablated> {
        let segment = self.state.current()?;
        let is_it = |known: &&crate::state::Ablation| known.number == number && known.head == current.head;
        let known = segment.ablations.iter().rev().find(is_it)?;
        let hypothesis =
            self.state.find_try(number).map_or_else(String::new, |found| found.hypothesis.clone());
        Some(Ablated { number, hypothesis, judgement: known.judgement.clone(), words: known.words.clone() })
    }

    fn without(
        &mut self,
        current: &Current,
        stack: &[String],
        kept: &crate::state::Kept,
    ) -> Result<(Option<Judgement>, String), SeriesError> {
        let cannot = "cannot be left out";
        let Some(candidate) = self.repository.without(&current.start, stack, &kept.commit)? else {
            return Ok((None, format!("{cannot}: later tries build on it")));
        };
        // Git may not remove it while it is measured.
        let name = Self::reference(&current.spec.name, &format!("without-{}", kept.number));
        self.repository.set_ref(&name, &candidate)?;
        let spec = &current.spec;
        let base = self.built_base(&current.head, spec)?;
        let candidate = match self.place(CANDIDATE, &candidate, spec, None)? {
            Ok(path) => path,
            Err(why) => return Ok((None, format!("{cannot}: the rest does not build: {why}"))),
        };
        self.say(&format!("measuring the stack without try {}", kept.number));
        let purpose = Purpose::Ablate(kept.number);
        let scales: Vec<Scale> = spec.deciding().collect();
        let (samples, bad) = self.take(current, purpose, &scales, &Sides { base, candidate })?;
        self.repository.delete_ref(&name)?;
        let (judgement, words) = verdict::ablation(spec, &samples);
        let judgement = believed(judgement, bad);
        Ok((Some(judgement), words.to_owned()))
    }
}
