//! Where the WAL is stuck that commits wait for: at which stage between the primary's flush and the standby's replay.
//!
//! WAL goes from the primary's disk to the standby's receiver, which writes it, flushes it, and leaves it to the startup
//! process. Each stage has a position that the primary knows (`pg_stat_replication`). A stage is stuck if a position
//! stands still from one sample to the next although the stage before was ahead of it all the time. What is stuck first
//! on the way is told: nothing behind it can go on.

use super::super::outcome::Sample;
use super::super::scenario::Wait;

/// The stage at which the WAL stood still between two samples, if it is one before the replay. The primary may be seen
/// without the standby: a standby that does not answer is no evidence against it.
#[must_use]
pub fn stuck(before: &Sample, now: &Sample) -> Option<Wait> {
    // A standby that has come meanwhile has other positions; one that is not there is told as that.
    if !before.synchronous || !now.synchronous || now.written_lsn == 0 {
        return None;
    }
    let is_unwritten = before.flushed_lsn > before.written_lsn && before.written_lsn == now.written_lsn;
    let is_unflushed = before.written_lsn > before.kept_lsn && before.kept_lsn == now.kept_lsn;
    if is_unflushed && now.written_lsn > before.written_lsn {
        return Some(Wait::Unflushed);
    }
    // The last thing that was heard may be that something was written: only a receiver that is seen at its disk is there.
    (is_unwritten || is_unflushed).then(|| match now.receiver.as_deref() {
        Some(receiver) if is_at_the_disk(receiver) => Wait::Unflushed,
        _ => Wait::Unreceived,
    })
}

/// Whether a WAL receiver whose WAL stands still is busy with it, by its wait event: it reads and writes files (`IO`), or
/// it is in a call that has no wait event (up to 17 that is writing). One that waits for the network has `Activity`.
#[must_use]
pub fn is_at_the_disk(receiver: &str) -> bool {
    receiver == BUSY || receiver.starts_with("IO:")
}

/// A WAL receiver that is there and waits for nothing that has a name.
pub const BUSY: &str = "busy";
