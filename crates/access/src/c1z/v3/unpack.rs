//! Blocks of tables: verified against their checksums, and decompressed.
//!
//! ```text
//! block = content | kind of compression u8 | checksum u32     kinds: 0 none, 1 snappy, 7 zstd behind a varint length
//! ```

use zstd::bulk::Decompressor;

use super::footer::Handle;
use super::log::masked_crc;
use crate::c1z::error::{Bad, EXPORT_ADVICE};
use crate::c1z::limits::BLOCK_BYTES_MAX;
use crate::c1z::wire;

/// What decompressing blocks needs, kept from block to block.
#[derive(Default)]
pub(crate) struct Unpack {
    zstd: Option<Decompressor<'static>>,
}

impl Unpack {
    /// Puts the block of the table `bytes` that lies at `handle` into `out`. `checksum` is the kind of its checksum.
    pub(crate) fn block(
        &mut self,
        bytes: &[u8],
        checksum: u8,
        handle: Handle,
        out: &mut Vec<u8>,
    ) -> Result<(), Bad> {
        let at = usize::try_from(handle.offset).unwrap_or(usize::MAX);
        let range = usize::try_from(handle.length).ok().and_then(|length| {
            let end = at.checked_add(length)?;
            (end.checked_add(5)? <= bytes.len()).then_some((at..end, end))
        });
        let Some((range, end)) = range else {
            return Err(Bad::new(bytes.len(), "a block lies outside its table"));
        };
        let covered = &bytes[range.start..end + 1];
        let kind = bytes[end];
        let stored = bytes[end + 1..end + 5].try_into().map_or(0, u32::from_le_bytes);
        let computed = match checksum {
            1 => masked_crc(covered),
            3 => xxhash_rust::xxh64::xxh64(covered, 0) as u32,
            other => return Err(Bad::new(bytes.len(), format!("there is no kind {other} of checksum"))),
        };
        if stored != computed {
            return Err(Bad::new(at, "a block of a table does not match its checksum"));
        }
        let content = &bytes[range];
        let bounded = |length: u64| {
            if length > BLOCK_BYTES_MAX as u64 {
                return Err(Bad::too_large(at, "a block of a table", length, BLOCK_BYTES_MAX as u64));
            }
            Ok(length as usize)
        };
        let failed = |e: std::io::Error| Bad::new(at, format!("a block does not decompress: {e}"));
        match kind {
            0 => {
                out.clear();
                out.extend_from_slice(content);
            }
            1 => {
                let length = snap::raw::decompress_len(content).map_err(|e| Bad::new(at, e.to_string()))?;
                // What the buffer held before is written over: clearing it first would cost as much again.
                out.resize(bounded(length as u64)?, 0);
                snap::raw::Decoder::new()
                    .decompress(content, out)
                    .map_err(|e| Bad::new(at, e.to_string()))?;
            }
            7 => {
                let mut start = 0;
                let length = bounded(wire::varint(content, &mut start).map_err(|bad| bad.shifted(at))?)?;
                out.resize(length, 0);
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    None => self.zstd.insert(Decompressor::new().map_err(failed)?),
                };
                let decoded =
                    zstd.decompress_to_buffer(&content[start..], out.as_mut_slice()).map_err(failed)?;
                if decoded != length {
                    return Err(Bad::new(at, format!("a block of {length} bytes decompresses to {decoded}")));
                }
            }
            other => {
                let names = ["zlib", "bzip2", "lz4", "lz4hc", "xpress", "", "minlz"];
                let name = usize::from(other).checked_sub(2).and_then(|at| names.get(at));
                let Some(name) = name.filter(|name| !name.is_empty()) else {
                    return Err(Bad::new(end, format!("there is no kind {other} of compression")));
                };
                return Err(Bad::unsupported(end, format!("blocks compressed by {name}"), EXPORT_ADVICE));
            }
        }
        Ok(())
    }
}
