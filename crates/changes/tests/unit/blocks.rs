use super::{stretches, Extent, Place, State};

fn at(start: u64, length: u64, address: u64) -> Extent {
    Extent { start, length, place: Place::At(address) }
}

#[test]
fn the_same_address_is_the_same_bytes_however_extents_are_cut() {
    let old = [at(0, 64, 1000)];
    let new = [at(0, 16, 1000), at(16, 8, 5000), at(24, 40, 1024)];
    let expected = vec![(0..16, State::Same), (16..24, State::Differs), (24..64, State::Same)];
    assert_eq!(stretches(&new, &old, 64), expected);
    assert_eq!(stretches(&old, &new, 64), expected);
}

#[test]
fn holes_and_extents_that_were_never_written_are_zeros_on_both_sides() {
    let zeros = Extent { start: 8, length: 8, place: Place::Zeros };
    let (old, new) = ([at(0, 8, 100), zeros], [at(0, 8, 100)]);
    assert_eq!(stretches(&new, &old, 32), vec![(0..32, State::Same)]);
    // Written over a hole.
    let new = [at(0, 8, 100), at(8, 8, 108)];
    assert_eq!(stretches(&new, &old, 16), vec![(0..8, State::Same), (8..16, State::Differs)]);
}

#[test]
fn addresses_that_say_nothing_are_looked_at() {
    let inline = Extent { start: 0, length: 8, place: Place::Unknown };
    let (old, new) = ([inline, at(8, 8, 700)], [inline, at(8, 8, 700)]);
    assert_eq!(stretches(&new, &old, 16), vec![(0..8, State::Unknown), (8..16, State::Same)]);
}

#[test]
fn nothing_is_told_of_what_lies_behind_the_end() {
    assert_eq!(stretches(&[at(0, 4096, 1)], &[at(0, 4096, 2)], 10), vec![(0..10, State::Differs)]);
    assert_eq!(stretches(&[], &[], 0), Vec::new());
}
