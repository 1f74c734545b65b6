//! Reading a store while another process may write it.
//!
//! No lock is held: files of nodes are only appended to, and are read on once they are open, whatever becomes of their
//! names; records of the log have the salt of their file, and follow on each other. So an opening shows a moment of the
//! store, or fails because a file went or was used again meanwhile, and is tried again. What could be taken for a moment
//! and is an older one is found by looking at the manifest once more: files of the log are used again only after another
//! one is durable.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_tree::NodeStore;

use super::{assemble_to_tail, look, open_log, Parts, ReadTo};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::folder::{self, Found, Quiet};
use crate::nodes::SegmentNodeStore;
use crate::options::Options;

/// How long an opening is tried again while somebody writes, and how often at least. Checkpoints are seldom in comparison.
const TRY_FOR: Duration = Duration::from_secs(5);
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// Opens a store for reading only.
pub(super) fn open(path: &Path, options: &Options) -> Result<Engine, StoreError> {
    open_to_tail(path, options).map(|(engine, _)| engine)
}

/// Opens a store for reading only, to be read on.
pub(crate) fn open_to_tail(path: &Path, options: &Options) -> Result<(Engine, ReadTo), StoreError> {
    let begin = clock::now();
    let (mut tries, mut quiet_before, mut told) = (0, false, String::new());
    loop {
        if look(path)? == Found::Nothing {
            return Err(StoreError::StoreNotFound { path: path.to_owned() });
        }
        let error = match moment(path, options) {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        tries += 1;
        // If nobody writes, it is no matter of the moment. Whoever wants to write is kept from it only when that is nearly
        // certain: while this looks for the last time.
        if let Quiet::Yes(nobody) = Quiet::look(path)? {
            if quiet_before {
                return moment(path, options);
            }
            drop(nobody);
            quiet_before = true;
            continue;
        }
        quiet_before = false;
        let text = error.to_string();
        if tries >= TRIES && begin.elapsed() > TRY_FOR {
            if text == told {
                return Err(error);
            }
            let waited_ms = begin.elapsed().as_millis() as u64;
            return Err(StoreError::TimedOut { what: "reading beside the process that writes", waited_ms });
        }
        log::debug!("the store was changed while it was opened for reading: {text}");
        told = text;
        std::thread::sleep(PAUSE);
    }
}

fn moment(path: &Path, options: &Options) -> Result<(Engine, ReadTo), StoreError> {
    let nodes_path = path.join(folder::NODES_FOLDER);
    if !nodes_path.is_dir() {
        return Err(StoreError::Damaged(format!("{} is not there", nodes_path.display())));
    }
    let nodes: Arc<dyn NodeStore> = Arc::new(SegmentNodeStore::open(&nodes_path, true)?);
    let log = open_log(&path.join(folder::LOG_FOLDER), &*nodes, options)?;
    let parts = Parts::in_folder(nodes.clone(), log, path);
    let opened = assemble_to_tail(parts, options.clone())?;
    if SegmentNodeStore::open(&nodes_path, true)?.manifest()? != nodes.manifest()? {
        let what = "reading between two checkpoints of the process that writes";
        return Err(StoreError::TimedOut { what, waited_ms: 0 });
    }
    Ok(opened)
}
