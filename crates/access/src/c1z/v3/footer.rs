//! The end of a table: in which form the table is, and where its two indexes lie.
//!
//! ```text
//! footer = checksum kind u8 | metaindex handle | index handle | zeros, 41 bytes in all
//!          | [attributes u32] | [checksum of the footer u32] | version u32 | magic 8 bytes
//!          (the oldest form has no kind, no version, and 40 bytes before its magic;
//!          the checksum is there from version 6 on, the attributes from version 7 on)
//! handle = offset varint | length varint
//! ```

use super::log::masked_crc;
use crate::c1z::error::Bad;
use crate::c1z::wire;

const LEVELDB: [u8; 8] = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
const ROCKSDB: [u8; 8] = [0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88];
const PEBBLE: [u8; 8] = [0xf0, 0x9f, 0xaa, 0xb3, 0xf0, 0x9f, 0xaa, 0xb3];

/// The length of the kind of checksum and of the handles, in bytes.
const HANDLES: usize = 41;
/// Of the attributes, the bit that says that the index has two levels.
const TWO_LEVELS: u32 = 1 << 5;

/// In which form a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFormat {
    /// Rows, in the form of the oldest ancestor.
    LevelDb,
    /// Rows, with a kind of checksum.
    RocksDb,
    /// Rows in versions 1 to 4: with properties, then values with a prefix. Columns in versions 5 to 7.
    Pebble(u32),
}

impl TableFormat {
    fn is_from(self, first: u32) -> bool {
        matches!(self, TableFormat::Pebble(version) if version >= first)
    }

    /// Whether a byte before each value says where it lies.
    pub(crate) fn has_prefixed_values(self) -> bool {
        self.is_from(3) && !self.is_columnar()
    }

    /// Whether blocks of rows, of the index and of range deletions are columns.
    pub(crate) fn is_columnar(self) -> bool {
        self.is_from(5)
    }

    /// Whether the list of blocks by name is columns.
    pub(crate) fn has_columnar_names(self) -> bool {
        self.is_from(6)
    }

    /// Whether properties are columns.
    pub(crate) fn has_columnar_properties(self) -> bool {
        self.is_from(7)
    }
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Handle {
    /// Reads a handle at `*at`, and moves behind it.
    pub(crate) fn read(bytes: &[u8], at: &mut usize) -> Result<Handle, Bad> {
        Ok(Handle { offset: wire::varint(bytes, at)?, length: wire::varint(bytes, at)? })
    }
}

#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) format: TableFormat,
    /// The kind of checksum that blocks have.
    pub(crate) checksum: u8,
    pub(crate) metaindex: Handle,
    pub(crate) index: Handle,
    pub(crate) two_levels: bool,
}

/// Reads the footer of the table `bytes`.
pub(crate) fn read(bytes: &[u8]) -> Result<Footer, Bad> {
    let end = bytes.len();
    let short = || Bad::new(end, "a table is shorter than its footer");
    let magic = bytes.last_chunk::<8>().ok_or_else(short)?;
    let number = |at: usize| bytes.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let version = end.checked_sub(12).and_then(number).ok_or_else(short)?;
    let (format, length) = match (*magic, version) {
        (LEVELDB, _) => (TableFormat::LevelDb, 48),
        (ROCKSDB, 2) => (TableFormat::RocksDb, 53),
        (PEBBLE, 1..=5) => (TableFormat::Pebble(version), 53),
        (PEBBLE, 6) => (TableFormat::Pebble(version), 57),
        (PEBBLE, 7) => (TableFormat::Pebble(version), 61),
        (PEBBLE, 8..) => {
            let what = format!("its tables are of version {version}, and known are those up to 7");
            return Err(Bad::unsupported(end - 12, what, "use a newer duramen"));
        }
        (ROCKSDB | PEBBLE, _) => {
            return Err(Bad::new(end - 12, format!("there is no version {version} of tables")))
        }
        _ => return Err(Bad::new(end - 8, "a table without a known magic at its end")),
    };
    let start = end.checked_sub(length).ok_or_else(short)?;
    let footer = &bytes[start..];
    if format.is_from(6) {
        let at = end - 16;
        let covered = [&bytes[start..at], &bytes[at + 4..]].concat();
        if number(at) != Some(masked_crc(&covered)) {
            return Err(Bad::new(start, "the footer of a table does not match its checksum"));
        }
    }
    let attributes = if format.is_from(7) { number(start + HANDLES).unwrap_or(0) } else { 0 };
    let with_kind = format != TableFormat::LevelDb;
    let mut at = usize::from(with_kind);
    let metaindex = Handle::read(footer, &mut at).map_err(|bad| bad.shifted(start))?;
    let index = Handle::read(footer, &mut at).map_err(|bad| bad.shifted(start))?;
    let checksum = if with_kind { footer[0] } else { 1 };
    Ok(Footer { format, checksum, metaindex, index, two_levels: attributes & TWO_LEVELS != 0 })
}
