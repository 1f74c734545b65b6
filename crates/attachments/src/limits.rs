//! What the daemon spends on showing what is attached, at most.

use std::time::Duration;

/// Stores and packs that are open at a time.
pub const OPEN_MAX: usize = 8;
/// How long one stays open that nobody looks at.
pub const UNUSED: Duration = Duration::from_secs(60);
/// Memory that all open ones may take together, in bytes, by what is known of them. One that is alone may have as much as its own limits say.
pub const OPEN_BYTES: u64 = 512 << 20;
/// Memory for the nodes of a store or of a pack's branch, in bytes.
pub const STORE_BYTES: usize = 32 << 20;
/// The longest log of a store that is read, in bytes: what it holds since the last checkpoint is in memory. A store that is written makes a
/// checkpoint each 128 MiB.
pub const LOG_BYTES_MAX: u64 = 512 << 20;
/// The largest file with an access graph, in bytes.
pub const GRAPH_FILE_BYTES_MAX: u64 = 1 << 30;
/// The most that may come out of a `.c1z` file, in bytes.
pub const GRAPH_DECODED_BYTES_MAX: u64 = 512 << 20;
/// The most grants of a sync. Each takes about 40 bytes.
pub const GRANTS_MAX: u64 = 2_000_000;
/// The most resources and entitlements of a sync, together.
pub const ENTITIES_MAX: u64 = 1_000_000;
/// The most text that is kept of a sync, in bytes: ids, names, and the sources that grants name.
pub const GRAPH_TEXT_BYTES_MAX: u64 = 192 << 20;
/// The longest id in an access graph, in bytes; a grant's is made of three others.
pub const ID_BYTES_MAX: usize = 4 << 10;
/// The longest name that is kept, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Steps that an answer about access may take: about a second, and 200 MiB.
pub const STEPS_MAX: u64 = 12_000_000;
/// How long is looked for what a page holds. What was found by then is told.
pub const LOOK: Duration = Duration::from_secs(10);
/// Entries of a page unless somebody says otherwise.
pub const PAGE: usize = 200;
/// Text of a page, in bytes.
pub const PAGE_BYTES: usize = 1 << 20;
/// The beginning of a value in a page, in bytes.
pub const SHORT_BYTES: usize = 240;
/// A value that is shown in full, in bytes.
pub const FULL_BYTES: usize = 1 << 20;
/// Branches, spaces, collections and retained states that are told.
pub const LIST_MAX: usize = 1000;
/// Paths that are told of why somebody holds something.
pub const PATHS_MAX: usize = 8;
/// Steps of a path that are told.
pub const PATH_STEPS_MAX: usize = 32;
/// Sources that are told of a grant.
pub const THROUGH_MAX: usize = 8;
