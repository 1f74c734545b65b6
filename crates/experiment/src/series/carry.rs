//! Carrying out a try that has begun: whoever was killed in the middle of one left it to whoever comes next.

use super::{
    error::named,
    measure::Bad,
    place::{failure, Sides, BASE, CANDIDATE},
    short,
    walls::Doing,
    Baseline, Current, Ended, Series, SeriesError,
};
use crate::{
    event::{Design, Event, Judgement, Purpose, Sample, Side, Verdict},
    scope::{Rules, Violation, Why},
    spec::{Scale, Spec},
    state::Try,
    verdict::{
        self,
        looks::{self, Known, Look},
    },
};

/// What was gone on with.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a command makes one")]
pub enum Resumed {
    /// Nothing was open.
    Nothing,
    /// A baseline came to its end.
    Baseline(Baseline),
    /// A try came to its end.
    Try(Ended),
}

impl Series<'_> {
    /// Goes on with what was broken off, if anything was.
    ///
    /// # Errors
    /// When there is no baseline, the base itself fails, the caller asked to end, or git or the log refuse.
    pub fn resume(&mut self) -> Result<Resumed, SeriesError> {
        if let Some(open) = self.state.open_try().cloned() {
            return Ok(Resumed::Try(self.carry_out(&open)?));
        }
        self.within_walls()?;
        let current = self.current()?;
        if current.noise.is_none() {
            return Ok(Resumed::Baseline(self.finish_baseline(&current, true)?));
        }
        self.noise_if_due()?;
        Ok(Resumed::Nothing)
    }

    /// Measures the open try and ends it.
    pub(super) fn carry_out(&mut self, open: &Try) -> Result<Ended, SeriesError> {
        self.within_walls()?;
        let current = self.current()?;
        for commit in [&open.base, &open.candidate] {
            if self.repository.resolve(commit).is_err() {
                return Err(SeriesError::Lost { commit: commit.clone(), number: open.number });
            }
        }
        let judgement = self.decide_by_samples(&current, open)?;
        self.end(&current, open, judgement)
    }

    fn decide_by_samples(&mut self, current: &Current, open: &Try) -> Result<Judgement, SeriesError> {
        let spec = &current.spec;
        let files = self.repository.changed_files(&open.base, &open.candidate)?;
        if files.is_empty() {
            return Ok(verdict::unmeasured(spec, Verdict::Invalid, "nothing was changed"));
        }
        let violations = Rules::new(spec, &self.inside)?.violations(&files);
        if !violations.is_empty() {
            let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Ok(verdict::unmeasured(spec, Verdict::Invalid, named(&reasons)));
        }
        let base = self.built_base(&open.base, spec)?;
        let candidate = match self.place(CANDIDATE, &open.candidate, spec, None)? {
            Ok(path) => path,
            Err(why) => {
                let reason = format!("the candidate does not build: {why}");
                return Ok(verdict::unmeasured(spec, Verdict::Crash, reason));
            }
        };
        let sides = Sides { base, candidate };
        let scales: Vec<Scale> = spec.deciding().collect();
        let purpose = Purpose::Try(open.number);
        let noise =
            current.noise.as_ref().ok_or(SeriesError::BaselineUnfinished { segment: current.number })?;
        let first = match current.design {
            Design::Fixed => {
                let (samples, bad) = self.take(current, purpose, &scales, &sides)?;
                believed(verdict::judge(spec, noise, &samples), bad)
            }
            Design::Looks => {
                let known = self.known(current)?;
                let judge = |samples: &[Sample]| looks::judge(spec, &known, samples);
                let (samples, bad) = self.take_until(current, purpose, &scales, &sides, Some(&judge))?;
                believed(ended(spec, judge(&samples)), bad)
            }
        };
        if first.verdict != Verdict::Keep {
            return Ok(first);
        }
        if let Some(reason) = self.tampered(spec, open, &sides)? {
            // What it left is not a cache of the next build.
            self.clear(&[CANDIDATE])?;
            return Ok(Judgement { verdict: Verdict::Invalid, reason, ..first });
        }
        self.say(&format!("it seems to help: {}", first.reason));
        if let Some((verdict, reason)) = self.check(spec, open, &sides)? {
            return Ok(Judgement { verdict, reason, ..first });
        }
        self.confirm(current, open, &first)
    }

    /// What the newest A/A run of the segment says of the noise.
    pub(super) fn known(&self, current: &Current) -> Result<Known, SeriesError> {
        let unfinished = || SeriesError::BaselineUnfinished { segment: current.number };
        let noise = current.noise.as_ref().ok_or_else(unfinished)?;
        let found = self.state.current().and_then(|segment| segment.current_noise());
        Ok(Known::new(&current.spec, noise, &found.ok_or_else(unfinished)?.samples))
    }

    /// The base in its worktree. It was built before, so that it does not build now is no fault of the
    /// candidate.
    pub(super) fn built_base(&self, commit: &str, spec: &Spec) -> Result<std::path::PathBuf, SeriesError> {
        self.place(BASE, commit, spec, None)?.map_err(|detail| SeriesError::Build {
            what: "base",
            commit: short(commit).to_owned(),
            detail,
        })
    }

    /// What the candidate's build or run changed in its worktree although no try may, if it did. The scope is
    /// that of the commit; this is how it could be gone around.
    pub(super) fn tampered(
        &self,
        spec: &Spec,
        open: &Try,
        sides: &Sides,
    ) -> Result<Option<String>, SeriesError> {
        let git = &self.repository;
        let of_base = git.differing_files(&sides.base, &open.base)?;
        let of_candidate = git.differing_files(&sides.candidate, &open.candidate)?;
        // What the builds of both make of a file is no difference between them.
        let is_new = |(name, content): &(&String, &String)| of_base.get(*name) != Some(*content);
        let changed: Vec<String> = of_candidate.iter().filter(is_new).map(|(name, _)| name.clone()).collect();
        let others = git.other_files(&sides.base, &open.base)?;
        let added = git.other_files(&sides.candidate, &open.candidate)?;
        let added: Vec<String> = added.into_iter().filter(|name| !others.contains(name)).collect();
        let rules = Rules::new(spec, &self.inside)?;
        let is_wrong = |violation: &Violation| match violation.why {
            Why::OffLimits(_) | Why::Series => true,
            // What a build makes anew is its own affair; what was there in the base is not.
            _ => sides.base.join(&violation.file).exists(),
        };
        let mut violations = rules.violations(&changed);
        let of_added = rules.violations(&added);
        let names: Vec<String> = of_added.iter().map(|violation| violation.file.clone()).collect();
        let ignored = git.ignored(&open.base, &names)?;
        violations.extend(of_added.into_iter().filter(|violation| !ignored.contains(&violation.file)));
        let reasons: Vec<String> =
            violations.iter().filter(|wrong| is_wrong(wrong)).map(ToString::to_string).collect();
        Ok((!reasons.is_empty()).then(|| format!("changed while it was built or run: {}", named(&reasons))))
    }

    /// Runs the checks that the log lacks. Returns how the first one failed, if one did, or what one changed.
    fn check(
        &mut self,
        spec: &Spec,
        open: &Try,
        sides: &Sides,
    ) -> Result<Option<(Verdict, String)>, SeriesError> {
        let mut known = open.checks.clone();
        for check in &spec.checks {
            if known.iter().any(|known| !known.passed) {
                break;
            }
            if known.iter().any(|known| known.check == check.name) {
                continue;
            }
            self.is_cancelled()?;
            self.say(&format!("check {}", check.name));
            // A check may change the worktree: the next measurement builds it again.
            self.forget(CANDIDATE)?;
            let caged = self.caged(&sides.candidate, spec, Doing::Check);
            let ran =
                self.command(&check.command, &sides.candidate, check.timeout_s, None, Vec::new(), caged)?;
            if let Some(why) = self.guard(None)? {
                return Ok(Some((Verdict::Invalid, format!("check {}: {why}", check.name))));
            }
            let failed = failure(&ran, check.timeout_s);
            let checked = crate::state::Checked {
                check: check.name.clone(),
                passed: failed.is_none(),
                detail: failed.unwrap_or_default(),
            };
            self.append(Event::Checked {
                number: open.number,
                check: checked.check.clone(),
                passed: checked.passed,
                detail: checked.detail.clone(),
            })?;
            known.push(checked);
        }
        let failed = known.iter().find(|known| !known.passed);
        let reasons = |failed: &crate::state::Checked| format!("check {}: {}", failed.check, failed.detail);
        Ok(failed.map(|failed| (Verdict::ChecksFailed, reasons(failed))))
    }

    /// Writes down how a try ended, and moves the head if it is kept.
    pub(super) fn end(
        &mut self,
        current: &Current,
        open: &Try,
        judgement: Judgement,
    ) -> Result<Ended, SeriesError> {
        let is_kept = judgement.verdict == Verdict::Keep;
        let head = if is_kept { open.candidate.clone() } else { current.head.clone() };
        let number = open.number;
        self.append(Event::TryEnded { number, judgement: judgement.clone(), head: head.clone() })?;
        self.restore_head(&self.current()?)?;
        self.say(&format!("try {number}: {}", judgement.reason));
        Ok(Ended {
            number,
            source: open.source.clone(),
            hypothesis: open.hypothesis.clone(),
            candidate: open.candidate.clone(),
            files: open.files.clone(),
            judgement,
            head,
            left: self.tries_left(&current.spec),
        })
    }

    /// How many tries the segment has left (X7).
    pub(super) fn tries_left(&self, spec: &Spec) -> u32 {
        let had = self.state.current().map_or(0, |segment| segment.tries.len());
        spec.budget.tries.saturating_sub(u32::try_from(had).unwrap_or(u32::MAX))
    }
}

/// The judgement that looks came to. They come to none only where something ended them before.
pub(super) fn ended(spec: &Spec, look: Look) -> Judgement {
    let none = || verdict::unmeasured(spec, Verdict::Inconclusive, "it was not measured to its end");
    look.ended().unwrap_or_else(none)
}

/// A judgement of samples of which one decides alone, whatever the others say (X5).
pub(super) fn believed(judgement: Judgement, bad: Option<Bad>) -> Judgement {
    match bad {
        Some(Bad { side, scale, why }) if !matches!(judgement.verdict, Verdict::Crash | Verdict::Invalid) => {
            let side = if side == Side::Base { "base" } else { "candidate" };
            let reason = format!("{side} at scale {scale}: {why}");
            Judgement { verdict: Verdict::Invalid, reason, ..judgement }
        }
        _ => judgement,
    }
}
