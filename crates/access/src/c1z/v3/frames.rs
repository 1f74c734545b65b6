//! Completes and compresses tables on threads of their own, and hands the frames back in the order of the tables.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::envelope::Entry;
use super::table_writer::{RawTable, TableWriter};

/// The most threads that compress.
const THREADS_MAX: usize = 4;

/// The level of zstd for frames of tables: their blocks are compressed already.
const TABLE_LEVEL: i32 = 1;

/// A frame, and what the index says of it but its offset.
pub(crate) struct Frame {
    pub(crate) entry: Entry,
    pub(crate) bytes: Vec<u8>,
}

struct Done {
    order: u64,
    frame: std::io::Result<Frame>,
    /// To be filled again.
    table: RawTable,
}

/// Threads that turn tables into frames.
pub(crate) struct Frames {
    jobs: Option<Sender<(u64, RawTable)>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    sent: u64,
    received: u64,
    /// Frames that came before their turn.
    early: BTreeMap<u64, Frame>,
    next: u64,
    spare: Vec<RawTable>,
}

impl Frames {
    pub(crate) fn start(level: i32) -> std::io::Result<Frames> {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let (jobs, queue) = std::sync::mpsc::channel::<(u64, RawTable)>();
        let (results, done) = std::sync::mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            let (queue, results) = (Arc::clone(&queue), results.clone());
            let builder = std::thread::Builder::new().name("c1z-frames".to_owned());
            threads.push(builder.spawn(move || work(level, &queue, &results))?);
        }
        Ok(Frames {
            jobs: Some(jobs),
            done,
            threads,
            sent: 0,
            received: 0,
            early: BTreeMap::new(),
            next: 0,
            spare: Vec::new(),
        })
    }

    /// An empty table: with the room of one that is done, if there is any.
    pub(crate) fn table(&mut self) -> RawTable {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a table. Waits while there are more tables under way than threads, so that memory stays bounded.
    pub(crate) fn send(&mut self, table: RawTable) -> std::io::Result<()> {
        while self.sent - self.received > self.threads.len() as u64 {
            self.receive()?;
        }
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send((self.sent, table)).map_err(|_| gone())?;
        self.sent += 1;
        Ok(())
    }

    /// The next frame in order, if it is ready; with `wait` it is waited for. None when there is none left to come.
    pub(crate) fn next(&mut self, wait: bool) -> std::io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.early.remove(&self.next) {
                self.next += 1;
                return Ok(Some(frame));
            }
            if !wait || self.received == self.sent {
                return Ok(None);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> std::io::Result<()> {
        let mut done = self.done.recv().map_err(|_| gone())?;
        self.received += 1;
        done.table.clear();
        self.spare.push(done.table);
        self.early.insert(done.order, done.frame?);
        Ok(())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn gone() -> std::io::Error {
    std::io::Error::other("a thread that compresses has ended")
}

fn work(level: i32, queue: &Mutex<Receiver<(u64, RawTable)>>, results: &Sender<Done>) {
    let (mut writer, mut compressor) = (None, None);
    let mut file = Vec::new();
    loop {
        // The guard is held while waiting: the others wait for it instead.
        let job = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
        let Ok((order, table)) = job else { return };
        file.clear();
        let frame = write(&table, level, &mut writer, &mut file)
            .and_then(|()| frame(format!("{:06}.sst", table.number), &file, TABLE_LEVEL, &mut compressor));
        if results.send(Done { order, frame, table }).is_err() {
            return;
        }
    }
}

fn write(
    table: &RawTable,
    level: i32,
    writer: &mut Option<TableWriter>,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let writer = match writer {
        Some(writer) => writer,
        None => writer.insert(TableWriter::new(level)?),
    };
    writer.write(table, out)
}

/// Compresses a file of the directory.
pub(crate) fn frame(
    name: String,
    raw: &[u8],
    level: i32,
    compressor: &mut Option<Compressor<'static>>,
) -> std::io::Result<Frame> {
    let compressor = match compressor {
        Some(compressor) => compressor,
        None => compressor.insert(Compressor::new(level)?),
    };
    // A window of the whole content: such a frame has no field of its own for the window, which no checksum covers.
    let window = usize::BITS - raw.len().max(1024).next_power_of_two().leading_zeros() - 1;
    compressor.set_parameter(CParameter::WindowLog(window))?;
    let bytes = compressor.compress(raw)?;
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, raw).as_ref());
    let entry = Entry {
        name,
        offset: 0,
        stored: bytes.len() as u64,
        raw: raw.len() as u64,
        xxh64: xxhash_rust::xxh64::xxh64(raw, 0),
        sha256,
    };
    Ok(Frame { entry, bytes })
}
