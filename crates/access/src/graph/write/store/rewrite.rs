//! Writing the file of a graph anew.

use super::GraphStore;
use crate::graph::error::GraphError;
use crate::graph::format::manifest::{Kept, Manifest};
use crate::graph::model::Sync;
use crate::graph::read::pack::GraphPack;
use crate::graph::write::build::{copy_sync, write_sync, Parts};
use crate::graph::write::journal::Journal;
use duramen_pack::container::{Kind, PackWriter};

impl GraphStore {
    /// Puts the open sync into the file, with the marks that are given.
    pub(super) fn save(&mut self, sync: &Sync) -> Result<(), GraphError> {
        self.usable()?;
        self.rewrite(Some(sync), |_| true)
    }

    /// Writes the file anew: the syncs of the old one that are to stay, and the open one if it is given.
    pub(super) fn rewrite(
        &mut self,
        current: Option<&Sync>,
        stays: impl Fn(&Sync) -> bool,
    ) -> Result<(), GraphError> {
        let folder = self.folder();
        let mut writer = PackWriter::create(&self.path, Kind::Graph)?;
        let journal = self.journal.as_ref().map_or([0; 16], Journal::id);
        let mut manifest = Manifest { journal, ..Manifest::default() };
        let old =
            self.pack.iter().flat_map(|pack| pack.manifest().syncs.iter().map(move |kept| (pack, kept)));
        let mut written = false;
        let write_current = |writer: &mut PackWriter, manifest: &mut Manifest, sync: &Sync| {
            let Some(open) = &self.open else { return Ok::<(), GraphError>(()) };
            let number = manifest.syncs.len() as u32;
            let segments = open.segments();
            let parts = Parts {
                segments: &segments,
                tail: &open.tail,
                folder: &folder,
                budget: self.options.memory_bytes,
                replaced_before: open.replaced,
            };
            let out = write_sync(writer, number, &parts)?;
            let (stats, ambiguous) = (out.stats, out.ambiguous);
            manifest.syncs.push(Kept { sync: sync.clone(), stats, number, ambiguous });
            Ok(())
        };
        for (pack, kept) in old {
            if let Some(sync) = current.filter(|sync| sync.id == kept.sync.id) {
                write_current(&mut writer, &mut manifest, sync)?;
                written = true;
            } else if stays(&kept.sync) {
                let number = manifest.syncs.len() as u32;
                copy_sync(&mut writer, number, pack.pack(), kept.number)?;
                manifest.syncs.push(Kept { number, ..kept.clone() });
            }
        }
        if let Some(sync) = current.filter(|_| !written) {
            write_current(&mut writer, &mut manifest, sync)?;
        }
        // After an error the file may have its new content all the same, and the journal would not belong to it.
        let placed = writer.finish(&manifest.encode()).map_err(GraphError::from);
        let pack = placed.and_then(|_| GraphPack::open(&self.path)).inspect_err(|_| self.poisoned = true)?;
        // From here on the file has what the journal has.
        (self.pack, self.open) = (Some(pack), None);
        self.write(Journal::clear)
    }
}
