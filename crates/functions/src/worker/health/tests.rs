use super::*;

/// Health of a worker that began so long ago and has heard and moved at its beginning only.
fn aged(seconds: u64) -> Health {
    let mut health = Health::new();
    health.began = health.began.checked_sub(Duration::from_secs(seconds)).expect("the machine runs longer");
    health
}

#[test]
fn a_silent_database_is_noticed_and_a_lost_one_sooner() {
    assert_eq!(aged(19).check(), Ok(()));
    assert_eq!(aged(21).check(), Err(Unhealthy::Silent(21)));
    let health = aged(6);
    assert_eq!(health.check(), Ok(()));
    health.loses();
    assert_eq!(health.check(), Err(Unhealthy::Lost(6)));
    health.hears();
    assert_eq!(health.check(), Ok(()));
    // A moment without a connection is none.
    health.loses();
    assert_eq!(health.check(), Ok(()));
}

#[test]
fn a_worker_that_hangs_is_noticed_though_the_database_answers() {
    let health = aged(61);
    health.hears();
    assert_eq!(health.check_motion(), Err(Unhealthy::Still(61)));
    health.moves();
    assert_eq!(health.check_motion(), Ok(()));
}
