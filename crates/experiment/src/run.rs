//! Running a command: with a deadline, to its end and that of all its children, and with what it cost.

mod caged;
mod group;
mod guardian;
mod machine;
mod pump;

pub use caged::Caged;

pub(crate) use guardian::Guardian;
pub use guardian::MARK;
pub(crate) use pump::{Pump, Stop};

use duramen_base::clock;
use machine::{Pinned, Ticks};
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeVal;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is kept of each output unless something else is said, in bytes.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;
/// Children of a command that has ended have so long to say their last words, if they hold its output open.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// What was killed is gone within this, unless it hangs in the kernel.
const REAP_LIMIT: Duration = Duration::from_secs(5);
/// The longest deadline: a century is added to no clock.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Variables by which git would take a repository for another one, as they are set in hooks and aliases. A command in a
/// worktree that inherited them would write to the user's index.
pub(crate) const GIT_VARIABLES: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// A command to run.
#[derive(Debug, Clone)]
pub struct Job {
    /// What `sh -c` is given.
    pub command: String,
    /// The folder that it is run in.
    pub dir: PathBuf,
    /// Added to our own environment.
    pub env: Vec<(String, String)>,
    /// Taken out of it.
    pub unset: &'static [&'static str],
    /// What alone is left of our own environment, where that is not to be seen.
    pub keep: Option<Vec<String>>,
    /// What its standard input holds; nothing is `/dev/null`.
    pub input: Option<Vec<u8>>,
    /// After this it is killed.
    pub timeout: Duration,
    /// Run it on one CPU, where there are several.
    pub pin: bool,
    /// Shut it in. What that takes is not part of the time and the CPU time of the run.
    pub caged: Option<Caged>,
    /// How many bytes of each output are kept: the last ones, in whole lines.
    pub output_limit: usize,
}

impl Job {
    /// A command without input, not pinned, of whose outputs [`OUTPUT_LIMIT`] is kept.
    pub fn new(command: impl Into<String>, dir: impl Into<PathBuf>, timeout: Duration) -> Self {
        Self {
            command: command.into(),
            dir: dir.into(),
            env: Vec::new(),
            unset: &[],
            keep: None,
            input: None,
            timeout,
            pin: false,
            caged: None,
            output_limit: OUTPUT_LIMIT,
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit status.
    Code(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// It was killed when its time was over.
    TimedOut,
    /// It was killed because it was not wanted any more.
    Cancelled,
    /// It was never run, for this reason.
    NotStarted(String),
}

impl Ended {
    /// Whether it ended by itself with status 0.
    #[must_use]
    pub fn success(&self) -> bool {
        *self == Ended::Code(0)
    }
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// The end of its standard output. What is not UTF-8 is replaced.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
    /// How many bytes of its outputs were left out, both together.
    pub omitted: u64,
    /// How many of them were of its standard output.
    pub stdout_omitted: u64,
    /// From just before it was started until it had ended.
    pub wall: Duration,
    /// The CPU time, user and system, of the command and of all below it that was waited for.
    pub cpu: Duration,
    /// The load average of the last minute when it began.
    pub load: f64,
    /// The share of the machine's time, from 0 to 1, that was stolen while it ran.
    pub steal: f64,
    /// The CPUs that it was pinned to.
    pub pinned: Option<Vec<usize>>,
}

/// Runs a command and waits for its end. Blocks; `cancelled` is asked about twenty times a second.
///
/// All that it started is gone afterwards: its process group, everything below it, and everything that has [`MARK`] with
/// this run's value in its environment. That holds too when this process is killed meanwhile. In a cage it holds for
/// everything, and outside of one where a control group can be made. (Elsewhere, what clears its environment, leaves its
/// group and outlives its parent is not found.)
#[must_use]
pub fn run(job: &Job, cancelled: &dyn Fn() -> bool) -> Ran {
    let mut ran = Ran {
        ended: Ended::Cancelled,
        stdout: String::new(),
        stderr: String::new(),
        omitted: 0,
        stdout_omitted: 0,
        wall: Duration::ZERO,
        cpu: Duration::ZERO,
        load: machine::load(),
        steal: 0.0,
        pinned: None,
    };
    if cancelled() {
        return ran;
    }
    if let Err(error) = attempt(job, cancelled, &mut ran) {
        ran.ended = Ended::NotStarted(format!("cannot run a command in {}: {error}", job.dir.display()));
    }
    ran
}

fn attempt(job: &Job, cancelled: &dyn Fn() -> bool, ran: &mut Ran) -> io::Result<()> {
    let group = if job.caged.is_some() { None } else { group::Group::new() };
    let mut guardian = Guardian::start_for(group.as_ref().map(group::Group::path))?;
    let mut command = match &job.caged {
        Some(caged) => caged.command(&job.command, &job.dir, job.input.is_some()),
        None => {
            let mut command = match &group {
                Some(group) => group.command(&job.command),
                None => {
                    let mut command = Command::new("sh");
                    command.arg("-c").arg(&job.command);
                    command
                }
            };
            command.current_dir(&job.dir);
            command
        }
    };
    if let Some(keep) = &job.keep {
        command.env_clear();
        command.envs(keep.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        // What walls change of it stays changed.
        if job.caged.is_some() {
            command.env("TMPDIR", "/tmp");
        }
    }
    for name in GIT_VARIABLES.iter().chain(job.unset) {
        command.env_remove(name);
    }
    command.envs(job.env.iter().map(|(name, value)| (name, value)));
    let (mark, value) = guardian.mark();
    command.env(mark, value).process_group(guardian.group());
    let input = if job.input.is_some() || job.caged.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());

    let mut ticks = Ticks::now();
    let pinned = Pinned::new(job.pin);
    let mut begin = clock::now();
    let mut child = command.spawn()?;
    ran.pinned = pinned.cpus.clone();
    drop(pinned);
    let mut before = Duration::ZERO;
    if job.caged.is_some() {
        match caged::ready(&mut child) {
            Ok(cpu) => (before, ticks, begin) = (cpu, Ticks::now(), clock::now()),
            Err(error) => {
                guardian.end(&child);
                let _ = child.wait();
                return Err(error);
            }
        }
        caged::begin(&mut child, job.input.is_some())?;
    }
    let mut pump = match Pump::start(&mut child, job.input.clone(), job.output_limit) {
        Ok(pump) => pump,
        Err(error) => {
            guardian.end(&child);
            let _ = child.wait();
            return Err(error);
        }
    };
    let stop = pump.until_exit(after(begin, job.timeout), cancelled);
    ran.wall = begin.elapsed();
    ran.steal = Ticks::now().stolen_since(ticks);
    if stop == Stop::Exited {
        pump.until_closed(after(clock::now(), LAST_WORDS));
    }
    if let Some(group) = &group {
        group.end();
    }
    guardian.end(&child);
    // Pipes hold what was written before the end.
    pump.until_closed(after(clock::now(), LAST_WORDS));
    let reaped = reap(&mut child)?;
    if let Some((_, cpu)) = reaped {
        ran.cpu = cpu.saturating_sub(before);
    }
    ran.ended = match (stop, reaped) {
        (Stop::TimedOut, _) | (Stop::Exited, None) => Ended::TimedOut,
        (Stop::Cancelled, _) => Ended::Cancelled,
        (Stop::Exited, Some((status, _))) => ended(status),
    };
    let [stdout, stderr] = &mut pump.said;
    let (out, out_omitted) = stdout.finish();
    let (err, err_omitted) = stderr.finish();
    ran.stdout = String::from_utf8_lossy(&out).into_owned();
    ran.stderr = String::from_utf8_lossy(&err).into_owned();
    ran.omitted = out_omitted + err_omitted;
    ran.stdout_omitted = out_omitted;
    Ok(())
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}

/// A moment so long after another.
pub(crate) fn after(begin: Instant, time: Duration) -> Instant {
    begin + time.min(LONGEST)
}

/// Waits for the end of a child that has ended or was killed, and tells what it and all that it waited for have used;
/// nothing if the kernel does not let go of it.
///
/// The kernel adds up what all children have used at the moment when they are waited for. One is waited for at a time, so
/// that the sum grows by what this one has used, however many are running.
pub(crate) fn reap(child: &mut Child) -> io::Result<Option<(ExitStatus, Duration)>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let begin = clock::now();
    loop {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let before = children_cpu();
        if let Some(status) = child.try_wait()? {
            return Ok(Some((status, children_cpu().saturating_sub(before))));
        }
        drop(_turn);
        if begin.elapsed() > REAP_LIMIT {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn children_cpu() -> Duration {
    let time = |time: TimeVal| {
        let (seconds, micros) = (time.tv_sec().unsigned_abs(), time.tv_usec().unsigned_abs());
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map(|usage| time(usage.user_time()) + time(usage.system_time()))
        .unwrap_or_default()
}
