//! Figures against targets.

use crate::packs::targets::{standings, TARGETS};
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::host::Host;
use duramen_measure::target::missed;

#[test]
fn a_figure_on_its_target_meets_it_and_one_beyond_is_told() {
    let host = Host::fingerprint(&std::env::temp_dir()).unwrap();
    for target in TARGETS {
        let outcome = |measured: f64| {
            let mut evidence = Evidence::new("packs", host.clone());
            match target.figure.against {
                // A factor: the other engine takes `measured` times as long.
                Some(other) => {
                    evidence.measurements.push(Measurement::scalar(target.figure.name, "ms", 1.0));
                    evidence.measurements.push(Measurement::scalar(other, "ms", measured));
                }
                None => {
                    evidence.measurements.push(Measurement::scalar(target.figure.name, target.unit, measured))
                }
            }
            let standings = standings(&evidence);
            let met = !standings.iter().find(|row| row.what == target.what).unwrap().is_missed();
            evidence.findings = missed(&standings);
            assert_eq!(met, evidence.findings.is_empty(), "{}", target.what);
            met
        };
        let beyond = if target.at_least { 0.99 } else { 1.01 };
        assert!(outcome(target.limit), "{}", target.what);
        assert!(!outcome(target.limit * beyond), "{}", target.what);
    }
    assert!(
        standings(&Evidence::new("packs", host)).is_empty(),
        "what was not measured meets and misses nothing"
    );
}
