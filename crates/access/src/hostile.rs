//! Where bytes come in that somebody else may have written, for the fuzzer under `fuzz/` and for tests: each function reads
//! what it is given as far as it goes, and says whether it was taken. None panics, or takes memory by what a length says.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_pack::container::RangeRead;

use crate::c1z::stored_grant::GrantReader;
use crate::c1z::v3::{batch, block, column_block, cursor, edit, log, lsm, table};
use crate::c1z::{connector, storage, ReadOptions};
use crate::file::GraphFile;
use crate::graph::{GrantRef, GraphError, GraphPack, GraphSource, GraphStore};

/// Bytes as a source of ranges.
struct Bytes(Vec<u8>);

impl RangeRead for Bytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset).map_err(std::io::Error::other)?;
        let end = start.checked_add(buffer.len()).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let bytes = self.0.get(start..end).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

/// A block of a table, by rows and by columns.
pub fn block(bytes: &[u8]) -> bool {
    let rows = || {
        let mut walk = block::BlockRows::default();
        walk.begin(bytes)?;
        while walk.next(bytes)? {
            let _ = bytes[walk.value.clone()].len();
        }
        Ok::<(), crate::c1z::error::Bad>(())
    };
    let columns = || {
        let mut walk = column_block::ColumnRows::default();
        walk.begin(bytes)?;
        while walk.next(bytes)? {
            let _ = bytes[walk.value.clone()].len();
        }
        Ok::<(), crate::c1z::error::Bad>(())
    };
    let lists = [
        column_block::each_handle(bytes, |_, _| Ok(())).is_ok(),
        column_block::each_name(bytes, |_, _| Ok(())).is_ok(),
        column_block::each_span(bytes, |_, _, _| Ok(())).is_ok(),
    ];
    rows().is_ok() | columns().is_ok() | lists.contains(&true)
}

/// A table, with all its rows.
pub fn table(bytes: &[u8]) -> bool {
    let read = || {
        let backing = Arc::new(table::open(bytes.to_vec())?);
        let mut deletions = Default::default();
        let tables =
            [table::Table::new("000001.sst".to_owned(), backing, Default::default(), &mut deletions)?];
        let mut rows = cursor::Cursor::before(&tables, &[]);
        while rows.advance()? {
            let _ = rows.key().len() + rows.value().len();
        }
        Ok::<(), crate::c1z::error::Bad>(())
    };
    read().is_ok()
}

/// The manifest of a merge tree.
pub fn manifest(bytes: &[u8]) -> bool {
    edit::read(bytes).is_ok()
}

/// A log of a merge tree, with its batches. The number of the log is the first eight bytes, little-endian.
pub fn log(bytes: &[u8]) -> bool {
    let Some((number, bytes)) = bytes.split_first_chunk() else { return false };
    let number = u64::from_le_bytes(*number);
    let (mut records, mut record) = (log::Records::new(bytes, Some(number)), Vec::new());
    loop {
        match records.next(&mut record) {
            Ok(Some(_)) => {
                let read = batch::read(&record, |entry| {
                    let _ = record[entry.key.clone()].len() + record[entry.value].len();
                    let _: lsm::Change = entry.change;
                    Ok(())
                });
                if read.is_err() {
                    return false;
                }
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The record of a row in a file of either version. What is read as a grant is the same by both of its readers.
pub fn record(bytes: &[u8]) -> bool {
    let grant = storage::grant(bytes);
    let mut reader = GrantReader::default();
    match (&grant, reader.borrowed(bytes)) {
        (Ok(grant), Ok(borrowed)) => {
            assert_eq!(*grant, GrantRef::to_grant(&borrowed), "two readers of one grant")
        }
        (Err(_), Err(_)) => {}
        (one, other) => {
            panic!("one reader takes a grant that the other refuses: {one:?} {:?}", other.is_ok())
        }
    }
    let all = [
        grant.is_ok(),
        storage::resource_type(bytes).is_ok(),
        storage::resource(bytes).is_ok(),
        storage::entitlement(bytes).is_ok(),
        storage::asset(bytes).is_ok(),
        storage::sync(bytes).is_ok(),
        connector::resource_type(bytes).is_ok(),
        connector::resource(bytes).is_ok(),
        connector::entitlement(bytes).is_ok(),
        connector::grant(bytes, true).is_ok(),
    ];
    all.contains(&true)
}

/// A pack of a graph, with all rows of all syncs.
pub fn pack(bytes: &[u8]) -> bool {
    let read = || {
        let pack = GraphPack::open_source(Arc::new(Bytes(bytes.to_vec())), "bytes")?;
        let ids: Vec<String> = pack.syncs().map(|sync| sync.id.clone()).collect();
        ids.iter().try_for_each(|sync| every_row(&pack, sync))
    };
    let read: Result<(), GraphError> = read();
    read.is_ok()
}

/// A file of any format, with all rows of all syncs.
pub fn file(bytes: &[u8]) -> bool {
    let read = || {
        let mut file = tempfile::NamedTempFile::new().ok()?;
        file.write_all(bytes).ok()?;
        let options = ReadOptions {
            decompressed_bytes_max: Some(16 << 20),
            check_rows: true,
            ..ReadOptions::default()
        };
        let file = GraphFile::open(file.path(), &options).ok()?;
        file.syncs().ok()?.iter().try_for_each(|sync| every_row(&file, &sync.id)).ok()
    };
    read().is_some()
}

/// The journal of a graph that has no file yet.
pub fn journal(bytes: &[u8]) -> bool {
    let read = || {
        let dir = tempfile::tempdir().ok()?;
        let path = dir.path().join("graph.dpack");
        std::fs::write(dir.path().join("graph.dpack.journal"), bytes).ok()?;
        let mut store = GraphStore::open(&path).ok()?;
        if let Some(sync) = store.current_sync().map(|sync| sync.id.clone()) {
            store.view(Some(&sync)).ok()?;
            store.end_sync().ok()?;
            every_row(&GraphPack::open(&path).ok()?, &sync).ok()?;
        }
        Some(())
    };
    read().is_some()
}

fn every_row<S: GraphSource>(source: &S, sync: &str) -> Result<(), S::Error> {
    source.for_each_resource_type(sync, &mut |_| ControlFlow::Continue(()))?;
    source.for_each_resource(sync, &mut |_| ControlFlow::Continue(()))?;
    source.for_each_entitlement(sync, &mut |_| ControlFlow::Continue(()))?;
    source.for_each_grant(sync, &mut |_| ControlFlow::Continue(()))?;
    source.for_each_asset(sync, &mut |_| ControlFlow::Continue(()))
}

/// The files of the merge tree in a version 3 file, by their names: what to begin with.
pub fn files_of(path: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let Ok(envelope) = crate::c1z::v3::envelope::Envelope::open(path, &ReadOptions::default()) else {
        return Vec::new();
    };
    let read = |entry| envelope.read(entry, false).ok();
    envelope.entries.iter().filter_map(|entry| Some((entry.name.clone(), read(entry)?))).collect()
}

/// The blocks of a table's rows: what to begin with.
pub fn blocks_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut read = || {
        let backing = Arc::new(table::open(bytes.to_vec())?);
        let table =
            table::Table::new("000001.sst".to_owned(), backing, Default::default(), &mut Default::default())?;
        let mut unpack = Default::default();
        for number in 0..table.blocks() {
            let mut block = Vec::new();
            table.read(number, &mut unpack, &mut block)?;
            blocks.push(block);
        }
        Ok::<(), crate::c1z::error::Bad>(())
    };
    let _ = read();
    blocks
}

/// The records of a table's rows: what to begin with.
pub fn records_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut read = || {
        let backing = Arc::new(table::open(bytes.to_vec())?);
        let mut deletions = Default::default();
        let tables =
            [table::Table::new("000001.sst".to_owned(), backing, Default::default(), &mut deletions)?];
        let mut rows = cursor::Cursor::before(&tables, &[]);
        while rows.advance()? {
            records.push(rows.value().to_vec());
        }
        Ok::<(), crate::c1z::error::Bad>(())
    };
    let _ = read();
    records
}
