use super::{cut, nanoseconds};

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(cut("\u{e9}\u{e9}\u{e9}", 3), "\u{e9}");
    assert_eq!(cut("short", 200), "short");
}

#[test]
fn times_that_a_collector_cannot_hold_are_the_nearest_that_it_can() {
    assert_eq!(nanoseconds(jiff::Timestamp::MIN), 0);
    assert_eq!(nanoseconds(jiff::Timestamp::MAX), u64::MAX);
    assert_eq!(nanoseconds(jiff::Timestamp::from_second(1).unwrap()), 1_000_000_000);
}
