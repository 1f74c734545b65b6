//! Digests of snapshots that nobody waited for when these were made (F22): one after the other, behind everybody's back.

use crate::{
    error::{EngineError, SourceError},
    files::io_error,
    shared::Shared,
    source::{
        digest,
        manifest::{self, Manifest},
        snapshot::snapshot_path,
    },
};
use serde_json::json;
use std::{
    collections::VecDeque,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::{self, JoinHandle},
};

/// Snapshots that have no digest yet.
#[derive(Debug, Default)]
pub(crate) struct Unsealed {
    waiting: Mutex<VecDeque<(String, u32)>>,
    /// Whoever writes a digest into a manifest.
    writing: Mutex<()>,
}

impl Unsealed {
    /// Has the digest of a generation taken by and by.
    pub(crate) fn push(&self, source: &str, generation: u32) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back((source.to_owned(), generation));
    }

    /// Nobody writes into a manifest as long as this lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<(String, u32)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// The thread that takes them.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    running: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    /// Whether those that an earlier process left were looked for.
    has_looked: bool,
}

impl Sealing {
    /// Takes the next one, if there is one and none is being taken.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        if self.running.as_ref().is_some_and(|it| !it.is_finished()) {
            return;
        }
        if let Some(thread) = self.running.take() {
            if thread.join().is_err() {
                tracing::error!("the thread that takes digests of snapshots had panicked");
            }
        }
        if !self.has_looked {
            self.has_looked = true;
            shared.find_unsealed();
        }
        let Some((source, generation)) = shared.unsealed.pop() else { return };
        let (shared, is_over) = (Arc::clone(shared), Arc::clone(&self.is_over));
        let work = move || {
            let sealed = shared.seal(&source, generation, &|| !is_over.load(Ordering::Acquire));
            match sealed {
                Ok(_) => {}
                // It is gone, or this process ends, and the next one takes it.
                Err(_) if is_over.load(Ordering::Acquire) || !shared.has_manifest(&source, generation) => {}
                Err(error) => {
                    tracing::warn!(source, generation, %error, "the digest of a snapshot could not be taken; the first evidence takes it");
                }
            }
        };
        // Without a thread the first evidence takes it.
        self.running = thread::Builder::new().name("seal".to_owned()).spawn(work).ok();
    }

    /// Has what runs end, and waits for that.
    pub(crate) fn end(mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = self.running.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn has_manifest(&self, source: &str, generation: u32) -> bool {
        manifest::manifest_path(&self.environment.home, source, generation).exists()
    }

    fn find_unsealed(&self) {
        let home = &self.environment.home;
        for record in self.registry.sources() {
            // The latest first: it is what branches are made of.
            for number in manifest::generations(home, &record.name).into_iter().rev() {
                if Manifest::load(home, &record.name, number).is_ok_and(|it| it.digest.is_empty()) {
                    self.unsealed.push(&record.name, number);
                }
            }
        }
    }

    /// The digest that holds for a generation: that of its manifest, or what its snapshot has now, which holds from then on. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or nobody wants it any more.
    pub(crate) fn seal(
        &self,
        source: &str,
        generation: u32,
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<String, EngineError> {
        let of = Manifest::load(&self.environment.home, source, generation)?;
        if !of.digest.is_empty() {
            return Ok(of.digest);
        }
        let path = snapshot_path(&self.environment.store, source, generation);
        let taken = digest::tree_by(1, &path, is_wanted);
        let (_, digest) = taken.map_err(|error| io_error("read", &path, &error))?;
        self.hold_digest(source, &of, digest)
    }

    /// Has a digest hold from now on that was taken of the generation of this manifest, if none does.
    ///
    /// # Errors
    /// When it is not there any more, or the digest cannot be written down.
    pub(crate) fn hold_digest(
        &self,
        source: &str,
        of: &Manifest,
        digest: String,
    ) -> Result<String, EngineError> {
        let (home, generation) = (&self.environment.home, of.generation);
        let _one = self.unsealed.hold();
        let _stays = self.hold_number(source, generation);
        // Another one may have taken it meanwhile; the generation may be gone, and another source have its name.
        let mut manifest = Manifest::load(home, source, generation)?;
        if (manifest.imported_at, &manifest.identity) != (of.imported_at, &of.identity) {
            return Err(SourceError::NoGeneration { name: source.to_owned() }.into());
        }
        if manifest.digest.is_empty() {
            manifest.digest = digest;
            manifest.save(home, source)?;
            self.audit(
                "sealed",
                json!({ "source": source, "generation": generation, "digest": manifest.digest }),
            )?;
        }
        Ok(manifest.digest)
    }
}
