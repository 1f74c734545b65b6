use crate::branches::scale::{in_words, median, p95, ratio, row, script};
use duramen_base::entropy;
use duramen_measure::evidence::{Evidence, Measurement};

#[test]
fn the_median_of_an_even_number_lies_between_the_middle_two() {
    assert_eq!(median(&[]), 0.0);
    assert_eq!(median(&[3.0]), 3.0);
    assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
}

#[test]
fn the_ratio_is_that_of_the_figures_within_its_interval() {
    let (small, large) = ([3.0, 3.1, 2.9], [4.5, 4.6, 4.4]);
    let (found, low, high) = ratio(&small, &large, median, &mut entropy::rng(1)).unwrap();
    assert_eq!(found, 1.5);
    assert!(low <= found && found <= high && low > 1.0, "{low} {high}");
    let large: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(ratio(&[1.0], &large, p95, &mut entropy::rng(1)).unwrap().0, 95.0);
}

/// C11: a report does not say "met" and "no detectable difference" of the same figure as if both were certain.
#[test]
fn a_ratio_is_told_in_the_same_words_as_its_target() {
    use crate::branches::targets::standings;
    let words = |low, high| in_words([low, high], Some(1.2));
    assert_eq!(words(0.9, 1.1), ": no detectable difference, and less than 1.2");
    assert!(words(0.7, 2.0).contains("neither a difference nor on which side of the target of 1.2"));
    assert!(words(1.1, 1.3).contains("on which side of the target of 1.2"));
    assert_eq!((words(1.3, 1.4), words(1.05, 1.1)), (String::new(), String::new()));
    let mut evidence = super::evidence("events", "session", 100, 100);
    evidence.configure("scale", vec![1, 2]);
    let measured = Measurement::scalar("scale_lease_p50_ratio", "ratio", 1.1);
    evidence.measurements.push(measured);
    let outcome = |evidence: &Evidence| {
        let standing = standings(evidence).into_iter().find(|it| it.name == "scale_lease_p50_ratio");
        standing.unwrap().outcome_in_words()
    };
    assert_eq!(outcome(&evidence), "met");
    evidence.keep_interval("scale_lease_p50_ratio", [0.7, 2.0], 0.95);
    assert_eq!(outcome(&evidence), "met, within its interval");
    evidence.keep_interval("scale_lease_p50_ratio", [0.9, 1.1], 0.95);
    assert_eq!(outcome(&evidence), "met");
}

#[test]
fn the_interval_can_be_replayed() {
    let values = [1.0, 2.0, 3.0];
    let of = || ratio(&values, &values, median, &mut entropy::rng(7)).unwrap();
    assert_eq!(of(), of());
}

#[test]
fn there_is_no_ratio_to_nothing() {
    assert_eq!(ratio(&[], &[1.0], median, &mut entropy::rng(1)), None);
    assert_eq!(ratio(&[], &[], p95, &mut entropy::rng(1)), None);
}

#[test]
fn the_script_makes_the_rows_that_are_expected() {
    assert!(script(200_000_000).contains("generate_series(1, 200000000::bigint)"));
    assert_eq!(row(1), "[[2,-19,1]]");
    assert_eq!(row(200_000_000), "[[1,-20,0]]");
}
