//! Real-time priority for threads that wait for the disk.

use std::io;
use std::process::{Command, Stdio};

use crate::engine::{Done, Failure};

/// Puts the calling thread into the class SCHED_FIFO at its lowest priority; threads that it starts are not
/// in it.
///
/// On a busy machine a thread of normal priority that wakes after a sync may wait for the next tick of the
/// scheduler, milliseconds later, and the figure is that of the scheduler. `chrt` (of util-linux) does the
/// call, which has no safe binding.
///
/// # Errors
/// When `chrt` is missing or the process may not do this (it needs root or CAP_SYS_NICE).
pub(crate) fn fifo() -> Done<()> {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let output = Command::new("chrt")
        .args(["--reset-on-fork", "--fifo", "--pid", "1", &thread])
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::io("cannot run chrt for --fifo"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::Io {
        action: format!("chrt refused --fifo ({said})"),
        source: io::ErrorKind::PermissionDenied.into(),
    })
}
