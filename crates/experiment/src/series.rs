//! A series of tries: the engine that ties the spec, git, runs, the log and the verdict together.
//!
//! What a try goes through and what always holds is in `docs/design/experiments.md`. Every command may be
//! killed at any moment; the next one that measures goes on from what the log holds (X10).

mod ablate;
mod attempt;
mod baseline;
mod candidate;
mod carry;
mod confirm;
mod decide;
mod equal;
mod error;
mod export;
mod guard;
mod measure;
mod note;
pub mod notes;
mod outcome;
mod place;
mod propose;
mod replay;
mod walls;

pub use attempt::{Change, Claim};
pub use carry::Resumed;
pub use error::SeriesError;
pub use note::NewIdea;
pub use outcome::{Ablated, Baseline, Branch, Ended, Replayed, Stopped};
pub use propose::{Limits, Proposer};
pub use walls::Isolation;

use crate::{
    database::Databases,
    event::{Design, Event},
    git::Repository,
    log::{self, Cut, Log},
    spec::{self, Direction, Spec},
    state::State,
    verdict::Noise,
};
use duramen_base::clock;
use duramen_cage::Cage;
use duramen_client::Client;
use error::fail;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// The name of the spec within the folder of a series.
pub const SPEC_NAME: &str = spec::FILE;

/// The files of a series whose folder is the top of the repository.
const TOP_FILES: [&str; 4] = [SPEC_NAME, log::FILE_NAME, "experiments.md", "experiments.html"];

/// How a series talks to whoever runs it.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Is told what is being done, a line at a time.
    pub progress: &'a dyn Fn(&str),
    /// Is asked often whether to end. What was under way goes on with the next command.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Whether the sides are walled off from each other (X20).
    pub isolation: Isolation,
}

/// What [`Series::init`] writes the first spec from.
#[derive(Debug, Clone)]
pub struct First<'t> {
    /// The name of the series.
    pub name: &'t str,
    /// The command to measure; nothing is the first benchmark of the repository.
    pub command: Option<&'t str>,
    /// The figure that decides.
    pub metric: &'t str,
    /// Which way it is better.
    pub direction: Direction,
}

/// A series that is open for work, and locked until it is dropped (X3).
pub struct Series<'a> {
    folder: PathBuf,
    /// The folder of the series within the repository, `/` between its parts.
    inside: String,
    work: PathBuf,
    options: Options<'a>,
    repository: Repository,
    log: Log,
    state: State,
    cut: Option<Cut>,
    /// The worktrees with a build that this process knows.
    watched: RefCell<BTreeMap<PathBuf, guard::Watched>>,
    /// Where branches come from, if the spec asks for them.
    databases: Option<Databases>,
    /// What commands are shut in by.
    cage: Option<Cage>,
    /// What whoever proposes is not to see besides.
    private: Vec<PathBuf>,
    /// When a run that proposes has to end.
    deadline: Option<Instant>,
}

/// The segment that is under way, with its spec read.
#[derive(Clone)]
struct Current {
    number: u32,
    start: String,
    head: String,
    spec: Spec,
    seed: u64,
    design: Design,
    /// Nothing before the baseline came to its end.
    noise: Option<Noise>,
}

impl Series<'_> {
    /// Begins a series: writes the folder, a spec with comments, and an empty log. Returns where the spec is.
    /// A spec that is there without a log, as in a clone, is taken as it is.
    ///
    /// # Errors
    /// When there is a spec with a log already, a log without a spec, or the folder cannot be written.
    pub fn init(folder: &Path, first: &First<'_>) -> Result<PathBuf, SeriesError> {
        fs::create_dir_all(folder).map_err(fail("make the folder", folder))?;
        let folder = fs::canonicalize(folder).map_err(fail("find the folder", folder))?;
        let path = folder.join(SPEC_NAME);
        let log = folder.join(log::FILE_NAME);
        if path.exists() {
            Spec::read(&path)?;
            if log.exists() {
                return Err(SeriesError::Exists { path });
            }
            Log::create(&log)?;
            return Ok(path);
        }
        let found = match first.command {
            Some(command) => spec::Found::command(command),
            None => {
                let root = Repository::open(&folder)?.root().to_owned();
                let none = || SeriesError::NoBenchmark { root: root.clone() };
                spec::benchmarks(&root).into_iter().next().ok_or_else(none)?
            }
        };
        let text = Spec::template_of(first.name, &found, first.metric, first.direction);
        // A name or command that makes no spec is told before anything is written.
        Spec::parse(&text, &path)?;
        fs::write(&path, text).map_err(fail("write", &path))?;
        Log::create(&log)?;
        Ok(path)
    }
}

impl<'a> Series<'a> {
    /// Opens a series for work. Worktrees and builds are kept in `work`, which is made when it is needed; it
    /// must lie outside of the repository and belong to this series alone.
    ///
    /// # Errors
    /// When there is no log or it is damaged, another process works on the series, or its folder is in no git
    /// repository.
    pub fn open(folder: &Path, work: &Path, options: Options<'a>) -> Result<Series<'a>, SeriesError> {
        let folder = fs::canonicalize(folder).map_err(fail("find the folder", folder))?;
        let repository = Repository::open(&folder)?;
        let top = fs::canonicalize(repository.root()).map_err(fail("find the folder", repository.root()))?;
        let inside = match folder.strip_prefix(&top) {
            Ok(inside) => inside.to_string_lossy().into_owned(),
            // A folder that is reached through a link lies where the link points.
            Err(_) => return Err(SeriesError::Elsewhere { folder, top }),
        };
        let (log, entries, cut) = Log::open(&folder.join(log::FILE_NAME))?;
        let state = State::from_entries(&entries);
        if let Some(cut) = &cut {
            (options.progress)(&cut.to_string());
        }
        // Of a process that was killed; there is no other now.
        if let Err(error) = propose::clear(work) {
            (options.progress)(&format!("what a proposer left in {} stays: {error}", work.display()));
        }
        Ok(Series {
            folder,
            inside,
            work: work.to_owned(),
            options,
            repository,
            log,
            state,
            cut,
            watched: RefCell::default(),
            databases: None,
            cage: None,
            private: Vec::new(),
            deadline: None,
        })
    }

    /// Hides a folder from whoever proposes, such as one with the socket of a daemon.
    pub fn keep_private(&mut self, folder: &Path) {
        self.private.push(folder.to_owned());
    }

    /// Has the daemon of this client make branches for runs, where a spec asks for them (`measure.database`).
    pub fn have_branches_of(&mut self, client: Client) {
        self.databases = Some(Databases::new(client));
    }

    /// What the series has come to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The last line that a killed command left without an end, if there was one.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    fn say(&self, text: &str) {
        (self.options.progress)(text);
    }

    /// Whether the caller asked to end, or the time of a run is over.
    fn is_to_end(&self) -> bool {
        (self.options.cancelled)() || self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }

    fn is_cancelled(&self) -> Result<(), SeriesError> {
        if self.is_to_end() {
            return Err(SeriesError::Cancelled);
        }
        Ok(())
    }

    /// Writes down what happened. Only then is it acted upon (X2).
    fn append(&mut self, event: Event) -> Result<(), SeriesError> {
        let entry = self.log.append(event)?;
        self.state.apply(&entry);
        Ok(())
    }

    fn spec_path(&self) -> PathBuf {
        self.folder.join(SPEC_NAME)
    }

    /// The series' own files in a worktree: its folder, or at the top of a repository those that are known by
    /// name.
    fn own_files(&self, tree: &Path) -> Vec<PathBuf> {
        if self.inside.is_empty() {
            return TOP_FILES.iter().map(|name| tree.join(name)).collect();
        }
        vec![tree.join(&self.inside)]
    }

    /// The segment that is under way, whatever the spec says by now.
    fn current(&self) -> Result<Current, SeriesError> {
        let segment = self.state.current().ok_or(SeriesError::NoBaseline)?;
        Ok(Current {
            number: segment.number,
            start: segment.start.clone(),
            head: segment.head.clone(),
            spec: Spec::parse(&segment.spec, &self.spec_path())?,
            seed: segment.seed,
            design: segment.design,
            noise: segment
                .current_noise()
                .map(|noise| Noise { floor: noise.floor, scales: noise.scales.clone() }),
        })
    }

    /// The same for a command that begins something: its baseline must have ended, and the spec must be the
    /// one that it was made with.
    fn ready(&self) -> Result<Current, SeriesError> {
        let mut current = self.current()?;
        let (spec, _) = Spec::read(&self.spec_path())?;
        if spec.judged_by() != current.spec.judged_by() {
            return Err(SeriesError::SpecChanged { path: self.spec_path(), segment: current.number });
        }
        if current.noise.is_none() {
            return Err(SeriesError::BaselineUnfinished { segment: current.number });
        }
        // What has no part in a verdict is as it stands there now.
        (current.spec.proposer, current.spec.profile) = (spec.proposer, spec.profile);
        current.spec.budget = spec.budget;
        Ok(current)
    }

    /// A ref of this series, by which git keeps its commits.
    fn reference(name: &str, tail: &str) -> String {
        format!("refs/duramen/experiments/{name}/{tail}")
    }

    /// Puts the ref of the head where the log says that the head is; a kill may have come between.
    fn restore_head(&self, current: &Current) -> Result<(), SeriesError> {
        let name = Self::reference(&current.spec.name, "head");
        if self.repository.resolve(&name).ok().as_deref() != Some(current.head.as_str()) {
            self.repository.set_ref(&name, &current.head)?;
        }
        Ok(())
    }
}

/// A commit as people read it.
fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}
