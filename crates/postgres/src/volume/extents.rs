//! Where the bytes of a file lie, by ioctl: two files that share an extent hold the same bytes there.
//! Source: `linux/fiemap.h` of the kernel's user-space headers, and its documentation "Fiemap Ioctl".

use rustix::ioctl::{opcode, Updater};
use std::{fs::File, io};

/// Extents that one call returns at most.
const EXTENTS_A_CALL: usize = 512;
/// Extents of one file at most: a file of 1 GiB in blocks of 4 KiB has a quarter of a million.
pub const EXTENTS_MAX: usize = 1 << 20;

/// `statfs` types of the file systems that never write to an extent that two files share.
const COPY_ON_WRITE: [u64; 2] = [/* btrfs */ 0x9123_683E, /* XFS */ 0x5846_5342];

/// `FIEMAP_FLAG_SYNC`: what is written but has no place yet gets one first.
const SYNC: u32 = 1;
const LAST: u32 = 0x1;
const UNWRITTEN: u32 = 0x800;
/// `FIEMAP_EXTENT_MERGED`, and `FIEMAP_EXTENT_SHARED`: after nested snapshots the latter is not kept up to date.
const HARMLESS: u32 = LAST | 0x1000 | 0x2000;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FoundExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` without its extents: what the number of the ioctl counts.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Map {
    head: Head,
    found: [FoundExtent; EXTENTS_A_CALL],
}

type MapOp<'a> = Updater<'a, { opcode::read_write::<Head>(b'f', 11) }, Map>;

/// What is at one stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Data, from this address of the file system on.
    At(u64),
    /// Nothing that was written: it reads as zeros.
    Zeros,
    /// Data whose address says nothing: compressed, inline, encrypted, or not written back.
    Unknown,
}

/// One stretch of a file. What lies between two of them is a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins, in bytes.
    pub start: u64,
    /// Its length in bytes; the last one may go past the end of the file.
    pub length: u64,
    /// Where it is.
    pub place: Place,
}

/// Whether the file system of a file writes elsewhere what two files share: then the same address is the same bytes.
///
/// # Errors
/// The operating system's answer.
pub fn shares_extents(file: &File) -> io::Result<bool> {
    Ok(COPY_ON_WRITE.contains(&(rustix::fs::fstatfs(file)?.f_type as u64)))
}

/// The extents of a file in the order of their places in it, after what is written to it has been given a place.
///
/// # Errors
/// The operating system's answer, and [`io::ErrorKind::FileTooLarge`] for more than [`EXTENTS_MAX`].
pub fn extents(file: &File) -> io::Result<Vec<Extent>> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut start = 0;
    // What is written meanwhile must not keep it going round for ever: each round begins behind the last.
    while extents.len() < EXTENTS_MAX {
        let map = look(file, start)?;
        let found = &map.found[..(map.head.mapped as usize).min(EXTENTS_A_CALL)];
        let Some(last) = found.last() else { return Ok(extents) };
        start = last.logical.saturating_add(last.length.max(1));
        extents.extend(found.iter().map(FoundExtent::seen));
        if last.flags & LAST != 0 {
            return Ok(extents);
        }
    }
    Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {EXTENTS_MAX} extents")))
}

impl FoundExtent {
    fn seen(&self) -> Extent {
        let place = match self.flags & !HARMLESS {
            0 => Place::At(self.physical),
            UNWRITTEN => Place::Zeros,
            _ => Place::Unknown,
        };
        Extent { start: self.logical, length: self.length, place }
    }
}

#[allow(unsafe_code, reason = "ioctl: the argument types are laid out as in linux/fiemap.h")]
fn look(file: &File, start: u64) -> io::Result<Box<Map>> {
    let nothing =
        FoundExtent { logical: 0, physical: 0, length: 0, reserved: [0; 2], flags: 0, reserved_too: [0; 3] };
    let head = Head {
        start,
        length: u64::MAX - start,
        flags: SYNC,
        mapped: 0,
        count: EXTENTS_A_CALL as u32,
        reserved: 0,
    };
    let mut map = Box::new(Map { head, found: [nothing; EXTENTS_A_CALL] });
    // SAFETY: FS_IOC_FIEMAP reads and writes one `fiemap`, which `Map` mirrors, and writes no more than the `count`
    // extents behind it, for which `Map` has room.
    unsafe { rustix::ioctl::ioctl(file, MapOp::new(&mut *map))? };
    Ok(map)
}
