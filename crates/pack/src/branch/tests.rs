//! Origins that are sorted in pieces, and blocks of nodes that no writer would write.

use duramen_tree::{Checksum, NodeRef};

use crate::branch::blocks::{decode, Content};
use crate::branch::origins::{OriginSorter, Origins, ORIGINS};
use crate::container::{Kind, Pack, PackWriter, SectionOptions};

fn node(id: u64, mark: u8) -> NodeRef {
    (id, Checksum([mark; 16]))
}

/// Rows that do not fit into memory come out as sorted as those that do.
#[test]
fn runs_of_any_length_make_the_same_section() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = duramen_base::entropy::rng(5);
    let mut ids: Vec<u64> = (0..5000).map(|id| id * 3).collect();
    rng.shuffle(&mut ids);
    let mut digests = Vec::new();
    for run in [1, 7, 1000, 5000, 10_000] {
        let path = dir.path().join("a.dpack");
        let mut writer = PackWriter::create(&path, Kind::Branch).unwrap();
        let mut sorter = OriginSorter::new(dir.path()).with_run_rows(run);
        for id in &ids {
            // One number, two checksums: of an unstored node before and after a write.
            sorter.push(node(*id, 1), node(*id + 1, 8)).unwrap();
            sorter.push(node(*id, 2), node(*id + 2, 9)).unwrap();
        }
        sorter.finish(&mut writer, SectionOptions::default()).unwrap();
        digests.push(writer.finish(b"").unwrap().root_digest);
        let section = Pack::open(&path).unwrap().section(ORIGINS).unwrap().unwrap();
        assert_eq!(section.info().records, 10_000);
        let mut origins = Origins::new(section);
        for id in ids.iter().step_by(17) {
            assert_eq!(origins.find(node(*id, 1)).unwrap(), Some(node(*id + 1, 8)));
            assert_eq!(origins.find(node(*id, 2)).unwrap(), Some(node(*id + 2, 9)));
            assert_eq!(origins.find(node(*id, 3)).unwrap(), None);
            assert_eq!(origins.find(node(*id + 1, 1)).unwrap(), None);
        }
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "a temporary file was left");
}

#[test]
fn blocks_of_nodes_are_taken_apart_without_trust() {
    let right = [0, 5, 2, 1, 3, b'a', b'b', b'c', b'd'];
    let Content::Many { first, ranges } = decode(&right).unwrap() else { panic!("a piece") };
    assert_eq!((first, ranges), (5, vec![5..6, 6..9]));
    for len in 0..right.len() {
        decode(&right[..len]).unwrap_err();
    }
    let piece = [1, 9, 10, 4, b'x', b'y'];
    assert_eq!(decode(&piece).unwrap(), Content::Piece { node: 9, len: 10, at: 4, range: 4..6 });
    let wrong: [&[u8]; 8] = [
        &[2, 1, 1],
        &[0, 5, 0x7f, 1],
        &[0, 5, 1, 0x7f, b'a'],
        &[0, 5, 1, 1, b'a', b'b'],
        &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, b'a'],
        &[1, 9, 5, 4, b'x', b'y'],
        &[1, 9, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, b'x'],
        &[1, 9, 10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, b'x'],
    ];
    for bytes in wrong {
        decode(bytes).unwrap_err();
    }
}
