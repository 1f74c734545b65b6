//! A branch pack that is open: reading it as a store, taking it into a store, comparing two.

use std::path::Path;
use std::sync::Arc;

use duramen_store::{Diff, Options, Part, Snapshot, Store};
use duramen_tree::check_node;
use serde::Serialize;

use crate::branch::blocks::{decode, Content, NODES};
use crate::branch::error::BranchPackError;
use crate::branch::manifest::Manifest;
use crate::branch::nodes::{wrong_block, PackNodes};
use crate::branch::origins::{Origins, ORIGINS};
use crate::container::{hex, Kind, Pack, Progress, Verified};

/// Memory for nodes while a pack is imported or compared: one after another is read once.
const PASSING_BYTES: usize = 16 << 20;

/// Packs that stand on each other, at most.
const CHAIN_MAX: usize = 1000;

/// A pack of a branch, open for reading, with the packs that it is based on. Clones are the same one.
#[derive(Clone)]
pub struct BranchPack {
    inner: Arc<Inner>,
}

struct Inner {
    pack: Pack,
    manifest: Manifest,
    nodes: Arc<PackNodes>,
    base: Option<BranchPack>,
}

/// What is known of the branch in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchInfo {
    /// The name that it had.
    pub branch: String,
    /// When it was exported, in milliseconds since 1970 (UTC).
    pub exported_ms: i64,
    /// The last version of its store at that time.
    pub version: u64,
    /// Entries in it. Events count twice, because they are indexed by type.
    pub entries: u64,
    /// Bytes of its keys and values.
    pub entry_bytes: u64,
    /// Nodes of its tree that are in this pack.
    pub nodes: u64,
    /// What the pack is based on, if it does not hold all of the branch.
    pub base: Option<BaseInfo>,
}

/// The pack that another one is based on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BaseInfo {
    /// The name of its file when the other one was written.
    pub file: String,
    /// Its root digest, in hexadecimal digits.
    pub root_digest: String,
}

impl BranchPack {
    /// Opens a pack. If it is based on another, that one is looked for beside it, under the name that it had.
    ///
    /// # Errors
    /// When it cannot be read, is not a branch pack, or its base is missing or another.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BranchPackError> {
        Self::open_beside(path.as_ref(), CHAIN_MAX)
    }

    fn open_beside(path: &Path, depth: usize) -> Result<Self, BranchPackError> {
        let pack = Pack::open(path)?;
        let manifest = manifest_of(&pack)?;
        let Some(base) = &manifest.base else { return Self::assemble(pack, manifest, None) };
        let is_name = Path::new(&base.file).file_name().is_some_and(|name| name == base.file.as_str());
        let beside = path.with_file_name(&base.file);
        if !is_name || depth == 0 || !beside.is_file() {
            return Self::assemble(pack, manifest, None);
        }
        let base = Self::open_beside(&beside, depth - 1)?;
        Self::assemble(pack, manifest, Some(base))
    }

    /// Opens a pack on the base that it was written against.
    ///
    /// # Errors
    /// As [`open`](Self::open); also when it has no base.
    pub fn open_on(path: impl AsRef<Path>, base: BranchPack) -> Result<Self, BranchPackError> {
        Self::from_pack(Pack::open(path)?, Some(base))
    }

    /// The branch in a pack that is open already.
    ///
    /// # Errors
    /// As [`open_on`](Self::open_on); also when a base is needed and not given.
    pub fn from_pack(pack: Pack, base: Option<BranchPack>) -> Result<Self, BranchPackError> {
        let manifest = manifest_of(&pack)?;
        Self::assemble(pack, manifest, base)
    }

    fn assemble(pack: Pack, manifest: Manifest, base: Option<BranchPack>) -> Result<Self, BranchPackError> {
        let file = pack.name().to_owned();
        match (&manifest.base, &base) {
            (None, None) => {
                if manifest.nodes.first != 1 {
                    let reason = "it has no base, and does not hold all nodes".to_owned();
                    return Err(BranchPackError::Manifest { file, reason });
                }
            }
            (None, Some(_)) => return Err(BranchPackError::NoBase { file }),
            (Some(wanted), None) => {
                let (base, digest) = (wanted.file.clone(), wanted.root_digest.clone());
                return Err(BranchPackError::NeedsBase { file, base, digest });
            }
            (Some(wanted), Some(given)) => {
                let found = hex(&given.root_digest());
                if found != wanted.root_digest {
                    let (base, wanted) = (given.inner.pack.name().to_owned(), wanted.root_digest.clone());
                    return Err(BranchPackError::WrongBase { file, base, wanted, found });
                }
                if manifest.nodes.first != given.next_node() {
                    let reason = "its nodes do not follow on those of its base".to_owned();
                    return Err(BranchPackError::Manifest { file, reason });
                }
            }
        }
        let section = pack.section(NODES)?;
        let below = base.as_ref().map(|base| base.inner.nodes.clone());
        let nodes = PackNodes::new(&file, section, manifest.nodes.first, pack.size(), below);
        Ok(Self { inner: Arc::new(Inner { pack, manifest, nodes: Arc::new(nodes), base }) })
    }

    /// What is known of the branch in a pack, without its base and without decompressing anything.
    ///
    /// # Errors
    /// When the pack is not a branch pack, or its manifest cannot be read.
    pub fn info_of(pack: &Pack) -> Result<BranchInfo, BranchPackError> {
        Ok(info(&manifest_of(pack)?))
    }

    /// What is known of the branch.
    pub fn info(&self) -> BranchInfo {
        info(&self.inner.manifest)
    }

    /// The pack itself.
    pub fn pack(&self) -> &Pack {
        &self.inner.pack
    }

    /// The pack that this one is based on.
    pub fn base(&self) -> Option<&BranchPack> {
        self.inner.base.as_ref()
    }

    /// The digest that proves the whole file. A pack that is based on it names it.
    pub fn root_digest(&self) -> [u8; 32] {
        self.inner.pack.root_digest()
    }

    pub(crate) fn next_node(&self) -> u64 {
        self.inner.manifest.next_node()
    }

    pub(crate) fn file_name(&self) -> String {
        let name = Path::new(self.inner.pack.name()).file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The origins of all packs of the chain, this one's first.
    pub(crate) fn origins(&self) -> Result<Vec<Origins>, BranchPackError> {
        let mut all = Vec::new();
        let mut next = Some(self);
        while let Some(pack) = next {
            all.extend(pack.inner.pack.section(ORIGINS)?.map(Origins::new));
            next = pack.base();
        }
        Ok(all)
    }

    /// The branch as a store that cannot be written, read where it lies. It has the one branch, under its name.
    ///
    /// # Errors
    /// When the name of the branch is none.
    pub fn store(&self, options: Options) -> Result<Store, BranchPackError> {
        let branch = self.inner.manifest.stored_branch(&self.inner.manifest.branch);
        Ok(Store::read_branches(self.inner.nodes.clone(), &[branch], options)?)
    }

    /// The branch for reading, in little memory.
    ///
    /// # Errors
    /// When its root cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, BranchPackError> {
        let store = self.store(passing())?;
        Ok(store.branch(&self.inner.manifest.branch)?.snapshot()?)
    }

    /// Makes it a branch of a store: all of it or nothing, durable when this returns. `progress` is called with how many
    /// entries are done, and how many there are. Returns the number of entries.
    ///
    /// # Errors
    /// When the name is taken by a branch that is not empty, the pack is damaged, or nothing can be written.
    pub fn import(
        &self,
        store: &Store,
        name: &str,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, BranchPackError> {
        let all = self.inner.manifest.root.entries;
        Ok(store.import_branch(name, &self.snapshot()?, &mut |done| progress(done, all.max(done)))?)
    }

    /// Reads and checks every byte of the pack, and every node in it. Its base is a file of its own.
    ///
    /// # Errors
    /// The first byte range that is damaged, or the first node that is none.
    pub fn verify(&self, progress: Progress<'_>) -> Result<Verified, BranchPackError> {
        verify(&self.inner.pack, progress)
    }

    /// As [`verify`](Self::verify), for a pack whose base is not at hand.
    ///
    /// # Errors
    /// As there; also when it is not a branch pack.
    pub fn verify_alone(pack: &Pack, progress: Progress<'_>) -> Result<Verified, BranchPackError> {
        manifest_of(pack)?;
        verify(pack, progress)
    }

    /// Whether `other` is this pack or one that it is based on.
    fn stands_on(&self, other: &BranchPack) -> bool {
        let mut next = Some(self);
        while let Some(pack) = next {
            if pack.root_digest() == other.root_digest() {
                return true;
            }
            next = pack.base();
        }
        false
    }
}

impl std::fmt::Debug for BranchPack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BranchPack")
            .field("pack", &self.inner.pack)
            .field("manifest", &self.inner.manifest)
            .finish_non_exhaustive()
    }
}

fn passing() -> Options {
    Options { memory_bytes: PASSING_BYTES, ..Options::default() }
}

fn manifest_of(pack: &Pack) -> Result<Manifest, BranchPackError> {
    let pack = pack.clone().expect_kind(Kind::Branch)?;
    Manifest::decode(&pack.manifest()?, pack.name())
}

fn info(manifest: &Manifest) -> BranchInfo {
    BranchInfo {
        branch: manifest.branch.clone(),
        exported_ms: manifest.exported_ms,
        version: manifest.version,
        entries: manifest.root.entries,
        entry_bytes: manifest.root.bytes,
        nodes: manifest.nodes.count,
        base: manifest
            .base
            .as_ref()
            .map(|base| BaseInfo { file: base.file.clone(), root_digest: base.root_digest.clone() }),
    }
}

fn verify(pack: &Pack, progress: Progress<'_>) -> Result<Verified, BranchPackError> {
    let nodes = pack.section(NODES)?;
    pack.verify_with(progress, &mut |section, block, bytes| {
        let Some(nodes) = nodes.as_ref().filter(|_| section == NODES) else { return Ok(()) };
        let content = decode(bytes).map_err(|wrong| wrong_block(pack.name(), nodes, block, wrong))?;
        // A node in pieces is checked when it is read.
        let Content::Many { first, ranges } = content else { return Ok(()) };
        for (node, range) in (first..).zip(ranges) {
            let checked = check_node(bytes.get(range).unwrap_or_default());
            let file = || pack.name().to_owned();
            checked.map_err(|reason| BranchPackError::Node { file: file(), node, reason })?;
        }
        Ok(())
    })
}

/// What differs between the branches of two packs, the first `limit` of it with values. If one is based on the other, it
/// costs what changed; else both are read.
///
/// # Errors
/// When one cannot be read.
pub fn diff(
    left: &BranchPack,
    right: &BranchPack,
    part: &Part,
    limit: usize,
) -> Result<Diff, BranchPackError> {
    let chain = if right.stands_on(left) { Some(right) } else { left.stands_on(right).then_some(left) };
    let Some(chain) = chain else {
        return Ok(left.snapshot()?.diff(&right.snapshot()?, part, limit)?);
    };
    let branches =
        [(left, "left"), (right, "right")].map(|(pack, name)| pack.inner.manifest.stored_branch(name));
    let store = Store::read_branches(chain.inner.nodes.clone(), &branches, passing())?;
    Ok(store.diff("left", "right", part, limit)?)
}
