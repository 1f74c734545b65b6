use crate::branches::pool::newer;
use crate::branches::rounds::RoundFigures;
use duramen_api::model::RefillReport;

fn report(branches: u32, clone_ms: f64) -> RefillReport {
    RefillReport { branches, clone_ms, start_ms: 2.0, connect_ms: 3.0, ..RefillReport::default() }
}

fn clones(reports: &[RefillReport]) -> Vec<f64> {
    reports.iter().map(|report| report.clone_ms).collect()
}

#[test]
fn only_reports_that_were_not_there_before_are_newer() {
    let before = [report(1, 1.0), report(1, 2.0)];
    let after = [report(1, 1.0), report(1, 2.0), report(1, 3.0)];
    assert_eq!(clones(newer(&before, &after)), [3.0]);
    assert!(newer(&after, &after).is_empty());
    assert_eq!(clones(newer(&[], &after)), [1.0, 2.0, 3.0]);
}

#[test]
fn reports_that_fell_out_of_the_list_do_not_confuse() {
    let before = [report(1, 1.0), report(1, 2.0), report(1, 3.0)];
    let after = [report(1, 3.0), report(1, 4.0), report(1, 5.0)];
    assert_eq!(clones(newer(&before, &after)), [4.0, 5.0]);
    assert_eq!(clones(newer(&before, &[report(1, 8.0)])), [8.0]);
}

#[test]
fn the_phases_of_a_round_are_sums_over_its_reports() {
    let mut figures = RoundFigures::default();
    figures.add_reports(&[]);
    assert_eq!(figures.clone_ms, None);
    figures.add_reports(&[report(60, 10.0), report(40, 5.0)]);
    assert_eq!((figures.clone_ms, figures.start_ms, figures.connect_ms), (Some(15.0), Some(4.0), Some(6.0)));
}
