//! A machine whose truth is known: samples of a plan from a function.

use duramen_base::entropy;
use duramen_experiment::event::{Judgement, Metrics, Purpose, Sample, Side};
use duramen_experiment::schedule::{next, plan, plan_of_looks, seed_of, Run};
use duramen_experiment::spec::{Scale, Spec};
use duramen_experiment::verdict::looks::Look;
use std::path::Path;

/// The figure that decides.
pub(crate) const FIGURE: &str = "read_s";

/// A spec whose primary figure is [`FIGURE`], with so many blocks, tries and deciding scales, and more lines
/// at its end.
pub(crate) fn spec(blocks: u32, tries: u32, scales: u32, more: &str) -> Spec {
    let mut text = format!(
        "name = \"test\"\n[measure]\ncommand = \"true\"\nquads = {blocks}\n[budget]\ntries = {tries}\n\
         [primary]\nmetric = \"{FIGURE}\"\ndirection = \"lower\"\nmax_regression_percent = 5.0\n"
    );
    for scale in 0..scales {
        text += &format!("[[scale]]\nname = \"s{scale}\"\nvalue = \"{scale}\"\n");
    }
    Spec::parse(&(text + more), Path::new("experiment.toml")).expect("the spec is valid")
}

/// The same with more is better.
pub(crate) fn higher(spec: Spec) -> Spec {
    let mut spec = spec;
    spec.primary.direction = duramen_experiment::spec::Direction::Higher;
    spec
}

/// One sample of a run.
pub(crate) fn sample(purpose: Purpose, run: &Run, metrics: Metrics) -> Sample {
    Sample {
        purpose,
        scale: run.scale.clone(),
        quad: run.quad,
        place: run.place,
        side: run.side,
        metrics,
        load: 0.0,
        steal: 0.0,
        pinned: None,
        failure: None,
        invalid: None,
        data: None,
        output: None,
    }
}

/// What a run is given: itself, its place in the whole plan, and chance.
pub(crate) type Machine<'a> = dyn FnMut(&Run, usize, &mut fastrand::Rng) -> f64 + 'a;

/// The samples of the deciding scales with [`FIGURE`] from a machine.
pub(crate) fn measure(spec: &Spec, seed: u64, purpose: Purpose, machine: &mut Machine<'_>) -> Vec<Sample> {
    let scales: Vec<Scale> = spec.deciding().collect();
    measure_at(spec, seed, purpose, &scales, machine)
}

/// The same at these scales.
pub(crate) fn measure_at(
    spec: &Spec,
    seed: u64,
    purpose: Purpose,
    scales: &[Scale],
    machine: &mut Machine<'_>,
) -> Vec<Sample> {
    // Other chance than that of the plan, which is drawn from the seed itself.
    let mut rng = entropy::rng(!seed_of(seed, purpose));
    let runs = plan(spec, seed, purpose, scales);
    let figure = |(index, run): (usize, &Run)| {
        let value = machine(run, index, &mut rng);
        sample(purpose, run, Metrics::from([(FIGURE.to_owned(), value)]))
    };
    runs.iter().enumerate().map(figure).collect()
}

/// A value without chance for each side.
pub(crate) fn exact(base: f64, candidate: f64) -> impl FnMut(&Run, usize, &mut fastrand::Rng) -> f64 {
    move |run, _, _| if run.side == Side::Base { base } else { candidate }
}

/// A little noise of one per mille and `candidate` times as much for the candidate.
pub(crate) fn times(candidate: f64) -> impl FnMut(&Run, usize, &mut fastrand::Rng) -> f64 {
    move |run, _, rng| {
        let noise = 1.0 + 0.001 * normal(rng);
        noise * if run.side == Side::Base { 1.0 } else { candidate }
    }
}

/// N(0, 1), by Box and Muller (1958).
pub(crate) fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Sets another figure in all samples.
pub(crate) fn also(samples: &mut [Sample], metric: &str, mut value: impl FnMut(&Sample) -> f64) {
    for sample in samples {
        let value = value(sample);
        sample.metrics.insert(metric.to_owned(), value);
    }
}

/// The samples of something that is looked at after each block, to its end, and what came of it.
pub(crate) fn look(
    spec: &Spec,
    seed: u64,
    purpose: Purpose,
    scales: &[Scale],
    machine: &mut Machine<'_>,
    judge: &dyn Fn(&[Sample]) -> Look,
) -> (Judgement, Vec<Sample>) {
    let mut rng = entropy::rng(!seed_of(seed, purpose));
    let plan = plan_of_looks(spec, seed, purpose, scales);
    let by_pairs = matches!(purpose, Purpose::Try(_)) && scales.len() == 1;
    let mut samples = Vec::new();
    loop {
        if let Look::Ended(judgement) = judge(&samples) {
            return (*judgement, samples);
        }
        let next = next(spec, &plan, &samples, by_pairs);
        assert!(!next.is_empty(), "all blocks are there, and it has not ended");
        for run in &next {
            let value = machine(run, samples.len(), &mut rng);
            samples.push(sample(purpose, run, Metrics::from([(FIGURE.to_owned(), value)])));
        }
    }
}
