//! What a pack may hold at most. Every length that a file states is held against these before anything is done with it.

/// Bytes of a block before compression: 16 MiB. Reading a block takes no more memory than this, twice.
pub const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// Bytes of a key: 64 KiB.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Sections of a pack.
pub const SECTIONS_MAX: usize = 4096;

/// Bytes of the name of a section.
pub const SECTION_NAME_BYTES_MAX: usize = 64;

/// Bytes of the section table.
pub const TABLE_BYTES_MAX: u64 = 1 << 20;

/// Blocks of a section.
pub const BLOCKS_MAX: u64 = 1 << 26;

/// Bytes of the block index of a section: 4 GiB. An index is never longer than the file that holds it.
pub const INDEX_BYTES_MAX: u64 = 4 << 30;

/// Bytes of the manifest: 64 MiB.
pub const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a compression dictionary: 1 MiB.
pub const DICTIONARY_BYTES_MAX: u32 = 1 << 20;
