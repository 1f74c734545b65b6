//! What is open has a bound, and ends.

use super::Shelf;
use crate::limits::{OPEN_MAX, UNUSED};
use duramen_api::attachments::AttachmentKind;
use duramen_base::clock;
use duramen_store::{Options, Store};
use std::time::Duration;

#[test]
fn no_more_are_open_than_may_be_and_those_that_nobody_looks_at_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::new();
    let place = |number: usize| dir.path().join(number.to_string()).to_str().unwrap().to_owned();
    for number in 0..OPEN_MAX + 2 {
        Store::open(place(number), Options::default()).unwrap().close().unwrap();
        shelf.store(AttachmentKind::Store, &place(number)).unwrap();
        assert_eq!(shelf.open(), (number + 1).min(OPEN_MAX));
    }
    // The one that was looked at least lately went.
    assert!(shelf.lock().iter().all(|held| held.at != place(0) && held.at != place(1)));
    let now = clock::now();
    assert!(shelf.close_unused(), "they were looked at just now");
    assert!(shelf.close_older(now + UNUSED - Duration::from_secs(1), UNUSED));
    assert_eq!(shelf.open(), OPEN_MAX);
    assert!(!shelf.close_older(clock::now() + UNUSED, UNUSED));
    assert_eq!(shelf.open(), 0);
}
