use super::{Frozen, Layout};
use std::fs;

const LAYOUT: Layout = Layout { block: 8192, segment: 131_072 };

/// X12: what the map does not say is frozen is not, also behind its end, in a page that is cut off, and without one.
#[test]
fn only_the_bit_of_a_block_says_that_it_is_frozen() {
    let dir = tempfile::tempdir().unwrap();
    let mut map = vec![0_u8; 2 * 8192];
    // Blocks 0 to 3 are: visible alone, frozen, neither, both; the first block of the second page is frozen.
    map[24] = 0b11_00_10_01;
    map[8192 + 24] = 0b10;
    fs::write(dir.path().join("1_vm"), &map).unwrap();
    let mut frozen = Frozen::of(dir.path(), "1", LAYOUT).unwrap();
    let a_page = (8192 - 24) * 4;
    let found: Vec<bool> = [0, 1, 2, 3, 4, a_page - 1, a_page, a_page + 1, 2 * a_page, u32::MAX, 1]
        .map(|it| frozen.has(it).unwrap())
        .into();
    assert_eq!(found, [false, true, false, true, false, false, true, false, false, false, true]);
    fs::write(dir.path().join("2_vm"), [0xff; 8191]).unwrap();
    assert!(!Frozen::of(dir.path(), "2", LAYOUT).unwrap().has(0).unwrap());
    assert!(!Frozen::of(dir.path(), "3", LAYOUT).unwrap().has(0).unwrap());
}
