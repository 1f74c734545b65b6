//! What is looked after at intervals so that no branch harms another: writes that the volume store lost, logs that
//! grow, the reserve of the volume store and how its space is divided, and servers that ended.

use crate::{
    balance::Balance,
    error::{EngineError, Kind},
    lineage::interval::Interval,
    parallel::parallel,
    registry::Failed,
    revival::Revival,
    sealing::Sealing,
    shared::Shared,
    sleep::Bedtime,
};
use duramen_base::clock;
use serde_json::json;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{atomic::Ordering, Arc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How often counters and logs are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How long it counts for leases that nothing was lost.
const FRESH_MS: u64 = 100;
/// How often the volume store is flushed to hear of what was lost; as often as it commits by itself.
const FLUSH_EVERY: Duration = Duration::from_secs(300);
/// The same while blocks are missing below the store, so that writes can be lost for lack of them.
const FLUSH_EVERY_UNALLOCATED: Duration = Duration::from_secs(2);
/// A server's log is cut when it has grown past this.
const LOG_MAX: u64 = 8 << 20;
/// What the system counts the room of a file in. Logs that were read have holes.
const BLOCK: u64 = 512;
/// What is kept of a log that is cut.
const LOG_KEPT: u64 = 64 << 10;

/// The state of the watch between two looks.
#[derive(Debug)]
pub(crate) struct Watch {
    looked: Instant,
    flushed: Instant,
    flushing: Option<JoinHandle<io::Result<()>>>,
    revival: Revival,
    bedtime: Bedtime,
    interval: Interval,
    balance: Balance,
    sealing: Sealing,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            looked: clock::now(),
            flushed: clock::now(),
            flushing: None,
            revival: Revival::default(),
            bedtime: Bedtime::default(),
            interval: Interval::default(),
            balance: Balance::default(),
            sealing: Sealing::default(),
        }
    }

    /// Does what is due.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        if self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = clock::now();
        // What it finds it has dealt with, and every create hears of it for itself.
        let _ = shared.check_writes();
        if let Ok(quotas) = shared.environment.store.quotas() {
            quotas.keep_reserve();
        }
        self.balance.look(shared);
        shared.registry.retire_unfit();
        self.revival.look(shared);
        self.bedtime.look(shared);
        self.interval.look(shared);
        self.sealing.look(shared);
        shared.look_after_generations();
        shared.note_statements();
        let home = &shared.environment.home;
        for dir in [home.logs(), home.origins()] {
            cut_logs(&dir, |volume| shared.statements.follows(volume));
        }
        if self.flushing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.heed(shared);
        }
        let missing = shared.environment.store.unallocated_bytes() > 0;
        let every = if missing { FLUSH_EVERY_UNALLOCATED } else { FLUSH_EVERY };
        if self.flushing.is_none() && self.flushed.elapsed() > every {
            let store = Arc::clone(&shared.environment.store);
            // It may take seconds, in which creates must not wait for this thread. Without a thread it is tried again.
            self.flushing = thread::Builder::new().name("flush".to_owned()).spawn(move || store.flush()).ok();
            self.flushed = clock::now();
        }
    }

    /// Waits for what runs.
    pub(crate) fn end(mut self, shared: &Arc<Shared>) {
        self.heed(shared);
        self.revival.end();
        self.bedtime.end();
        self.interval.end();
        self.balance.end(shared);
        self.sealing.end();
    }

    fn heed(&mut self, shared: &Arc<Shared>) {
        let flushed = self.flushing.take().map(JoinHandle::join);
        if let Some(Ok(Err(error))) = flushed {
            shared.fail_branches(&format!("the volume store could not be flushed ({error})"));
        }
    }
}

impl Shared {
    /// Whether it is time to look for lost writes again before a lease is given. A hundred creates at once would wait for
    /// each other in the file system; what is lost in these milliseconds could as well be lost after the lease.
    pub(crate) fn writes_are_due(&self) -> bool {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked = self.looked_ms.load(Ordering::Relaxed);
        now.saturating_sub(looked) >= FRESH_MS
            && self.looked_ms.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Looks whether the volume store lost writes. If so, every branch is `failed` from now on.
    ///
    /// # Errors
    /// When it did: no branch is given out on top of it.
    pub(crate) fn check_writes(&self) -> Result<(), EngineError> {
        let Some(what) = self.environment.store.lost_writes() else { return Ok(()) };
        self.fail_branches(&what);
        Err(EngineError::new(Kind::Unavailable, "writes_lost", format!("{what}; {}", self.way_on())))
    }

    fn way_on(&self) -> String {
        format!(
            "make room on the disk that holds {}, restart the daemon if its volume store is read-only, reset or destroy the branches that failed, and check the sources (`duramen source verify`)",
            self.environment.home.root().display()
        )
    }

    /// Takes every branch for damaged: which of them a lost write belonged to, nobody can tell. What is leased stays
    /// as it is for whoever wants to look at it; what is ready goes.
    fn fail_branches(&self, what: &str) {
        let problem = format!("{what}, and the branch may lack what it acknowledged; {}", self.way_on());
        // First, and without needing a block of a disk that may be full.
        let marked = self.marker.set(&problem);
        let Failed { leased, drained, written } = self.registry.fail_all(&problem, &self.environment.losses);
        let written = marked.and(written);
        let failed = leased.len();
        if failed == 0 && !drained {
            // Nobody is concerned who has not been told.
            if written.is_ok() && self.marker.clear().is_ok() {
                self.environment.store.acknowledge_losses();
            }
            return;
        }
        tracing::error!("{problem}");
        parallel(4, leased, |branch| {
            branch.retire();
            branch.kill();
        });
        let logged = self.audit("writes_lost", json!({ "what": what, "failed": failed }));
        match written.and(logged) {
            Ok(()) => {
                self.environment.store.acknowledge_losses();
                if let Err(error) = self.marker.clear() {
                    tracing::warn!(%error, "the next daemon takes all branches for damaged once more");
                }
            }
            // Not written down: the next look finds the same, and so does the next daemon.
            Err(error) => tracing::error!(%error, "that branches failed could not be written down"),
        }
        self.wake.wake();
    }
}

/// Cuts every log of a directory that has grown too large; its server goes on appending to it. What is written while it is cut may
/// be lost, so that those whose statements are read are spared: who reads them makes room.
fn cut_logs(dir: &Path, is_spared: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let is_spared = path.file_stem().and_then(|name| name.to_str()).is_some_and(&is_spared);
        if is_log
            && !is_spared
            && entry.metadata().is_ok_and(|it| it.is_file() && it.blocks() * BLOCK > LOG_MAX)
        {
            if let Err(error) = cut(&path) {
                tracing::warn!(%error, log = %path.display(), "a large log could not be cut");
            }
        }
    }
}

fn cut(path: &Path) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom, Write};
    let mut file = fs::OpenOptions::new().read(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_KEPT)))?;
    let mut tail = Vec::new();
    file.take(LOG_KEPT).read_to_end(&mut tail)?;
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    file.set_len(0)?;
    file.write_all(format!("(the daemon cut this log at {LOG_MAX} bytes; its end was:)\n").as_bytes())?;
    file.write_all(&tail)
}
