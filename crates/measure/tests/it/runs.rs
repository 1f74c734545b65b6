//! Invariants of docs/design/comparison.md that are about numbers: what does not differ is rarely told to (C3), what
//! does is found (C4), and the interval is the judgement (C5). In simulations whose truth is known.

use duramen_base::entropy;
use duramen_measure::statistics::{RunEstimate, RunValue};

/// What is assumed of machines that nobody knows.
const ASSUMED: f64 = 0.15;
/// How differently blocks of one run come out.
const BLOCKS: f64 = 0.05;

/// How differently runs of the same thing come out, as natural logarithms.
#[derive(Debug, Clone, Copy)]
enum Runs {
    /// Normal, with this deviation.
    Normal(f64),
    /// As an exponential with this deviation beyond the least: few runs are much slower.
    Skewed(f64),
}

impl Runs {
    fn draw(self, rng: &mut fastrand::Rng) -> f64 {
        match self {
            Runs::Normal(sd) => sd * normal(rng),
            Runs::Skewed(sd) => (1.0 + sd * (-(1.0 - rng.f64()).ln() - 1.0)).ln(),
        }
    }

    /// So many runs of so many blocks that take `factor` times as long. Blocks that follow each other are alike by half.
    fn side(self, (runs, blocks): (usize, usize), factor: f64, rng: &mut fastrand::Rng) -> Vec<RunValue> {
        let run = |_| {
            let of_run = factor.ln() + self.draw(rng);
            let mut mood = normal(rng);
            let blocks: Vec<f64> = (0..blocks)
                .map(|_| {
                    mood = 0.5 * mood + 0.75_f64.sqrt() * normal(rng);
                    of_run + BLOCKS * mood
                })
                .collect();
            RunValue::of_blocks(&blocks).unwrap()
        };
        (0..runs).map(run).collect()
    }
}

fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// How often B is told to differ from A, at each of the risks.
fn told(runs: Runs, (a, b): (usize, usize), factor: f64, risks: [f64; 2], tries: usize) -> [f64; 2] {
    let mut rng = entropy::rng(31);
    let mut told = [0; 2];
    for _ in 0..tries {
        let (of_a, of_b) = (runs.side((a, 6), 1.0, &mut rng), runs.side((b, 6), factor, &mut rng));
        let p = RunEstimate::of_runs(&of_a, &of_b, ASSUMED).unwrap().p_value();
        for (told, risk) in told.iter_mut().zip(risks) {
            *told += usize::from(p <= risk);
        }
    }
    told.map(|count| count as f64 / tries as f64)
}

const SHAPES: [Runs; 4] = [Runs::Normal(0.05), Runs::Normal(0.15), Runs::Skewed(0.05), Runs::Skewed(0.15)];
const COUNTS: [(usize, usize); 6] = [(1, 1), (1, 3), (2, 2), (3, 3), (5, 5), (10, 10)];
/// Named in advance, and the only one of forty.
const RISKS: [f64; 2] = [0.05, 0.05 / 40.0];

/// C3.
#[test]
fn equals_are_told_to_differ_in_at_most_five_of_a_hundred() {
    for runs in SHAPES {
        for counts in COUNTS {
            let [often, rare] = told(runs, counts, 1.0, RISKS, 4_000);
            println!("equals, {runs:?}, {counts:?}: {often} at 0.05, {rare} at 0.00125");
            // Three standard errors of 4,000 are 0.0103 and 0.0017.
            assert!(often <= 0.0603 && rare <= 0.003, "{runs:?}, {counts:?}: {often}, {rare}");
        }
    }
}

/// C4.
#[test]
fn what_differs_is_found_the_more_often_the_larger_it_is() {
    for runs in [Runs::Normal(0.05), Runs::Normal(0.15)] {
        for counts in COUNTS {
            let found = [1.1, 1.5, 3.0].map(|factor| told(runs, counts, factor, RISKS, 1_000));
            println!("{runs:?}, {counts:?}: 1.1, 1.5, 3 at [0.05, 0.00125]: {found:?}");
            assert!(found.map(|[named, _]| named).is_sorted(), "{runs:?}, {counts:?}: {found:?}");
        }
    }
    let [named, alone] = told(Runs::Normal(0.15), (3, 3), 18.1 / 6.2, RISKS, 1_000);
    assert!(named >= 0.99 && alone >= 0.85, "6.2 and 18.1 ms, three runs each: {named}, {alone}");
    let [named, _] = told(Runs::Normal(0.05), (5, 5), 1.1, RISKS, 1_000);
    assert!(named >= 0.5, "a tenth at a deviation of 5 %, five runs each: {named}");
}
