//! The rows of a run: the same for every engine, and the same again with the same seed.

use duramen_base::entropy;

/// A key: 16 hexadecimal digits without any order or prefix in common.
pub(crate) type Key = [u8; 16];

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;

/// Rows in ascending order of their keys; a row's place in that order is its rank.
pub(crate) struct Data {
    keys: Vec<Key>,
    values: Vec<u8>,
}

impl Data {
    /// Makes `rows` rows.
    pub(crate) fn new(seed: u64, rows: usize) -> Self {
        let salt = mix(seed);
        let mut keys: Vec<Key> = (0..rows as u64)
            .map(|index| {
                let mut key = [0; 16];
                // Mixing is a bijection, so no key comes twice.
                let text = format!("{:016x}", mix(index ^ salt));
                key.copy_from_slice(text.as_bytes());
                key
            })
            .collect();
        keys.sort_unstable();
        let mut values = vec![0; rows * VALUE_BYTES];
        entropy::rng(seed).fill(&mut values);
        Self { keys, values }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of all keys and values.
    pub(crate) fn raw_bytes(&self) -> u64 {
        (self.keys.len() * (size_of::<Key>() + VALUE_BYTES)) as u64
    }

    /// The key of a rank.
    pub(crate) fn key(&self, rank: usize) -> &Key {
        &self.keys[rank]
    }

    /// The value of a rank.
    pub(crate) fn value(&self, rank: usize) -> &[u8] {
        &self.values[rank * VALUE_BYTES..(rank + 1) * VALUE_BYTES]
    }

    /// All ranks in random order.
    pub(crate) fn shuffled(&self, seed: u64) -> Vec<u32> {
        let rows = u32::try_from(self.rows()).expect("the command line allows fewer rows than that");
        let mut ranks: Vec<u32> = (0..rows).collect();
        entropy::rng(seed).shuffle(&mut ranks);
        ranks
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): a bijection of 64-bit numbers.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
