use duramen_measure::evidence::{Evidence, Verdict};
use duramen_measure::host::Host;

use super::{digits, median, Results};
use crate::rows::{Better, Metric};

const FAST: Metric = Metric { name: "fast", unit: "us", better: Better::Less, shown: true };
const MANY: Metric = Metric { name: "many", unit: "k/s", better: Better::More, shown: true };
const FLOOR: Metric = Metric { name: "floor", unit: "us", better: Better::Neither, shown: true };
const ENGINES: [&str; 3] = ["duramen", "a", "b"];

fn results() -> Results {
    let mut results = Results::default();
    for (metric, ours, a, b) in [(FAST, 2.0, 1.0, 4.0), (MANY, 30.0, 10.0, 20.0), (FLOOR, 1.0, 2.0, 3.0)] {
        results.add(&metric, "duramen", ours);
        results.add(&metric, "a", a);
        results.add(&metric, "b", b);
    }
    results
}

fn line(table: &str, row: &str) -> String {
    table.lines().find(|line| line.starts_with(row)).expect("the row is in the table").to_owned()
}

#[test]
fn ours_is_compared_with_the_best_peer_in_the_direction_of_the_metric() {
    let table = results().table(&[FAST, MANY, FLOOR], &ENGINES);
    assert!(line(&table, "fast").ends_with("2.00 (a) LOST"), "{table}");
    assert!(line(&table, "many").ends_with("1.50 (b)"), "{table}");
    assert!(line(&table, "floor").ends_with("3.00"), "a floor is nobody's to win: {table}");
}

#[test]
fn the_best_peer_is_named_without_ours() {
    let mut results = Results::default();
    results.add(&FAST, "a", 1.0);
    results.add(&FAST, "b", 2.0);
    let table = results.table(&[FAST], &["a", "b"]);
    assert!(line(&table, "fast").ends_with("- (a)"), "{table}");
}

#[test]
fn repetitions_show_their_median_and_range() {
    let mut results = Results::default();
    for value in [5.0, 1.0, 2.0, 3.0] {
        results.add(&FAST, "a", value);
    }
    let table = results.table(&[FAST], &["a"]);
    assert!(line(&table, "fast").contains("2.50 (1.00..5.00)"), "{table}");
}

#[test]
fn an_engine_that_failed_once_has_no_figure_and_fails_the_run() {
    let mut results = results();
    assert!(results.is_clean());
    results.fail(&FAST, "a", "it lied".to_owned());
    let table = results.table(&[FAST], &ENGINES);
    assert!(line(&table, "fast").contains("FAILED") && !results.is_clean(), "{table}");
    assert!(line(&table, "fast").ends_with("0.50 (b)"), "who failed is no peer: {table}");
    assert_eq!(results.failures(), ["fast of a: it lied"]);

    let host = Host::fingerprint(&std::env::temp_dir()).expect("the host tells of itself");
    let mut evidence = Evidence::new("peers", host);
    results.tell(&mut evidence, &[FAST], &ENGINES);
    assert_eq!(evidence.finish(), Verdict::Fail);
    assert!(evidence.measurement("fast/a").is_none() && evidence.measurement("fast/b").is_some());
}

#[test]
fn medians_and_digits() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0]), 2.5);
    assert_eq!([0.1234, 1.234, 12.34, 1234.5].map(digits), ["0.123", "1.23", "12.3", "1234"]);
}
