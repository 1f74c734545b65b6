use crate::branches::scale::{median, ratio, Costs};
use duramen_base::entropy;

#[test]
fn the_median_of_an_even_number_lies_between_the_middle_two() {
    assert_eq!(median(&[]), 0.0);
    assert_eq!(median(&[3.0]), 3.0);
    assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
}

#[test]
fn the_ratio_is_that_of_the_sums_of_medians_within_its_interval() {
    let small = Costs { lease_ms: vec![1.0, 1.1, 0.9], clone_ms: vec![3.0, 3.1, 2.9] };
    let large = Costs { lease_ms: vec![1.0, 1.2, 0.8], clone_ms: vec![5.0, 5.1, 4.9] };
    let (ratio, low, high) = ratio(&small, &large, &mut entropy::rng(1)).unwrap();
    assert_eq!(ratio, 1.5);
    assert!(low <= ratio && ratio <= high && low > 1.0, "{low} {high}");
}

#[test]
fn the_interval_can_be_replayed() {
    let small = Costs { lease_ms: vec![1.0, 2.0], clone_ms: vec![3.0] };
    let of = || ratio(&small, &small, &mut entropy::rng(7)).unwrap();
    assert_eq!(of(), of());
}

#[test]
fn there_is_no_ratio_to_nothing() {
    let some = Costs { lease_ms: vec![1.0], clone_ms: vec![1.0] };
    assert_eq!(ratio(&Costs::default(), &some, &mut entropy::rng(1)), None);
}
