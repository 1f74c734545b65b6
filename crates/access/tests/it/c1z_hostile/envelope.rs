//! Version 3 files taken apart and put together again, with right checksums over whatever they say.

use std::path::Path;

use ring::digest::{digest, SHA256};
use xxhash_rust::xxh64::xxh64;

/// What a message holds: the numbers of its fields, and their numbers or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        found.push(match tag & 7 {
            0 => (tag >> 3, number(&mut bytes), &bytes[..0]),
            1 => (tag >> 3, 0, bytes.split_off(..8).unwrap()),
            _ => {
                let length = number(&mut bytes) as usize;
                (tag >> 3, 0, bytes.split_off(..length).unwrap())
            }
        });
    }
    found
}

fn number(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.split_off_first().unwrap();
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_varint(out: &mut Vec<u8>, field: u64, value: u64) {
    put_number(out, field << 3);
    put_number(out, value);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_number(out, field << 3 | 2);
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// What the index says of a file. What is none is said as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) raw: Vec<u8>,
    /// The frame, if it is not that of `raw`.
    pub(crate) frame: Option<Vec<u8>>,
    pub(crate) raw_size: Option<u64>,
    pub(crate) offset: Option<u64>,
    pub(crate) sha256: Option<Vec<u8>>,
}

/// A version 3 file.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) manifest: Vec<u8>,
    pub(crate) files: Vec<File>,
    /// The sum of the lengths of the files, if it is not said as it is.
    pub(crate) total_raw: Option<u64>,
}

impl Parts {
    pub(crate) fn read(path: &Path) -> Parts {
        let bytes = std::fs::read(path).unwrap();
        let manifest_len = u32::from_be_bytes(bytes[5..9].try_into().unwrap()) as usize;
        let footer = &bytes[bytes.len() - 28..];
        let index = u64::from_be_bytes(footer[..8].try_into().unwrap()) as usize;
        let entries = fields(&bytes[index..bytes.len() - 28]).into_iter().filter(|(field, ..)| *field == 1);
        let files = entries.map(|(_, _, entry)| {
            let entry = fields(entry);
            let field = |wanted: u64| entry.iter().find(|(field, ..)| *field == wanted);
            let number = |wanted: u64| field(wanted).map_or(0, |(_, number, _)| *number as usize);
            let stored = &bytes[number(2)..number(2) + number(3)];
            let raw = zstd::bulk::decompress(stored, number(4)).unwrap();
            File { name: String::from_utf8(field(1).unwrap().2.to_vec()).unwrap(), raw, ..File::default() }
        });
        Parts { manifest: bytes[9..9 + manifest_len].to_vec(), files: files.collect(), total_raw: None }
    }

    /// The file of the directory whose name begins so.
    pub(crate) fn file(&mut self, name: &str) -> &mut File {
        self.files.iter_mut().find(|file| file.name.starts_with(name)).unwrap()
    }

    pub(crate) fn write(&self, path: &Path) {
        let mut out = b"C1Z3\0".to_vec();
        out.extend((self.manifest.len() as u32).to_be_bytes());
        out.extend(&self.manifest);
        let (mut index, mut total_raw, mut total_stored) = (Vec::new(), 0_u64, 0);
        for file in &self.files {
            let compressed = || zstd::bulk::compress(&file.raw, 1).unwrap();
            let frame = file.frame.clone().unwrap_or_else(compressed);
            let raw_size = file.raw_size.unwrap_or(file.raw.len() as u64);
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, file.name.as_bytes());
            put_varint(&mut entry, 2, file.offset.unwrap_or(out.len() as u64));
            put_varint(&mut entry, 3, frame.len() as u64);
            put_varint(&mut entry, 4, raw_size);
            put_number(&mut entry, 5 << 3 | 1);
            entry.extend(xxh64(&file.raw, 0).to_le_bytes());
            let sha256 = || digest(&SHA256, &file.raw).as_ref().to_vec();
            put_bytes(&mut entry, 6, &file.sha256.clone().unwrap_or_else(sha256));
            put_bytes(&mut index, 1, &entry);
            total_raw = total_raw.wrapping_add(raw_size);
            total_stored += frame.len() as u64;
            out.extend(frame);
        }
        put_varint(&mut index, 2, self.total_raw.unwrap_or(total_raw));
        put_varint(&mut index, 3, total_stored);
        put_number(&mut index, 4 << 3 | 1);
        index.extend(xxh64(&self.manifest, 0).to_le_bytes());
        let at = out.len() as u64;
        out.extend(&index);
        out.extend(at.to_be_bytes());
        out.extend((index.len() as u32).to_be_bytes());
        out.extend(xxh64(&index, 0).to_be_bytes());
        out.extend(b"C1ZIDX1\0");
        std::fs::write(path, out).unwrap();
    }
}
