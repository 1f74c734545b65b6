//! RocksDB: a log-structured merge tree with group commit.

use std::path::{Path, PathBuf};

use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, DBPinnableSlice, IngestExternalFileOptions, Options,
    SstFileWriter, WriteOptions, DB,
};

use crate::data::Key;
use crate::engine::{Done, Engine, Failure, Kind, Level, Row, Snapshot, Tally};

pub(super) const KIND: Kind = Kind {
    name: "rocksdb",
    configured:
        "memory: no WAL; buffered: WAL without sync; strict: WAL with sync; bulk: one ingested table file; \
                 Bloom filters of 10 bits, no compression; indexes and filters in the cache where memory is limited",
    open,
    has: |_| true,
};

struct Rocks {
    db: DB,
    dir: PathBuf,
    level: Level,
}

struct View<'a>(rocksdb::Snapshot<'a>);

fn options() -> Done<Options> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_lru_cache(super::cache_bytes()).map_err(Failure::engine)?);
    table.set_bloom_filter(10.0, false);
    // Otherwise those of all files are kept beside the cache.
    table.set_cache_index_and_filter_blocks(super::is_limited());
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    if let Some(bytes) = super::write_buffer_bytes() {
        options.set_write_buffer_size(bytes);
    }
    options.set_block_based_table_factory(&table);
    Ok(options)
}

fn open(dir: &Path, level: Level) -> Done<Box<dyn Engine>> {
    let db = DB::open(&options()?, dir).map_err(Failure::engine)?;
    Ok(Box::new(Rocks { db, dir: dir.to_owned(), level }))
}

impl Engine for Rocks {
    fn bulk_load(&self, rows: &mut dyn Iterator<Item = Row<'_>>) -> Done<()> {
        let path = self.dir.join("bulk.sst");
        let options = options()?;
        let mut writer = SstFileWriter::create(&options);
        writer.open(&path).map_err(Failure::engine)?;
        for (key, value) in rows {
            writer.put(key, value).map_err(Failure::engine)?;
        }
        // The table file is synced here and the manifest by the ingestion.
        writer.finish().map_err(Failure::engine)?;
        let mut ingest = IngestExternalFileOptions::default();
        ingest.set_move_files(true);
        self.db.ingest_external_file_opts(&ingest, vec![path]).map_err(Failure::engine)
    }

    fn put(&self, key: &Key, value: &[u8]) -> Done<()> {
        let mut options = WriteOptions::default();
        options.disable_wal(self.level == Level::Memory);
        options.set_sync(self.level == Level::Strict);
        self.db.put_opt(key, value, &options).map_err(Failure::engine)
    }

    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        Ok(keep(self.db.get_pinned(key).map_err(Failure::engine)?, into))
    }

    fn scan(&self, tally: &mut Tally) -> Done<()> {
        self.range(&[0; 16], usize::MAX, tally)
    }

    fn range(&self, start: &Key, limit: usize, tally: &mut Tally) -> Done<()> {
        let mut rows = self.db.raw_iterator();
        rows.seek(start);
        for _ in 0..limit {
            let Some((key, value)) = rows.item() else { break };
            tally.row(key, value);
            rows.next();
        }
        rows.status().map_err(Failure::engine)
    }

    fn snapshot(&self) -> Done<Box<dyn Snapshot + '_>> {
        Ok(Box::new(View(self.db.snapshot())))
    }

    fn close(self: Box<Self>) -> Done<()> {
        // Without this, rows that were put without a log would be lost.
        self.db.flush().map_err(Failure::engine)
    }
}

impl Snapshot for View<'_> {
    fn get(&self, key: &Key, into: &mut Vec<u8>) -> Done<bool> {
        Ok(keep(self.0.get_pinned(key).map_err(Failure::engine)?, into))
    }
}

fn keep(value: Option<DBPinnableSlice<'_>>, into: &mut Vec<u8>) -> bool {
    into.clear();
    into.extend_from_slice(value.as_deref().unwrap_or_default());
    value.is_some()
}
