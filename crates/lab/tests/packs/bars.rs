//! Figures against bars.

use duramen_lab::packs::bars::{compare, missed, BARS};
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::host::Host;

#[test]
fn a_figure_on_its_bar_meets_it_and_one_beyond_is_told() {
    let host = Host::fingerprint(&std::env::temp_dir()).unwrap();
    for bar in BARS {
        let outcome = |measured: f64| {
            let mut evidence = Evidence::new("packs", host.clone());
            match bar.against {
                // A factor: the other engine takes `measured` times as long.
                Some(other) => {
                    evidence.measurements.push(Measurement::scalar(bar.name, "ms", 1.0));
                    evidence.measurements.push(Measurement::scalar(other, "ms", measured));
                }
                None => evidence.measurements.push(Measurement::scalar(bar.name, bar.unit, measured)),
            }
            let met = compare(&evidence).iter().find(|row| row.bar.what == bar.what).unwrap().is_met();
            evidence.findings = missed(&evidence);
            assert_eq!(met, evidence.findings.is_empty(), "{}", bar.what);
            met
        };
        let beyond = if bar.at_least { 0.99 } else { 1.01 };
        assert!(outcome(bar.limit), "{}", bar.what);
        assert!(!outcome(bar.limit * beyond), "{}", bar.what);
    }
    assert!(
        compare(&Evidence::new("packs", host)).is_empty(),
        "what was not measured meets and misses nothing"
    );
}
