//! Signals that end programs, for passing on to another one.

use rustix::process::{kill_process, Pid, Signal};
use std::{fs, io};
use tokio::signal::unix::{signal, Signal as Stream, SignalKind};

/// The signals that would end this process, while it does not want to be ended.
#[derive(Debug)]
pub struct Signals {
    interrupt: Stream,
    terminate: Stream,
    hang_up: Stream,
    quit: Stream,
}

impl Signals {
    /// Listens from now on. They end this process no more.
    ///
    /// # Errors
    /// The operating system's.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// The number of the next one.
    pub async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hang_up.recv() => SignalKind::hangup(),
            _ = self.quit.recv() => SignalKind::quit(),
        };
        kind.as_raw_value()
    }
}

/// Sends a signal to a process that is a child of this one, unless the terminal has done that: Ctrl-C goes to all that run in its
/// foreground, and programs that get it twice end without tidying up.
pub(super) fn pass_on(pid: Option<u32>, signal: i32) {
    let from_terminal = [Signal::INT, Signal::QUIT].iter().any(|known| known.as_raw() == signal);
    if from_terminal && is_in_foreground() {
        return;
    }
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) else { return };
    // It may have ended just now.
    let _ = kill_process(pid, signal);
}

/// Whether this process is in the foreground of a terminal (proc(5): `pgrp` and `tpgid`).
fn is_in_foreground() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(2);
    let (group, _session, _terminal, foreground) =
        (fields.next(), fields.next(), fields.next(), fields.next());
    group.is_some() && group == foreground
}
