//! What btrfs keeps in its own trees, read by ioctl: its chunks, how full they are, and whose data they hold.
//! Source: `linux/btrfs.h` and `linux/btrfs_tree.h` of the kernel's user-space headers.

use super::btrfs::MAGIC;
use rustix::{
    io::Errno,
    ioctl::{opcode, Updater},
};
use std::{collections::BTreeSet, io, ops::RangeInclusive, os::fd::AsFd};

/// `struct btrfs_ioctl_search_args`.
#[repr(C)]
struct SearchArgs {
    tree: u64,
    first_object: u64,
    last_object: u64,
    first_offset: u64,
    last_offset: u64,
    first_transaction: u64,
    last_transaction: u64,
    first_kind: u32,
    last_kind: u32,
    items: u32,
    unused: [u32; 9],
    found: [u8; 3992],
}

type SearchOp<'a> = Updater<'a, { opcode::read_write::<SearchArgs>(MAGIC, 17) }, SearchArgs>;

/// Bytes of `struct btrfs_ioctl_search_header`.
const HEADER: usize = 32;

const EXTENT_TREE: u64 = 2;
const CHUNK_TREE: u64 = 3;
const BLOCK_GROUP_TREE: u64 = 11;
/// `BTRFS_FIRST_CHUNK_TREE_OBJECTID`.
const CHUNKS: u64 = 256;
const EXTENT_ITEM: u32 = 168;
const EXTENT_OWNER: u8 = 172;
const BLOCK_GROUP_ITEM: u32 = 192;
const CHUNK_ITEM: u32 = 228;
/// `BTRFS_BLOCK_GROUP_DATA`.
const DATA: u64 = 1;
/// Where the references of a `struct btrfs_extent_item` begin.
const REFERENCES: usize = 24;

/// A chunk of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataChunk {
    /// Its logical address.
    pub(super) at: u64,
    pub(super) len: u64,
    /// Bytes that hold data.
    pub(super) used: u64,
}

/// One item of a tree.
struct Item<'a> {
    object: u64,
    offset: u64,
    data: &'a [u8],
}

impl Item<'_> {
    fn number(&self, at: usize) -> io::Result<u64> {
        number(self.data, at)
    }
}

fn number(bytes: &[u8], at: usize) -> io::Result<u64> {
    let found = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    found.map(u64::from_le_bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Calls `take` with each item of a kind whose object is in the range.
fn search(
    dir: &impl AsFd,
    tree: u64,
    objects: RangeInclusive<u64>,
    kind: u32,
    mut take: impl FnMut(&Item<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut args = SearchArgs {
        tree,
        first_object: *objects.start(),
        last_object: *objects.end(),
        first_offset: 0,
        last_offset: u64::MAX,
        first_transaction: 0,
        last_transaction: u64::MAX,
        first_kind: 0,
        last_kind: u32::from(u8::MAX),
        items: 0,
        unused: [0; 9],
        found: [0; 3992],
    };
    loop {
        // Replaced by how many there are.
        args.items = u32::MAX;
        ask(dir, &mut args)?;
        if args.items == 0 {
            return Ok(());
        }
        let mut at = 0;
        for _ in 0..args.items {
            let header = args.found.get(at..at + HEADER).ok_or(io::ErrorKind::InvalidData)?;
            let (object, offset) = (number(header, 8)?, number(header, 16)?);
            let (found, len) = split(number(header, 24)?);
            let data = args.found.get(at + HEADER..at + HEADER + len).ok_or(io::ErrorKind::InvalidData)?;
            if found == kind {
                take(&Item { object, offset, data })?;
            }
            at += HEADER + len;
            (args.first_object, args.first_kind, args.first_offset) = (object, found, offset);
        }
        // The next key; after the greatest offset, that of the next object, so that this ends in any case.
        match args.first_offset.checked_add(1) {
            Some(next) => args.first_offset = next,
            None => (args.first_object, args.first_kind, args.first_offset) = (args.first_object + 1, 0, 0),
        }
    }
}

/// Kind and length of an item.
fn split(both: u64) -> (u32, usize) {
    ((both & u64::from(u32::MAX)) as u32, (both >> 32) as usize)
}

#[allow(unsafe_code, reason = "ioctl: the argument type is laid out as in linux/btrfs.h")]
fn ask(dir: &impl AsFd, args: &mut SearchArgs) -> io::Result<()> {
    // SAFETY: BTRFS_IOC_TREE_SEARCH reads and writes one `btrfs_ioctl_search_args`, which `SearchArgs` mirrors (4096 bytes).
    unsafe { rustix::ioctl::ioctl(dir, SearchOp::new(args))? };
    Ok(())
}

/// All chunks of data, the emptiest first, as of the last transaction that was committed.
pub(super) fn data_chunks(dir: &impl AsFd) -> io::Result<Vec<DataChunk>> {
    let mut chunks = Vec::new();
    search(dir, CHUNK_TREE, CHUNKS..=CHUNKS, CHUNK_ITEM, |item| {
        if item.number(24)? & DATA != 0 {
            chunks.push(DataChunk { at: item.offset, len: item.number(0)?, used: 0 });
        }
        Ok(())
    })?;
    for chunk in &mut chunks {
        let mut used = None;
        // A tree of their own in newer file systems.
        for tree in [BLOCK_GROUP_TREE, EXTENT_TREE] {
            let read = |item: &Item<'_>| item.number(0).map(|found| used = Some(found));
            match search(dir, tree, chunk.at..=chunk.at, BLOCK_GROUP_ITEM, read) {
                Err(error) if Errno::from_io_error(&error) != Some(Errno::NOENT) => return Err(error),
                _ if used.is_some() => break,
                _ => {}
            }
        }
        chunk.used = used.unwrap_or(chunk.len);
    }
    chunks.sort_by_key(|chunk| (chunk.used, chunk.at));
    Ok(chunks)
}

/// The ids of the subvolumes for which the extents of a chunk count, where there are simple quotas.
pub(super) fn owners(dir: &impl AsFd, chunk: &DataChunk) -> io::Result<BTreeSet<u64>> {
    let mut owners = BTreeSet::new();
    search(dir, EXTENT_TREE, chunk.at..=chunk.at + chunk.len - 1, EXTENT_ITEM, |item| {
        debug_assert!(item.object < chunk.at + chunk.len, "an extent of this chunk");
        // It is the first reference, if it is there at all.
        if item.data.get(REFERENCES) == Some(&EXTENT_OWNER) {
            owners.insert(item.number(REFERENCES + 1)?);
        }
        Ok(())
    })?;
    Ok(owners)
}
