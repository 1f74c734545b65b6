use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::c1z::error::BadKind;
use crate::c1z::v3::envelope::Envelope;
use crate::c1z::v3::table::{Bounds, Table, View};
use crate::c1z::v3::{log, table};
use crate::c1z::wire;
use crate::c1z::ReadOptions;

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
        Err(Fault::In { part, bad: Bad { kind: BadKind::Damaged(reason), .. } }) => {
            Err(format!("{part}: {reason}"))
        }
        Err(Fault::In { bad, .. }) => Err(format!("{bad:?}")),
        Err(Fault::Whole(error)) => Err(error.to_string()),
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
                let per_block = random.usize(1..9);
                run.push(table_of(rows, per_block, <[u8]>::to_vec, &mut tree.deletions).unwrap().into());
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
            Listed::from(table_of(rows, 1, |_| b"z".to_vec(), deletions).unwrap())
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
    tree.runs.push(vec![low.into()]);
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
    tree.runs.push(vec![table_of(&rows, 1, <[u8]>::to_vec, &mut tree.deletions).unwrap().into()]);
    let refused = "000001.sst: a range deletion among the rows of a table";
    assert_eq!(rows_of(&tree, b"", None).unwrap_err(), refused);
}

/// A table that gives keys a prefix and shows those between two bounds is, to every walk, a table of just these rows.
fn check_views(
    open: impl Fn(View, &mut RangeDeletions) -> Table,
    stored: &Pairs,
    random: &mut fastrand::Rng,
) {
    let some = |random: &mut fastrand::Rng| {
        let key = stored[random.usize(..stored.len())].0.clone();
        let keep = random.usize(..=key.len());
        if random.bool() {
            key
        } else {
            key[..keep].to_vec()
        }
    };
    for _ in 0..40 {
        let prefix = [&b""[..], b"p", b"\xff"][random.usize(..3)].to_vec();
        let shown = |key: &[u8]| [prefix.as_slice(), key].concat();
        let (a, b) = (shown(&some(random)), shown(&some(random)));
        let is_open = random.bool();
        let bounds =
            random.bool().then(|| Bounds { first: a.clone().min(b.clone()), last: a.max(b), is_open });
        let view = View { prefix: prefix.clone(), bounds: bounds.clone(), ..View::default() };
        let rows = stored.iter().map(|(key, value)| (shown(key), value.clone()));
        let is_shown = |key: &[u8]| {
            bounds.as_ref().is_none_or(|bounds| bounds.first.as_slice() <= key && !bounds.end_before(key))
        };
        let expected: Pairs = rows.filter(|(key, _)| is_shown(key)).collect();
        let mut tree = Tree::default();
        let table = open(view.clone(), &mut tree.deletions);
        tree.runs.push(vec![table.into()]);
        tree.deletions.finish();
        tree.memory.finish(true);
        assert_eq!(rows_of(&tree, b"", None).unwrap(), expected, "{view:?}");
        let (from, to) = (shown(&some(random)), shown(&some(random)));
        let within = expected.into_iter().filter(|(key, _)| from <= *key && *key < to);
        let found = rows_of(&tree, &from, Some(&to)).unwrap();
        assert_eq!(found, within.collect::<Pairs>(), "{view:?} from {from:?} to {to:?}");
    }
}

#[test]
fn what_a_view_shows_of_a_table_of_rows_is_all_that_is_walked() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut keys: Vec<String> =
            (0..random.usize(1..60)).map(|_| format!("key{:02}", random.u8(..99))).collect();
        keys.sort();
        keys.dedup();
        let rows: Vec<Entry> = keys.iter().map(|key| set(key, 1, key)).collect();
        let stored = keys.iter().map(|key| (key.clone().into_bytes(), key.clone().into_bytes())).collect();
        let per_block = random.usize(1..9);
        let open = |view: View, deletions: &mut RangeDeletions| {
            let mut table = table_of(&rows, per_block, <[u8]>::to_vec, deletions).unwrap();
            table.view = view;
            table
        };
        check_views(open, &stored, &mut random);
    }
}

#[test]
fn what_a_view_shows_of_a_table_of_columns_is_all_that_is_walked() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/c1z/columns.c1z");
    let envelope = Envelope::open(&path, &ReadOptions::default()).unwrap();
    for entry in envelope.entries.iter().filter(|entry| entry.name.ends_with(".sst")) {
        let bytes = envelope.read(entry, true).unwrap();
        // Range deletions would hide rows of the other tables too; here every row of the one counts.
        let open = |view: View, _: &mut RangeDeletions| {
            let backing = Arc::new(table::open(bytes.clone()).unwrap());
            Table::new("000001.sst".to_owned(), backing, view, &mut RangeDeletions::default()).unwrap()
        };
        let mut tree = Tree::default();
        tree.runs.push(vec![open(View::default(), &mut RangeDeletions::default()).into()]);
        tree.memory.finish(true);
        let stored = rows_of(&tree, b"", None).unwrap();
        assert!(!stored.is_empty());
        check_views(open, &stored, &mut fastrand::Rng::with_seed(1));
    }
}

#[test]
fn a_suffix_stands_behind_every_key() {
    let rows = [set("a", 1, "1"), set("c", 1, "2"), set("e", 1, "3")];
    let mut tree = Tree::default();
    let mut table = table_of(&rows, 1, <[u8]>::to_vec, &mut tree.deletions).unwrap();
    table.view = View { prefix: b"p".to_vec(), suffix: b"@1".to_vec(), ..View::default() };
    tree.runs.push(vec![table.into()]);
    tree.memory.finish(true);
    let keys = |from: &[u8]| -> Vec<Vec<u8>> {
        rows_of(&tree, from, None).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(b""), [b"pa@1", b"pc@1", b"pe@1"]);
    assert_eq!(keys(b"pc"), [b"pc@1", b"pe@1"]);
    assert_eq!(keys(b"pc@2"), [b"pe@1"]);
    assert_eq!(keys(b"q"), Vec::<Vec<u8>>::new());
}
