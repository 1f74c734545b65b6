//! Intervals hold what they promise, in simulations whose truth is known.

use duramen_base::entropy;
use duramen_measure::statistics::{difference, discoveries, mean, Estimate};

/// How often each case is tried. With a true rate of 5 %, two standard errors are 2.8 %.
const TRIES: usize = 250;

/// Shapes of noise.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Normal,
    /// exp(N(0, s)): as latencies are.
    LogNormal(f64),
    /// The difference of two log-normal values, as paired blocks give it.
    Paired(f64),
}

impl Shape {
    fn draw(self, rng: &mut fastrand::Rng) -> f64 {
        // Box and Muller, 1958.
        let normal = |rng: &mut fastrand::Rng| {
            (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
        };
        match self {
            Shape::Normal => normal(rng),
            Shape::LogNormal(s) => (s * normal(rng)).exp(),
            Shape::Paired(s) => (s * normal(rng)).exp() - (s * normal(rng)).exp(),
        }
    }

    fn mean(self) -> f64 {
        match self {
            Shape::LogNormal(s) => (s * s / 2.0).exp(),
            Shape::Normal | Shape::Paired(_) => 0.0,
        }
    }

    fn values(self, count: usize, rng: &mut fastrand::Rng) -> Vec<f64> {
        (0..count).map(|_| self.draw(rng)).collect()
    }
}

fn share(tries: usize, mut is_so: impl FnMut() -> bool) -> f64 {
    (0..tries).filter(|_| is_so()).count() as f64 / tries as f64
}

#[test]
fn the_interval_of_a_mean_covers_it_as_often_as_promised() {
    let mut rng = entropy::rng(11);
    let cases = [
        (Shape::Normal, [0.925, 0.925, 0.925]),
        (Shape::Paired(0.5), [0.925, 0.925, 0.925]),
        (Shape::Paired(1.0), [0.925, 0.925, 0.925]),
        (Shape::LogNormal(0.5), [0.89, 0.90, 0.91]),
        (Shape::LogNormal(1.0), [0.80, 0.86, 0.89]),
    ];
    for (shape, least) in cases {
        for (count, least) in [3, 8, 24].into_iter().zip(least) {
            let covered = share(TRIES, || {
                let values = shape.values(count, &mut rng);
                !mean(&values, 0.95, &mut rng).unwrap().excludes(shape.mean())
            });
            assert!(covered >= least, "{shape:?}, {count} values: {covered} of intervals hold the mean");
        }
    }
}

#[test]
fn what_does_not_differ_is_rarely_told_to_differ() {
    let mut rng = entropy::rng(12);
    for shape in [Shape::Normal, Shape::LogNormal(0.5), Shape::LogNormal(1.0)] {
        for count in [3, 8, 24] {
            let told = share(TRIES, || {
                let (a, b) = (shape.values(count, &mut rng), shape.values(count, &mut rng));
                difference(&a, &b, 0.95, &mut rng).unwrap().excludes(0.0)
            });
            assert!(told <= 0.075, "{shape:?}, {count} values: {told} of equal pairs are told to differ");
        }
    }
}

#[test]
fn what_differs_is_found_the_more_often_the_more_values_there_are() {
    let mut rng = entropy::rng(13);
    let mut found = |count: usize, shift: f64| {
        share(200, || {
            let a = Shape::Normal.values(count, &mut rng);
            let b: Vec<f64> = Shape::Normal.values(count, &mut rng).iter().map(|v| v + shift).collect();
            difference(&a, &b, 0.95, &mut rng).unwrap().excludes(0.0)
        })
    };
    let by_count = [3, 8, 24].map(|count| found(count, 1.5));
    assert!(by_count.is_sorted() && by_count[1] > 0.6 && by_count[2] > 0.99, "{by_count:?}");
    assert!(found(3, 8.0) > 0.95, "a difference of eight deviations shows in three values");
}

#[test]
fn the_p_value_says_at_which_confidence_the_interval_reaches_zero() {
    let mut rng = entropy::rng(14);
    for count in [3, 6, 24] {
        for _ in 0..40 {
            let a = Shape::LogNormal(0.5).values(count, &mut rng);
            let b: Vec<f64> = Shape::LogNormal(0.5).values(count, &mut rng).iter().map(|v| v + 0.4).collect();
            let estimate = Estimate::of_difference(&a, &b, &mut rng).unwrap();
            let p = estimate.p_value();
            assert!((0.0..=1.0).contains(&p));
            // A resampled share has steps; a little to either side of it the interval must have decided.
            let (wider, narrower) = (p * 0.98 - 0.002, p * 1.02 + 0.002);
            if wider > 0.0 {
                assert!(!estimate.interval(1.0 - wider).excludes(0.0), "p {p}, {a:?}, {b:?}");
            }
            if narrower < 1.0 {
                assert!(estimate.interval(1.0 - narrower).excludes(0.0), "p {p}, {a:?}, {b:?}");
            }
        }
    }
}

#[test]
fn intervals_of_few_values_are_those_of_student() {
    let mut rng = entropy::rng(15);
    // 12.706, 4.303 and 3.182 are the 97.5th percentiles of t with 1, 2 and 3 degrees of freedom.
    for (values, quantile) in
        [(vec![1.0, 3.0], 12.706), (vec![1.0, 2.0, 3.0], 4.303), (vec![1.0, 2.0, 3.0, 4.0], 3.182)]
    {
        let count = values.len() as f64;
        let centre = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (count - 1.0);
        let expected = quantile * (variance / count).sqrt();
        let interval = mean(&values, 0.95, &mut rng).unwrap();
        assert!((interval.high - centre - expected).abs() < 1e-3 * expected, "{values:?}: {interval:?}");
        assert!((centre - interval.low - expected).abs() < 1e-3 * expected, "{values:?}: {interval:?}");
    }
}

#[test]
fn balanced_differences_are_rarely_told_to_differ_however_small_the_rate() {
    const MANY: usize = 40_000;
    let mut rng = entropy::rng(20);
    // At 0.00125, three standard errors of 40,000 are 0.0005.
    for shape in [Shape::Normal, Shape::Paired(0.5), Shape::Paired(1.0)] {
        for count in [3, 8, 24] {
            let mut at = [0; 2];
            for _ in 0..MANY {
                let p = Estimate::of_balanced(&shape.values(count, &mut rng)).unwrap().p_value();
                at[0] += usize::from(p <= 0.05);
                at[1] += usize::from(p <= 0.05 / 40.0);
            }
            let [often, rare] = at.map(|told| told as f64 / MANY as f64);
            println!("seed 20, {shape:?}, {count} values: {often} at 0.05, {rare} at 0.00125");
            assert!(often <= 0.0535 && rare <= 0.00178, "{shape:?}, {count} values: {often}, {rare}");
        }
    }
}

#[test]
fn balanced_differences_need_half_as_many_values_as_resampled_ones() {
    let mut rng = entropy::rng(21);
    // A shift of 5 % at 3 % of noise a run, in quads of two runs a side.
    let mut found = |count: usize, p_value: &dyn Fn(&[f64], &mut fastrand::Rng) -> f64| {
        share(300, || {
            let values: Vec<f64> =
                Shape::Normal.values(count, &mut rng).iter().map(|value| 0.03 * value - 0.0513).collect();
            p_value(&values, &mut rng) <= 0.05 / 40.0
        })
    };
    let balanced = |values: &[f64], _: &mut fastrand::Rng| Estimate::of_balanced(values).unwrap().p_value();
    let resampled =
        |values: &[f64], rng: &mut fastrand::Rng| Estimate::of_mean(values, rng).unwrap().p_value();
    assert!(found(13, &balanced) >= 0.88);
    assert!(found(13, &resampled) < 0.85);
}

#[test]
fn the_interval_of_balanced_differences_covers_their_mean_and_agrees_with_the_p_value() {
    let mut rng = entropy::rng(22);
    for count in [2, 5, 8, 24] {
        let covered = share(2_000, || {
            let values: Vec<f64> = Shape::Normal.values(count, &mut rng).iter().map(|v| v - 1.0).collect();
            let estimate = Estimate::of_balanced(&values).unwrap();
            let p = estimate.p_value();
            assert!(estimate.interval(1.0 - p * 1.001).excludes(0.0) || p * 1.001 >= 1.0, "{values:?}");
            assert!(!estimate.interval(1.0 - p * 0.999).excludes(0.0), "{values:?}");
            !estimate.interval(0.95).excludes(-1.0)
        });
        assert!((0.935..=0.965).contains(&covered), "{count} values: {covered}");
    }
    assert!(Estimate::of_balanced(&[1.0]).is_none() && Estimate::of_balanced(&[1.0, f64::NAN]).is_none());
    let alike = Estimate::of_balanced(&[0.5; 6]).unwrap();
    assert_eq!((alike.p_value(), alike.interval(0.99).low), (0.0, 0.5));
}

#[test]
fn many_comparisons_of_equals_name_none_in_nineteen_of_twenty_runs() {
    let mut rng = entropy::rng(16);
    let wrong = share(100, || {
        let p_values: Vec<f64> = (0..30)
            .map(|_| {
                let (a, b) =
                    (Shape::LogNormal(0.5).values(4, &mut rng), Shape::LogNormal(0.5).values(4, &mut rng));
                Estimate::of_difference(&a, &b, &mut rng).unwrap().p_value()
            })
            .collect();
        discoveries(&p_values, 0.05).contains(&true)
    });
    assert!(wrong <= 0.11, "{wrong} of runs of 30 comparisons of equals name one");
}

#[test]
fn discoveries_are_those_of_the_published_example() {
    // Table 1 of Benjamini and Hochberg, 1995: fifteen p-values, of which the first four are named at 5 %.
    let p_values = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
        0.6528, 0.7590, 1.0,
    ];
    let named = discoveries(&p_values, 0.05);
    assert_eq!(named.iter().filter(|named| **named).count(), 4);
    assert!(named[..4].iter().all(|named| *named));
    assert!(discoveries(&[], 0.05).is_empty());
}

#[test]
fn without_enough_values_there_is_no_interval() {
    let mut rng = entropy::rng(17);
    for values in [&[][..], &[1.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY, 2.0]] {
        assert_eq!(mean(values, 0.95, &mut rng), None);
        assert_eq!(difference(values, &[1.0, 2.0], 0.95, &mut rng), None);
        assert_eq!(difference(&[1.0, 2.0], values, 0.95, &mut rng), None);
    }
}

#[test]
fn values_that_are_all_alike_leave_no_doubt() {
    let mut rng = entropy::rng(18);
    let same = Estimate::of_difference(&[3.0; 4], &[3.0; 4], &mut rng).unwrap();
    let other = Estimate::of_difference(&[3.0; 4], &[4.0; 4], &mut rng).unwrap();
    assert_eq!((same.p_value(), other.p_value()), (1.0, 0.0));
    let interval = other.interval(0.99);
    assert_eq!((interval.low, interval.estimate, interval.high), (1.0, 1.0, 1.0));
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let values = Shape::Normal.values(24, &mut entropy::rng(19));
    let interval = |seed| mean(&values, 0.95, &mut entropy::rng(seed)).unwrap();
    assert_eq!(interval(1), interval(1));
    assert_ne!(interval(1), interval(2));
}
