//! The manifest of the directory: a log of edits, whose sum says which tables and logs make up the rows.

use std::collections::BTreeMap;

use super::log;
use super::table::{Bounds, View};
use crate::c1z::error::{Bad, EXPORT_ADVICE as UNSUPPORTED};
use crate::c1z::limits::{FILES_MAX, KEY_BYTES_MAX};
use crate::c1z::wire;

/// How keys are compared in every file of the format: byte by byte.
pub(crate) const COMPARER: &str = "leveldb.BytewiseComparator";

/// A table that is part of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFile {
    pub(crate) number: u64,
    /// The number of the file that holds its rows, and what it shows of that.
    pub(crate) backing: u64,
    pub(crate) view: View,
    /// No key of the table is before this one, nor behind the other.
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
    /// Whether `largest` is not in the table itself.
    pub(crate) is_open: bool,
}

/// What all edits together say.
#[derive(Debug, Default)]
pub(crate) struct Version {
    /// The first log whose rows are in no table yet.
    pub(crate) log_number: u64,
    /// The tables, by level and number.
    pub(crate) tables: BTreeMap<(u64, u64), TableFile>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<u64, Bad> {
        wire::varint(self.bytes, &mut self.at)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Bad> {
        let start = self.at;
        let length = self.number()?;
        if length > KEY_BYTES_MAX as u64 + 8 {
            return Err(Bad::too_large(start, "a key", length, KEY_BYTES_MAX as u64));
        }
        let end = self.at + length as usize;
        let found = self.bytes.get(self.at..end);
        let Some(found) = found else { return Err(Bad::new(start, "a key is longer than its edit")) };
        self.at = end;
        Ok(found)
    }

    /// A key and its trailer.
    fn key(&mut self) -> Result<(Vec<u8>, u64), Bad> {
        let start = self.at;
        let found = self.bytes()?.split_last_chunk::<8>();
        found
            .map(|(key, trailer)| (key.to_vec(), u64::from_le_bytes(*trailer)))
            .ok_or_else(|| Bad::new(start, "a key of a table is shorter than its trailer"))
    }

    fn byte(&mut self) -> Result<u8, Bad> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte.ok_or_else(|| Bad::new(self.at - 1, "an edit ends early"))
    }
}

/// Reads the manifest of a directory.
pub(crate) fn read(bytes: &[u8]) -> Result<Version, Bad> {
    let mut version = Version::default();
    let (mut records, mut record) = (log::Records::new(bytes, None), Vec::new());
    while let Some(at) = records.next(&mut record)? {
        edit(&record, &mut version).map_err(|bad| bad.shifted(at))?;
    }
    Ok(version)
}

fn edit(record: &[u8], version: &mut Version) -> Result<(), Bad> {
    let mut reader = Reader { bytes: record, at: 0 };
    while reader.at < record.len() {
        let start = reader.at;
        match reader.number()? {
            1 => {
                let comparer = reader.bytes()?;
                if comparer != COMPARER.as_bytes() {
                    let name = String::from_utf8_lossy(comparer);
                    return Err(Bad::unsupported(start, format!("keys in the order {name:?}"), UNSUPPORTED));
                }
            }
            2 => version.log_number = reader.number()?,
            // The next file number, the last sequence number, the previous log: for writers.
            3 | 4 | 9 => drop(reader.number()?),
            5 => {
                reader.number()?;
                reader.bytes()?;
            }
            6 => {
                let (level, number) = (reader.number()?, reader.number()?);
                version.tables.remove(&(level, number));
            }
            tag @ (7 | 100 | 102 | 103 | 104) => table(&mut reader, tag, start, version)?,
            105 => {
                reader.number()?;
                reader.number()?;
            }
            106 => drop(reader.number()?),
            107 | 108 => return Err(Bad::unsupported(start, "values in files of their own", UNSUPPORTED)),
            tag => return Err(Bad::new(start, format!("there is no kind {tag} of edit"))),
        }
    }
    Ok(())
}

fn table(reader: &mut Reader<'_>, tag: u64, start: usize, version: &mut Version) -> Result<(), Bad> {
    let (level, number) = (reader.number()?, reader.number()?);
    if tag == 102 {
        reader.number()?;
    }
    reader.number()?; // its length
    if tag == 104 {
        if reader.byte()? & 1 != 0 {
            reader.bytes()?;
            reader.bytes()?;
        }
        return Err(Bad::unsupported(start, "keys that stand for ranges", UNSUPPORTED));
    }
    let ((smallest, _), (largest, trailer)) = (reader.key()?, reader.key()?);
    let (mut view, mut backing) = (View::default(), number);
    let is_open = trailer == BEHIND_RANGE;
    if tag != 7 {
        let (smallest, largest) = (reader.number()?, reader.number()?);
        // Rows that were ingested have no numbers of their own.
        view.sequence = (smallest == largest).then_some(smallest);
    }
    if tag == 103 {
        loop {
            let at = reader.at;
            match reader.number()? {
                1 => break,
                69 => {
                    return Err(Bad::unsupported(at, "values in files of their own", UNSUPPORTED));
                }
                66 => {
                    backing = reader.number()?;
                    view.bounds = Some(Bounds { first: smallest.clone(), last: largest.clone(), is_open });
                }
                67 => view.prefix = reader.bytes()?.to_vec(),
                68 => view.suffix = reader.bytes()?.to_vec(),
                tag if tag & 64 != 0 => {
                    return Err(Bad::new(at, format!("there is no property {tag} of a table")))
                }
                _ => drop(reader.bytes()?),
            }
        }
    }
    if version.tables.len() >= FILES_MAX {
        return Err(Bad::too_large(start, "the number of tables", FILES_MAX as u64 + 1, FILES_MAX as u64));
    }
    version.tables.insert((level, number), TableFile { number, backing, view, smallest, largest, is_open });
    Ok(())
}

/// The trailer of a last key that is not in its table: the end of a range, which comes before all rows of that key.
const BEHIND_RANGE: u64 = 0xffff_ffff_ffff_ff0f;

/// The level whose tables are the oldest, and do not overlap.
const BOTTOM_LEVEL: u64 = 6;

/// A table that is written.
#[derive(Clone, Debug)]
pub(crate) struct NewTable {
    pub(crate) number: u64,
    /// How long its file is, in bytes.
    pub(crate) bytes: u64,
    /// Its first key and its last one, with their trailers.
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

/// The manifest of a directory of tables that follow each other, as it is written. All sequence numbers in them are 0;
/// later ones begin behind `last_sequence`, and later files have `next_file` and higher numbers.
pub(crate) fn write(tables: &[NewTable], next_file: u64, last_sequence: u64) -> Vec<u8> {
    let mut edit = Vec::new();
    let put_bytes = |edit: &mut Vec<u8>, bytes: &[u8]| {
        wire::put_varint(edit, bytes.len() as u64);
        edit.extend_from_slice(bytes);
    };
    wire::put_varint(&mut edit, 1);
    put_bytes(&mut edit, COMPARER.as_bytes());
    // Logs count from the next file on: there are none.
    for (tag, value) in [(2, next_file), (3, next_file + 1), (4, last_sequence)] {
        wire::put_varint(&mut edit, tag);
        wire::put_varint(&mut edit, value);
    }
    for table in tables {
        for value in [100, BOTTOM_LEVEL, table.number, table.bytes] {
            wire::put_varint(&mut edit, value);
        }
        put_bytes(&mut edit, &table.smallest);
        put_bytes(&mut edit, &table.largest);
        // The lowest sequence number and the highest one.
        edit.extend_from_slice(&[0, 0]);
    }
    let mut out = Vec::new();
    log::append(&mut out, &edit);
    out
}
