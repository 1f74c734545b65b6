use duramen_base::entropy;

use super::Sampler;

#[test]
fn each_sampler_does_what_its_name_says() {
    let id = [7; 16];
    let samples = |name, argument, parent| Sampler::parse(name, argument).unwrap().samples(&id, parent);
    assert!(samples(None, None, None));
    assert!(!samples(None, None, Some(false)));
    assert!(samples(Some("always_on"), None, Some(false)));
    assert!(!samples(Some("always_off"), None, Some(true)));
    assert!(samples(Some("parentbased_always_off"), None, Some(true)));
    assert!(!samples(Some("parentbased_always_off"), None, None));
    assert!(!samples(Some("parentbased_traceidratio"), Some("0"), None));
    assert!(samples(Some("parentbased_traceidratio"), Some("0"), Some(true)));
    assert!(samples(Some("traceidratio"), None, None));
}

#[test]
fn a_share_is_kept() {
    let sampler = Sampler::parse(Some("traceidratio"), Some("0.25")).unwrap();
    let sampled = (0..4_000).filter(|_| sampler.samples(&entropy::random_bytes(), None)).count();
    assert!((800..1_200).contains(&sampled), "{sampled} of 4,000");
}

#[test]
fn what_is_not_understood_is_refused() {
    for (name, argument) in [
        (Some("xray"), None),
        (Some("parentbased_"), None),
        (Some("traceidratio"), Some("1.5")),
        (Some("traceidratio"), Some("NaN")),
        (Some("traceidratio"), Some("half")),
    ] {
        assert!(Sampler::parse(name, argument).is_err(), "{name:?} {argument:?}");
    }
}
