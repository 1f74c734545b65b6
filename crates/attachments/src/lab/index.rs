//! What is known of the files of a directory. A file that was read is not read again while it is the same.

use super::{
    budget::Budget,
    document::{self, Content},
    folder::{Entry, Folder, Found, Stamp},
    outline,
    words::count,
    LabError,
};
use duramen_api::attachments::lab::{LabExperiment, LabRun};
use duramen_reports::trends::Series;
use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a file was when it was read.
#[derive(Debug, Clone)]
pub(super) enum Known {
    Run(Arc<LabRun>),
    Other,
    Damaged(String),
}

/// What is known of a directory.
#[derive(Debug, Default)]
pub(super) struct Index {
    documents: HashMap<PathBuf, (Stamp, Known)>,
    pub(super) logs: HashMap<PathBuf, (Stamp, Result<Arc<LabExperiment>, String>)>,
    /// What was said of a suite last, and of which runs.
    pub(super) trends: Option<(blake3::Hash, Arc<Vec<Series>>)>,
}

/// A directory as it is now, as far as it is known.
#[derive(Debug)]
pub(super) struct View {
    pub(super) folder: Folder,
    pub(super) found: Found,
    /// The runs, the newest first, each once.
    pub(super) runs: Vec<(PathBuf, Arc<LabRun>)>,
    pub(super) others: u32,
    pub(super) repeated: u32,
    pub(super) damaged: Vec<(PathBuf, String)>,
    pub(super) unread: u32,
}

impl Index {
    /// Looks at a directory, and reads what is new in it, as far as that may be.
    pub(super) fn look(&mut self, at: &Path) -> Result<View, LabError> {
        let failed = |source| LabError::Folder { path: at.to_owned(), source };
        let folder = Folder::open(at).map_err(failed)?;
        let found = folder.list().map_err(failed)?;
        let mut budget = Budget::new();
        let unread = self.read(&folder, &found, &mut budget);
        let (mut runs, mut damaged, mut others) = (Vec::new(), Vec::new(), 0);
        for Entry { path, .. } in &found.documents {
            match self.documents.get(path) {
                Some((_, Known::Run(run))) => runs.push((path.clone(), Arc::clone(run))),
                Some((_, Known::Damaged(why))) => damaged.push((path.clone(), why.clone())),
                Some((_, Known::Other)) => others += 1,
                None => {}
            }
        }
        let all = runs.len();
        let mut seen = BTreeSet::new();
        runs.retain(|(_, run)| seen.insert((run.suite.clone(), run.started_at, run.machine.clone())));
        let repeated = count(all - runs.len());
        runs.sort_by(|(a_path, a), (b_path, b)| {
            b.started_at.cmp(&a.started_at).then_with(|| a_path.cmp(b_path))
        });
        Ok(View { folder, found, runs, others, repeated, damaged, unread })
    }

    /// Reads what is not known yet, the newest files first, and forgets what is gone. Returns how many were not read.
    fn read(&mut self, folder: &Folder, found: &Found, budget: &mut Budget) -> u32 {
        let there: HashMap<&PathBuf, Stamp> =
            found.documents.iter().map(|entry| (&entry.path, entry.stamp)).collect();
        self.documents.retain(|path, (stamp, _)| there.get(path) == Some(stamp));
        let mut fresh: Vec<&Entry> =
            found.documents.iter().filter(|entry| !self.documents.contains_key(&entry.path)).collect();
        fresh.sort_by_key(|entry| entry.stamp.order());
        let mut unread = 0;
        for entry in fresh {
            if !budget.takes(entry.stamp.bytes.min(document::DOCUMENT_MAX)) {
                unread += 1;
                continue;
            }
            let known = match document::read(folder, &entry.path) {
                Content::Run(evidence) => Known::Run(Arc::new(outline::of(&entry.path, &evidence))),
                Content::Other => Known::Other,
                Content::Damaged(why) => Known::Damaged(why),
                Content::Gone => continue,
            };
            self.documents.insert(entry.path.clone(), (entry.stamp, known));
        }
        unread
    }
}

impl View {
    /// How large a document is.
    pub(super) fn bytes(&self, path: &Path) -> u64 {
        let documents = &self.found.documents;
        let at = documents.binary_search_by(|entry| entry.path.as_path().cmp(path));
        at.map_or(0, |at| documents[at].stamp.bytes)
    }

    /// The run of an id.
    pub(super) fn run(&self, id: &str) -> Result<&(PathBuf, Arc<LabRun>), LabError> {
        self.runs
            .iter()
            .find(|(_, run)| run.id == id)
            .ok_or_else(|| LabError::UnknownRun(super::words::cut(id)))
    }
}
