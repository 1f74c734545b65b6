//! What is believed of a `.c1z` file before it is read: every length, count and name has a bound.

/// The longest manifest of a version 3 file, in bytes. Readers of the ecosystem refuse longer ones too.
pub const MANIFEST_BYTES_MAX: u32 = 16 << 20;

/// The longest index of frames of a version 3 file, in bytes.
pub const INDEX_BYTES_MAX: u32 = 64 << 20;

/// The most files in the directory of a version 3 file.
pub const FILES_MAX: usize = 65_536;

/// The longest name of such a file, in bytes.
pub const NAME_BYTES_MAX: usize = 4_096;

/// How much a file may hold after decompression, in bytes, unless [`ReadOptions`](super::ReadOptions) say otherwise.
pub const DECOMPRESSED_BYTES_MAX: u64 = 10 << 30;

/// How much a file may hold after decompression, in bytes, however short it is.
pub const DECOMPRESSED_BYTES_FREE: u64 = 1 << 30;

/// How many times longer a file may be after decompression, above [`DECOMPRESSED_BYTES_FREE`]. Rows shrink by a factor
/// of 20 to 60; zeros by one of thirty thousand.
pub const DECOMPRESSION_RATIO_MAX: u64 = 200;

/// The largest window of a zstd frame, as a power of two: 128 MiB.
pub const WINDOW_LOG_MAX: u32 = 27;

/// The longest key of a version 3 row, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value of a version 3 row, in bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// The longest block of a table after decompression, in bytes.
pub const BLOCK_BYTES_MAX: usize = 256 << 20;

/// The most range deletions in a version 3 file: all of them are in memory while rows are visited.
pub const RANGE_DELETIONS_MAX: usize = 65_536;

/// The longest id in a row that is written, in bytes: as in a pack. The ecosystem's tools check no length when they read
/// files, and 1,024 bytes when a connector sends a row. The longest key has five such ids, with every byte escaped, and
/// is shorter than [`KEY_BYTES_MAX`].
pub const ID_BYTES_MAX: usize = 4 << 10;

/// The longest id of a grant that is written, in bytes: it may be made of three other ids.
pub const GRANT_ID_BYTES_MAX: usize = 3 * ID_BYTES_MAX + 2;

/// The longest record of a row that is written, in bytes: with its key and its lengths it still fits into a block that
/// is read.
pub const RECORD_BYTES_MAX: usize = BLOCK_BYTES_MAX - (1 << 20);
