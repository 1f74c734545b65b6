//! The baseline: a segment begins, and the noise floor is found by measuring one commit against itself.

use super::{
    place::{failure, Sides, BASE, CANDIDATE},
    short,
    walls::Doing,
    Baseline, Current, Series, SeriesError,
};
use crate::{
    event::{Design, Event, Metrics, Purpose, Sample, SCHEMA},
    schedule,
    scope::Rules,
    spec::{Scale, Spec},
    verdict,
};
use duramen_base::entropy;
use duramen_measure::host::Host;
use std::collections::BTreeMap;

impl Series<'_> {
    /// Begins a segment with the spec and the commit as they are now, and measures the noise floor. One that
    /// was broken off with the same spec and commit is gone on with; a try that is open is carried out
    /// before.
    ///
    /// # Errors
    /// When the spec is wrong, files have changes that are not committed (those of the series excepted), git
    /// is in the middle of a merge or the like, the start does not build, its command or a check fails, the
    /// caller asked to end, or git or the log refuse.
    pub fn baseline(&mut self) -> Result<Baseline, SeriesError> {
        let (spec, text) = Spec::read(&self.spec_path())?;
        Rules::new(&spec, &self.inside)?;
        self.check_held_out_files(&spec)?;
        let start = self.clean_head()?;
        if let Some(open) = self.state.open_try().cloned() {
            self.say(&format!("try {} is open and comes first", open.number));
            self.carry_out(&open)?;
        }
        if let Some(current) = self.unfinished(&spec, &start)? {
            return self.finish_baseline(&current, true);
        }
        self.check_name(&spec)?;
        self.raise_walls()?;
        self.prove(&spec, &start)?;
        let host = Host::fingerprint(&self.work)?;
        let segment = self.state.segments.last().map_or(0, |last| last.number) + 1;
        // The refs come after it: without it they would be taken for those of another series.
        self.append(Event::Segment {
            schema: SCHEMA.to_owned(),
            segment,
            start,
            spec: text,
            seed: entropy::seed(),
            host: Box::new(host),
            design: Design::Looks,
            isolated: self.cage.is_some(),
        })?;
        self.finish_baseline(&self.current()?, false)
    }

    /// The user's commit, if nothing lies beside it.
    fn clean_head(&self) -> Result<String, SeriesError> {
        if let Some(what) = self.repository.busy() {
            let path = self.repository.root().to_owned();
            return Err(SeriesError::Busy { what: what.to_owned(), path });
        }
        let files = self.repository.dirty_files(&self.own_files(self.repository.root()))?;
        if !files.is_empty() {
            return Err(SeriesError::Dirty { files });
        }
        Ok(self.repository.head()?)
    }

    /// The segment whose baseline was broken off, if this is the same again.
    fn unfinished(&self, spec: &Spec, start: &str) -> Result<Option<Current>, SeriesError> {
        if self.state.segments.is_empty() {
            return Ok(None);
        }
        let current = self.current()?;
        let is_same = current.noise.is_none() && current.spec == *spec && current.start == start;
        Ok((is_same && !self.is_in_vain(&current)).then_some(current))
    }

    /// Whether all samples of a noise floor are there, and none comes of them.
    fn is_in_vain(&self, current: &Current) -> bool {
        let purpose = Purpose::Noise(0);
        let Some(segment) = self.state.current() else { return false };
        let (samples, scales) = (segment.samples(purpose), current.spec.deciding().collect::<Vec<_>>());
        let plan = current.plan(purpose, &scales);
        schedule::remaining(&current.spec, &plan, samples).is_empty()
            && verdict::noise(&current.spec, samples).is_err()
    }

    /// Refs of this name that no segment of this log made belong to another series.
    fn check_name(&self, spec: &Spec) -> Result<(), SeriesError> {
        let is_ours = self.state.segments.iter().any(|segment| {
            Spec::parse(&segment.spec, &self.spec_path()).is_ok_and(|known| known.name == spec.name)
        });
        if !is_ours && self.repository.resolve(&Self::reference(&spec.name, "start-1")).is_ok() {
            return Err(SeriesError::NameTaken { name: spec.name.clone() });
        }
        Ok(())
    }

    /// What would make every try fail is told before a segment begins.
    fn prove(&self, spec: &Spec, start: &str) -> Result<(), SeriesError> {
        let commit = || short(start).to_owned();
        for caution in self.repository.cautions(start)? {
            self.say(&caution);
        }
        let (blocks, least) = (spec.measure.quads, verdict::least_blocks(spec));
        if blocks < least {
            let tries = spec.budget.tries;
            self.say(&format!(
                "with {blocks} quads no change of a figure that never varies can be kept: {tries} tries ask for {least} or \
                 more; raise `measure.quads` or lower `budget.tries`"
            ));
        }
        let base = self.place(BASE, start, spec, None)?.map_err(|detail| SeriesError::Build {
            what: "start",
            commit: commit(),
            detail,
        })?;
        let scales: Vec<Scale> = spec.deciding().collect();
        if let Some(bad) = self.probe(spec, &scales, &base)? {
            return Err(SeriesError::Command {
                what: "start",
                commit: commit(),
                scale: bad.scale,
                detail: bad.why,
            });
        }
        for check in &spec.checks {
            self.is_cancelled()?;
            self.say(&format!("check {}", check.name));
            self.forget(BASE)?;
            let caged = self.caged(&base, spec, Doing::Check);
            let ran = self.command(&check.command, &base, check.timeout_s, None, Vec::new(), caged)?;
            if let Some(detail) = failure(&ran, check.timeout_s) {
                return Err(SeriesError::Check { check: check.name.clone(), commit: commit(), detail });
            }
            // What everything is compared with may do with its own caches what it likes.
            self.accept(BASE, spec)?;
        }
        Ok(())
    }

    /// Measures the noise floor of a new segment.
    pub(super) fn finish_baseline(
        &mut self,
        current: &Current,
        resumed: bool,
    ) -> Result<Baseline, SeriesError> {
        self.hold_start(current)?;
        self.restore_head(current)?;
        let samples = self.noise(current)?;
        let current = self.current()?;
        let noise = current.noise.ok_or(SeriesError::BaselineUnfinished { segment: current.number })?;
        Ok(Baseline {
            segment: current.number,
            start: current.start,
            floor: noise.floor,
            scales: noise.scales,
            figures: means(&samples),
            tries: current.spec.budget.tries,
            resumed,
        })
    }

    /// Sets the ref of the commit that a segment began with; a kill may have come between the log and it.
    fn hold_start(&self, current: &Current) -> Result<(), SeriesError> {
        let name = Self::reference(&current.spec.name, &format!("start-{}", current.number));
        match self.repository.resolve(&name) {
            Ok(held) if held == current.start => Ok(()),
            Ok(_) => Err(SeriesError::NameTaken { name: current.spec.name.clone() }),
            Err(_) => Ok(self.repository.set_ref(&name, &current.start)?),
        }
    }

    /// The segment, with its noise floor found anew if that is due.
    pub(super) fn noise_if_due(&mut self) -> Result<Current, SeriesError> {
        let current = self.current()?;
        let after = current.spec.stop.rebaseline_keeps;
        let keeps = self.kept_since_noise();
        if after > 0 && keeps >= after {
            self.say(&format!("{keeps} tries were kept since the noise floor was found: finding it anew"));
            self.noise(&current)?;
        }
        self.current()
    }

    fn kept_since_noise(&self) -> u32 {
        let Some(segment) = self.state.current() else { return 0 };
        let Some(last) = segment.current_noise() else { return 0 };
        let is_since = |number: u32| {
            let known = segment.tries.iter().find(|known| known.number == number)?;
            Some(known.overrides.last().map(|by_hand| by_hand.at).or(known.ended)? > last.at)
        };
        let since = segment.keeps.iter().filter(|kept| is_since(kept.number) == Some(true)).count();
        u32::try_from(since).unwrap_or(u32::MAX)
    }

    /// Measures the head against itself in the two worktrees.
    fn noise(&mut self, current: &Current) -> Result<Vec<Sample>, SeriesError> {
        self.within_walls()?;
        let (spec, commit) = (&current.spec, &current.head);
        let broken = |detail| SeriesError::Build { what: "base", commit: short(commit).to_owned(), detail };
        let base = self.place(BASE, commit, spec, None)?.map_err(broken)?;
        let candidate = self.place(CANDIDATE, commit, spec, None)?.map_err(broken)?;
        let scales: Vec<Scale> = spec.deciding().collect();
        let keeps = self.state.current().map_or(0, |segment| segment.keeps.len());
        let purpose = Purpose::Noise(u32::try_from(keeps).unwrap_or(u32::MAX));
        let (samples, bad) = self.take(current, purpose, &scales, &Sides { base, candidate })?;
        if let Some(bad) = bad {
            let commit = short(commit).to_owned();
            return Err(SeriesError::Command { what: "base", commit, scale: bad.scale, detail: bad.why });
        }
        let noise = verdict::noise(spec, &samples)
            .map_err(|why| SeriesError::Noise { commit: short(commit).to_owned(), detail: why.reason })?;
        let (floor, scales) = (noise.floor, noise.scales);
        self.append(Event::Noise { commit: commit.clone(), floor, scales })?;
        self.say(&format!("noise floor: {:.2} %", floor * 100.0));
        Ok(samples)
    }
}

/// The means of all figures at each scale.
fn means(samples: &[Sample]) -> BTreeMap<String, Metrics> {
    let mut sums: BTreeMap<String, BTreeMap<String, (f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let of_scale = sums.entry(sample.scale.clone()).or_default();
        for (name, figure) in &sample.metrics {
            let sum = of_scale.entry(name.clone()).or_default();
            *sum = (sum.0 + figure, sum.1 + 1.0);
        }
    }
    let mean = |(name, (sum, count)): (String, (f64, f64))| (name, sum / count);
    sums.into_iter().map(|(scale, of_scale)| (scale, of_scale.into_iter().map(mean).collect())).collect()
}
