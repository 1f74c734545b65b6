//! How a store in object storage is opened.

use std::path::PathBuf;
use std::time::Duration;

/// How a store in object storage is opened, beside the [`Options`](duramen_store::Options) of every store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Where the commit log is. A store has it where it was made, until its log is given up.
    pub log: LogPlace,
    /// Whether a writer that may be alive is fenced.
    pub take_over: TakeOver,
    /// A folder on this host for what was read from the bucket, and for how much of it. None: only memory.
    pub cache: Option<Cache>,
    /// Bytes of memory for blocks that were read from the bucket, beside the memory for nodes.
    pub block_bytes: u64,
    /// How long one request may take, with its answer; large ones have a second more for each MiB.
    pub request_timeout: Duration,
    /// How often a request is repeated that failed in a way that may pass.
    pub retries_max: u32,
    /// How long a commit, a read or an opening waits in all. A commit that has not been acknowledged by then poisons the
    /// store: whether it is durable is not known, and is found by opening it again.
    pub deadline: Duration,
    /// How often a writer looks whether it has been taken over, where no commit would tell it: its log is local.
    pub look_every: Duration,
    /// How often a writer looks whether tables that its checkpoints wrote are to be merged. Each look costs requests, also of a
    /// store that is idle; a checkpoint that finds 128 tables waits for it.
    pub merge_every: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            log: LogPlace::Bucket,
            take_over: TakeOver::Always,
            cache: None,
            block_bytes: 64 << 20,
            request_timeout: Duration::from_secs(10),
            retries_max: 6,
            deadline: Duration::from_secs(60),
            look_every: Duration::from_secs(10),
            merge_every: Duration::from_secs(10),
        }
    }
}

/// Where the commit log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// In the bucket: a strict commit is durable there when it is acknowledged, and survives the loss of this host.
    Bucket,
    /// In a folder on this host: a strict commit is as fast as its disk, and the loss of the host loses what came since the
    /// last checkpoint.
    Local {
        /// The folder, which is made if it is not there.
        folder: PathBuf,
        /// The log that the store has is lost, or is given up: what was committed since the last checkpoint is lost, and a new log
        /// begins in the folder.
        gives_up: bool,
    },
}

/// Whether a writer that may be alive is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// Always: whoever opens last writes, and the one before is refused from then on. For services, which start again after a
    /// crash, or elsewhere.
    Always,
    /// Only if the last writer has ended cleanly: for people, who would not stop a service by a command. After a crash it
    /// takes [`Always`](Self::Always) to open the store again.
    IfEnded,
}

/// A folder for what was read from the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Where. One store has it to itself.
    pub folder: PathBuf,
    /// How many bytes it holds at most.
    pub bytes: u64,
}
