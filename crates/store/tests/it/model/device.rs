//! What a store stands on: doubles that can stop at any write, or a folder.

use std::sync::Arc;
use std::time::Duration;

use duramen_store::{Durability, Options, Store, StoreError};

use super::plan::{self, Plan};
use crate::crash_log::CrashLog;
use crate::crash_nodes::{CrashNodeStore, CrashScript};

/// How a machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The power is cut: what was not made durable may be lost.
    PowerCut,
    /// The process is killed: what the operating system has is not lost.
    Kill,
}

pub(crate) enum Ground {
    Doubles { script: CrashScript, nodes: Arc<CrashNodeStore>, log: Arc<CrashLog> },
    Folder(tempfile::TempDir),
}

impl Ground {
    /// An empty one. The script decides when it stops.
    pub(crate) fn new(plan: &Plan, script: CrashScript) -> Self {
        match plan.device {
            plan::Device::Doubles => Self::Doubles {
                nodes: Arc::new(CrashNodeStore::new(script.clone())),
                log: Arc::new(CrashLog::new(script.clone())),
                script,
            },
            plan::Device::Folder => {
                Self::Folder(tempfile::tempdir().expect("the folder for temporary files can be written"))
            }
        }
    }

    pub(crate) fn open(&self, plan: &Plan) -> Result<Store, StoreError> {
        let options = options(plan);
        match self {
            Self::Doubles { nodes, log, .. } => Store::open_parts(nodes.clone(), log.clone(), options),
            Self::Folder(dir) => Store::open(dir.path(), options),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        match self {
            Self::Doubles { script, .. } => script.is_stopped(),
            Self::Folder(_) => false,
        }
    }

    /// Stops the machine in `steps` writes or syncs, or now.
    pub(crate) fn stop_in(&self, steps: u64) {
        if let Self::Doubles { script, .. } = self {
            script.stop_in(steps);
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        match self {
            Self::Doubles { script, .. } => script.steps(),
            Self::Folder(_) => 0,
        }
    }

    /// What is found after a crash, under a new script.
    pub(crate) fn after(&mut self, crash: Crash, next: CrashScript) {
        if let Self::Doubles { script, nodes, log } = self {
            *nodes = Arc::new(nodes.durable_image(next.clone()));
            *log = Arc::new(match crash {
                Crash::PowerCut => log.after_power_cut(next.clone()),
                Crash::Kill => log.after_kill(next.clone()),
            });
            *script = next;
        }
    }
}

pub(crate) fn options(plan: &Plan) -> Options {
    Options {
        durability: level(plan.level),
        memory_bytes: plan.memory_bytes as usize,
        checkpoint_log_bytes: plan.checkpoint_log_bytes,
        segment_bytes: plan.segment_bytes,
        sync_every: Duration::from_millis(plan.sync_every_ms),
        ..Options::default()
    }
}

pub(crate) fn level(n: u32) -> Durability {
    Durability::ALL[n as usize % 3]
}
