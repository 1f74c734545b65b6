//! The walls between the sides (X20): what builds, runs and checks see of the machine, and what they may write to.

use super::{Series, SeriesError};
use crate::{
    run::Caged,
    spec::{
        values::{self, Values},
        Spec,
    },
};
use duramen_cage::{Cage, Walls};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Folders of a home that hold nothing but caches: they are empty inside.
const CACHES: [&str; 3] = [".cache", ".npm", ".ccache"];
/// A home of more entries is shown as it is, read-only: each entry costs a mount.
const ENTRIES_MAX: usize = 500;

/// Whether the sides are walled off from each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// They are, or nothing is measured.
    #[default]
    Required,
    /// They are where this machine lets us; else it is measured without, and the log says so.
    WherePossible,
    /// They are not.
    Never,
}

/// What a command is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// May write where the spec says (`measure.build_writes`), and has the network.
    Build,
    /// Has the network.
    Check,
    /// May not write to its git folder, and has no network unless it needs it.
    Run,
}

impl Series<'_> {
    /// Raises the walls that the segment under way was begun with. One that has them is not gone on with without.
    pub(super) fn within_walls(&mut self) -> Result<(), SeriesError> {
        let Some((segment, isolated)) = self.state.current().map(|it| (it.number, it.isolated)) else {
            return Ok(());
        };
        match (isolated, self.options.isolation) {
            (true, Isolation::Never) => return Err(SeriesError::Walled { segment }),
            (true, _) if self.cage.is_some() => {}
            (true, _) => self.cage = Some(Cage::find().map_err(|source| SeriesError::NoCage { source })?),
            (false, Isolation::Required) => return Err(SeriesError::Open { segment }),
            (false, _) => self.cage = None,
        }
        Ok(())
    }

    /// Raises the walls that a new segment will have, if it is to have any.
    pub(super) fn raise_walls(&mut self) -> Result<(), SeriesError> {
        self.cage = match (self.options.isolation, Cage::find()) {
            (Isolation::Never, _) => None,
            (_, Ok(cage)) => Some(cage),
            (Isolation::Required, Err(source)) => return Err(SeriesError::NoCage { source }),
            (Isolation::WherePossible, Err(why)) => {
                self.say(&format!("nothing keeps the sides apart: {why}"));
                None
            }
        };
        Ok(())
    }

    /// The same for a run with this environment.
    pub(super) fn caged_run(&self, dir: &Path, spec: &Spec, env: &[(String, String)]) -> Option<Caged> {
        let Caged { cage, walls } = self.caged(dir, spec, Doing::Run)?;
        // The socket of its branch.
        let socket = env.iter().find(|(name, value)| name == "PGHOST" && value.starts_with('/'));
        let walls = socket.map_or(walls.clone(), |(_, folder)| walls.readable(folder));
        Some(Caged { cage, walls })
    }

    /// What a command in a worktree is shut in by, if anything: it sees neither the worktrees beside its own nor their
    /// marks, and writes to nothing but its own. `/tmp`, the home and its caches are empty each time.
    pub(super) fn caged(&self, dir: &Path, spec: &Spec, doing: Doing) -> Option<Caged> {
        let cage = self.cage.clone()?;
        let mut walls = Walls::new();
        let home = home();
        if let Some(home) = &home {
            walls = empty_home(walls, home);
        }
        if let Ok(work) = self.work.canonicalize() {
            walls = walls.hide(work);
        }
        for borrowed in [self.repository.root(), self.repository.common_dir()] {
            if borrowed.parent().is_some() {
                walls = walls.readable(borrowed);
            }
        }
        walls = walls.writable(dir);
        for file in self.held_out_files(spec) {
            walls = walls.hide(file);
        }
        match doing {
            Doing::Build => {
                let writes = spec
                    .measure
                    .build_writes
                    .iter()
                    .filter_map(|path| values::expanded(path, home.as_deref()).canonicalize().ok());
                walls = writes.fold(walls.with_network(), Walls::writable);
            }
            Doing::Check => walls = walls.with_network(),
            Doing::Run => {
                let git = dir.join(".git");
                // A build may have removed it. A file of that name is one like others.
                walls = match git.symlink_metadata() {
                    Ok(meta) if meta.is_dir() => walls.readable(git),
                    Ok(_) => walls,
                    Err(_) => walls.hide(git),
                };
                if spec.measure.network || spec.measure.database.is_some() {
                    walls = walls.with_network();
                }
            }
        }
        Some(Caged { cage, walls })
    }
}

impl Series<'_> {
    /// What none of the files with held-out values may lie below.
    fn seen_by_tries(&self) -> Vec<PathBuf> {
        let work = self.work.canonicalize().unwrap_or_else(|_| self.work.clone());
        vec![self.repository.root().to_owned(), self.repository.common_dir().to_owned(), work]
    }

    /// Where the values of held-out scales lie, as far as they do.
    pub(super) fn held_out_files(&self, spec: &Spec) -> Vec<PathBuf> {
        let home = home();
        let places = spec.scales.iter().filter_map(|scale| values::place(scale, home.as_deref(), &[]));
        places.filter_map(Result::ok).collect()
    }

    /// Tells before anything is measured if they are not where they can be used. They are not read.
    pub(super) fn check_held_out_files(&self, spec: &Spec) -> Result<(), SeriesError> {
        let (home, below) = (home(), self.seen_by_tries());
        let below: Vec<&Path> = below.iter().map(PathBuf::as_path).collect();
        for scale in &spec.scales {
            values::place(scale, home.as_deref(), &below).transpose()?;
        }
        Ok(())
    }

    /// Reads the values of held-out scales that lie in files.
    pub(super) fn held_out_values(&self, spec: &Spec) -> Result<BTreeMap<String, Values>, SeriesError> {
        let (home, below) = (home(), self.seen_by_tries());
        let below: Vec<&Path> = below.iter().map(PathBuf::as_path).collect();
        Ok(values::all(spec, home.as_deref(), &below)?)
    }
}

/// The home of the user.
pub(super) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok())
}

/// A home whose entries are there to be read, and that holds anything else only as long as the walls stand.
fn empty_home(walls: Walls, home: &Path) -> Walls {
    let entries: Vec<PathBuf> =
        fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if home.parent().is_none() || entries.len() > ENTRIES_MAX {
        return walls;
    }
    let is_cache = |path: &Path| CACHES.iter().any(|name| path.ends_with(name));
    // A link to nothing is no entry that can be shown.
    let shown = entries.into_iter().filter(|path| !is_cache(path) && path.exists());
    shown.fold(walls.hide(home), Walls::readable)
}
