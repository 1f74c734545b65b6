use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::c1z::error::BadKind;
use crate::c1z::v3::table::View;
use crate::c1z::v3::{log, table};
use crate::c1z::wire;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
type Entry = (Vec<u8>, u64, Change, Vec<u8>);

fn set(key: &str, sequence: u64, value: &str) -> Entry {
    (key.into(), sequence, Change::Set, value.into())
}

/// A block of rows whose keys share what they can.
fn block(rows: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut last): (Vec<u8>, &[u8]) = (Vec::new(), &[]);
    for (key, value) in rows {
        let shared = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        for length in [shared, key.len() - shared, value.len()] {
            wire::put_varint(&mut out, length as u64);
        }
        out.extend_from_slice(&key[shared..]);
        out.extend_from_slice(value);
        last = key;
    }
    out.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    out
}

/// A table in the oldest form, with blocks of `per_block` rows; separators are what `separator` makes of last keys.
fn table_of(
    rows: &[Entry],
    per_block: usize,
    separator: impl Fn(&[u8]) -> Vec<u8>,
    deletions: &mut RangeDeletions,
) -> Result<Table, Bad> {
    fn put(out: &mut Vec<u8>, content: &[u8]) -> Vec<u8> {
        let (start, mut handle) = (out.len(), Vec::new());
        wire::put_varint(&mut handle, start as u64);
        wire::put_varint(&mut handle, content.len() as u64);
        out.extend_from_slice(content);
        out.push(0);
        let crc = log::masked_crc(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        handle
    }
    let trailer = |key: &[u8], sequence: u64, change: Change| {
        [key, (sequence << 8 | change as u64).to_le_bytes().as_slice()].concat()
    };
    let (mut out, mut index) = (Vec::new(), Vec::new());
    for rows in rows.chunks(per_block) {
        let stored: Vec<_> = rows
            .iter()
            .map(|(key, sequence, change, value)| (trailer(key, *sequence, *change), value.clone()))
            .collect();
        let last = rows.last().map(|row| row.0.as_slice()).unwrap_or_default();
        index.push((trailer(&separator(last), 0, Change::Delete), put(&mut out, &block(&stored))));
    }
    let (metaindex, index) = (put(&mut out, &block(&[])), put(&mut out, &block(&index)));
    let footer = out.len();
    out.extend_from_slice(&[metaindex, index].concat());
    out.resize(footer + 40, 0);
    out.extend_from_slice(&[0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb]);
    table::Table::new("000001.sst".to_owned(), Arc::new(table::open(out)?), View::default(), deletions)
}

fn rows_of(tree: &Tree, from: &[u8], to: Option<&[u8]>) -> Result<Pairs, String> {
    let mut found = Vec::new();
    let walked = tree.each(from, to, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    });
    match walked {
        Ok(()) => Ok(found),
        Err(Fault { part, bad: Bad { kind: BadKind::Damaged(reason), .. } }) => {
            Err(format!("{part}: {reason}"))
        }
        Err(Fault { bad, .. }) => Err(format!("{bad:?}")),
    }
}

/// Tables, logs and range deletions give what a map gives to which all changes are made in their order.
#[test]
fn the_newest_change_of_each_key_counts_wherever_it_lies() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut tree, mut sequence) = (Tree::default(), 0u64);
        let mut places: Vec<Vec<Entry>> = vec![Vec::new(); random.usize(2..6)];
        let mut model = BTreeMap::new();
        for _ in 0..random.usize(1..400) {
            sequence += 1;
            let key = format!("key{:03}", random.u8(..60)).into_bytes();
            let place = random.usize(..places.len());
            match random.u8(..12) {
                0 => {
                    let end = format!("key{:03}", random.u8(..60)).into_bytes();
                    tree.deletions.push(0, &key, &end, sequence).unwrap();
                    model.retain(|known, _| !(key <= *known && *known < end));
                }
                1..4 => {
                    model.remove(&key);
                    places[place].push((key, sequence, Change::Delete, Vec::new()));
                }
                _ => {
                    let value = sequence.to_string().into_bytes();
                    model.insert(key.clone(), value.clone());
                    places[place].push((key, sequence, Change::Set, value));
                }
            }
        }
        // The last place is a log, whose changes come in the order in which they were made.
        tree.memory.begin(1 << 16);
        for (key, sequence, change, value) in places.pop().unwrap_or_default() {
            tree.memory.change(0, change, &key, &value, sequence).unwrap();
        }
        for mut rows in places {
            rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            // Two tables that follow each other, as in a level. A key may go on in the next table.
            let (front, back) = rows.split_at(random.usize(..=rows.len()));
            let mut run = Vec::new();
            for rows in [front, back] {
                run.push(table_of(rows, random.usize(1..9), <[u8]>::to_vec, &mut tree.deletions).unwrap());
            }
            tree.runs.push(run);
        }
        tree.deletions.finish();
        tree.memory.finish(true);
        let expected: Vec<_> = model.into_iter().collect();
        assert_eq!(rows_of(&tree, b"", None).unwrap(), expected, "seed {seed}");
        let (from, to) = (format!("key{:03}", random.u8(..60)), format!("key{:03}", random.u8(..60)));
        let (first, end) = (from.as_bytes(), to.as_bytes());
        let within = expected.into_iter().filter(|(key, _)| first <= key.as_slice() && key.as_slice() < end);
        let found = rows_of(&tree, from.as_bytes(), Some(to.as_bytes())).unwrap();
        assert_eq!(found, within.collect::<Vec<_>>(), "seed {seed}: {from} to {to}");
    }
}

#[test]
fn rows_out_of_order_are_refused() {
    let tables = |first: &[Entry], second: &[Entry]| {
        let mut tree = Tree::default();
        let open = |rows: &[Entry], deletions: &mut RangeDeletions| {
            table_of(rows, 1, |_| b"z".to_vec(), deletions).unwrap()
        };
        tree.runs.push(vec![open(first, &mut tree.deletions), open(second, &mut tree.deletions)]);
        rows_of(&tree, b"", None)
    };
    let refused = Err("000001.sst: the rows of the tables of a level are out of order".to_owned());
    assert_eq!(tables(&[set("a", 1, ""), set("b", 1, "")], &[set("c", 1, "")]).unwrap().len(), 3);
    assert_eq!(tables(&[set("b", 1, ""), set("a", 1, "")], &[]), refused);
    assert_eq!(tables(&[set("b", 1, "")], &[set("a", 1, "")]), refused);
    // Of one key, the newest comes first.
    assert_eq!(tables(&[set("a", 2, "new")], &[set("a", 1, "old")]).unwrap().len(), 1);
    assert_eq!(tables(&[set("a", 1, "old")], &[set("a", 2, "new")]), refused);
}

#[test]
fn an_index_that_lies_is_refused() {
    let rows = [set("a", 1, ""), set("b", 1, ""), set("c", 1, "")];
    let mut tree = Tree::default();
    let low = table_of(&rows, 3, |_| b"b".to_vec(), &mut tree.deletions).unwrap();
    tree.runs.push(vec![low]);
    let refused = "000001.sst: a block of a table has keys behind its separator";
    assert_eq!(rows_of(&tree, b"", None).unwrap_err(), refused);
    let falling = table_of(&rows, 1, |key| vec![b'z' - key[0]], &mut tree.deletions);
    assert!(
        matches!(falling, Err(Bad { kind: BadKind::Damaged(reason), .. }) if reason.contains("out of order"))
    );
}

#[test]
fn a_range_deletion_among_rows_is_refused() {
    let mut tree = Tree::default();
    let rows = [(b"a".to_vec(), 1, Change::DeleteRange, b"b".to_vec())];
    tree.runs.push(vec![table_of(&rows, 1, <[u8]>::to_vec, &mut tree.deletions).unwrap()]);
    let refused = "000001.sst: a range deletion among the rows of a table";
    assert_eq!(rows_of(&tree, b"", None).unwrap_err(), refused);
}
