//! What ends when the last handle on a store and on its branches goes: the maintenance thread, then the log.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::engine::Engine;
use crate::error::StoreError;
use crate::maintenance;

pub(crate) struct OpenStore {
    engine: Arc<Engine>,
    maintenance: Mutex<Option<JoinHandle<()>>>,
}

impl OpenStore {
    pub(crate) fn start(engine: Engine) -> Result<Self, StoreError> {
        let engine = Arc::new(engine);
        let maintenance = Mutex::new(Some(maintenance::start(&engine)?));
        Ok(Self { engine, maintenance })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Makes a last checkpoint and ends the log.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.stop_maintenance();
        let engine = &self.engine;
        if !engine.is_open_for_writing() {
            return Ok(());
        }
        engine.last_checkpoint()?;
        engine.close(&engine.lock_writer())
    }

    fn stop_maintenance(&self) {
        let Some(thread) = self.maintenance.lock().take() else { return };
        self.engine.requests().stop();
        if thread.join().is_err() {
            log::error!("the maintenance thread of the store panicked");
        }
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.stop_maintenance();
        // Best effort, for a fast next opening: whoever wants to know calls `close`.
        if self.engine.check_writable().is_ok() {
            if let Err(error) = self.engine.last_checkpoint() {
                log::warn!("the store was dropped without its last checkpoint; the log has it all: {error}");
            } else if let Err(error) = self.engine.close_log() {
                log::warn!("the log of the store was dropped without an end: {error}");
            }
        }
    }
}
