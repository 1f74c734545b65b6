//! Strings of several parts under small numbers, in one arena.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Keys (see [`key`](crate::graph::format::key)) under the numbers 0, 1, 2, ... in the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Interner {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    table: HashTable<u32>,
}

impl Interner {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, number)
    }

    /// Bytes of all keys.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How much memory it holds, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 8 + self.table.capacity() * 5
    }

    /// The number of a key, a new one if it was never seen.
    pub(crate) fn intern(&mut self, key: &[u8]) -> u32 {
        let Interner { bytes, ends, table } = self;
        let found = table.entry(
            xxh3_64(key),
            |number| slice(bytes, ends, *number) == key,
            |number| xxh3_64(slice(bytes, ends, *number)),
        );
        match found {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(place) => {
                let number = ends.len() as u32;
                place.insert(number);
                bytes.extend_from_slice(key);
                ends.push(bytes.len());
                number
            }
        }
    }

    /// The numbers in the order of their keys.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        // Most comparisons are decided by the first eight bytes after what all keys share.
        let shared = self.shared_prefix();
        let mut order: Vec<(u64, u32)> =
            (0..self.len() as u32).map(|number| (head(&self.get(number)[shared..]), number)).collect();
        order.sort_unstable_by(|(a_head, a), (b_head, b)| {
            a_head.cmp(b_head).then_with(|| self.get(*a).cmp(self.get(*b)))
        });
        order.into_iter().map(|(_, number)| number).collect()
    }

    fn shared_prefix(&self) -> usize {
        let Some(first) = (self.len() > 0).then(|| self.get(0)) else { return 0 };
        let mut shared = first.len();
        for number in 1..self.len() as u32 {
            shared = first.iter().zip(self.get(number)).take(shared).take_while(|(a, b)| a == b).count();
        }
        shared
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let at = number as usize;
    let begin = if at == 0 { 0 } else { ends[at - 1] };
    &bytes[begin..ends[at]]
}

/// The first eight bytes as a number that sorts as they do; shorter keys are filled up with zeros.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = bytes.len().min(8);
    head[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(head)
}
