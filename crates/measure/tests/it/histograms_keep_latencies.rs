//! What goes into a histogram comes out of it, also after merging and being written down.

use std::time::Duration;

use duramen_measure::histogram::{HistogramError, LatencyHistogram};

fn millis(range: impl Iterator<Item = u64>) -> LatencyHistogram {
    range.map(Duration::from_millis).collect()
}

fn close(found: Duration, expected: Duration) -> bool {
    found.abs_diff(expected).as_secs_f64() <= expected.as_secs_f64() * 0.002
}

#[test]
fn quantiles_are_exact_to_three_digits() {
    let latencies = millis(1..=1000);
    for (q, ms) in [(0.5, 500), (0.9, 900), (0.95, 950), (0.99, 990), (1.0, 1000)] {
        assert!(close(latencies.quantile(q), Duration::from_millis(ms)), "{q}: {:?}", latencies.quantile(q));
    }
    assert!(close(latencies.mean(), Duration::from_micros(500_500)));
    assert_eq!(latencies.count(), 1000);
}

#[test]
fn merging_equals_recording_everything_in_one() {
    let mut odd = millis((1..=999).step_by(2));
    odd.merge(&millis((2..=1000).step_by(2)));
    assert_eq!(odd, millis(1..=1000));
}

#[test]
fn extremes_are_counted_and_not_lost() {
    let mut latencies = LatencyHistogram::new();
    latencies.record(Duration::ZERO);
    latencies.record(Duration::from_nanos(700));
    latencies.record(Duration::from_secs(7 * 3600));
    latencies.record(Duration::MAX);
    assert_eq!(latencies.count(), 4);
    assert!(close(latencies.max(), Duration::from_secs(3600)));
    assert!(latencies.quantile(-1.0) < Duration::from_micros(1));
    assert!(latencies.quantile(f64::NAN) <= latencies.max());
}

#[test]
fn an_empty_histogram_is_all_zero() {
    let empty = LatencyHistogram::new();
    assert!(empty.is_empty() && empty.distribution().is_empty());
    assert_eq!(empty.summary_ms(), Default::default());
}

#[test]
fn the_distribution_rises_to_one() {
    let points = millis(1..=50).distribution();
    assert_eq!(points.len(), 50);
    assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
    assert_eq!(points[49].1, 1.0);
}

#[test]
fn text_round_trips() {
    for latencies in [LatencyHistogram::new(), millis(1..=1), millis((1..=5000).step_by(7))] {
        let back = LatencyHistogram::from_base64_v2(&latencies.to_base64_v2()).unwrap();
        assert_eq!(back, latencies);
        assert_eq!(back.summary_ms(), latencies.summary_ms());
    }
}

#[test]
fn foreign_text_is_refused() {
    let not_base64 = LatencyHistogram::from_base64_v2("not base64!");
    assert!(matches!(not_base64, Err(HistogramError::Base64(_))), "{not_base64:?}");
    let not_hdr = LatencyHistogram::from_base64_v2("AAAAAAAA");
    assert!(matches!(not_hdr, Err(HistogramError::Encoding(_))), "{not_hdr:?}");

    let text = millis(1..=10).to_base64_v2();
    let cut = LatencyHistogram::from_base64_v2(&text[..text.len() / 8 * 4]);
    assert!(cut.is_err(), "{cut:?}");
}

#[test]
fn a_histogram_of_another_shape_is_refused() {
    use base64::Engine;
    use hdrhistogram::serialization::{Serializer, V2Serializer};

    let other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&other, &mut bytes).unwrap();
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let refused = LatencyHistogram::from_base64_v2(&text);
    assert!(matches!(refused, Err(HistogramError::Shape { digits: 2, .. })), "{refused:?}");
}

#[test]
fn a_fine_histogram_tells_nanoseconds_apart_and_round_trips() {
    let mut fine = LatencyHistogram::fine();
    fine.extend((1..=1000).map(Duration::from_nanos));
    assert_eq!(fine.quantile(0.25), Duration::from_nanos(250));
    assert_eq!(fine.quantile(0.5), Duration::from_nanos(500));
    assert_eq!(fine.min(), Duration::from_nanos(1));
    let back = LatencyHistogram::from_base64_v2(&fine.to_base64_v2()).unwrap();
    assert_eq!(back, fine);

    fine.record(Duration::MAX);
    assert!(close(fine.max(), Duration::from_secs(3600)));
    let mut more = LatencyHistogram::fine();
    more.merge(&fine);
    more.merge(&millis(1..=10));
    assert_eq!(more.count(), 1011);
    assert_eq!(more.quantile(0.25), Duration::from_nanos(253));

    // A coarse one takes fine latencies too, and keeps its own resolution.
    let mut coarse = LatencyHistogram::new();
    coarse.merge(&fine);
    assert_eq!(coarse.count(), 1001);
}

#[test]
fn figures_in_microseconds_keep_the_nanoseconds() {
    let mut fine = LatencyHistogram::fine();
    fine.extend([120, 130, 140].map(Duration::from_nanos));
    let figures = duramen_measure::evidence::Measurement::from_histogram_us("get", &fine);
    assert_eq!((figures.unit.as_str(), figures.count), ("us", 3));
    assert_eq!((figures.min, figures.p50, figures.max), (0.12, 0.13, 0.14));
    assert!((figures.mean - 0.13).abs() < 1e-9);
}
