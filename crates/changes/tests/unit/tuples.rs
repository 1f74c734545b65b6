use super::{places, tuples, Places};
use crate::blocks::Layout;
use std::fs;
use std::ops::Range;

const PAGE: usize = 8192;

/// A page with these tuples, a line pointer each; an empty one has none.
fn page(lsn: u32, items: &[&str]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let mut upper = PAGE;
    for (index, item) in items.iter().enumerate() {
        upper -= item.len();
        page[upper..upper + item.len()].copy_from_slice(item.as_bytes());
        let flags = u32::from(!item.is_empty());
        let pointer = upper as u32 | flags << 15 | (item.len() as u32) << 17;
        page[24 + 4 * index..28 + 4 * index].copy_from_slice(&pointer.to_le_bytes());
    }
    let words = [(12, 24 + 4 * items.len()), (14, upper), (16, PAGE), (18, PAGE | 4)];
    for (at, value) in words {
        page[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }
    page[4..8].copy_from_slice(&lsn.to_le_bytes());
    page
}

fn one(start: u32, end: u32) -> Range<u32> {
    Range { start, end }
}

fn found(old: &[Vec<u8>], new: &[Vec<u8>], blocks: u32) -> Places {
    let dir = tempfile::tempdir().unwrap();
    for (name, pages) in [("old", old), ("new", new)] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("1"), pages.concat()).unwrap();
    }
    let layout = Layout { block: PAGE as u32, segment: 131_072 };
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    places(&new, &old, "1", layout, &[one(0, blocks)], 100).unwrap()
}

#[test]
fn only_tuples_that_are_not_the_same_at_their_place_are_read() {
    let old = page(7, &["one", "two", "three", "four"]);
    // The second was changed, the third moved within the page, the fourth is gone, and a fifth has come.
    let new = page(90, &["one", "TWO", "three", "", "five"]);
    let expected = Places { old: vec![(0, 2), (0, 4)], new: vec![(0, 2), (0, 5)], whole: Vec::new() };
    assert_eq!(found(&[old], &[new], 1), expected);
}

#[test]
fn pages_that_may_be_written_this_moment_are_read_as_a_whole() {
    let old = vec![page(7, &["a"]); 4];
    let new = [page(101, &["b"]), page(0, &["b"]), page(100, &["b"]), vec![1; PAGE]].to_vec();
    let expected = Places { old: vec![(2, 1)], new: vec![(2, 1)], whole: vec![0..2, 3..4] };
    assert_eq!(found(&old, &new, 4), expected);
}

#[test]
fn a_block_behind_the_end_has_no_tuples_in_the_snapshot() {
    let added = found(&[page(7, &["a"])], &[page(7, &["a"]), page(9, &["b"])], 2);
    assert_eq!(added, Places { old: Vec::new(), new: vec![(1, 1)], whole: Vec::new() });
    // In the branch somebody may be writing there.
    let cut = found(&[page(7, &["a"]), page(9, &["b"])], &[page(7, &["a"])], 2);
    assert_eq!(cut, Places { old: Vec::new(), new: Vec::new(), whole: vec![one(1, 2)] });
}

#[test]
fn line_pointers_that_lead_out_of_the_page_are_refused() {
    let mut bad = page(7, &["a"]);
    bad[24..28].copy_from_slice(&(8000_u32 | 1 << 15 | 500 << 17).to_le_bytes());
    assert_eq!(tuples(&bad), None);
    let mut bad = page(7, &["a"]);
    bad[12..14].copy_from_slice(&9000_u16.to_le_bytes());
    assert_eq!(tuples(&bad), None);
    assert!(tuples(&vec![0; PAGE]).unwrap().is_empty());
}
