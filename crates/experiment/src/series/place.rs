//! Worktrees with a build in them.

use super::{error::fail, guard, short, walls::Doing, Series, SeriesError};
use crate::{
    outputs::Outputs,
    run::{self, Caged, Ended, Job, Ran},
    spec::Spec,
};
use duramen_base::file;
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

/// Says that a worktree holds the build of a commit. Lies beside it, so that nothing in it is taken for it.
#[derive(Debug, Serialize, Deserialize)]
struct Built {
    /// Where the worktree is.
    path: PathBuf,
    commit: String,
    build: Option<String>,
    /// For what a fresh worktree was made.
    fresh: Option<String>,
    /// Whether it was shut in.
    #[serde(default)]
    isolated: bool,
    /// Whether it has to be built again, with what is there as a cache: the build failed, or something else was run there.
    is_stale: bool,
    /// What the build made, and the files of the commit (X13).
    outputs: Outputs,
}

impl Built {
    fn is_of(&self, commit: &str, spec: &Spec, fresh: Option<&str>, isolated: bool) -> bool {
        !self.is_stale
            && self.isolated == isolated
            && (self.commit.as_str(), &self.build, self.fresh.as_deref())
                == (commit, &spec.measure.build, fresh)
    }
}

/// The two folders that are compared.
pub(super) struct Sides {
    pub(super) base: PathBuf,
    pub(super) candidate: PathBuf,
}

impl Series<'_> {
    /// A worktree with a commit built in it, or why it does not build. One that holds just that, and is what it was
    /// when it was built, is taken as it is. One that is not what it was, or of which nothing is known, is made anew
    /// without caches. With `fresh` it is made without caches in any case, once for each such word.
    pub(super) fn place(
        &self,
        name: &str,
        commit: &str,
        spec: &Spec,
        fresh: Option<&str>,
    ) -> Result<Result<PathBuf, String>, SeriesError> {
        let (folder, mark) = (self.work.join(name), self.mark(name));
        let known = read_mark(&mark).filter(|built| built.path.exists());
        let is_whole = match &known {
            Some(built) => self.is_whole(&built.path, &built.outputs, spec)?,
            None => false,
        };
        if let Some(built) =
            known.as_ref().filter(|built| is_whole && built.is_of(commit, spec, fresh, self.cage.is_some()))
        {
            self.watch(name, &built.path, &built.outputs, spec)?;
            return Ok(Ok(built.path.clone()));
        }
        if known.is_some() && !is_whole {
            self.say(&format!("{name} is not as it was built: making it anew"));
        }
        let isolated = self.cage.is_some();
        let caches = known.filter(|built| is_whole && fresh.is_none() && built.isolated == isolated);
        let caches = caches.map(|built| built.outputs);
        // What is there is in nobody's hands until it is built: after a kill it is made anew.
        self.unmark(name)?;
        fs::create_dir_all(&self.work).map_err(fail("make the folder", &self.work))?;
        let path = self.repository.worktree(&folder, commit, caches.is_none())?.path;
        let scratch = guard::scratch(spec)?;
        let files = guard::names(&self.repository.files(commit)?);
        let mut before = guard::look(&path, &scratch)?;
        if let Some(caches) = &caches {
            // What checks and runs left is no cache of a build.
            let swept = caches.sweep(&path, &mut before, &files);
            swept.map_err(fail("remove what was left in", &path))?;
        }
        let mut why = None;
        if let Some(build) = &spec.measure.build {
            self.say(&format!("building {} in {name}", short(commit)));
            let caged = self.caged(&path, spec, Doing::Build);
            let ran = self.command(build, &path, spec.measure.build_timeout_s, None, Vec::new(), caged)?;
            why = failure(&ran, spec.measure.build_timeout_s);
        }
        let after = guard::look(&path, &scratch)?;
        let outputs = Outputs::capture(&path, &before, &after, &caches.unwrap_or_default(), &files)
            .map_err(fail("read what was built in", &path))?;
        let built = Built {
            path: path.clone(),
            commit: commit.to_owned(),
            build: spec.measure.build.clone(),
            fresh: fresh.map(str::to_owned),
            isolated: self.cage.is_some(),
            is_stale: why.is_some(),
            outputs,
        };
        write_mark(&mark, &built)?;
        if let Some(why) = why {
            return Ok(Err(why));
        }
        self.watch(name, &path, &built.outputs, spec)?;
        Ok(Ok(path))
    }

    /// The next [`place`](Self::place) of this name is built again. What is there serves as a cache if it is what it
    /// was then.
    pub(super) fn forget(&self, name: &str) -> Result<(), SeriesError> {
        let mark = self.mark(name);
        if let Some(mut built) = read_mark(&mark) {
            self.unwatch(name);
            built.is_stale = true;
            write_mark(&mark, &built)?;
        }
        Ok(())
    }

    /// Takes what was run in a worktree that was forgotten for harmless: it serves as a cache as it is now.
    pub(super) fn accept(&self, name: &str, spec: &Spec) -> Result<(), SeriesError> {
        let mark = self.mark(name);
        if let Some(mut built) = read_mark(&mark) {
            let now = guard::look(&built.path, &guard::scratch(spec)?)?;
            let recaptured = built.outputs.recapture(&built.path, &now);
            built.outputs = recaptured.map_err(fail("read what was built in", &built.path))?;
            write_mark(&mark, &built)?;
        }
        Ok(())
    }

    /// Nothing is known of what is there any more.
    fn unmark(&self, name: &str) -> Result<(), SeriesError> {
        self.unwatch(name);
        let mark = self.mark(name);
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fail("remove", &mark)(error)),
            _ => Ok(()),
        }
    }

    /// Removes worktrees that are not kept.
    pub(super) fn clear(&self, names: &[&str]) -> Result<(), SeriesError> {
        for name in names {
            self.unmark(name)?;
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
        caged: Option<Caged>,
    ) -> Result<Ran, SeriesError> {
        let job = Job {
            command: command.to_owned(),
            dir: dir.to_owned(),
            env,
            unset: &[],
            keep: None,
            input,
            timeout: deadline(timeout_s),
            pin: false,
            caged,
            output_limit: OUTPUT_LIMIT,
        };
        self.run(&job)
    }

    /// Runs it, unless the caller wants to end.
    pub(super) fn run(&self, job: &Job) -> Result<Ran, SeriesError> {
        let ran = run::run(job, &|| self.is_to_end());
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

fn write_mark(path: &Path, built: &Built) -> Result<(), SeriesError> {
    let fail = |error: std::io::Error| fail("write", path)(error);
    let text = serde_json::to_vec(built).map_err(|error| fail(error.into()))?;
    file::replace(path, &text, 0o644).map_err(fail)
}
