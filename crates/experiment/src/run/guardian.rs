//! The process that ends a command when we cannot any more, and the marks by which a command's processes are found.

use rustix::process::{kill_process_group, pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_measure::process;

/// Every process of a command has this in its environment, with a value of its own for each run: what left the group
/// and its parent is found by it.
pub const MARK: &str = "DURAMEN_RUN";
/// Letters of the mark's value.
const MARK_LEN: usize = 20;
/// What was killed is gone within this, unless it hangs in the kernel.
const GONE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits for the end of its input, that is, of us, and ends all that has the mark, then its group and with it itself.
/// Nothing is ever written to it. What a command sends to its whole group must not end it.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE
echo watching
read -r _
n=0
while [ $n -lt 50 ]; do
  found=$(grep -lsaF -- "$1" /proc/[0-9]*/environ)
  [ -n "$found" ] || break
  for file in $found; do file=${file#/proc/}; kill -9 "${file%/environ}" 2>/dev/null; done
  n=$((n+1))
done
if [ -n "$2" ]; then
  echo 1 >"$2/cgroup.kill"
  n=0
  until rmdir "$2" 2>/dev/null || [ $n -gt 500 ]; do n=$((n+1)); done
fi
kill -9 0
"#;

/// A guardian at work. It leads the process group that the command is put into, so that the group's number belongs to
/// us for as long as we have not waited for the guardian.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Child,
    mark: String,
}

impl Guardian {
    /// Starts it, and returns when it watches.
    pub(crate) fn start() -> io::Result<Self> {
        Self::start_for(None)
    }

    /// The same for a command in a control group, which it ends and removes too.
    pub(crate) fn start_for(group: Option<&Path>) -> io::Result<Self> {
        let mark = entropy::token(MARK_LEN);
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, "duramen-guardian"])
            .arg(format!("{MARK}={mark}"))
            .arg(group.unwrap_or(Path::new("")))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        // Its answer is waited for so that it is asleep when the command begins. A shell that does not start ends, and
        // with it the pipe.
        let mut answer = [0; 1];
        let read = process.stdout.take().map(|mut out| out.read(&mut answer));
        let guardian = Self { process, mark };
        match read {
            Some(Ok(1)) => Ok(guardian),
            _ => Err(io::Error::other("the guardian of the command does not start")),
        }
    }

    /// The process group to put a command into.
    pub(crate) fn group(&self) -> i32 {
        Pid::from_child(&self.process).as_raw_pid()
    }

    /// The mark's name and value for the command's environment.
    pub(crate) fn mark(&self) -> (&str, &str) {
        (MARK, &self.mark)
    }

    /// Kills all processes of the command, and returns when they are gone.
    pub(crate) fn end(&mut self, command: &Child) {
        // What is below it is looked for first: afterwards nobody knows whose child it was.
        let below: Vec<_> = process::tree(command.id()).into_iter().filter_map(open).collect();
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        for process in below {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        let begin = clock::now();
        while self.kill_marked() && begin.elapsed() < GONE {
            thread::sleep(PAUSE);
        }
        let _ = self.process.wait();
    }

    /// Whether there were any.
    fn kill_marked(&self) -> bool {
        let wanted = format!("{MARK}={}", self.mark);
        let has_mark = |pid: u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        let mut found = false;
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if !has_mark(pid) {
                continue;
            }
            found = true;
            // Looked at again through a handle, because the id may be another's by now.
            if let Some(process) = open(pid).filter(|_| has_mark(pid)) {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
        found
    }
}

fn open(pid: u32) -> Option<rustix::fd::OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // After `end` it is waited for already, and its number may be another's.
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
            let _ = self.process.wait();
        }
    }
}
