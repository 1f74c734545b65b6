//! Sections of records: keys with values, sorted by key, in blocks whose keys share their prefixes.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::bytes::{put_bytes, put_u64, Reader};
use crate::graph::error::GraphError;
use duramen_pack::container::{PackWriter, Section, SectionOptions};

/// The most records in a block.
const BLOCK_RECORDS: u32 = 1024;
/// A block is closed when it has so many bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// Decoded blocks of one section that are kept: so many bytes.
const CACHE_BYTES: usize = 16 << 20;

/// How blocks of the graph are compressed: what is stored has little left to find, so the fastest level does.
pub(crate) fn options() -> SectionOptions {
    SectionOptions { level: 1, ..SectionOptions::default() }
}

/// Writes one section of records, which come in ascending order.
pub(crate) struct RecordsWriter {
    raw: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
    records: u32,
    total: u64,
}

impl RecordsWriter {
    pub(crate) fn begin(writer: &mut PackWriter, name: &str) -> Result<Self, GraphError> {
        writer.begin_section(name, options())?;
        Ok(RecordsWriter { raw: Vec::new(), first: Vec::new(), last: Vec::new(), records: 0, total: 0 })
    }

    pub(crate) fn push(
        &mut self,
        writer: &mut PackWriter,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), GraphError> {
        if self.records == BLOCK_RECORDS || (self.records > 0 && self.raw.len() + value.len() > BLOCK_BYTES) {
            self.flush(writer)?;
        }
        let mut shared = 0;
        if self.records == 0 {
            self.first.clear();
            self.first.extend_from_slice(key);
        } else {
            shared = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        }
        put_u64(&mut self.raw, shared as u64);
        put_bytes(&mut self.raw, &key[shared..]);
        put_bytes(&mut self.raw, value);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.records += 1;
        self.total += 1;
        Ok(())
    }

    fn flush(&mut self, writer: &mut PackWriter) -> Result<(), GraphError> {
        if self.records > 0 {
            writer.block(&self.first, self.records, &self.raw)?;
            self.records = 0;
            self.raw.clear();
        }
        Ok(())
    }

    /// Ends the section, and says how many records it has.
    pub(crate) fn finish(mut self, writer: &mut PackWriter) -> Result<u64, GraphError> {
        self.flush(writer)?;
        Ok(self.total)
    }
}

/// A decoded block: keys and values in one piece of memory.
#[derive(Default)]
pub(crate) struct RecordPage {
    bytes: Vec<u8>,
    /// Where each key begins, where it ends and its value begins, and where that ends.
    places: Vec<[u32; 3]>,
}

impl RecordPage {
    pub(crate) fn decode(raw: &[u8], records: u32) -> Result<Self, GraphError> {
        let mut reader = Reader::new(raw, "a block of records");
        let mut page = RecordPage {
            bytes: Vec::with_capacity(raw.len() * 2),
            // A record has three bytes at least: how many there are is said by the index, which may be forged.
            places: Vec::with_capacity((records as usize).min(raw.len() / 3)),
        };
        let mut last: Range<usize> = 0..0;
        while !reader.is_empty() {
            let shared = reader.u64()?;
            let suffix = reader.bytes()?;
            let value = reader.bytes()?;
            let shared = usize::try_from(shared).ok().filter(|shared| *shared <= last.len());
            let shared = shared.ok_or_else(|| reader.malformed())?;
            let begin = page.bytes.len();
            page.bytes.extend_from_within(last.start..last.start + shared);
            page.bytes.extend_from_slice(suffix);
            let end = page.bytes.len();
            // Front coding can repeat a long key often: what comes out is bounded, not only what lies there.
            if end > duramen_pack::limits::BLOCK_BYTES_MAX as usize * 4 {
                return Err(reader.malformed());
            }
            if !page.places.is_empty() && page.bytes[last.clone()] >= page.bytes[begin..end] {
                return Err(reader.malformed());
            }
            page.bytes.extend_from_slice(value);
            page.places.push([begin as u32, end as u32, page.bytes.len() as u32]);
            last = begin..end;
        }
        if page.places.len() != records as usize {
            return Err(reader.malformed());
        }
        Ok(page)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let [begin, end, _] = self.places[at];
        &self.bytes[begin as usize..end as usize]
    }

    pub(crate) fn value(&self, at: usize) -> &[u8] {
        let [_, begin, end] = self.places[at];
        &self.bytes[begin as usize..end as usize]
    }

    /// The first record whose key is not below `key`.
    fn lower_bound(&self, key: &[u8]) -> usize {
        self.places.partition_point(|[begin, end, _]| &self.bytes[*begin as usize..*end as usize] < key)
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.places.len() * 12
    }
}

/// Decoded blocks that were used last, under a bound of bytes.
pub(crate) struct PageCache<T> {
    inner: Mutex<Kept<T>>,
}

struct Kept<T> {
    pages: HashMap<usize, (Arc<T>, usize, u64)>,
    bytes: usize,
    tick: u64,
}

impl<T> PageCache<T> {
    pub(crate) fn new() -> Self {
        PageCache { inner: Mutex::new(Kept { pages: HashMap::new(), bytes: 0, tick: 0 }) }
    }

    pub(crate) fn get(
        &self,
        block: usize,
        load: impl FnOnce() -> Result<(T, usize), GraphError>,
    ) -> Result<Arc<T>, GraphError> {
        {
            let mut kept = self.inner.lock();
            kept.tick += 1;
            let tick = kept.tick;
            if let Some((page, _, used)) = kept.pages.get_mut(&block) {
                *used = tick;
                return Ok(page.clone());
            }
        }
        let (page, size) = load()?;
        let page = Arc::new(page);
        let mut kept = self.inner.lock();
        kept.bytes += size;
        let tick = kept.tick;
        if let Some((_, replaced, _)) = kept.pages.insert(block, (page.clone(), size, tick)) {
            kept.bytes -= replaced;
        }
        while kept.bytes > CACHE_BYTES && kept.pages.len() > 1 {
            let oldest =
                kept.pages.iter().filter(|(at, _)| **at != block).min_by_key(|(_, (_, _, used))| *used);
            let Some(oldest) = oldest.map(|(at, _)| *at) else { break };
            if let Some((_, size, _)) = kept.pages.remove(&oldest) {
                kept.bytes -= size;
            }
        }
        Ok(page)
    }
}

/// A section of records, open for reading.
pub(crate) struct Records {
    section: Section,
    /// How many records lie before each block.
    starts: Vec<u64>,
    total: u64,
    cache: PageCache<RecordPage>,
}

impl Records {
    pub(crate) fn open(section: Section) -> Self {
        let mut total = 0;
        let starts = (0..section.blocks())
            .map(|block| {
                let start = total;
                total += u64::from(section.records(block));
                start
            })
            .collect();
        Records { section, starts, total, cache: PageCache::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.total
    }

    pub(crate) fn blocks(&self) -> usize {
        self.section.blocks()
    }

    pub(crate) fn start(&self, block: usize) -> u64 {
        self.starts.get(block).copied().unwrap_or(self.total)
    }

    /// The block that holds the record of an ordinal number.
    pub(crate) fn block_of(&self, ordinal: u64) -> usize {
        self.starts.partition_point(|start| *start <= ordinal).saturating_sub(1)
    }

    pub(crate) fn load(&self, block: usize) -> Result<RecordPage, GraphError> {
        let mut raw = Vec::new();
        self.section.read(block, &mut raw)?;
        RecordPage::decode(&raw, self.section.records(block))
    }

    pub(crate) fn page(&self, block: usize) -> Result<Arc<RecordPage>, GraphError> {
        self.cache.get(block, || {
            let page = self.load(block)?;
            let size = page.size();
            Ok((page, size))
        })
    }

    /// How many records have a key below `key`.
    pub(crate) fn lower_bound(&self, key: &[u8]) -> Result<u64, GraphError> {
        let Some(block) = self.section.find(key) else { return Ok(0) };
        Ok(self.start(block) + self.page(block)?.lower_bound(key) as u64)
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, GraphError> {
        let Some(block) = self.section.find(key) else { return Ok(None) };
        let page = self.page(block)?;
        let at = page.lower_bound(key);
        Ok((at < page.len() && page.key(at) == key).then(|| page.value(at).to_vec()))
    }

    /// The ordinal number of a key.
    pub(crate) fn ordinal(&self, key: &[u8]) -> Result<Option<u64>, GraphError> {
        let Some(block) = self.section.find(key) else { return Ok(None) };
        let page = self.page(block)?;
        let at = page.lower_bound(key);
        Ok((at < page.len() && page.key(at) == key).then(|| self.start(block) + at as u64))
    }

    /// The ordinal numbers of the keys that are `prefix`, or continue it with more components.
    pub(crate) fn prefix(&self, prefix: &[u8]) -> Result<Range<u64>, GraphError> {
        // What continues it does so with 00. A longer component that begins alike has 01 or more there.
        let mut end = prefix.to_vec();
        end.push(1);
        Ok(self.lower_bound(prefix)?..self.lower_bound(&end)?)
    }
}

/// Walks over records in order.
pub(crate) struct RecordsCursor<'a> {
    records: &'a Records,
    block: usize,
    at: usize,
    page: Option<Arc<RecordPage>>,
}

impl<'a> RecordsCursor<'a> {
    /// Begins at an ordinal number.
    pub(crate) fn at(records: &'a Records, ordinal: u64) -> Result<Self, GraphError> {
        let block = records.block_of(ordinal);
        let mut cursor = RecordsCursor {
            records,
            block,
            at: (ordinal - records.start(block).min(ordinal)) as usize,
            page: None,
        };
        cursor.load()?;
        Ok(cursor)
    }

    /// Reads the block that the next record is in, unless it is there.
    fn load(&mut self) -> Result<(), GraphError> {
        loop {
            if let Some(page) = &self.page {
                if self.at < page.len() {
                    return Ok(());
                }
                self.at -= page.len();
                self.block += 1;
                self.page = None;
            }
            if self.block >= self.records.blocks() {
                return Ok(());
            }
            self.page = Some(self.records.page(self.block)?);
        }
    }

    pub(crate) fn peek(&self) -> Option<(&[u8], &[u8])> {
        self.page.as_ref().map(|page| (page.key(self.at), page.value(self.at)))
    }

    pub(crate) fn next(&mut self) -> Result<(), GraphError> {
        self.at += 1;
        self.load()
    }
}
