//! What can be asked for, and how much that is.

use crate::functions::options::Sizes;
use crate::functions::{Options, Phase, FULL_SECONDS};
use duramen_reports::suite::{run, SuiteError};
use std::time::Duration;

fn sizes(phase: Phase, seconds: f64, minutes: Option<f64>) -> Sizes {
    Options { phase, seconds, minutes, ..Options::new("anywhere", "duramen") }.sizes()
}

#[test]
fn a_full_run_has_the_counts_that_the_targets_are_for() {
    let full = sizes(Phase::All, FULL_SECONDS, None);
    assert_eq!((full.worker_kills, full.postgres_kills), (50, 10));
    assert_eq!((full.backlog, full.listing), (50_000, 100_000));
    assert_eq!(full.soak, Duration::from_secs(60));
    assert!(full.idle >= Duration::from_secs(15));
    assert_eq!(sizes(Phase::All, 60.0, None), Sizes { slice: Duration::from_secs(60), ..full });
    assert!(Sizes::are_all_kills(50, 10) && !Sizes::are_all_kills(49, 10) && !Sizes::are_all_kills(50, 9));
}

#[test]
fn a_short_run_has_fewer_of_everything_but_at_least_one() {
    let short = sizes(Phase::All, 1.0, None);
    assert_eq!((short.worker_kills, short.postgres_kills), (10, 2));
    assert_eq!((short.backlog, short.listing), (10_000, 20_000));
    assert_eq!(short.soak, Duration::from_secs(12));
    let least = sizes(Phase::All, 0.2, None);
    assert!(least.worker_kills >= 1 && least.postgres_kills >= 1);
}

#[test]
fn a_soak_is_long_when_it_is_asked_for_by_name_and_as_long_as_is_said() {
    assert_eq!(sizes(Phase::Soak, 1.0, None).soak, Duration::from_secs(600));
    assert_eq!(sizes(Phase::Soak, 1.0, Some(0.5)).soak, Duration::from_secs(30));
    assert_eq!(sizes(Phase::All, 5.0, Some(3.0)).soak, Duration::from_secs(180));
}

#[test]
fn phases_have_names_and_throughput_includes_the_calibration() {
    for phase in Phase::ALL {
        assert_eq!(phase.name().parse(), Ok(phase));
        assert!(Phase::All.includes(phase) && phase.includes(phase));
        let others = Phase::ALL.into_iter().filter(|other| phase.includes(*other)).count();
        let expected = match phase {
            Phase::All => Phase::ALL.len(),
            Phase::Throughput => 2,
            Phase::Quick => 3,
            _ => 1,
        };
        assert_eq!(others, expected, "{phase:?}");
    }
    let error = "sauna".parse::<Phase>().unwrap_err();
    assert!(error.contains("sauna") && error.contains("calibration"), "{error}");
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let sound = || Options::new(dir.path(), "duramen");
    let refused = [
        (Options { seconds: 0.0, ..sound() }, "--seconds"),
        (Options { seconds: f64::NAN, ..sound() }, "--seconds"),
        (Options { minutes: Some(-1.0), ..sound() }, "--minutes"),
        (Options { connections: 0, ..sound() }, "--connections"),
    ];
    for (options, word) in refused {
        let error = run(&options, &|_| {}).unwrap_err();
        assert!(matches!(error, SuiteError::Options(_)), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
