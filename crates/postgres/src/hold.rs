//! A server whose processes do not run for a moment, so that its files do not change.

use crate::{
    control_group::ControlGroup,
    guardian::Guardian,
    postmaster::{can_run, processes_below},
};
use duramen_base::clock;
use rustix::process::{kill_process, Pid, Signal};
use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// How long it may take until the last process stands still: one that is in the middle of a write first ends that.
const HOLD_LIMIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_micros(200);
/// What lets the processes go on when this one has ended: their ids come in by standard input.
const LET_GO: &str = r#"while read -r pid; do set -- "$@" "$pid"; done; for pid; do kill -CONT "$pid"; done"#;

/// The processes of one server, held by a signal. They go on when this is dropped, and when this process ends in whatever way.
///
/// What they wrote before by system calls that have returned is in their files, and nothing else is: a copy of the files that is
/// made meanwhile is what the end of all these processes would have left.
#[derive(Debug)]
pub struct Hold {
    pids: Vec<Pid>,
    guardian: Option<Guardian>,
}

impl Hold {
    /// Holds the server with this process id that works in `data_dir`, and every other process that runs in its group or, if it
    /// has none, works in that directory, whoever started it. Blocks, for two seconds at most.
    ///
    /// # Errors
    /// A process does not stand still in time, or nobody can watch over them. All of them go on then.
    pub fn of(data_dir: &Path, postmaster: u32, group: Option<&ControlGroup>) -> io::Result<Hold> {
        let guardian = Guardian::start(Command::new("sh").args(["-c", LET_GO]))?;
        let mut hold = Hold { pids: Vec::new(), guardian: Some(guardian) };
        let begin = clock::now();
        // First the one that makes all the others.
        hold.stop(postmaster)?;
        hold.wait(begin)?;
        let dir = fs::canonicalize(data_dir)?;
        // A look at all processes of the machine takes as long as there are many of them; nobody leaves a group. A server that was
        // started before there were groups is in none.
        let of_group = || group?.processes().ok().filter(|found| found.contains(&postmaster));
        // They may make others, until they stand still.
        loop {
            let found = of_group().unwrap_or_else(|| processes_below(&dir));
            let others: Vec<u32> = found.into_iter().filter(|pid| !hold.has(*pid)).collect();
            if others.is_empty() {
                return Ok(hold);
            }
            if begin.elapsed() > HOLD_LIMIT {
                return Err(io::Error::other("the server goes on making processes"));
            }
            for pid in others {
                hold.stop(pid)?;
            }
            hold.wait(begin)?;
        }
    }

    fn has(&self, pid: u32) -> bool {
        self.pids.iter().any(|held| u32::try_from(held.as_raw_nonzero().get()) == Ok(pid))
    }

    fn stop(&mut self, pid: u32) -> io::Result<()> {
        let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let guardian = self.guardian.as_mut().expect("it is there until this is dropped");
        guardian.tell(|input| writeln!(input, "{pid}"))?;
        self.pids.push(id);
        match kill_process(id, Signal::STOP) {
            // It has ended.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            stopped => Ok(stopped?),
        }
    }

    /// Waits until none of them runs.
    fn wait(&self, begin: Instant) -> io::Result<()> {
        let runs = |pid: &Pid| u32::try_from(pid.as_raw_nonzero().get()).is_ok_and(can_run);
        while self.pids.iter().any(runs) {
            if begin.elapsed() > HOLD_LIMIT {
                return Err(io::Error::other("a process of the server does not stand still"));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for pid in self.pids.iter().rev() {
            // One that has ended meanwhile has nothing to go on with.
            let _ = kill_process(*pid, Signal::CONT);
        }
        // It does the same once more, in a millisecond, and is collected.
        drop(self.guardian.take());
    }
}
