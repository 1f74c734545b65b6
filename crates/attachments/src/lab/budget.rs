//! How much one request may read: the rest is read when somebody asks again.

use duramen_base::clock;
use std::time::{Duration, Instant};

/// How many bytes of files one request reads.
pub const READ_MAX: u64 = 256 << 20;
/// How long it goes on reading files, of which it does not know what is in them. The file that is read then is read to its end.
pub const READ_LIMIT: Duration = Duration::from_secs(5);

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: u64,
    began: Instant,
    is_fresh: bool,
}

impl Budget {
    pub(super) fn new() -> Budget {
        Budget { bytes: READ_MAX, began: clock::now(), is_fresh: true }
    }

    /// Whether a file of this size may still be read. The first may: else nobody would get on.
    pub(super) fn takes(&mut self, bytes: u64) -> bool {
        let takes = self.is_fresh || (bytes <= self.bytes && self.began.elapsed() < READ_LIMIT);
        if takes {
            self.is_fresh = false;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        takes
    }
}
