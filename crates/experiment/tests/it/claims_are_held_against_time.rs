//! X22 and X23: what a program prints is held against the time that we take, and what it computes against the base's.

use crate::bench;
use crate::project::{Project, SPEC};
use duramen_experiment::event::{Purpose, Sample, Side, Verdict};
use duramen_experiment::spec::Spec;
use duramen_experiment::verdict::{judge, Noise};
use std::fs;

/// The samples of a machine on which the figure goes from one second to `figure`, the command from 1.2 to `wall`, and its
/// processor time from 1.1 to `cpu`.
fn samples(spec: &Spec, figure: f64, wall: f64, cpu: f64) -> Vec<Sample> {
    let mut samples = bench::measure(spec, 7, Purpose::Try(1), &mut bench::times(figure));
    let mut rng = fastrand::Rng::with_seed(3);
    let mut noisy = |base: f64, candidate: f64, sample: &Sample| {
        let value = if sample.side == Side::Base { base } else { candidate };
        value * (1.0 + 0.005 * bench::normal(&mut rng))
    };
    bench::also(&mut samples, "wall_s", |sample| noisy(1.2, wall, sample));
    bench::also(&mut samples, "cpu_s", |sample| noisy(1.1, cpu, sample));
    samples
}

fn verdict(spec: &Spec, samples: &[Sample]) -> (Verdict, String) {
    let found = judge(spec, &Noise::default(), samples);
    (found.verdict, found.reason)
}

#[test]
fn x22_less_time_that_nobody_but_the_program_sees_is_suspicious() {
    let spec = bench::spec(8, 40, 1, "");
    let (found, why) = verdict(&spec, &samples(&spec, 0.7, 1.2, 1.1));
    assert_eq!(found, Verdict::Suspicious, "{why}");
    for part in ["read_s", " ms less", "measure.fixed_time"] {
        assert!(why.contains(part), "{part}: {why}");
    }
    // The processor works less, or the wait is shorter: it is borne out.
    for (wall, cpu) in [(0.9, 0.8), (1.2, 0.8), (0.9, 1.1), (1.03, 1.1)] {
        let (found, why) = verdict(&spec, &samples(&spec, 0.7, wall, cpu));
        assert_eq!(found, Verdict::Keep, "{wall} {cpu}: {why}");
    }
    // A gain within the noise of the whole command says nothing against it.
    let mut loud = samples(&spec, 0.97, 1.17, 1.07);
    let mut rng = fastrand::Rng::with_seed(5);
    bench::also(&mut loud, "wall_s", |_| 1.2 * (1.0 + 0.2 * bench::normal(&mut rng)));
    assert_eq!(verdict(&spec, &loud).0, Verdict::Keep);
}

#[test]
fn x22_what_is_not_the_commands_time_is_not_held_against_it() {
    let spec = bench::spec(8, 40, 1, "");
    // A small part of what it takes, or more than it takes.
    for scale in [0.1, 50.0] {
        let mut samples = samples(&spec, 0.7, 1.2, 1.1);
        let figures: Vec<f64> = samples.iter().map(|sample| sample.metrics[bench::FIGURE] * scale).collect();
        let mut figures = figures.into_iter();
        bench::also(&mut samples, bench::FIGURE, |_| figures.next().expect("a figure"));
        assert_eq!(verdict(&spec, &samples).0, Verdict::Keep);
    }
    let mut fixed = spec.clone();
    fixed.measure.fixed_time = true;
    assert_eq!(verdict(&fixed, &samples(&spec, 0.7, 1.2, 1.1)).0, Verdict::Keep);
    // What is slower is no gain to be doubted, and logs of before have no such times.
    assert_eq!(verdict(&spec, &samples(&spec, 1.3, 1.2, 1.1)).0, Verdict::Discard);
    let old = bench::measure(&spec, 7, Purpose::Try(1), &mut bench::times(0.7));
    assert_eq!(verdict(&spec, &old).0, Verdict::Keep);
}

/// A project that prints the settings that it read, and one that skips some.
fn computing(equal: &str) -> Project {
    let project = Project::new();
    let bench = fs::read_to_string(project.root.join("bench.sh")).expect("the benchmark");
    let compute = "cat program/skip 2>/dev/null || { echo answer; echo answer > answer.txt; }\nexec awk";
    project.write("bench.sh", &bench.replace("exec awk", compute));
    project.commit("Compute something");
    project.spec(&SPEC.replace("warmups = 0", &format!("warmups = 0\nequal = {equal}")));
    project.baseline();
    project
}

#[test]
fn x23_work_that_is_skipped_does_not_win() {
    for equal in ["\"stdout\"", "[\"answer.txt\"]", "{ command = \"cat answer.txt\" }"] {
        let project = computing(equal);
        for (name, value) in [("small", "50"), ("large", "200"), ("held", "125")] {
            project.set(name, value);
        }
        project.set("skip", "nothing");
        let ended = project.attempt().expect("the try ends");
        assert_eq!(ended.judgement.verdict, Verdict::Invalid, "{equal}: {}", ended.judgement.reason);
        assert!(ended.judgement.reason.contains("measure.equal"), "{}", ended.judgement.reason);
        // Who does it all may be faster.
        fs::remove_file(project.root.join("program/skip")).expect("the file goes");
        let ended = project.attempt().expect("the try ends");
        assert_eq!(ended.judgement.verdict, Verdict::Keep, "{equal}: {}", ended.judgement.reason);
    }
}

#[test]
fn x23_what_cannot_be_compared_is_told_at_the_baseline() {
    let project = Project::new();
    project.spec(&SPEC.replace("warmups = 0", "warmups = 0\nequal = \"stdout\""));
    let error = project.with(|series| series.baseline()).expect_err("no baseline").to_string();
    assert!(error.contains("nothing but figures"), "{error}");
    let project = Project::new();
    let bench = fs::read_to_string(project.root.join("bench.sh")).expect("the benchmark");
    project.write("bench.sh", &bench.replace("exec awk", "echo run $count\nexec awk"));
    project.commit("Say which run it is");
    project.spec(&SPEC.replace("warmups = 0", "warmups = 0\nequal = \"stdout\""));
    let error = project.with(|series| series.baseline()).expect_err("no baseline").to_string();
    assert!(error.contains("from run to run"), "{error}");
}
