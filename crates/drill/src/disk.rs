//! A disk that takes no more: every write to a file at a place fails with ENOSPC, for all processes of a program.
//!
//! The processes are traced for that (`strace --inject`), those that they start meanwhile as well. Nothing is filled, and nothing
//! is mounted. What they write in sequence (logs, PostgreSQL's control file) goes through; PostgreSQL writes tables and WAL at
//! places.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use duramen_base::clock;
use rustix::process::{kill_process, Pid, Signal};

use crate::error::DrillError;
use crate::network::find;
use crate::program::Program;

/// All processes are traced within this.
const ATTACHED: Duration = Duration::from_secs(15);
/// What fails.
const CALLS: &str = "pwrite64,pwritev,pwritev2,fallocate";

/// Why no disk can be full here, if none can.
#[must_use]
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it traces processes of the servers' user, which only root may".to_owned());
    }
    find("strace").is_none().then(|| "it needs the program strace (Debian's package strace)".to_owned())
}

/// A full disk, until this is dropped.
#[derive(Debug)]
pub struct FullDisk {
    tracer: Child,
}

impl FullDisk {
    /// Lets all writes of a program, and of what it starts, fail from now on. Blocks.
    ///
    /// # Errors
    /// [`DrillError`], also if they are not traced in time.
    pub fn of(program: &Program) -> Result<Self, DrillError> {
        if let Some(obstacle) = obstacle() {
            return Err(DrillError::Missing(vec![obstacle]));
        }
        let strace = find("strace").unwrap_or_else(|| PathBuf::from("strace"));
        let processes = program.processes();
        let mut command = Command::new(&strace);
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={CALLS}")]);
        command.args(["-e", &format!("inject={CALLS}:error=ENOSPC")]);
        for pid in &processes {
            command.args(["-p", &pid.to_string()]);
        }
        // In the folder of the drill, beside that of the program: its guardian ends it.
        let place = program.dir().parent().unwrap_or(program.dir());
        command.current_dir(place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let disk = Self { tracer: command.spawn().map_err(DrillError::file("run", &strace))? };
        let begin = clock::now();
        // Who has ended meanwhile is not waited for.
        while !processes.iter().all(|pid| is_traced(*pid).unwrap_or(true)) {
            if begin.elapsed() > ATTACHED {
                return Err(DrillError::Timeout {
                    what: format!("{} to be traced", program.name()),
                    seconds: ATTACHED.as_secs(),
                    said: String::new(),
                });
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(disk)
    }
}

/// Whether a process is traced, if it is there.
fn is_traced(pid: u32) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    Some(tracer.trim() != "0")
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // It lets go of those whom it traces when it is asked to end; killed, it would leave them stopped.
        let pid = i32::try_from(self.tracer.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begin = clock::now();
        while begin.elapsed() < Duration::from_secs(10) && matches!(self.tracer.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}
