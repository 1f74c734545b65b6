//! Real-time priority for threads that wait for the disk.

use std::process::{Command, Stdio};

/// Puts the calling thread into the class SCHED_FIFO at its lowest priority; threads that it starts are not in it.
///
/// On a busy machine a thread of normal priority that wakes after a sync may wait for the scheduler for milliseconds,
/// and the figure would be that of the scheduler. The call has no safe binding, so `chrt` (of util-linux) does it.
pub(crate) fn fifo() -> Result<(), String> {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let output = Command::new("chrt")
        .args(["--reset-on-fork", "--fifo", "--pid", "1", &thread])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
