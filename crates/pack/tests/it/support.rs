//! What several tests of packs need.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use duramen_pack::container::{Kind, Pack, PackSummary, PackWriter, RangeRead, SectionOptions, Verified};
use duramen_pack::PackError;

/// Bytes in memory that count how they are read.
#[derive(Debug)]
pub(crate) struct Counting {
    bytes: Vec<u8>,
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
}

impl Counting {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes, reads: AtomicU64::new(0), read_bytes: AtomicU64::new(0) })
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.read_bytes.load(Ordering::Relaxed))
    }
}

impl RangeRead for Counting {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let range = offset as usize..offset as usize + buffer.len();
        let found = self.bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

/// The content of a block of the pack that [`write_sample`] writes.
pub(crate) fn block(section: usize, number: usize) -> Vec<u8> {
    // The first half is easy to compress; the second is not.
    let mut bytes = vec![number as u8; 40];
    let mut rng = fastrand::Rng::with_seed((section * 1000 + number) as u64);
    bytes.extend((0..40).map(|_| rng.u8(..)));
    bytes
}

/// A pack of sections `s0`, `s1`, .. with blocks under the keys `k00000`, `k00001`, ..
pub(crate) fn write_sample(
    path: &Path,
    sections: usize,
    blocks: usize,
    mark: u8,
) -> Result<PackSummary, PackError> {
    let mut writer = PackWriter::create(path, Kind::Graph)?;
    for section in 0..sections {
        let dictionary = (section == 1).then(|| Arc::from(block(1, 7)));
        writer.begin_section(&format!("s{section}"), SectionOptions { dictionary, ..Default::default() })?;
        for number in 0..blocks {
            let mut bytes = block(section, number);
            bytes[0] = mark;
            writer.block(format!("k{number:05}").as_bytes(), 2, &bytes)?;
        }
    }
    writer.finish(format!("manifest {mark}").as_bytes())
}

/// Opens bytes as a pack and verifies all of it.
pub(crate) fn verify(bytes: &[u8]) -> Result<Verified, PackError> {
    Pack::open_source(Counting::new(bytes.to_vec()), "sample.dpack")?.verify(&mut |_, _| {})
}
