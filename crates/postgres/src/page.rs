//! A text in a relation's file, replaced while no server runs.
//!
//! What one statement would cost a fresh server, some fifty reads of its catalogue, is one write of a page here. For that
//! the file must be what a server wrote when it stopped: nothing of it is left to be replayed.
//!
//! Source: the PostgreSQL documentation, "Database Page Layout"; the checksum is that of `storage/checksum_impl.h`, which
//! PostgreSQL installs for programs like this one.

use rustix::fs::{openat, openat2, Mode, OFlags, ResolveFlags, CWD};
use serde::{Deserialize, Serialize};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// Length of a page, in bytes: what servers are built with unless somebody chooses otherwise.
const PAGE: usize = 8192;
/// What such a page says in its header: its length, and version 4 of the layout, which all supported servers write.
const LENGTH_AND_VERSION: [u8; 2] = 0x2004_u16.to_le_bytes();
/// Where it says so.
const LENGTH_AT: usize = 18;
/// Where its checksum is. In a cluster without checksums it may be of any age.
const CHECKSUM_AT: usize = 8;
/// A larger file is not searched.
const SEARCHED_MAX: u64 = 64 << 20;

/// A text of a table without TOAST, where it lies in a data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredText {
    file: String,
    offsets: Vec<u64>,
    text: String,
    checksums: bool,
}

impl StoredText {
    /// Finds every copy of a text in a file of a data directory, such as `global/1260`; those that updates left behind
    /// included. `None` if there is none, or if pages are not as long as usual. `checksums` is the cluster's setting
    /// `data_checksums`.
    ///
    /// # Errors
    /// The operating system's answer, [`io::ErrorKind::InvalidInput`] for a file that is too large to be searched.
    pub fn find(data_dir: &Path, file: &str, text: &str, checksums: bool) -> io::Result<Option<StoredText>> {
        let opened = open(data_dir, file, OFlags::RDONLY)?;
        let length = opened.metadata()?.len();
        if length > SEARCHED_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{file} has {length} bytes")));
        }
        let mut offsets = Vec::new();
        let mut page = [0; PAGE];
        for start in (0..length / PAGE as u64).map(|block| block * PAGE as u64) {
            opened.read_exact_at(&mut page, start)?;
            if !is_usual(&page) {
                continue;
            }
            let places = page.windows(text.len()).enumerate().filter(|(_, bytes)| *bytes == text.as_bytes());
            offsets.extend(places.map(|(at, _)| start + at as u64));
        }
        let found = StoredText { file: file.to_owned(), offsets, text: text.to_owned(), checksums };
        Ok((!found.offsets.is_empty()).then_some(found))
    }

    /// Puts another text of the same length in its place, in this data directory or in a clone of it. `false`, and
    /// nothing is written, if a page is not what it was or its checksum is wrong.
    ///
    /// # Errors
    /// The operating system's answer; [`io::ErrorKind::InvalidInput`] for a text of another length. No file is reached
    /// through a symbolic link.
    pub fn replace(&self, data_dir: &Path, with: &str) -> io::Result<bool> {
        if with.len() != self.text.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the texts differ in length"));
        }
        let file = open(data_dir, &self.file, OFlags::RDWR)?;
        let mut pages: Vec<(u64, Box<[u8; PAGE]>)> = Vec::new();
        for offset in &self.offsets {
            let start = offset / PAGE as u64 * PAGE as u64;
            if pages.last().is_none_or(|(last, _)| *last != start) {
                let mut page = Box::new([0; PAGE]);
                file.read_exact_at(&mut *page, start)?;
                if !is_usual(&page) || (self.checksums && stored_checksum(&page) != checksum(&page, start)) {
                    return Ok(false);
                }
                pages.push((start, page));
            }
            let Some((_, page)) = pages.last_mut() else { return Ok(false) };
            let at = usize::try_from(offset - start).unwrap_or(PAGE);
            let Some(place) = page.get_mut(at..).and_then(|rest| rest.get_mut(..with.len())) else {
                return Ok(false);
            };
            if place != self.text.as_bytes() {
                return Ok(false);
            }
            place.copy_from_slice(with.as_bytes());
        }
        for (start, page) in &mut pages {
            if self.checksums {
                let sum = checksum(page, *start);
                page[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_le_bytes());
            }
            file.write_all_at(&**page, *start)?;
        }
        Ok(true)
    }
}

/// Opens a file of a data directory for reading, such as `base/5/16384`. A data directory belongs to the servers' user, who
/// may have put links there: none is followed.
///
/// # Errors
/// The operating system's answer.
pub fn open_file(data_dir: &Path, file: &str) -> io::Result<File> {
    open(data_dir, file, OFlags::RDONLY)
}

/// A data directory belongs to the servers' user, who may have put links there.
fn open(data_dir: &Path, file: &str, flags: OFlags) -> io::Result<File> {
    let dir = openat(CWD, data_dir, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::PATH, Mode::empty())?;
    let only_below = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(dir, file, flags | OFlags::CLOEXEC, Mode::empty(), only_below)?.into())
}

fn is_usual(page: &[u8; PAGE]) -> bool {
    page[LENGTH_AT..LENGTH_AT + 2] == LENGTH_AND_VERSION
}

fn stored_checksum(page: &[u8; PAGE]) -> u16 {
    u16::from_le_bytes([page[CHECKSUM_AT], page[CHECKSUM_AT + 1]])
}

/// The checksum of the page that begins at `start` in its file: 32 FNV-1a hashes side by side, the first word to the
/// first hash, the second to the second, and the block's number.
fn checksum(page: &[u8; PAGE], start: u64) -> u16 {
    /// What each hash begins with.
    #[rustfmt::skip]
    const BASES: [u32; 32] = [
        0x5B1F_36E9, 0xB852_5960, 0x02AB_50AA, 0x1DE6_6D2A, 0x79FF_467A, 0x9BB9_F8A3, 0x217E_7CD2, 0x83E1_3D2C,
        0xF8D4_474F, 0xE39E_B970, 0x42C6_AE16, 0x9932_16FA, 0x7B09_3B5D, 0x98DA_FF3C, 0xF718_902A, 0x0B1C_9CDB,
        0xE58F_764B, 0x1876_36BC, 0x5D7B_3BB1, 0xE73D_E7DE, 0x92BE_C979, 0xCCA6_C0B2, 0x304A_0979, 0x85AA_43D4,
        0x7831_25BB, 0x6CA8_EAA2, 0xE407_EAC6, 0x4B5C_FC3E, 0x9FBF_8C76, 0x15CA_20BE, 0xF2CA_9FD3, 0x959B_D756,
    ];
    let mix = |hash: &mut u32, word: u32| {
        let mixed = *hash ^ word;
        *hash = mixed.wrapping_mul(16_777_619) ^ (mixed >> 17);
    };
    let mut hashes = BASES;
    for (index, bytes) in page.chunks_exact(4).enumerate() {
        let mut word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if index == CHECKSUM_AT / 4 {
            word &= 0xFFFF_0000;
        }
        mix(&mut hashes[index % BASES.len()], word);
    }
    for _ in 0..2 {
        for hash in &mut hashes {
            mix(hash, 0);
        }
    }
    let block = u32::try_from(start / PAGE as u64).unwrap_or(u32::MAX);
    let folded = hashes.iter().fold(block, |all, hash| all ^ hash);
    u16::try_from(folded % 65_535 + 1).unwrap_or(u16::MAX)
}
