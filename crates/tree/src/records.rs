//! Sorted byte strings with values in one buffer, and the search among them that every operation ends in.
//!
//! A record lies anywhere in the heap; the order is that of `offsets`. Beside each offset stands the *head* of its
//! key: the four bytes after the prefix that all keys share, as a number. A search decides most comparisons on heads
//! alone, which lie side by side, and reads the heap once at its end (Graefe and Larson, "B-tree indexes and CPU
//! caches", ICDE 2001).

/// `key_len u16, value_len u32` before each key, little endian.
const HEADER: usize = 6;

/// Steps by which a heap grows: doubling would leave half of a full node empty.
const GROWTH: usize = 4096;

/// The longest shared prefix that is looked for. A longer one makes heads less useful, not wrong.
const PREFIX_MAX: usize = 47;

/// What all keys of a node begin with, without an allocation of its own.
#[derive(Clone, Copy)]
struct Prefix {
    len: u8,
    bytes: [u8; PREFIX_MAX],
}

impl Prefix {
    fn new(bytes: &[u8]) -> Self {
        let len = bytes.len().min(PREFIX_MAX);
        let mut prefix = Self { len: len as u8, bytes: [0; PREFIX_MAX] };
        prefix.bytes[..len].copy_from_slice(&bytes[..len]);
        prefix
    }

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }
}

/// Sorted records.
pub(crate) struct Records {
    prefix: Prefix,
    heads: Vec<u32>,
    offsets: Vec<u32>,
    heap: Vec<u8>,
    /// Bytes of the heap that no offset leads to.
    dead: usize,
}

impl Clone for Records {
    /// A copy is made to be written: it is packed, and has room for one more record.
    fn clone(&self) -> Self {
        let room = self.heap.len() - self.dead + GROWTH / 8;
        let mut heap = Vec::with_capacity(room.next_multiple_of(GROWTH / 8));
        if self.dead == 0 {
            heap.extend_from_slice(&self.heap);
            let copy_of = |from: &Vec<u32>| {
                let mut to = Vec::with_capacity(from.len() + 8);
                to.extend_from_slice(from);
                to
            };
            let (heads, offsets) = (copy_of(&self.heads), copy_of(&self.offsets));
            return Self { prefix: self.prefix, heads, offsets, heap, dead: 0 };
        }
        let mut copy = Self {
            prefix: self.prefix,
            heads: self.heads.clone(),
            offsets: Vec::with_capacity(self.offsets.len() + 8),
            heap,
            dead: 0,
        };
        for index in 0..self.len() {
            copy.offsets.push(copy.heap.len() as u32);
            copy.heap.extend_from_slice(self.record(index));
        }
        copy
    }
}

impl Default for Records {
    fn default() -> Self {
        Self { prefix: Prefix::new(&[]), heads: Vec::new(), offsets: Vec::new(), heap: Vec::new(), dead: 0 }
    }
}

/// The four bytes after the prefix, so that comparing numbers compares bytes.
#[inline]
fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(bytes)
        }
    }
}

/// How many bytes two strings begin with together.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Records {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes that the records need: what is split and merged by.
    #[inline]
    pub(crate) fn live_bytes(&self) -> usize {
        self.heap.len() - self.dead
    }

    /// Bytes of memory that are held, used or not.
    pub(crate) fn memory(&self) -> usize {
        self.heap.capacity() + 4 * (self.heads.capacity() + self.offsets.capacity())
    }

    /// What one record takes.
    #[inline]
    pub(crate) fn bytes_of(key: &[u8], value: &[u8]) -> usize {
        HEADER + key.len() + value.len()
    }

    #[inline]
    fn lengths(&self, at: usize) -> (usize, usize) {
        let header: &[u8; HEADER] =
            self.heap[at..].first_chunk().expect("an offset leads to a whole record of this heap");
        let key = u16::from_le_bytes([header[0], header[1]]);
        let value = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
        (usize::from(key), value as usize)
    }

    fn record(&self, index: usize) -> &[u8] {
        let at = self.offsets[index] as usize;
        let (key, value) = self.lengths(at);
        &self.heap[at..at + HEADER + key + value]
    }

    #[inline]
    pub(crate) fn key(&self, index: usize) -> &[u8] {
        let at = self.offsets[index] as usize;
        let (key, _) = self.lengths(at);
        &self.heap[at + HEADER..at + HEADER + key]
    }

    #[inline]
    pub(crate) fn entry(&self, index: usize) -> (&[u8], &[u8]) {
        let at = self.offsets[index] as usize;
        let (key, value) = self.lengths(at);
        self.heap[at + HEADER..at + HEADER + key + value].split_at(key)
    }

    /// Where a key is, or where it would be.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix.as_slice();
        if !key.starts_with(prefix) {
            return Err(if key < prefix { 0 } else { self.len() });
        }
        let suffix = &key[prefix.len()..];
        let head = head_of(suffix);
        let first = self.heads.partition_point(|&other| other < head);
        if self.heads.get(first) != Some(&head) {
            return Err(first);
        }
        let mut low = first;
        let mut high = first + self.heads[first..].partition_point(|&other| other == head);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle)[prefix.len()..].cmp(suffix) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// The first record whose key is not below `key`.
    #[inline]
    pub(crate) fn lower_bound(&self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|at| at)
    }

    /// Makes the shared prefix fit a key that comes in.
    fn admit(&mut self, key: &[u8]) {
        if self.len() == 0 {
            self.prefix = Prefix::new(key);
        } else if !key.starts_with(self.prefix.as_slice()) {
            let len = common_prefix(self.prefix.as_slice(), key);
            self.set_prefix(len);
        }
    }

    fn set_prefix(&mut self, len: usize) {
        let first = self.key(0);
        self.prefix = Prefix::new(&first[..len.min(first.len())]);
        let len = self.prefix.len();
        for index in 0..self.len() {
            self.heads[index] = head_of(&self.key(index)[len..]);
        }
    }

    /// Finds the longest prefix anew: after the records became fewer, it may have grown.
    pub(crate) fn tighten(&mut self) {
        if self.len() > 0 {
            let len = common_prefix(self.key(0), self.key(self.len() - 1)).min(PREFIX_MAX);
            if len != self.prefix.len() {
                self.set_prefix(len);
            }
        }
    }

    fn append(&mut self, key: &[u8], value: &[u8]) -> u32 {
        let need = Self::bytes_of(key, value);
        if self.heap.capacity() - self.heap.len() < need {
            self.heap.reserve_exact(need.max(GROWTH));
        }
        let at = self.heap.len() as u32;
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
        header[2..].copy_from_slice(&(value.len() as u32).to_le_bytes());
        self.heap.extend_from_slice(&header);
        self.heap.extend_from_slice(key);
        self.heap.extend_from_slice(value);
        at
    }

    pub(crate) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        self.admit(key);
        let at = self.append(key, value);
        self.heads.insert(index, head_of(&key[self.prefix.len()..]));
        self.offsets.insert(index, at);
    }

    /// Appends a record that is known to be above all others.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.insert(self.len(), key, value);
    }

    pub(crate) fn replace(&mut self, index: usize, value: &[u8]) {
        let at = self.offsets[index] as usize;
        let (key_len, value_len) = self.lengths(at);
        let begin = at + HEADER + key_len;
        if value_len == value.len() {
            self.heap[begin..begin + value_len].copy_from_slice(value);
            return;
        }
        let key_bytes = at + HEADER..begin;
        self.dead += HEADER + key_len + value_len;
        let need = HEADER + key_len + value.len();
        if self.heap.capacity() - self.heap.len() < need {
            self.heap.reserve_exact(need.max(GROWTH));
        }
        self.offsets[index] = self.heap.len() as u32;
        self.heap.extend_from_slice(&(key_len as u16).to_le_bytes());
        self.heap.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.heap.extend_from_within(key_bytes);
        self.heap.extend_from_slice(value);
        self.pack_if_sparse();
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.dead += self.record(index).len();
        self.heads.remove(index);
        self.offsets.remove(index);
        self.pack_if_sparse();
    }

    fn pack_if_sparse(&mut self) {
        if self.dead > GROWTH && self.dead > self.live_bytes() / 3 {
            *self = self.clone();
        }
    }

    /// Cuts the records from `index` on off into a node of their own.
    pub(crate) fn split_off(&mut self, index: usize) -> Self {
        let part = |range: std::ops::Range<usize>| {
            let mut part = Self::default();
            for at in range {
                let (key, value) = self.entry(at);
                part.push_raw(key, value);
            }
            part.finish();
            part
        };
        let right = part(index..self.len());
        let left = part(0..index);
        *self = left;
        right
    }

    /// Appends without a head; [`finish`](Self::finish) makes them all.
    pub(crate) fn push_raw(&mut self, key: &[u8], value: &[u8]) {
        let at = self.append(key, value);
        self.heads.push(0);
        self.offsets.push(at);
    }

    /// Ends a run of [`push_raw`](Self::push_raw).
    pub(crate) fn finish(&mut self) {
        if self.len() > 0 {
            let len = common_prefix(self.key(0), self.key(self.len() - 1)).min(PREFIX_MAX);
            self.set_prefix(len);
        }
    }

    /// Makes room for a node of a known size.
    pub(crate) fn with_capacity(records: usize, bytes: usize) -> Self {
        Self {
            heads: Vec::with_capacity(records),
            offsets: Vec::with_capacity(records),
            heap: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Bytes of headers in a heap of `records` records.
    pub(crate) const fn header_bytes(records: usize) -> usize {
        records * HEADER
    }

    /// The record at which about half of the bytes lie on each side; at least one record is on either.
    pub(crate) fn middle(&self) -> usize {
        let half = self.live_bytes() / 2;
        let mut sum = 0;
        for index in 0..self.len() {
            sum += self.record(index).len();
            if sum > half {
                return index.clamp(1, self.len() - 1);
            }
        }
        self.len() - 1
    }
}
