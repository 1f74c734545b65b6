//! What is written: keys of 16 bytes and random values.

use duramen_base::entropy;

/// Bytes of random data that values are cut from. Large enough that a value does not repeat soon.
const POOL_BYTES: usize = 1 << 20;

/// A key of 16 bytes: `k` and a number.
pub(crate) struct Key([u8; 16]);

impl Key {
    pub(crate) fn from_number(mut number: u64) -> Self {
        let mut bytes = *b"k000000000000000";
        for digit in bytes[1..].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Self(bytes)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a key is made of a letter and digits")
    }
}

/// Random bytes.
#[derive(Debug)]
pub(crate) struct Pool(Vec<u8>);

impl Pool {
    pub(crate) fn new(seed: u64) -> Self {
        let mut bytes = vec![0; POOL_BYTES];
        entropy::rng(seed).fill(&mut bytes);
        Self(bytes)
    }

    /// A value of `size` bytes.
    pub(crate) fn value(&self, rng: &mut fastrand::Rng, size: usize) -> &[u8] {
        self.at(rng.usize(..self.0.len() - size), size)
    }

    /// The value of `size` bytes that begins at `at`.
    pub(crate) fn at(&self, at: usize, size: usize) -> &[u8] {
        &self.0[at..at + size]
    }
}
