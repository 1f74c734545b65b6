//! The file: sections of sorted blocks, an index of each, a manifest, and one digest over all.
//!
//! A pack is written front to back under a temporary name and appears under its own when it is complete and durable
//! ([`PackWriter`]). It is read where it lies, by ranges ([`Pack`], over any [`RangeRead`]): opening reads the two ends of
//! it, whatever its size; a block is read, checked and decompressed when it is asked for.
//!
//! ```
//! use duramen_pack::container::{Kind, Pack, PackWriter, SectionOptions};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("trees.dpack");
//! let mut writer = PackWriter::create(&path, Kind::Graph)?;
//! writer.begin_section("trees", SectionOptions::default())?;
//! writer.block(b"birch", 1, b"white and slender")?;
//! writer.block(b"oak", 1, b"slow and heavy")?;
//! writer.finish(b"{}")?;
//!
//! let pack = Pack::open(&path)?;
//! let trees = pack.section("trees")?.ok_or("no such section")?;
//! let block = trees.find(b"maple").ok_or("before the first key")?;
//! let mut bytes = Vec::new();
//! trees.read(block, &mut bytes)?;
//! assert_eq!(bytes, b"white and slender");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod bytes;
mod compress;
mod format;
mod index;
mod reader;
#[cfg(feature = "remote")]
mod remote;
mod source;
mod temporary;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use compress::{compress, train_dictionary, Codec, Compressor, SectionOptions};
pub use format::{hex, Kind, FORMAT};
pub use reader::{Pack, Section, SectionInfo};
pub use source::{is_url, FileSource, RangeRead};
pub use temporary::Temporary;
pub use verify::{Inspect, Progress, Verified};
pub use writer::{PackSummary, PackWriter, SectionId};
