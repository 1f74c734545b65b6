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
