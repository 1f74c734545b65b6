//! Taking samples: the runs of a schedule that the log lacks.

use super::{
    place::{deadline, failure, Sides},
    Current, Series, SeriesError,
};
use crate::{
    database::{self, DatabaseError, Databases, Leased},
    disturbance,
    event::{Data, Design, Event, Metrics, Purpose, Sample, Side, RUNS_PER_BLOCK},
    figures::{self, ReadError},
    run::{self, Ended, Job},
    schedule::{self, Run},
    spec::{Scale, Spec},
    state::Segment,
    verdict::looks::Look,
};
use duramen_base::entropy;
use duramen_client::run::environment;
use std::{collections::BTreeMap, fs, io::Read, path::Path};

/// The variable that holds the value of the scale.
pub(super) const SCALE_VARIABLE: &str = "SCALE";
/// A file of figures is read up to this, in bytes.
const FILE_LIMIT: u64 = 16 << 20;

/// A sample that ends what it belongs to: it failed, or its figures are impossible.
pub(super) struct Bad {
    pub(super) side: Side,
    pub(super) scale: String,
    pub(super) why: String,
}

/// Looks at the samples so far.
pub(super) type Judge<'j> = &'j dyn Fn(&[Sample]) -> Look;

/// What one run of the command came to.
struct Once {
    metrics: Metrics,
    load: f64,
    steal: f64,
    pinned: Option<Vec<usize>>,
    failure: Option<String>,
    /// Why its figures count for nothing.
    invalid: Option<String>,
    data: Option<Data>,
    /// The digest of what it computed.
    output: Option<String>,
}

impl Current {
    /// All runs of a purpose in their order.
    pub(super) fn plan(&self, purpose: Purpose, scales: &[Scale]) -> Vec<Run> {
        match self.design {
            Design::Fixed => schedule::plan(&self.spec, self.seed, purpose, scales),
            Design::Looks => schedule::plan_of_looks(&self.spec, self.seed, purpose, scales),
        }
    }
}

impl Series<'_> {
    /// Takes the samples that are missing (X10), each into the log as soon as it is there (X2). Ends early
    /// with the first one that decides alone. (One of a noise floor decides nothing and is not written down:
    /// it is retaken.)
    pub(super) fn take(
        &mut self,
        current: &Current,
        purpose: Purpose,
        scales: &[Scale],
        sides: &Sides,
    ) -> Result<(Vec<Sample>, Option<Bad>), SeriesError> {
        self.take_until(current, purpose, scales, sides, None)
    }

    /// The same, and ends after the block after which `judge`, if there is one, comes to a judgement. It is asked after each
    /// block, and of what a killed command left.
    pub(super) fn take_until(
        &mut self,
        current: &Current,
        purpose: Purpose,
        scales: &[Scale],
        sides: &Sides,
        judge: Option<Judge<'_>>,
    ) -> Result<(Vec<Sample>, Option<Bad>), SeriesError> {
        let spec = &current.spec;
        let plan = current.plan(purpose, scales);
        let by_pairs = matches!(purpose, Purpose::Try(_)) && scales.len() == 1;
        let next = |taken: &[Sample]| match judge {
            Some(judge) if judge(taken) != Look::More => Vec::new(),
            Some(_) => schedule::next(spec, &plan, taken, by_pairs),
            None => schedule::remaining(spec, &plan, taken),
        };
        let taken = self.taken(purpose);
        if let Some(bad) = taken.iter().find_map(|sample| bad(spec, scales, sample)) {
            return Ok((taken, Some(bad)));
        }
        let mut missing = next(&taken);
        if !taken.is_empty() && !missing.is_empty() {
            let most = if judge.is_some() { "at most " } else { "" };
            self.say(&format!(
                "going on after {} of {most}{} runs",
                taken.len(),
                plan.len().max(taken.len())
            ));
        }
        let all = if missing.is_empty() { Vec::new() } else { schedule::remaining(spec, &plan, &taken) };
        if let Some(bad) = self.warm_up(spec, scales, sides, &all)? {
            return Ok((taken, Some(bad)));
        }
        while !missing.is_empty() {
            if let Some(bad) = self.take_runs(current, purpose, scales, sides, &missing)? {
                return Ok((self.taken(purpose), Some(bad)));
            }
            missing = next(&self.taken(purpose));
        }
        Ok((self.taken(purpose), None))
    }

    /// The segment with values for the scales that are drawn: those that the log has for this purpose, or new ones, which
    /// are written down before they are used.
    pub(super) fn with_drawn(&mut self, current: &Current, purpose: Purpose) -> Result<Current, SeriesError> {
        if !current.spec.scales.iter().any(Scale::is_drawn) {
            return Ok(current.clone());
        }
        let known = |series: &Self| series.state.current().and_then(|it| it.drawn(purpose).cloned());
        if known(self).is_none() {
            let (mut lists, mut digests) = (BTreeMap::new(), BTreeMap::new());
            for (scale, values) in self.held_out_values(&current.spec)? {
                lists.insert(scale.clone(), values.list);
                digests.insert(scale, values.digest);
            }
            let values = current.spec.draw(&lists, &mut entropy::rng(entropy::seed()));
            self.append(Event::Drawn { purpose, values, digests })?;
        }
        let values = known(self).unwrap_or_default();
        Ok(Current { spec: current.spec.with_values(&values), ..current.clone() })
    }

    /// Takes runs one after the other. Ends early with the first sample that decides alone.
    fn take_runs(
        &mut self,
        current: &Current,
        purpose: Purpose,
        scales: &[Scale],
        sides: &Sides,
        runs: &[Run],
    ) -> Result<Option<Bad>, SeriesError> {
        let spec = &current.spec;
        let is_again = runs.iter().all(|run| run.quad >= spec.measure.quads);
        if is_again {
            let blocks = runs.len().div_ceil(RUNS_PER_BLOCK as usize);
            self.say(&format!("the machine was disturbed: taking {blocks} quads again"));
        }
        for (done, run) in (1..).zip(runs) {
            self.is_cancelled()?;
            let dir = if run.side == Side::Base { &sides.base } else { &sides.candidate };
            let once = self.once(spec, dir, &run.value, self.digest())?;
            let sample = Sample {
                purpose,
                scale: run.scale.clone(),
                quad: run.quad,
                place: run.place,
                side: run.side,
                metrics: once.metrics,
                load: once.load,
                steal: once.steal,
                pinned: once.pinned,
                failure: once.failure,
                invalid: once.invalid,
                data: once.data,
                output: once.output,
            };
            let figure = sample.metrics.get(&spec.primary.metric).copied();
            let found = bad(spec, scales, &sample);
            if found.is_none() || !matches!(purpose, Purpose::Noise(_)) {
                self.append(Event::Sample(sample))?;
            }
            let figure = figure.map_or_else(|| "no figure".to_owned(), |figure| figure.to_string());
            let side = if run.side == Side::Base { "base" } else { "candidate" };
            self.say(&format!("run {done} of {}: {} {side} {figure}", runs.len(), run.scale));
            if let Some(bad) = found {
                self.say(&format!("{side} at scale {}: {}", bad.scale, bad.why));
                return Ok(Some(bad));
            }
            if run.place + 1 == RUNS_PER_BLOCK {
                let taken = self.taken(purpose);
                let block: Vec<&Sample> =
                    taken.iter().filter(|it| (&it.scale, it.quad) == (&run.scale, run.quad)).collect();
                if let Some((sentinel, share)) = disturbance::disturbing_sentinel(spec, &block) {
                    let percent = share * 100.0;
                    self.say(&format!("{sentinel} moved by {percent:.0} % between runs of the same commit"));
                }
            }
        }
        Ok(None)
    }

    /// One run at each scale, in one folder, before anything is written down. Fails as the start would.
    pub(super) fn probe(
        &self,
        spec: &Spec,
        scales: &[Scale],
        dir: &Path,
    ) -> Result<Option<Bad>, SeriesError> {
        for scale in scales {
            self.is_cancelled()?;
            self.say(&format!("first run at scale {}", scale.name));
            let once = self.once(spec, dir, &scale.value, None)?;
            let why = once.failure.or(once.invalid).or_else(|| insane(spec, &scale.value, &once.metrics));
            if let Some(why) = why {
                return Ok(Some(Bad { side: Side::Base, scale: scale.name.clone(), why }));
            }
            if let Some(left) = self.left(dir).filter(|_| scale.name == scales[0].name) {
                self.say(&format!(
                    "a run leaves {left}, which are removed after each: let `measure.build` compile what it runs"
                ));
            }
        }
        Ok(None)
    }

    /// The runs that are thrown away. A resumed command takes them again: its caches are cold. Their figures are, and not
    /// what they change.
    fn warm_up(
        &self,
        spec: &Spec,
        scales: &[Scale],
        sides: &Sides,
        missing: &[Run],
    ) -> Result<Option<Bad>, SeriesError> {
        let first = missing.first().map_or_else(String::new, |run| run.scale.clone());
        // One side was built after the other.
        if let Some(why) = self.guard(None)? {
            let why = format!("when it was built, {why}");
            return Ok(Some(Bad { side: Side::Candidate, scale: first, why }));
        }
        for scale in scales.iter().filter(|scale| missing.iter().any(|run| run.scale == scale.name)) {
            for (side, dir) in [(Side::Base, &sides.base), (Side::Candidate, &sides.candidate)] {
                for _ in 0..spec.measure.warmups {
                    self.is_cancelled()?;
                    let once = self.once(spec, dir, &scale.value, self.digest())?;
                    if let Some(why) = once.invalid {
                        return Ok(Some(Bad { side, scale: scale.name.clone(), why }));
                    }
                    if once.failure.is_some() {
                        // It will fail again, and then as a sample.
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// One run. What its branch holds must have this digest, if one is given.
    fn once(&self, spec: &Spec, dir: &Path, scale: &str, digest: Option<&str>) -> Result<Once, SeriesError> {
        let file = spec.measure.file.as_ref().map(|file| dir.join(file));
        if let Some(file) = &file {
            // What an earlier run wrote is not this one's figure.
            match fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(super::fail("remove", file)(error));
                }
                _ => {}
            }
        }
        let leased = self.leased(spec, digest)?;
        let mut env = vec![(SCALE_VARIABLE.to_owned(), scale.to_owned())];
        env.extend(leased.iter().flat_map(|(_, leased)| leased.env.clone()));
        let caged = self.caged_run(dir, spec, &env);
        let job = Job {
            command: spec.measure.command.replace("{scale}", scale),
            dir: dir.to_owned(),
            env,
            unset: if leased.is_some() { &environment::ELSEWHERE } else { &[] },
            keep: None,
            input: None,
            timeout: deadline(spec.measure.timeout_s),
            pin: spec.measure.pin,
            caged,
            output_limit: run::OUTPUT_LIMIT,
        };
        let ran = run::run(&job, &|| self.is_to_end());
        let data = leased.map(|(databases, leased)| databases.give_back(&leased)).transpose()?;
        let computed = self.computed(spec, dir, scale, &ran)?;
        let changed = self.guard(Some(dir))?;
        if matches!(ran.ended, Ended::Cancelled) {
            return Err(SeriesError::Cancelled);
        }
        let mut once = Once {
            metrics: Metrics::new(),
            load: finite(ran.load),
            steal: finite(ran.steal),
            pinned: ran.pinned.clone(),
            failure: failure(&ran, spec.measure.timeout_s),
            invalid: changed,
            data: None,
            output: None,
        };
        match computed {
            Some(Ok(digest)) => once.output = Some(digest),
            Some(Err(why)) => once.invalid = once.invalid.or(Some(why)),
            None => {}
        }
        match data {
            Some(Ok(data)) => once.data = Some(data),
            Some(Err(why)) => once.invalid = once.invalid.or(Some(why)),
            None => {}
        }
        if once.failure.is_some() || once.invalid.is_some() {
            return Ok(once);
        }
        let text = match &file {
            None if ran.stdout_omitted > 0 && needs_figures(spec) => Err(format!(
                "it printed more than {} bytes, of which the first are not kept, and a figure may have been among them: \
                 print less, or write the figures to a file (`measure.file`)",
                run::OUTPUT_LIMIT
            )),
            None => Ok(ran.stdout.clone()),
            Some(file) => read_figures(file),
        };
        let text = match text {
            Ok(text) => text,
            Err(why) => return Ok(Once { invalid: Some(why), ..once }),
        };
        match figures::read(spec.measure.reader, &spec.measure.command, &text) {
            Ok(metrics) => once.metrics = metrics,
            // Where the time of the whole command decides, nothing needs to be printed.
            Err(ReadError::Nothing { .. }) => {}
            Err(error @ ReadError::Failed { .. }) => {
                once.failure = Some(error.to_string());
                return Ok(once);
            }
            Err(error) => return Ok(Once { invalid: Some(error.to_string()), ..once }),
        }
        for (name, figure) in [(figures::WALL, ran.wall.as_secs_f64()), (figures::CPU, ran.cpu.as_secs_f64())]
        {
            if let Some(printed) = once.metrics.insert(name.to_owned(), figure) {
                let (first, second) = (printed.to_string(), format!("{figure} of the whole command"));
                let error = ReadError::Duplicate { name: name.to_owned(), first, second };
                return Ok(Once { invalid: Some(error.to_string()), metrics: Metrics::new(), ..once });
            }
        }
        // JSON has no such numbers: what is infinite or no number counts as missing.
        once.metrics.retain(|name, figure| {
            if !figure.is_finite() {
                self.say(&format!("the figure {name} is {figure}, which is left out"));
            }
            figure.is_finite()
        });
        Ok(once)
    }

    /// A branch for a run, if the spec asks for one, of the data of this digest, if one is given.
    fn leased(&self, spec: &Spec, digest: Option<&str>) -> Result<Option<(&Databases, Leased)>, SeriesError> {
        let Some(source) = spec.measure.database.as_deref().and_then(database::source_of) else {
            return Ok(None);
        };
        let databases =
            self.databases.as_ref().ok_or_else(|| DatabaseError::NoDaemon { name: source.to_owned() })?;
        let leased = databases.lease(source, spec.measure.policy, spec.measure.timeout_s, digest)?;
        Ok(Some((databases, leased)))
    }

    /// The digest of the data that the segment began with.
    fn digest(&self) -> Option<&str> {
        self.state.current().and_then(Segment::digest)
    }

    fn taken(&self, purpose: Purpose) -> Vec<Sample> {
        self.state.current().map_or_else(Vec::new, |segment| segment.samples(purpose).to_vec())
    }
}

fn bad(spec: &Spec, scales: &[Scale], sample: &Sample) -> Option<Bad> {
    let value =
        scales.iter().find(|scale| scale.name == sample.scale).map_or("", |scale| scale.value.as_str());
    let told = sample.failure.clone().or_else(|| sample.invalid.clone());
    let why = told.or_else(|| insane(spec, value, &sample.metrics))?;
    Some(Bad { side: sample.side, scale: sample.scale.clone(), why })
}

fn insane(spec: &Spec, scale: &str, metrics: &Metrics) -> Option<String> {
    figures::sane(spec, scale, metrics).err().map(|insane| insane.to_string())
}

/// Whether a spec names figures that have to be printed.
fn needs_figures(spec: &Spec) -> bool {
    let others =
        spec.secondaries.iter().map(|it| &it.metric).chain(spec.sentinels.iter().map(|it| &it.metric));
    let is_ours = |name: &String| [figures::WALL, figures::CPU].contains(&name.as_str());
    !spec.invariants.is_empty() || !others.chain([&spec.primary.metric]).all(is_ours)
}

/// What a file of figures holds. One that is not there, or is not a plain file, holds none, and that is what is
/// told then.
///
/// # Errors
/// When it is longer than [`FILE_LIMIT`].
fn read_figures(path: &Path) -> Result<String, String> {
    // A pipe, of all things, would never end.
    if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut bytes));
    if read.is_err() {
        return Ok(String::new());
    }
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(format!(
            "its file of figures is longer than {FILE_LIMIT} bytes: write fewer figures into it"
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn finite(figure: f64) -> f64 {
    if figure.is_finite() {
        figure
    } else {
        0.0
    }
}
