//! Sorted runs: what was put and has no room in memory.

use std::path::PathBuf;
use std::sync::Arc;

use super::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::format::manifest::Manifest;
use crate::graph::format::segment::Segment;
use crate::graph::format::table::Table;
use crate::graph::tail::Tail;
use crate::graph::write::build::{write_sync, Parts};
use duramen_pack::container::{Kind, Pack, PackWriter};

/// With so many sorted runs, they are merged into one.
const MAX_RUNS: usize = 16;

/// A sorted run: a pack under a temporary name. Its file goes when it is dropped.
pub(super) struct Run {
    pub(super) segment: Arc<Segment>,
    path: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        // What a killed process leaves is overwritten by the next run of that number, and removed at the next open.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl GraphStore {
    fn run_prefix(&self) -> String {
        format!(".{}.run-", self.path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Removes sorted runs of a writer that was killed. The lock is held, so they are nobody's.
    pub(super) fn remove_left_runs(&self) {
        let prefix = self.run_prefix();
        for entry in std::fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // One that was not complete has the name of a pack that is being written.
            let part = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
            let number = part.unwrap_or(name).strip_prefix(&prefix);
            if number
                .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Sorts what was put into a run when it takes too much memory: before the next batch, so that an error here is one of
    /// a batch that is not there.
    pub(super) fn make_room(&mut self) -> Result<(), GraphError> {
        let Some(open) = &self.open else { return Ok(()) };
        if open.tail.memory() < self.options.memory_bytes {
            return Ok(());
        }
        // A run holds rows, not deletions: where there are some, they are carried out at once.
        let deletes = !open.tail.deleted.is_empty()
            || Table::ALL.iter().any(|table| open.tail.table(*table).values().any(Option::is_none));
        if deletes || open.runs.len() + 1 >= MAX_RUNS {
            self.merge_runs()
        } else {
            self.write_run(&[]).map(|run| {
                if let Some(open) = &mut self.open {
                    open.runs.extend(run);
                    open.tail = Tail::default();
                }
            })
        }
    }

    /// Merges all there is of the open sync into one run.
    pub(super) fn merge_runs(&mut self) -> Result<(), GraphError> {
        let Some(open) = &self.open else { return Ok(()) };
        let segments = open.segments();
        let run = self.write_run(&segments)?;
        if let Some(open) = &mut self.open {
            open.base = None;
            open.runs = Vec::from_iter(run);
            open.tail = Tail::default();
        }
        Ok(())
    }

    /// Writes the tail, with what is given below it, as a run.
    fn write_run(&mut self, segments: &[Arc<Segment>]) -> Result<Option<Run>, GraphError> {
        let folder = self.folder();
        let path = folder.join(format!("{}{}", self.run_prefix(), self.next_run));
        self.next_run += 1;
        let budget = self.options.memory_bytes;
        let Some(open) = &mut self.open else { return Ok(None) };
        let mut writer = PackWriter::create(&path, Kind::Graph)?;
        let parts = Parts { segments, tail: &open.tail, folder: &folder, budget, replaced_before: 0 };
        let written = write_sync(&mut writer, 0, &parts)?;
        writer.finish(&Manifest::default().encode())?;
        let pack = Pack::open(&path)?;
        let segment = Arc::new(Segment::open(&pack, 0, written.ambiguous)?);
        open.replaced += written.stats.replaced;
        Ok(Some(Run { segment, path }))
    }
}
