use super::*;

fn written(histogram: &Histogram, label: &str) -> String {
    let mut text = String::new();
    histogram.write(&mut text, "x", label);
    text
}

#[test]
fn a_duration_counts_up_to_its_bound_and_not_below() {
    let histogram = Histogram::default();
    histogram.record(Duration::from_micros(500));
    histogram.record(Duration::from_micros(501));
    histogram.record_many(Duration::from_millis(25), 3);
    histogram.record(Duration::from_secs(604_801));
    let text = written(&histogram, "");
    for line in [
        "x_bucket{le=\"0.0005\"} 1",
        "x_bucket{le=\"0.001\"} 2",
        "x_bucket{le=\"0.01\"} 2",
        "x_bucket{le=\"0.025\"} 5",
        "x_bucket{le=\"604800\"} 5",
        "x_bucket{le=\"+Inf\"} 6",
        "x_count 6",
        "x_sum 604801.076001",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert_eq!(histogram.count(), 6);
}

#[test]
fn bounds_ascend_and_labels_come_first() {
    assert!(BOUNDS_US.is_sorted_by(|a, b| a < b));
    let text = written(&Histogram::default(), "status=\"failed\"");
    assert_eq!(text.lines().count(), BOUNDS_US.len() + 3);
    assert!(text.starts_with("x_bucket{status=\"failed\",le=\"0.0005\"} 0\n"), "{text}");
    assert!(text.ends_with("x_sum{status=\"failed\"} 0\nx_count{status=\"failed\"} 0\n"), "{text}");
}

#[test]
fn what_has_no_end_does_not_wrap_the_sum() {
    let histogram = Histogram::default();
    histogram.record_many(Duration::MAX, 7);
    assert_eq!(histogram.count(), 7);
    assert!(written(&histogram, "").contains("x_bucket{le=\"+Inf\"} 7"));
}
