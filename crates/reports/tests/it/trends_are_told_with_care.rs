//! A change is told where there are enough runs that are alike, and not where there is none.

use crate::support::{run, LOWER};
use duramen_reports::trends::{self, print_figures, print_series, series, Better, Outcome, LEAST_RUNS};
use duramen_reports::Document;

/// Runs an hour apart.
fn runs(values: &[f64]) -> Vec<Document> {
    values.iter().enumerate().map(|(hour, value)| run(i64::try_from(hour).unwrap(), *value, 1.0)).collect()
}

#[test]
fn what_got_slower_is_told_with_its_interval() {
    let found = series(&runs(&[5.0, 5.1, 4.9, 5.0, 7.5, 7.6, 7.4, 7.5]), 50, LOWER);
    let [one] = found.as_slice() else { panic!("one series: {found:?}") };
    let put = &one.figures[0];
    assert_eq!((put.outcome, put.words.as_str()), (Outcome::Worse, "slower by 50 %"));
    assert_eq!((put.before, put.before_count, put.last, put.last_count), (Some(5.0), 4, Some(7.5), 4));
    let change = put.change.unwrap();
    assert!(change.low > 2.0 && change.high < 3.0 && change.low < 2.5 && change.high > 2.5, "{change:?}");
    // A count that never changed is not a change, however sure that is.
    assert_eq!(one.figures[1].outcome, Outcome::NoChange);
    assert_eq!(one.comparisons, 2);
    assert_eq!(one.claims().len(), 1);
    let text = print_figures(one, 9);
    assert!(text.contains("WORSE: slower by 50 %") && text.contains("no change seen"), "{text}");
    assert!(print_series(&found).contains("1 of 2 figures"), "{}", print_series(&found));
}

#[test]
fn the_direction_that_is_better_is_the_callers() {
    let rising = runs(&[5.0, 5.1, 4.9, 7.5, 7.6, 7.4]);
    for (better, outcome) in [
        (Better::Lower, Outcome::Worse),
        (Better::Higher, Outcome::Better),
        (Better::Neither, Outcome::Changed),
    ] {
        assert_eq!(series(&rising, 50, &|_, _| better)[0].figures[0].outcome, outcome);
    }
}

#[test]
fn nothing_is_told_of_fewer_runs_than_it_takes() {
    let five = series(&runs(&[5.0, 5.0, 5.0, 50.0, 50.0]), 50, LOWER);
    let put = &five[0].figures[0];
    assert_eq!((put.outcome, put.change), (Outcome::TooFew, None));
    assert_eq!(put.words, format!("too few: 5 of {LEAST_RUNS}"));
    // Also when only so many are asked for.
    let cut = series(&runs(&[5.0, 5.1, 4.9, 50.0, 50.1, 49.9]), 5, LOWER);
    assert_eq!((cut[0].runs.len(), cut[0].figures[0].outcome), (5, Outcome::TooFew));
    assert_eq!(series(&runs(&[5.0]), 50, LOWER)[0].figures[0].last, Some(5.0));
}

#[test]
fn runs_that_are_the_same_have_no_change_in_nearly_all_cases() {
    let mut rng = duramen_base::entropy::rng(7);
    let told = (0..200)
        .filter(|_| {
            let values: Vec<f64> = (0..10).map(|_| 5.0 + rng.f64()).collect();
            !series(&runs(&values), 50, LOWER)[0].claims().is_empty()
        })
        .count();
    assert!(told <= 18, "told of {told} in 200: five in a hundred is the promise");
}

#[test]
fn other_versions_settings_and_machines_are_other_series() {
    let mut all = runs(&[5.0, 5.1, 4.9, 5.0, 5.0, 9.0, 9.1, 9.2, 9.3]);
    all[5].evidence.version = "0.2.0".to_owned();
    all[6].evidence.configure("rows", 2_000);
    all[7].evidence.host.cores = 64;
    all[8].evidence.suite = "packs".to_owned();
    let found = series(&all, 50, LOWER);
    let sizes: Vec<_> = found.iter().map(|one| (one.suite.as_str(), one.runs.len())).collect();
    assert_eq!(sizes, [("packs", 1), ("store", 1), ("store", 1), ("store", 1), ("store", 5)]);
    assert!(found.iter().all(|one| one.claims().is_empty()));
}

/// C9.
#[test]
fn other_clusters_topologies_settings_and_kernels_are_kept_apart_and_named() {
    let mut all = runs(&[9.0, 9.1, 9.2, 9.3, 5.0, 5.0]);
    for run in &mut all {
        run.evidence.configure("system_identifier", "7301");
        run.evidence.configure("topology", "a primary and 1 standby");
        run.evidence.configure("primary.shared_buffers", "128MB");
    }
    all[0].evidence.configure("system_identifier", "9944");
    all[1].evidence.configure("topology", "a primary and 2 standbys");
    all[2].evidence.configure("primary.shared_buffers", "1GB");
    all[3].evidence.host.kernel = "Linux 5.10 x86_64".to_owned();
    let found = series(&all, 50, LOWER);
    assert_eq!(found.iter().map(|one| one.runs.len()).collect::<Vec<_>>(), [2, 1, 1, 1, 1]);
    assert!(found[0].differs.is_empty(), "{:?}", found[0].differs);
    let named: Vec<Vec<&str>> =
        found.iter().map(|one| one.differs.iter().map(|it| it.what.as_str()).collect()).collect();
    let expected: [&[&str]; 5] =
        [&[], &["kernel"], &["primary.shared_buffers"], &["topology"], &["system_identifier"]];
    assert_eq!(named, expected);
    let buffers = &found[2].differs[0];
    assert_eq!((buffers.here.as_deref(), buffers.there.as_deref()), (Some("1GB"), Some("128MB")));
    let texts = [print_series(&found), print_figures(&found[2], 9), trends::page(&found[..3]).render()];
    for text in &texts[..2] {
        assert!(text.contains("primary.shared_buffers 1GB (newest: 128MB)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}

/// C10.
#[test]
fn a_run_that_failed_is_a_mark_and_in_no_median() {
    let mut all = runs(&[5.0, 5.1, 4.9, 50.0, 5.0, 7.5, 7.6, 7.4, 7.5]);
    all[3].evidence.check("what was written was read", false, "it was not");
    all[3].evidence.decide();
    let found = series(&all, 50, LOWER);
    let put = &found[0].figures[0];
    assert_eq!((put.values[3], found[0].runs[3].is_point), (None, false));
    assert_eq!((put.before, put.before_count, put.outcome), (Some(5.0), 4, Outcome::Worse));
    assert!(put.change.unwrap().high < 4.0, "{:?}", put.change);
    assert!(found[0].doubts()[0].contains("1 of them failed"), "{:?}", found[0].doubts());
    let text = print_figures(&found[0], 9);
    let row = text.lines().find(|line| line.contains("put/strict ")).unwrap();
    let course = row.split('|').nth(2).unwrap().trim();
    assert_eq!((course.chars().count(), course.chars().nth(3)), (9, Some('x')), "{text}");
    let page = trends::page(&found).render();
    assert!(page.contains("fail, no point"), "the chart sets the failed run off");
}

#[test]
fn what_was_not_seen_to_happen_gives_no_values() {
    let mut all = runs(&[5.0, 5.1, 4.9, 5.0, 7.5, 7.6, 7.4, 7.5]);
    all[7].evidence.invalidate("nothing happened");
    all[6].evidence.host.load_average[0] = 9.0;
    let found = series(&all, 50, LOWER);
    assert_eq!(found[0].figures[0].values[6..], [Some(7.4), None]);
    assert_eq!(found[0].doubts().len(), 2, "{:?}", found[0].doubts());
    let text = print_figures(&found[0], 9);
    assert!(text.contains("1 of them invalid") && text.contains("busy when 1"), "{text}");
}

#[test]
fn a_run_that_is_there_twice_counts_once() {
    let mut all = runs(&[5.0, 6.0]);
    all.extend(all.clone());
    assert_eq!(series(&all, 50, LOWER)[0].runs.len(), 2);
}

#[test]
fn figures_that_came_or_went_have_gaps() {
    let mut all = runs(&[5.0, 5.1, 4.9]);
    all[0].evidence.measurements.clear();
    all[2].evidence.measurements[0].unit = "ms".to_owned();
    let found = series(&all, 50, LOWER);
    let of = |unit: &str| &found[0].figures.iter().find(|figure| figure.unit == unit).unwrap().values;
    assert_eq!(of("us"), &[None, Some(5.1), None]);
    assert_eq!(of("ms"), &[None, None, Some(4.9)]);
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    let text = print_figures(&series(&runs(&[5.0]), 50, LOWER)[0], 1);
    assert!(text.contains("1 more figures; --figure GLOB"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}
