//! Where the series is, and how it is opened: for reading without its lock, for work with it.

use crate::{
    context::Context,
    failure::{Failure, FAILED, INVALID},
    output,
    progress::Progress,
};
use duramen_base::entropy;
use duramen_experiment::{
    event::Verdict,
    log,
    series::{Isolation, Options, Series, SeriesError, SPEC_NAME},
    spec::Spec,
    state::State,
};
use serde::Serialize;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};
use tokio::signal::unix::{signal, SignalKind};

/// Where a series is when nobody says so.
const FOLDER: &str = "experiment";
/// The folder of the home below which worktrees are made.
const WORK: &str = "experiments";
/// Exit status of a command that a second signal ends.
const INTERRUPTED: i32 = 130;

/// What every verb knows.
pub(super) struct Handle<'c> {
    context: &'c Context,
    /// The folder of the series.
    pub(super) folder: PathBuf,
    isolation: Isolation,
}

impl Handle<'_> {
    pub(super) fn new(context: &Context, series: Option<PathBuf>, allow_unisolated: bool) -> Handle<'_> {
        let is_here = || Path::new(SPEC_NAME).exists();
        let folder = series.unwrap_or_else(|| if is_here() { ".".into() } else { FOLDER.into() });
        let isolation = if allow_unisolated { Isolation::WherePossible } else { Isolation::Required };
        Handle { context, folder, isolation }
    }

    /// The log as it is now, whoever works on the series.
    pub(super) fn read(&self) -> Result<State, Failure> {
        let entries = log::read(&self.folder.join(log::FILE_NAME)).map_err(SeriesError::from)?;
        Ok(State::from_entries(&entries))
    }

    /// The spec's file.
    pub(super) fn spec(&self) -> PathBuf {
        self.folder.join(SPEC_NAME)
    }

    /// Opens the series for work. Ctrl-C and SIGTERM end the work at its next safe place; a second one ends it at once,
    /// which loses no more than a kill would.
    pub(super) fn work<T>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Series<'_>) -> Result<T, SeriesError>,
    ) -> Result<T, Failure> {
        let state = self.read()?;
        let folder = self.work_folder(&state)?;
        let is_ended = end_on_signals()?;
        let progress = Progress::new(doing);
        let said = |text: &str| progress.step(text, None);
        let cancelled = || is_ended.load(Ordering::Relaxed);
        let options = Options { progress: &said, cancelled: &cancelled, isolation: self.isolation };
        let mut series = Series::open(&self.folder, &folder, options)?;
        // Whoever proposes has nothing to do with the daemon.
        series.keep_private(&self.context.home);
        // Only a spec that asks for branches needs a daemon, and says so where there is none.
        if let Ok(client) = self.context.client() {
            series.have_branches_of(client);
        }
        let cut = series.cut().map(ToString::to_string);
        let outcome = work(&mut series);
        drop(series);
        drop(progress);
        if let Some(cut) = cut {
            output::error(&format_args!("{cut}; the series goes on without it"));
        }
        Ok(outcome?)
    }

    /// Worktrees are kept outside of the repository, in a folder that belongs to this series alone.
    fn work_folder(&self, state: &State) -> Result<PathBuf, Failure> {
        let folder = std::fs::canonicalize(&self.folder).map_err(Failure::io("find", &self.folder))?;
        let of_segment = state.current().and_then(|segment| Spec::parse(&segment.spec, &self.spec()).ok());
        let spec = of_segment.or_else(|| Spec::read(&self.spec()).ok().map(|(spec, _)| spec));
        let name = spec.map_or_else(|| FOLDER.to_owned(), |spec| spec.name);
        let digest = entropy::seed_from_text(&folder.to_string_lossy());
        Ok(self.context.home.join(WORK).join(format!("{name}-{digest:016x}")))
    }

    /// Prints what came out, as JSON or in words.
    pub(super) fn report<T: Serialize + ?Sized>(
        &self,
        value: &T,
        words: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.context.json {
            return output::json(value);
        }
        output::line(words().trim_end());
        Ok(())
    }
}

/// The exit status that says what came of a try.
pub(super) fn code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Keep => ExitCode::SUCCESS,
        Verdict::Invalid | Verdict::Suspicious => ExitCode::from(INVALID),
        _ => ExitCode::from(FAILED),
    }
}

/// A flag that the first signal sets.
fn end_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind).map_err(Failure::Runtime)?;
        let is_ended = is_ended.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if is_ended.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED);
                }
                say("ending: the next command goes on from here; a second signal ends this at once");
            }
        });
    }
    Ok(is_ended)
}

fn say(text: impl Display) {
    use std::io::Write;
    // Nobody to tell is no reason not to end.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
