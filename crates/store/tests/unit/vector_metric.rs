use super::*;

#[test]
fn names_go_both_ways() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::Euclidean] {
        assert_eq!(metric.to_string().parse(), Ok(metric));
        let json = serde_json::to_string(&metric).unwrap();
        assert_eq!(json, format!("\"{metric}\""));
        assert_eq!(serde_json::from_str::<Metric>(&json).unwrap(), metric);
    }
    assert_eq!("l2".parse::<Metric>(), Err(VectorError::UnknownMetric { name: "l2".into() }));
    assert_eq!(format!("[{:>7}]", Metric::Dot), "[    dot]");
}

#[test]
fn scores_of_known_vectors() {
    let score = |metric: Metric, a: &[f32], b: &[f32]| metric.score(a, b);
    assert_eq!(score(Metric::Dot, &[1.0, 2.0, 3.0], &[4.0, -5.0, 6.0]), 12.0);
    assert_eq!(score(Metric::Euclidean, &[1.0, 1.0], &[4.0, 5.0]), -5.0);
    assert_eq!(score(Metric::Cosine, &[3.0, 0.0], &[0.5, 0.0]), 1.0);
    assert_eq!(score(Metric::Cosine, &[3.0, 0.0], &[-0.5, 0.0]), -1.0);
    assert!((score(Metric::Cosine, &[1.0, 0.0], &[1.0, 1.0]) - 0.5f64.sqrt()).abs() < 1e-15);
    // Nine elements: one more than there are lanes.
    assert_eq!(score(Metric::Dot, &[1.0; 9], &[2.0; 9]), 18.0);
    assert_eq!(Metric::Euclidean.distance(-5.0), 5.0);
    assert_eq!(Metric::Cosine.distance(1.0), 0.0);
    assert_eq!(Metric::Dot.distance(-3.0), 3.0);
    for zero in
        [Metric::Euclidean.distance(0.0), Metric::Dot.distance(0.0), Metric::Dot.score(&[-0.0], &[1.0])]
    {
        assert!(zero.is_sign_positive());
    }
}

#[test]
fn extremes_keep_their_meaning() {
    let (huge, tiny) = ([f32::MAX; 4], [f32::from_bits(1); 4]);
    for vector in [huge, tiny] {
        assert!((Metric::Cosine.score(&vector, &vector) - 1.0).abs() < 1e-12);
        assert!(Metric::Dot.score(&vector, &vector) > 0.0);
        assert!(Metric::Dot.score(&vector, &vector).is_finite());
        assert_eq!(Metric::Euclidean.score(&vector, &vector), 0.0);
    }
    assert!((Metric::Cosine.score(&huge, &tiny) - 1.0).abs() < 1e-12);
    let opposite = huge.map(|x| -x);
    assert_eq!(Metric::Euclidean.score(&huge, &opposite), -4.0 * f64::from(f32::MAX));
}
