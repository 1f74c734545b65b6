//! A running server process: start, readiness, stop.

use duramen_base::{clock, file};
use rustix::process::{
    kill_process, setpriority_process, test_kill_process, waitpid, Pid, Signal, WaitOptions,
};
use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::Duration,
};

/// How often a file or process is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(1);
/// How often processes that do not stop are looked at: a signal may hold them.
const HELD_EVERY: Duration = Duration::from_millis(200);
/// How long processes may take to stop at once.
const QUIT_LIMIT: Duration = Duration::from_secs(3);
/// How long killed processes may take to go.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// How long a process that has begun to end is waited for.
const EXITS_WITHIN: Duration = Duration::from_secs(1);
/// The longest file of a server that is read, in bytes.
const FILE_MAX: u64 = 64 << 10;
/// How many of its last log lines an error about a server shows.
const LOG_LINES: usize = 12;

/// How a server is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Ends sessions, writes a checkpoint: the directory is clean afterwards.
    Fast,
    /// Ends everything at once: the next start recovers from WAL.
    Immediate,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program could not be run.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// The server program.
        program: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The server ended before it was ready.
    #[error("PostgreSQL did not start in {data_dir} ({status}); its last log lines:\n{log}")]
    Exited {
        /// The data directory.
        data_dir: String,
        /// How the process ended.
        status: String,
        /// The end of the server's log.
        log: String,
    },
    /// The server was not ready in time, and was killed.
    #[error("PostgreSQL in {data_dir} was not ready after {seconds:.1} s and was stopped; its last log lines:\n{log}")]
    Timeout {
        /// The data directory.
        data_dir: String,
        /// The time that was allowed.
        seconds: f64,
        /// The end of the server's log.
        log: String,
    },
    /// The path of the socket directory does not fit into a socket address.
    #[error("the socket directory {path} is longer than {max} bytes, which is all that a unix socket address holds; choose a shorter --home", max = crate::SOCKET_DIR_MAX)]
    SocketPathTooLong {
        /// The directory.
        path: String,
    },
    /// Processes of a server work in the data directory: a second server beside them would destroy it.
    #[error("PostgreSQL is not started in {data_dir}: processes {pids:?} work there; stop that server first (`duramen stop` for a daemon's, `pg_ctl stop` for others)")]
    Occupied {
        /// The data directory.
        data_dir: String,
        /// The processes.
        pids: Vec<u32>,
    },
    /// Whether processes work in the data directory cannot be seen.
    #[error("nobody can see whether a server runs in {data_dir}: {source}; try again")]
    Unseen {
        /// The directory.
        data_dir: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A directory or file for the server could not be prepared.
    #[error("cannot prepare {path}: {source}")]
    Prepare {
        /// The file or directory.
        path: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
}

/// Why a server did not stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// Still there after the time that was allowed.
    #[error("PostgreSQL process {pid} did not stop within {seconds:.1} s")]
    Timeout {
        /// The postmaster.
        pid: u32,
        /// The time that was allowed.
        seconds: f64,
    },
}

/// A server's log file.
#[derive(Debug, Clone)]
pub struct LogFile(pub PathBuf);

impl LogFile {
    /// The last lines of the log, at most 16 KiB.
    #[must_use]
    pub fn tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = fs::File::open(&self.0)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(16 * 1024)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_else(|error| format!("(no log: {error})"));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("  {line}\n")).collect()
    }
}

/// A running postmaster: started by this process, or adopted from an earlier one.
#[derive(Debug)]
pub struct Postmaster {
    pid: u32,
    data_dir: PathBuf,
    /// Present when this process is its parent, or that of the launcher around it, and must collect it.
    child: Option<Child>,
    /// Whether the child is a launcher around the server, whose process id is not known before its pid file is there.
    launched: bool,
}

impl Postmaster {
    pub(crate) fn started(child: Child, data_dir: PathBuf) -> Postmaster {
        Postmaster { pid: child.id(), data_dir, child: Some(child), launched: false }
    }

    /// A server within a launcher, which ends when the server does.
    pub(crate) fn launched(child: Child, data_dir: PathBuf) -> Postmaster {
        let pid = child.id();
        Postmaster { pid, data_dir, child: Some(child), launched: true }
    }

    /// The server that runs in `data_dir`, if its pid file names a live process whose working directory is
    /// that very directory. A recycled process id does not pass.
    #[must_use]
    pub fn adopt(data_dir: &Path) -> Option<Postmaster> {
        let pid = read_pid_file(data_dir)?.0;
        works_in(pid, data_dir).then(|| Postmaster {
            pid,
            data_dir: data_dir.to_owned(),
            child: None,
            launched: false,
        })
    }

    /// Whether it accepts connections, as its pid file says.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        read_pid_file(&self.data_dir).is_some_and(|(pid, ready)| pid == self.pid && ready)
    }

    /// The process id of the postmaster.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process is still there (a zombie of ours is collected and counts as gone). One that is about to end, which accepts
    /// nothing any more, is waited for, for a second at most.
    pub fn is_running(&mut self) -> bool {
        let mut is_there = self.is_there();
        if is_there && is_exiting(self.pid) {
            let started = clock::now();
            while is_there && started.elapsed() < EXITS_WITHIN {
                thread::sleep(POLL);
                is_there = self.is_there();
            }
        }
        is_there
    }

    fn is_there(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => pid_of(self.pid).is_some_and(|pid| match waitpid(Some(pid), WaitOptions::NOHANG) {
                // It was started by this process after all, and is collected here.
                Ok(Some(_)) => false,
                Ok(None) => true,
                // Somebody else collects it, sooner or later: in a container perhaps never.
                Err(_) => test_kill_process(pid).is_ok() && !has_ended(self.pid),
            }),
        }
    }

    /// Whether a signal holds its process (`SIGSTOP`): it is there, and does nothing.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        is_stopped(self.pid)
    }

    /// Lowers or raises the scheduling weight of the server and of every process it starts from now on.
    pub fn set_nice(&self, nice: i32) {
        if let Some(pid) = pid_of(self.pid) {
            // Best effort: a user without the right to raise a priority keeps the normal one.
            let _ = setpriority_process(Some(pid), nice);
        }
    }

    /// Waits until the pid file says one of these words: `ready`, or `standby` for a server that replays and admits nobody.
    pub(crate) fn wait_for(
        &mut self,
        words: &[&str],
        log: &LogFile,
        timeout: Duration,
        observe: &mut dyn FnMut(u32),
    ) -> Result<(), StartError> {
        let started = clock::now();
        let data_dir = self.data_dir.display().to_string();
        loop {
            let status = read_status(&self.data_dir);
            if let Some((pid, _)) = status.filter(|(_, status)| words.contains(&status.as_str())) {
                if self.launched {
                    if let Some(pid) = outer_pid(pid, &self.data_dir) {
                        self.pid = pid;
                        return Ok(());
                    }
                } else if pid == self.pid {
                    return Ok(());
                }
            }
            if let Some(child) = &mut self.child {
                if let Ok(Some(status)) = child.try_wait() {
                    return Err(StartError::Exited { data_dir, status: status.to_string(), log: log.tail() });
                }
            }
            if started.elapsed() > timeout {
                self.kill();
                return Err(StartError::Timeout {
                    data_dir,
                    seconds: timeout.as_secs_f64(),
                    log: log.tail(),
                });
            }
            observe(self.pid);
            thread::sleep(POLL);
        }
    }

    /// Stops the server and waits for its end.
    ///
    /// # Errors
    /// [`StopError::Timeout`]; the server is then still there.
    pub fn stop(&mut self, mode: StopMode, timeout: Duration) -> Result<(), StopError> {
        self.signal(match mode {
            StopMode::Fast => Signal::INT,
            StopMode::Immediate => Signal::QUIT,
        });
        self.wait_gone(timeout)
    }

    /// Ends the server at once, with every process that works below its data directory. For directories that
    /// are about to be deleted: nothing is written any more.
    pub fn kill(&mut self) {
        // A launcher whose server is not known yet ends alone.
        let is_known = !self.launched || self.child.as_ref().is_some_and(|child| child.id() != self.pid);
        if is_known && self.is_running() && self.stop(StopMode::Immediate, Duration::from_secs(2)).is_ok() {
            return;
        }
        // It does not listen, or has left processes behind that no longer have a postmaster.
        if self.is_running() {
            self.signal(Signal::KILL);
        }
        let dir = self.real_dir();
        end_processes(&processes_below(&dir), &dir);
        let _ = self.wait_gone(Duration::from_secs(5));
    }

    /// The data directory as the working directories of processes show it.
    fn real_dir(&self) -> PathBuf {
        fs::canonicalize(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone())
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = pid_of(self.pid) {
            let _ = kill_process(pid, signal);
        }
    }

    fn wait_gone(&mut self, timeout: Duration) -> Result<(), StopError> {
        let started = clock::now();
        let mut look = HELD_EVERY;
        while self.is_running() {
            if started.elapsed() > timeout {
                return Err(StopError::Timeout { pid: self.pid, seconds: timeout.as_secs_f64() });
            }
            if started.elapsed() > look {
                self.let_go();
                look += HELD_EVERY;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Has processes of the server go on that a signal holds (SIGSTOP): they hear of no other one, and the postmaster waits
    /// for its children.
    fn let_go(&self) {
        for pid in processes_below(&self.real_dir()).into_iter().filter(|pid| is_stopped(*pid)) {
            if let Some(pid) = pid_of(pid) {
                let _ = kill_process(pid, Signal::CONT);
            }
        }
    }
}

/// A server in a cage belongs to one task, and ends with it.
impl Drop for Postmaster {
    fn drop(&mut self) {
        if self.launched && self.is_running() {
            self.kill();
        }
    }
}

/// Whether a process has ended, and is only waiting to be collected by its parent. One that cannot be looked at, for lack of
/// descriptors or memory, has not: a second server beside it would be worse than a late start.
fn has_ended(pid: u32) -> bool {
    match state_of(pid) {
        Ok(state) => state.is_none_or(|state| ['Z', 'X'].contains(&state)),
        Err(_) => false,
    }
}

/// Whether a process has begun to end, as after `SIGKILL`: its memory is given back and its files are closed before its parent hears of it.
fn is_exiting(pid: u32) -> bool {
    // include/linux/sched.h
    const PF_EXITING: u64 = 4;
    let flags = field_of(pid, 6).ok().flatten();
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Whether a signal holds a process. One that a debugger holds is being looked at by somebody, and is not meant.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    matches!(state_of(pid), Ok(Some('T')))
}

/// Whether a process can do anything: it is there, has not ended, and no signal holds it. One of which that cannot be seen is taken for
/// one that can.
#[must_use]
pub fn can_run(pid: u32) -> bool {
    !matches!(state_of(pid), Ok(None | Some('T' | 'Z' | 'X')))
}

/// What the kernel calls the state of a process; `None` if there is no such process.
fn state_of(pid: u32) -> io::Result<Option<char>> {
    Ok(field_of(pid, 0)?.and_then(|state| state.chars().next()))
}

/// A field of `/proc/PID/stat`, counted from the state, which is the first; `None` if there is no such process.
fn field_of(pid: u32, nth: usize) -> io::Result<Option<String>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // It ended between the two system calls.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Ok(None)
        }
        stat => stat?,
    };
    // They follow the name, which may hold anything.
    Ok(stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(nth)).map(str::to_owned))
}

/// Whether a process works in that very directory.
fn works_in(pid: u32, data_dir: &Path) -> bool {
    let Ok(cwd) = fs::read_link(format!("/proc/{pid}/cwd")) else { return false };
    fs::canonicalize(data_dir).is_ok_and(|dir| dir == cwd)
}

/// The process id outside of the server that works in `data_dir` and has the id `inner` within its cage.
fn outer_pid(inner: u32, data_dir: &Path) -> Option<u32> {
    let dir = fs::canonicalize(data_dir).ok()?;
    let inner = inner.to_string();
    processes_below(&dir).into_iter().find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        let ids: Vec<&str> = ids.split_whitespace().collect();
        ids.len() > 1 && ids.last() == Some(&inner.as_str())
    })
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Process id and readiness out of `postmaster.pid` (line 1 the process id, line 8 the status).
fn read_pid_file(data_dir: &Path) -> Option<(u32, bool)> {
    let (pid, status) = read_status(data_dir)?;
    Some((pid, status == "ready"))
}

/// The process id and the state that the pid file names.
fn read_status(data_dir: &Path) -> Option<(u32, String)> {
    let text = file::read_plain(&data_dir.join("postmaster.pid"), FILE_MAX).ok()?;
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    Some((pid, lines.nth(6).unwrap_or_default().trim().to_owned()))
}

/// Makes sure that no process works in a data directory before a server starts there.
///
/// Backends that lost their postmaster may go on writing for as long as their statement runs; a new server would not
/// notice them, because it runs in an IPC namespace of its own and cannot see their shared memory. They are ended. A
/// server that is whole is somebody's, and is left alone. A directory in which no server ever started (a clone of a
/// sealed snapshot) costs two look-ups; any other one a look at all processes.
pub(crate) fn vacate(data_dir: &Path) -> Result<(), StartError> {
    if !["postmaster.pid", "postmaster.opts"].iter().any(|name| data_dir.join(name).exists()) {
        return Ok(());
    }
    let occupied = |pids: Vec<u32>| StartError::Occupied { data_dir: data_dir.display().to_string(), pids };
    if let Some(server) = Postmaster::adopt(data_dir) {
        return Err(occupied(vec![server.pid]));
    }
    let dir = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let unseen = |source: io::Error| StartError::Unseen { data_dir: data_dir.display().to_string(), source };
    let pids = look_below(&dir).map_err(unseen)?;
    if end_processes(&pids, &dir) {
        return Ok(());
    }
    Err(occupied(processes_below(&dir)))
}

/// Removes the lock of a socket whose server is gone. By the process id alone, which PostgreSQL goes by, a server that was
/// killed and not collected yet looks alive, as does any other process that has its id by now.
pub(crate) fn release_socket(socket_dir: &Path) {
    let lock = socket_dir.join(format!(".s.PGSQL.{}.lock", crate::SOCKET_PORT));
    // Something else in its place is removed as well.
    let text = match file::read_plain(&lock, FILE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        text => text.unwrap_or_default(),
    };
    let mut lines = text.lines();
    let holder = lines.next().and_then(|line| line.trim().parse().ok()).zip(lines.next());
    if !holder.is_some_and(|(pid, data_dir)| works_in(pid, Path::new(data_dir.trim()))) {
        // What cannot be removed is named by the server, which then does not start.
        let _ = fs::remove_file(&lock);
    }
}

/// Ends processes of servers that work below `dir`: asked to stop at once first, so that they remove their shared
/// memory, then by force. Whether all of them are gone. A process id that has come to stand for another process
/// meanwhile is left alone.
pub fn end_processes(pids: &[u32], dir: &Path) -> bool {
    let works = |pid: u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
    let alive = || pids.iter().any(|pid| works(*pid));
    for (signal, limit) in [(Signal::QUIT, QUIT_LIMIT), (Signal::KILL, KILL_LIMIT)] {
        for pid in pids.iter().copied().filter(|pid| works(*pid)).filter_map(pid_of) {
            let _ = kill_process(pid, signal);
            // One that another signal holds would not hear of this one.
            let _ = kill_process(pid, Signal::CONT);
        }
        let started = clock::now();
        while alive() && started.elapsed() < limit {
            thread::sleep(POLL);
        }
        if !alive() {
            return true;
        }
    }
    false
}

/// Every process whose working directory is `dir` or lies below it, even if it has been deleted since. Server
/// processes work inside their data directory, so this finds those that lost their postmaster as well.
#[must_use]
pub fn processes_below(dir: &Path) -> Vec<u32> {
    look_below(dir).unwrap_or_default()
}

/// The same, or why nobody can tell.
fn look_below(dir: &Path) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir)) {
            found.push(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{has_ended, is_exiting, Postmaster};
    use std::{
        fs,
        io::Write,
        process::{Command, Stdio},
        thread,
        time::Duration,
    };

    /// A process that has ended and that its parent does not collect, as some containers' first process does not.
    #[test]
    fn an_ended_server_that_nobody_collects_does_not_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pid");
        let script = format!("sleep 30 & echo $! > {0}.new; mv {0}.new {0}; exec sleep 60", file.display());
        let mut parent = Command::new("sh").args(["-c", &script]).spawn().expect("a parent");
        let mut text = String::new();
        while !text.ends_with('\n') {
            thread::sleep(Duration::from_millis(5));
            text = fs::read_to_string(&file).unwrap_or_default();
        }
        let pid: u32 = text.trim().parse().expect("a process id");
        let mut server = Postmaster { pid, data_dir: dir.path().to_owned(), child: None, launched: false };
        assert!(!has_ended(pid) && server.is_running());
        assert!(Command::new("kill").args(["-9", text.trim()]).status().expect("kill").success());
        for _ in 0..1000 {
            if has_ended(pid) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        assert!(fs::exists(format!("/proc/{pid}")).expect("a look"), "its parent has not collected it");
        assert!(!server.is_running());
        parent.kill().and_then(|()| parent.wait()).expect("the parent ends");
    }

    /// A server that was killed closes its socket before its parent hears of it.
    #[test]
    fn a_server_that_is_about_to_end_does_not_run() {
        let dir = tempfile::tempdir().expect("a directory");
        // Memory takes time to give back: `tail` keeps all of it.
        let mut child =
            Command::new("tail").args(["-c", "300M"]).stdin(Stdio::piped()).spawn().expect("tail");
        let mut input = child.stdin.take().expect("its input");
        for _ in 0..300 {
            input.write_all(&[b'x'; 1 << 20]).expect("tail reads");
        }
        let mut server = Postmaster::started(child, dir.path().to_owned());
        let pid = server.pid();
        assert!(server.is_running());
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill").success());
        for _ in 0..1_000_000 {
            if is_exiting(pid) {
                break;
            }
        }
        assert!(is_exiting(pid), "it was not seen to end");
        assert!(!server.is_running());
    }

    /// Whoever runs as the server's user may put anything in the place of its files.
    #[test]
    fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("global")).expect("a directory");
        fs::write(dir.path().join("global/pg_control"), "").expect("a file");
        let lock = dir.path().join(".s.PGSQL.5432.lock");
        for pipe in [dir.path().join("postmaster.pid"), dir.path().join("PG_VERSION"), lock.clone()] {
            assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        }
        let (done, came) = std::sync::mpsc::channel();
        let path = dir.path().to_owned();
        thread::spawn(move || {
            let is_none = Postmaster::adopt(&path).is_none() && crate::Cluster::major_of(&path).is_err();
            super::release_socket(&path);
            done.send(is_none)
        });
        assert!(came.recv_timeout(Duration::from_secs(10)).expect("it waits for nobody"));
        assert!(!lock.exists(), "what is no lock is removed");
    }
}
