//! One piece of memory that is used again. A page is longer than what allocators keep for the next one, so that the system would
//! have to clear new memory for each.

use parking_lot::Mutex;

/// Longer pieces are given back.
const MAX_BYTES: usize = 8 << 20;

static SPARE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A vector of so many zeros, with the spare memory if there is some.
pub(crate) fn take(len: usize) -> Vec<u8> {
    let mut bytes = std::mem::take(&mut *SPARE.lock());
    bytes.clear();
    bytes.resize(len, 0);
    bytes
}

/// Keeps memory for the next one, if it is more than what is kept.
pub(crate) fn keep(bytes: Vec<u8>) {
    let mut spare = SPARE.lock();
    if bytes.capacity() <= MAX_BYTES && bytes.capacity() > spare.capacity() {
        *spare = bytes;
    }
}
