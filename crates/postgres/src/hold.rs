//! A server whose processes do not run for a moment, so that its files do not change.

use crate::{
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
    /// Holds the server with this process id that works in `data_dir`, and its children. Blocks, for two seconds at most.
    ///
    /// # Errors
    /// A process does not stand still in time, or nobody can watch over them. All of them go on then.
    pub fn of(data_dir: &Path, postmaster: u32) -> io::Result<Hold> {
        let guardian = Guardian::start(Command::new("sh").args(["-c", LET_GO]))?;
        let mut hold = Hold { pids: Vec::new(), guardian: Some(guardian) };
        let begin = clock::now();
        // First the one that makes all the others.
        hold.stop(postmaster)?;
        hold.wait(begin)?;
        let dir = fs::canonicalize(data_dir)?;
        // Its children may make others, until they stand still.
        loop {
            let found = descendants(postmaster).unwrap_or_else(|| processes_below(&dir));
            let others: Vec<u32> = found.into_iter().filter(|pid| !hold.has(*pid)).collect();
            if others.is_empty() {
                return Ok(hold);
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

/// What a process started, and what that did, if the kernel tells (`CONFIG_PROC_CHILDREN`). A look at all processes of the machine
/// takes as long as there are many of them.
fn descendants(pid: u32) -> Option<Vec<u32>> {
    let (mut found, mut next) = (Vec::new(), vec![pid]);
    while let Some(parent) = next.pop() {
        let tasks = match fs::read_dir(format!("/proc/{parent}/task")) {
            Ok(tasks) => tasks,
            // It has ended.
            Err(_) if parent != pid => continue,
            Err(_) => return None,
        };
        for task in tasks.flatten() {
            match fs::read_to_string(task.path().join("children")) {
                Ok(children) => {
                    next.extend(children.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
                }
                Err(_) if parent != pid => {}
                Err(_) => return None,
            }
        }
        if parent != pid {
            found.push(parent);
        }
    }
    Some(found)
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

#[cfg(test)]
mod tests {
    use super::descendants;
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    #[test]
    fn what_a_child_starts_is_found() {
        let script = "sh -c 'sleep 60 & echo $$ $!; wait' & echo $!; wait";
        let mut parent = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("sh");
        let mut expected: Vec<u32> = Vec::new();
        let mut lines = BufReader::new(parent.stdout.take().expect("its output")).lines();
        while expected.len() < 3 {
            let line = lines.next().expect("a line").expect("text");
            expected.extend(line.split(' ').map(|id| id.parse::<u32>().expect("an id")));
        }
        expected.sort_unstable();
        // The shell in the middle is told of twice: by who started it, and by itself.
        expected.dedup();
        assert_eq!(expected.len(), 2);
        if let Some(mut found) = descendants(parent.id()) {
            found.sort_unstable();
            assert_eq!(found, expected);
        }
        assert_eq!(descendants(u32::MAX), None);
        for id in expected.iter().chain([&parent.id()]) {
            let _ = Command::new("kill").arg("-9").arg(id.to_string()).status();
        }
        parent.wait().expect("it has ended");
    }
}
