//! Giving back the space of deleted nodes, in the background.
//!
//! A delete is a mark in the engine's memory at first. The space comes back when the mark has met its node in a merge
//! of the keys, when the value files that became mostly dead are rewritten, and when the last version of the file
//! list that names the old files is forgotten. Left alone, the engine is one or two checkpoints late with each of
//! the three, which is whole copies of the data when all of it is replaced; so it is asked for them.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::{AbstractTree, Database, Keyspace};
use parking_lot::{Condvar, Mutex};

/// Size of the files of keys.
const KEY_FILE_BYTES: u64 = 64 << 20;
/// How often a merge is tried that another one stands in the way of.
const TRIES: u32 = 200;
/// Time between looks at what the engine's own worker does.
const PAUSE: Duration = Duration::from_millis(5);

/// A thread that works deletes in, each time it is woken.
pub(crate) struct Reclaimer {
    wake: Option<SyncSender<()>>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// A sleep that the end of the store cuts short.
#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Sleeps, and says whether to go on.
    fn pause(&self) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.changed.wait_for(&mut stopped, PAUSE);
        }
        !*stopped
    }
}

impl Reclaimer {
    pub(crate) fn start(db: Database, nodes: Keyspace) -> std::io::Result<Self> {
        // One call that waits is enough: it sees all that was deleted before it begins.
        let (wake, calls) = std::sync::mpsc::sync_channel(1);
        let stop = Arc::new(Stop::default());
        let thread = std::thread::Builder::new().name("nodes-reclaim".to_string()).spawn({
            let stop = stop.clone();
            move || serve(&db, &nodes, &calls, &stop)
        })?;
        Ok(Self { wake: Some(wake), stop, thread: Some(thread) })
    }

    /// Asks for one pass. Returns at once.
    pub(crate) fn wake(&self) {
        if let Some(Err(TrySendError::Disconnected(()))) = self.wake.as_ref().map(|wake| wake.try_send(())) {
            log::warn!("the thread that reclaims the space of deleted nodes has ended; space is freed later");
        }
    }
}

impl Drop for Reclaimer {
    /// Waits for a merge that has begun: the engine has no way to break it off.
    fn drop(&mut self) {
        *self.stop.stopped.lock() = true;
        self.stop.changed.notify_all();
        self.wake = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::warn!("the thread that reclaims the space of deleted nodes panicked");
        }
    }
}

fn serve(db: &Database, nodes: &Keyspace, calls: &Receiver<()>, stop: &Stop) {
    while calls.recv().is_ok() {
        if let Err(error) = reclaim(db, nodes, stop) {
            // Nothing is lost: deletes stay as marks, and the next call retries.
            log::warn!("reclaiming the space of deleted nodes failed: {error}");
        }
    }
}

fn reclaim(db: &Database, nodes: &Keyspace, stop: &Stop) -> fjall::Result<()> {
    nodes.rotate_memtable()?;
    let mut tries = 0..TRIES;
    while nodes.sealed_memtable_count() > 0 {
        if tries.next().is_none() || !stop.pause() {
            return Ok(());
        }
    }
    // The old file list holds the old files open; it is let go at the end, without the engine's locks, because
    // unlinking large files takes milliseconds and readers would wait for it.
    let before = nodes.tree.current_version();
    merge(db, nodes, stop)?;
    // A merge rewrites the value files that were mostly dead before it, not those that it finds to be so.
    if nodes.fragmented_blob_bytes() * 3 >= nodes.disk_space() && stop.pause() {
        merge(db, nodes, stop)?;
    }
    drop(before);
    Ok(())
}

/// Merges all keys into one sorted run, which drops the deletes with what they delete.
fn merge(db: &Database, nodes: &Keyspace, stop: &Stop) -> fjall::Result<()> {
    for _ in 0..TRIES {
        // No snapshot of the engine is ever held here: what is newest is all that anyone reads.
        let newest = db.visible_seqno();
        let before = nodes.tree.current_version();
        nodes.tree.major_compact(KEY_FILE_BYTES, newest)?;
        nodes.tree.get_version_history_lock().maintenance(nodes.path(), db.visible_seqno())?;
        drop(before);
        // While the engine's own worker merges, a merge of everything is declined without a word.
        if nodes.tree.tombstone_count() == 0 || !stop.pause() {
            break;
        }
    }
    Ok(())
}
