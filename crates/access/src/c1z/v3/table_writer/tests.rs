use std::sync::Arc;

use super::*;
use crate::c1z::v3::block_writer::DATA_INTERVAL;
use crate::c1z::v3::cursor::Cursor;
use crate::c1z::v3::deletions::RangeDeletions;
use crate::c1z::v3::table::{self, Table, View};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Rows of several blocks, of which one is long and one does not compress.
fn rows() -> Pairs {
    let mut random = duramen_base::entropy::rng(3);
    let mut rows: Pairs = (0..3_000)
        .map(|number| (format!("\x03\x04\0key {number:06}").into_bytes(), vec![number as u8; 60]))
        .collect();
    rows[1_000].1 = vec![7; 3 * BLOCK_BYTES];
    rows[2_000].1 = (0..BLOCK_BYTES).map(|_| random.u8(..)).collect();
    rows[2_999].1.clear();
    rows
}

fn written(rows: &[(Vec<u8>, Vec<u8>)], level: i32) -> (RawTable, Vec<u8>) {
    let (mut table, mut block) = (RawTable::default().numbered(2), BlockWriter::new(DATA_INTERVAL));
    for (key, value) in rows {
        table.add(&mut block, key, value);
    }
    table.end_block(&mut block);
    let mut bytes = Vec::new();
    TableWriter::new(level).unwrap().write(&table, &mut bytes).unwrap();
    (table, bytes)
}

fn read(bytes: &[u8]) -> Result<Pairs, crate::c1z::error::Bad> {
    let tables = [Table::new(
        "a table".to_owned(),
        Arc::new(table::open(bytes.to_vec())?),
        View { sequence: Some(0), ..View::default() },
        &mut RangeDeletions::default(),
    )?];
    let (mut cursor, mut rows) = (Cursor::before(&tables, &[]), Pairs::new());
    while cursor.advance()? {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    Ok(rows)
}

#[test]
fn a_table_that_is_written_is_read_and_its_bounds_are_its_first_and_last_key() {
    let rows = rows();
    for level in [1, 3, 9] {
        let (table, bytes) = written(&rows, level);
        assert_eq!(read(&bytes).unwrap(), rows, "level {level}");
        assert!(table.ends.len() > 5 && bytes.len() < 2 * BLOCK_BYTES, "{} bytes", bytes.len());
        let (smallest, largest) = table.bounds();
        assert_eq!(smallest, [rows[0].0.as_slice(), &TRAILER].concat());
        assert_eq!(largest, [rows[2_999].0.as_slice(), &TRAILER].concat());
    }
    let one = &rows[..1];
    let (table, bytes) = written(one, 3);
    assert_eq!(read(&bytes).unwrap(), one);
    assert_eq!(table.bounds().0, table.bounds().1);
}

#[test]
fn the_same_rows_give_the_same_table_whatever_was_written_before() {
    let rows = rows();
    let (table, bytes) = written(&rows, 3);
    let mut writer = TableWriter::new(3).unwrap();
    let mut second = Vec::new();
    writer.write(&written(&rows[500..1_500], 3).0, &mut second).unwrap();
    second.clear();
    writer.write(&table, &mut second).unwrap();
    assert!(second == bytes);
    // A table that is filled again holds nothing of what it held.
    let (mut reused, _) = written(&rows[500..1_500], 3);
    reused.clear();
    let mut block = BlockWriter::new(DATA_INTERVAL);
    rows.iter().for_each(|(key, value)| reused.add(&mut block, key, value));
    reused.end_block(&mut block);
    second.clear();
    writer.write(&reused, &mut second).unwrap();
    assert!(second == bytes);
}

#[test]
fn a_flipped_bit_of_a_table_is_found_or_changes_nothing() {
    let rows = &rows()[..1_000];
    let (_, bytes) = written(rows, 3);
    let mut harmless = 0;
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        match read(&flipped) {
            Ok(found) => {
                assert_eq!(found, rows, "byte {at}");
                harmless += 1;
            }
            Err(bad) => assert!(bad.at <= bytes.len() as u64, "byte {at}"),
        }
    }
    // What pads the footer says nothing.
    assert!(harmless < FOOTER, "{harmless}");
}
