//! A command that is shut in. It waits for a word when its walls stand, so that neither the time nor the CPU time that
//! they take are its own.

use duramen_base::clock;
use duramen_cage::{Cage, Walls};
use duramen_measure::process;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Walls stand within this.
const STANDING: Duration = Duration::from_secs(60);
/// What is read at once of why they do not stand.
const SAID_MAX: u64 = 4_096;
/// Says that it is there, waits for the word, and runs the command. It stays, because the first process of a namespace
/// has to collect others, and is sent no signal that it does not handle.
const INSIDE: &str = r#"
echo
read -r _
if [ "$2" = no ]; then exec </dev/null; fi
sh -c "$1"
"#;

/// What a command is shut in by.
#[derive(Debug, Clone)]
pub struct Caged {
    /// The cage.
    pub cage: Cage,
    /// What it leaves open. The folder that the command runs in is added.
    pub walls: Walls,
}

impl Caged {
    /// Everything that it starts ends with it, and it ends with the thread that starts it.
    pub(super) fn command(&self, command: &str, dir: &Path, has_input: bool) -> Command {
        let mut walls = self.walls.clone().ended_with_caller().with_messages_of_its_own().work_dir(dir);
        if rustix::process::geteuid().is_root() {
            // The worktree may be somebody else's, and so may the socket of a database.
            walls = walls.with_files_of_any_owner();
        }
        let mut caged = self.cage.command(Path::new("/bin/sh"), &walls);
        caged.args(["-c", INSIDE, "sh", command, if has_input { "yes" } else { "no" }]).current_dir("/");
        // What lay elsewhere cannot be written to.
        for elsewhere in ["XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CARGO_TARGET_DIR", "GOCACHE", "GOTMPDIR"] {
            caged.env_remove(elsewhere);
        }
        caged.env("TMPDIR", "/tmp");
        caged
    }
}

/// Waits until the walls stand. Returns the CPU time that they took.
pub(super) fn ready(child: &mut Child) -> io::Result<Duration> {
    let Some(stdout) = child.stdout.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let begin = clock::now();
    loop {
        let left = STANDING.saturating_sub(begin.elapsed());
        let wait = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(&*stdout, PollFlags::IN)], Some(&wait)) {
            Ok(0) => return Err(io::Error::other("its walls do not stand after a minute")),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut answer = [0; 1];
    if stdout.read(&mut answer)? == 0 {
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            let _ = stderr.take(SAID_MAX).read_to_string(&mut said);
        }
        return Err(io::Error::other(format!("it cannot be shut in: {}", said.trim())));
    }
    let all = std::iter::once(child.id()).chain(process::tree(child.id()));
    let all: std::collections::BTreeSet<u32> = all.collect();
    Ok(all.into_iter().filter_map(|pid| process::cpu_time(pid).ok()).sum())
}

/// Gives it the word.
pub(super) fn begin(child: &mut Child, has_input: bool) -> io::Result<()> {
    if let Some(stdin) = child.stdin.as_mut() {
        stdin.write_all(b"\n")?;
    }
    if !has_input {
        child.stdin = None;
    }
    Ok(())
}
