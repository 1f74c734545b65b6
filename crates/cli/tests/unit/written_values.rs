//! A value that is read wrongly does something else than was asked for, so what is doubtful is refused.

use super::{setting, size, span, ttl, HotSize};
use duramen_api::model::Policy;
use std::time::Duration;

#[test]
fn leases_may_be_asked_to_end_in_the_past() {
    assert_eq!(ttl("1h"), Ok(3600));
    assert_eq!(ttl("90"), Ok(90));
    assert_eq!(ttl("-5s"), Ok(-5));
    assert_eq!(ttl("0"), Ok(0));
    // A lease is never shorter than what was asked for.
    assert_eq!(ttl("1500ms"), Ok(2));
    assert!(ttl("soon").is_err());
    assert!(ttl("--5").is_err());
}

#[test]
fn spans_have_units_or_are_seconds() {
    assert_eq!(span("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(span("5"), Ok(Duration::from_secs(5)));
    assert!(span("-5s").is_err());
}

#[test]
fn sizes_are_powers_of_1024() {
    assert_eq!(size("64G"), Ok(64 << 30));
    assert_eq!(size("512MiB"), Ok(512 << 20));
    assert_eq!(size("1048576"), Ok(1 << 20));
    for wrong in ["", "G", "1.5G", "-1", "10 apples", "99999999999T"] {
        assert!(size(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn hot_sizes_may_name_a_policy() {
    assert_eq!("100".parse(), Ok(HotSize { policy: None, count: 100 }));
    assert_eq!("ddl=0".parse(), Ok(HotSize { policy: Some(Policy::Ddl), count: 0 }));
    for wrong in ["", "many", "write=1", "ddl=", "=1", "-1"] {
        assert!(wrong.parse::<HotSize>().is_err(), "{wrong}");
    }
}

#[test]
fn settings_have_a_name() {
    assert_eq!(setting("work_mem=8MB"), Ok(("work_mem".to_owned(), "8MB".to_owned())));
    assert_eq!(setting("work_mem="), Ok(("work_mem".to_owned(), String::new())));
    assert!(setting("=8MB").is_err());
    assert!(setting("work_mem").is_err());
}
