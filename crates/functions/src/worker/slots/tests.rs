use super::{Room, Slots};

/// What is left of ten places and three spare ones, as long as some are taken.
#[test]
fn spare_places_come_after_the_others() {
    let slots = Slots::new(10, None);
    assert_eq!(slots.all(), 13);
    let mut taken: Vec<_> = (0..9).map(|_| slots.take(1)).collect();
    let room = |free, spare, busy: &[u32], counts: &[i32]| {
        Some(Room { free, spare, per_role: i32::MAX, busy: (busy.to_vec(), counts.to_vec()) })
    };
    assert_eq!(slots.room(), room(1, 3, &[1], &[9]));
    taken.push(slots.take(1));
    assert_eq!(slots.room(), room(0, 3, &[1], &[10]));
    let others: Vec<_> = [2, 3, 4].map(|role| slots.take(role)).into();
    assert_eq!(slots.room(), None);
    drop(taken);
    drop(others);
    assert_eq!(slots.room(), room(10, 3, &[], &[]));
}

#[test]
fn one_place_has_a_spare_one() {
    let slots = Slots::new(1, Some(0));
    assert_eq!(slots.all(), 2);
    assert_eq!(slots.room().map(|room| room.per_role), Some(1), "a role may have one at the least");
}
