//! How blocks are compressed.

use std::sync::Arc;

use crate::error::PackError;
use crate::limits::DICTIONARY_BYTES_MAX;

/// How a block is stored. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is: compressing it did not pay.
    Raw = 0,
    /// One frame of Zstandard.
    Zstd = 1,
}

impl Codec {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Raw, Self::Zstd].into_iter().find(|codec| *codec as u8 == byte)
    }
}

/// How the blocks of a section are written.
#[derive(Clone, Debug)]
pub struct SectionOptions {
    /// The level of Zstandard: 1 is fast, 19 is small.
    pub level: i32,
    /// What blocks are likely to contain, for blocks that are too small to tell: see [`train_dictionary`]. It is
    /// stored with the section.
    pub dictionary: Option<Arc<[u8]>>,
}

impl Default for SectionOptions {
    /// Level 3, without a dictionary.
    fn default() -> Self {
        Self { level: 3, dictionary: None }
    }
}

/// A dictionary of at most `max` bytes for blocks like `samples`, or none when there are too few of them to learn
/// from.
pub fn train_dictionary<S: AsRef<[u8]>>(samples: &[S], max: usize) -> Option<Arc<[u8]>> {
    let max = max.min(DICTIONARY_BYTES_MAX as usize);
    zstd::dict::from_samples(samples, max).ok().map(Arc::from)
}

/// What compressing needs from one block to the next. Each thread has one of its own.
#[derive(Default)]
pub struct Compressor {
    ready: Option<Ready>,
}

struct Ready {
    level: i32,
    dictionary: Option<Arc<[u8]>>,
    context: zstd::bulk::Compressor<'static>,
}

impl Compressor {
    /// A compressor for any options.
    pub fn new() -> Self {
        Self::default()
    }

    fn context(&mut self, options: &SectionOptions) -> std::io::Result<&mut zstd::bulk::Compressor<'static>> {
        let fits = |ready: &Ready| {
            let same = match (&ready.dictionary, &options.dictionary) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
                _ => false,
            };
            ready.level == options.level && same
        };
        let ready = match self.ready.take().filter(fits) {
            Some(ready) => ready,
            None => {
                let dictionary = options.dictionary.as_deref().unwrap_or_default();
                let context = zstd::bulk::Compressor::with_dictionary(options.level, dictionary)?;
                Ready { level: options.level, dictionary: options.dictionary.clone(), context }
            }
        };
        Ok(&mut self.ready.insert(ready).context)
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("level", &self.ready.as_ref().map(|ready| ready.level)).finish()
    }
}

/// Puts the stored form of a block into `out`, whatever that holds, and returns which form it is. What does not become
/// smaller by a thirty-second part is stored as it is, so that reading it costs nothing.
///
/// ```
/// use duramen_pack::container::{compress, Codec, Compressor, SectionOptions};
/// let (options, mut compressor) = (SectionOptions::default(), Compressor::new());
/// let mut stored = Vec::new();
/// assert_eq!(compress(&options, &[7; 1000], &mut stored, &mut compressor), Codec::Zstd);
/// assert!(stored.len() < 100);
/// assert_eq!(compress(&options, b"birch", &mut stored, &mut compressor), Codec::Raw);
/// assert_eq!(stored, b"birch");
/// ```
pub fn compress(options: &SectionOptions, raw: &[u8], out: &mut Vec<u8>, context: &mut Compressor) -> Codec {
    out.clear();
    out.reserve(zstd::zstd_safe::compress_bound(raw.len()));
    let compressed = context.context(options).and_then(|context| context.compress_to_buffer(raw, out));
    match compressed {
        Ok(len) if len < raw.len() - raw.len() / 32 => Codec::Zstd,
        // Without memory for compressing, what is not compressed is right as well.
        _ => {
            out.clear();
            out.extend_from_slice(raw);
            Codec::Raw
        }
    }
}

/// What decompressing needs from one block to the next.
pub(crate) struct Decompressor {
    context: zstd::bulk::Decompressor<'static>,
}

impl Decompressor {
    pub(crate) fn new(dictionary: &[u8], file: &str) -> Result<Self, PackError> {
        let context = zstd::bulk::Decompressor::with_dictionary(dictionary);
        Ok(Self { context: context.map_err(PackError::io("prepare decompressing", file))? })
    }

    /// Puts the content of a block into `out`, which has exactly `raw_len` bytes then.
    pub(crate) fn run(&mut self, stored: &[u8], raw_len: usize, out: &mut Vec<u8>) -> Result<(), String> {
        // A slice of the right length is the limit: what holds more is an error, whatever the frame says of itself.
        out.resize(raw_len, 0);
        let decompressed = self.context.decompress_to_buffer(stored, out.as_mut_slice());
        let len = decompressed.map_err(|error| error.to_string())?;
        if len != raw_len {
            return Err(format!("it holds {len} bytes instead of {raw_len}"));
        }
        Ok(())
    }
}
