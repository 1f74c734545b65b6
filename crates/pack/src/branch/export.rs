//! Writing a branch into a pack.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use duramen_base::clock;
use duramen_store::Branch;
use duramen_tree::{NodeCopy, NodeId, NodeRef};

use crate::branch::blocks::{NodeBlocks, NODES};
use crate::branch::error::BranchPackError;
use crate::branch::manifest::{Base, Manifest, Nodes};
use crate::branch::origins::{OriginSorter, Origins};
use crate::branch::pack::BranchPack;
use crate::container::{hex, Kind, PackWriter, SectionOptions};
use crate::error::PackError;

/// How a branch is exported.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The level of Zstandard.
    pub level: i32,
    /// Leave out what this pack of an earlier state of the branch has, or of another branch of the same store. A pack
    /// of another store is not an error, but has little or nothing to leave out.
    pub base: Option<BranchPack>,
}

impl Default for ExportOptions {
    /// All of the branch, at level 3.
    fn default() -> Self {
        Self { level: SectionOptions::default().level, base: None }
    }
}

/// A branch that was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Entries of the branch. Events count twice, because they are indexed by type.
    pub entries: u64,
    /// Bytes of its keys and values.
    pub entry_bytes: u64,
    /// Nodes that were written.
    pub nodes: u64,
    /// Subtrees that were left out, because the base has them.
    pub left_out: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The digest that proves the whole file.
    pub root_digest: [u8; 32],
}

/// Writes a branch as it is now, with all spaces and all kinds of data, into a pack at `path`. The store goes on
/// meanwhile. `progress` is called with how many bytes of nodes were written, and about how many there are. It takes memory
/// for a path of nodes, some blocks, and their index.
///
/// # Errors
/// When the branch cannot be read, its base cannot be read, `path` is that of its base or of what that is based on, or
/// nothing can be written; `path` is then as it was.
pub fn export(
    branch: &Branch,
    path: impl AsRef<Path>,
    options: ExportOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, BranchPackError> {
    let path = path.as_ref();
    if let Some(base) = &options.base {
        refuse_own_base(path, base)?;
    }
    let snapshot = branch.snapshot()?;
    let version = snapshot.version();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let section = SectionOptions { level: options.level, dictionary: None };
    let mut writer = PackWriter::create(path, Kind::Branch)?;
    writer.begin_section(NODES, section.clone())?;
    let first = options.base.as_ref().map_or(1, |base| base.next_node());
    let mut copy = Copy {
        writer,
        blocks: NodeBlocks::new(first),
        sorter: OriginSorter::new(folder),
        known: options.base.as_ref().map_or(Ok(Vec::new()), BranchPack::origins)?,
        left_out: 0,
        done: 0,
        all: snapshot.bytes(),
        progress,
    };
    let root = snapshot.copy_nodes(&mut copy)?;
    let Copy { mut writer, mut blocks, sorter, left_out, .. } = copy;
    blocks.flush(&mut writer)?;
    sorter.finish(&mut writer, section)?;
    let nodes = Nodes { first, count: blocks.next() - first };
    let mut manifest = Manifest::new(branch.name(), clock::unix_ms(), version, root, nodes);
    manifest.base = options
        .base
        .as_ref()
        .map(|base| Base { root_digest: hex(&base.root_digest()), file: base.file_name() });
    let summary = writer.finish(&manifest.encode())?;
    Ok(Exported {
        entries: root.count,
        entry_bytes: root.bytes,
        nodes: nodes.count,
        left_out,
        bytes: summary.bytes,
        root_digest: summary.root_digest,
    })
}

/// Refuses to put a pack in the place of one that it needs to be read: both would be lost.
fn refuse_own_base(path: &Path, base: &BranchPack) -> Result<(), PackError> {
    let file_of = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let Some(target) = file_of(path) else { return Ok(()) };
    let mut next = Some(base);
    while let Some(pack) = next {
        if file_of(Path::new(pack.pack().name())) == Some(target) {
            return Err(PackError::InvalidInput {
                file: path.display().to_string(),
                what: "what changed since a base",
                reason: "it would take the place of a pack that it needs to be read; write to another name"
                    .to_owned(),
            });
        }
        next = pack.base();
    }
    Ok(())
}

/// Nodes on their way into a pack.
struct Copy<'p> {
    writer: PackWriter,
    blocks: NodeBlocks,
    sorter: OriginSorter,
    /// The origins of the base, of its base, and so on.
    known: Vec<Origins>,
    left_out: u64,
    done: u64,
    all: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl NodeCopy for Copy<'_> {
    type Error = BranchPackError;

    fn known(&mut self, origin: NodeRef) -> Result<Option<NodeRef>, BranchPackError> {
        for origins in &mut self.known {
            if let Some(copy) = origins.find(origin)? {
                self.left_out += 1;
                return Ok(Some(copy));
            }
        }
        Ok(None)
    }

    fn keep(&mut self, origin: NodeRef, _level: u8, bytes: &[u8]) -> Result<NodeId, BranchPackError> {
        let id = self.blocks.push(&mut self.writer, bytes)?;
        let sum = duramen_tree::Checksum::compute(bytes);
        self.sorter.push(origin, (id, sum))?;
        self.done += bytes.len() as u64;
        (self.progress)(self.done, self.all.max(self.done));
        Ok::<_, PackError>(id).map_err(Into::into)
    }
}
