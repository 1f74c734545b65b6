//! Worktrees with a build in them.

use super::{error::fail, short, Series, SeriesError};
use crate::{
    run::{self, Ended, Job, Ran},
    spec::Spec,
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The persistent worktrees, which keep build caches.
pub(super) const BASE: &str = "base";
/// See [`BASE`].
pub(super) const CANDIDATE: &str = "candidate";
/// Worktrees that are made anew, without caches.
pub(super) const FRESH_BASE: &str = "fresh-base";
/// See [`FRESH_BASE`].
pub(super) const FRESH_CANDIDATE: &str = "fresh-candidate";
/// What a build, a check or a proposer prints is kept up to this, in bytes, from the end.
pub(super) const OUTPUT_LIMIT: usize = 256 << 10;
/// How many of the last lines a reason quotes.
const QUOTED_LINES: usize = 6;
/// How many characters of them.
const QUOTED_CHARACTERS: usize = 800;
/// No deadline is later than this.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Says that a worktree holds the build of a commit. Lies beside it, so that nothing in it can forge it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Built {
    /// Where the worktree is. Empty in what is wanted.
    path: PathBuf,
    commit: String,
    build: Option<String>,
    /// For what a fresh worktree was made.
    fresh: Option<String>,
}

/// The two folders that are compared.
pub(super) struct Sides {
    pub(super) base: PathBuf,
    pub(super) candidate: PathBuf,
}

impl Series<'_> {
    /// A worktree with a commit built in it, or why it does not build. One that holds just that is taken as
    /// it is. With `fresh` it is made without caches, once for each such word.
    pub(super) fn place(
        &self,
        name: &str,
        commit: &str,
        spec: &Spec,
        fresh: Option<&str>,
    ) -> Result<Result<PathBuf, String>, SeriesError> {
        let mut wanted = Built {
            path: PathBuf::new(),
            commit: commit.to_owned(),
            build: spec.measure.build.clone(),
            fresh: fresh.map(str::to_owned),
        };
        let (folder, mark) = (self.work.join(name), self.mark(name));
        if let Some(built) = read_mark(&mark) {
            wanted.path.clone_from(&built.path);
            if wanted == built && built.path.exists() {
                return Ok(Ok(built.path));
            }
        }
        self.forget(name)?;
        fs::create_dir_all(&self.work).map_err(fail("make the folder", &self.work))?;
        let path = self.repository.worktree(&folder, commit, fresh.is_some())?.path;
        if let Some(build) = &spec.measure.build {
            self.say(&format!("building {} in {name}", short(commit)));
            let ran = self.command(build, &path, spec.measure.build_timeout_s, None, Vec::new())?;
            if let Some(why) = failure(&ran, spec.measure.build_timeout_s) {
                return Ok(Err(why));
            }
        }
        wanted.path.clone_from(&path);
        write_mark(&mark, &wanted)?;
        Ok(Ok(path))
    }

    /// The next [`place`](Self::place) of this name is built again.
    pub(super) fn forget(&self, name: &str) -> Result<(), SeriesError> {
        let mark = self.mark(name);
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fail("remove", &mark)(error)),
            _ => Ok(()),
        }
    }

    /// Removes worktrees that are not kept.
    pub(super) fn clear(&self, names: &[&str]) -> Result<(), SeriesError> {
        for name in names {
            self.forget(name)?;
            let folder = self.work.join(name);
            if folder.exists() {
                self.repository.remove_worktree(&folder)?;
            }
        }
        Ok(())
    }

    /// Runs a command by `sh -c` with a deadline.
    pub(super) fn command(
        &self,
        command: &str,
        dir: &Path,
        timeout_s: f64,
        input: Option<Vec<u8>>,
        env: Vec<(String, String)>,
    ) -> Result<Ran, SeriesError> {
        let job = Job {
            command: command.to_owned(),
            dir: dir.to_owned(),
            env,
            input,
            timeout: deadline(timeout_s),
            pin: false,
            output_limit: OUTPUT_LIMIT,
        };
        let ran = run::run(&job, self.options.cancelled);
        if matches!(ran.ended, Ended::Cancelled) {
            return Err(SeriesError::Cancelled);
        }
        Ok(ran)
    }

    fn mark(&self, name: &str) -> PathBuf {
        self.work.join(format!("{name}.built"))
    }
}

/// Seconds of a spec as a duration.
pub(super) fn deadline(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
}

/// Why a command failed, or nothing if it did not.
pub(super) fn failure(ran: &Ran, timeout_s: f64) -> Option<String> {
    let how = match &ran.ended {
        Ended::Code(0) => return None,
        Ended::Code(127) => "exit status 127 (a command was not found)".to_owned(),
        Ended::Code(code) => format!("exit status {code}"),
        Ended::Signal(signal) => format!("ended by signal {signal}"),
        Ended::TimedOut => format!("out of time after {timeout_s} s, and ended with all its children"),
        Ended::Cancelled => "interrupted".to_owned(),
        Ended::NotStarted(why) => format!("could not be started: {why}"),
    };
    let quoted = quote(if ran.stderr.trim().is_empty() { &ran.stdout } else { &ran.stderr });
    Some(if quoted.is_empty() { how } else { format!("{how}: {quoted}") })
}

/// The last lines of what was printed.
pub(super) fn quote(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
    let beyond = last.chars().count().saturating_sub(QUOTED_CHARACTERS);
    last.chars().skip(beyond).collect()
}

fn read_mark(path: &Path) -> Option<Built> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Through another name, so that a kill leaves no half of it.
fn write_mark(path: &Path, built: &Built) -> Result<(), SeriesError> {
    let fail = |error: std::io::Error| fail("write", path)(error);
    let text = serde_json::to_vec(built).map_err(|error| fail(error.into()))?;
    let other = path.with_extension("new");
    fs::write(&other, text).and_then(|()| fs::rename(&other, path)).map_err(fail)
}
