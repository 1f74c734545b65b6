//! Looking after what was built: it is what is run, from the first run to the last (X13).

use super::{
    error::{fail, named},
    Series, SeriesError,
};
use crate::{
    outputs::{self, Look, Outputs, Scratch},
    spec::{Spec, SpecError},
};
use std::{collections::BTreeSet, path::Path};

/// How many files that the first run left are named.
const LEFT: usize = 3;

/// A worktree with a build in it.
pub(super) struct Watched {
    /// The name of its folder: `base`, `candidate`, ...
    name: String,
    scratch: Scratch,
    outputs: Outputs,
    /// All of its files, after the last run in it.
    last: Look,
    /// What the last run in it left, and is removed.
    left: Vec<String>,
}

impl Series<'_> {
    /// Looks at every build after something was run: in the folder `own`, where it was run, no output may have changed;
    /// in all others nothing may have. Tells what did. A build that was changed is removed with its whole folder, so
    /// that nothing of it is ever used again.
    pub(super) fn guard(&self, own: Option<&Path>) -> Result<Option<String>, SeriesError> {
        let mut reasons = Vec::new();
        let mut poisoned = Vec::new();
        for (path, watched) in self.watched.borrow_mut().iter_mut() {
            let is_own = own == Some(path.as_path());
            let changed = watched.look(path, is_own)?;
            if changed.is_empty() {
                if is_own {
                    watched.sweep(path)?;
                }
                continue;
            }
            let (name, changed) = (&watched.name, named(&changed));
            reasons.push(if is_own {
                format!("{changed} of {name}, which was there when it was built")
            } else {
                format!("{changed} of {name}, where nothing was run")
            });
            poisoned.push(watched.name.clone());
        }
        if reasons.is_empty() {
            return Ok(None);
        }
        let names: Vec<&str> = poisoned.iter().map(String::as_str).collect();
        self.clear(&names)?;
        self.say(&format!("{} will be built anew: it was changed", names.join(", ")));
        let reasons = reasons.join("; and ");
        Ok(Some(format!("it changed {reasons}; what runs may change is named in `measure.scratch`")))
    }

    /// Whether a build is what its mark says, and what it was when this process last looked.
    pub(super) fn is_whole(&self, path: &Path, outputs: &Outputs, spec: &Spec) -> Result<bool, SeriesError> {
        if let Some(watched) = self.watched.borrow_mut().get_mut(path) {
            return Ok(watched.look(path, false)?.is_empty());
        }
        let now = look(path, &scratch(spec)?)?;
        Ok(outputs.clone().changed(path, &now).map_err(fail("read a file of", path))?.is_empty())
    }

    /// Looks after a build from now on.
    pub(super) fn watch(
        &self,
        name: &str,
        path: &Path,
        outputs: &Outputs,
        spec: &Spec,
    ) -> Result<(), SeriesError> {
        let scratch = scratch(spec)?;
        let last = look(path, &scratch)?;
        let mut watched =
            Watched { name: name.to_owned(), scratch, outputs: outputs.clone(), last, left: Vec::new() };
        let mut all = self.watched.borrow_mut();
        if !all.contains_key(path) {
            // A run that was killed may have left something.
            watched.sweep(path)?;
            watched.left.clear();
            all.insert(path.to_owned(), watched);
        }
        Ok(())
    }

    /// What the last run in a folder left there, in short, if it left anything.
    pub(super) fn left(&self, path: &Path) -> Option<String> {
        let watched = self.watched.borrow();
        let left = &watched.get(path)?.left;
        let first = left.iter().take(LEFT).map(String::as_str).collect::<Vec<_>>().join(", ");
        (!left.is_empty()).then(|| {
            format!("{} files ({first}{})", left.len(), if left.len() > LEFT { ", ..." } else { "" })
        })
    }

    /// Does not look after the build of a folder any more.
    pub(super) fn unwatch(&self, name: &str) {
        self.watched.borrow_mut().retain(|_, watched| watched.name != name);
    }
}

impl Watched {
    /// Removes what a run left, so that the next one begins with what the first one did.
    fn sweep(&mut self, path: &Path) -> Result<(), SeriesError> {
        let swept = self.outputs.sweep(path, &mut self.last, &BTreeSet::new());
        self.left = swept.map_err(fail("remove what a run left in", path))?;
        Ok(())
    }

    /// What was changed since the last look.
    fn look(&mut self, path: &Path, is_own: bool) -> Result<Vec<String>, SeriesError> {
        let now = look(path, &self.scratch)?;
        let changed = if is_own {
            self.outputs.changed(path, &now)
        } else {
            self.outputs.touched(path, &self.last, &now)
        };
        self.last = now;
        changed.map_err(fail("read a file of", path))
    }
}

/// What lies in a worktree now.
pub(super) fn look(path: &Path, scratch: &Scratch) -> Result<Look, SeriesError> {
    Look::at(path, scratch).map_err(fail("look at the files of", path))
}

/// What runs may change.
pub(super) fn scratch(spec: &Spec) -> Result<Scratch, SeriesError> {
    let globs = &spec.measure.scratch;
    let wrong = |why| SpecError::Glob { glob: globs.join("`, `"), why };
    Ok(Scratch::new(globs, spec.measure.file.as_deref()).map_err(wrong)?)
}

/// The names of the files of a commit, as looks have them.
pub(super) fn names(files: &[std::path::PathBuf]) -> BTreeSet<String> {
    files.iter().map(|file| outputs::name(file)).collect()
}
