//! Nodes in files that are only appended to.
//!
//! A checkpoint is one record, a commit, behind the nodes that it brought, and one flush makes both durable. The design,
//! with its invariants, is in `docs/design/node-segments.md`.

mod commit;
mod format;
mod index;
mod recover;
mod tail;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_base::system::Folder;
use duramen_tree::{NodeId, NodeStore, NodeStoreError, NodeStoreStats};
use parking_lot::{Mutex, RwLock};

use self::commit::{Commit, Place};
use self::index::{segment_name, Index, Segment};
use self::recover::{failed, of_folder, recover};
use self::tail::Tail;

pub(crate) use self::index::segment_number;

/// A segment takes no more nodes when it is longer than this, or than an eighth of what lives where that is less, or
/// than a 64th where that is more: so a small store has small files, and a large one not too many.
const SEGMENT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
const SMALL_PART: u64 = 8;
const LARGE_PART: u64 = 64;

/// A segment of which that much is dead, in per cent, is worth emptying.
const DEAD_PART: u64 = 33;
/// And one that is shorter than this part of what a segment may be: openings after crashes leave such.
const SHORT_PART: u64 = 16;
/// More files than this are made fewer as fast as is done at all.
const SEGMENTS_MAX: usize = 128;

/// A commit names all nodes when those since the last one that did are longer than half of that one, and than this.
const CHAIN_BYTES: u64 = 64 << 10;

/// When the store is closed, a commit that names all is added where an opening would have to read more than this.
const CLOSE_BYTES: u64 = 256 << 10;

/// Compaction leaves no more of the files dead than this, in per cent, and no more of any of them.
const COMPACT_PART: u64 = 5;

/// A node store in a folder of segments.
///
/// ```
/// use duramen_store::nodes::SegmentNodeStore;
/// use duramen_tree::NodeStore;
/// # let dir = tempfile::tempdir()?;
/// let nodes = SegmentNodeStore::open(dir.path(), false)?;
/// nodes.put(&[(1, b"a node".to_vec())])?;
/// nodes.commit(b"what counts", &[])?;
/// drop(nodes);
///
/// let nodes = SegmentNodeStore::open(dir.path(), true)?;
/// assert_eq!(nodes.get(1)?.as_deref(), Some(&b"a node"[..]));
/// assert_eq!(nodes.manifest()?.as_deref(), Some(&b"what counts"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SegmentNodeStore {
    folder: PathBuf,
    /// None if it is only read.
    writer: Option<Mutex<Writer>>,
    index: RwLock<Index>,
    manifest: RwLock<Option<Vec<u8>>>,
    /// The segment of the commit that was found when it was opened, and where that ends.
    found: Option<(u32, u64)>,
}

/// A segment, as far as it is needed.
pub(crate) struct SegmentFile {
    segment: Arc<Segment>,
    len: u64,
    /// Whether whoever opens the store may add to it.
    is_tail: bool,
}

impl SegmentFile {
    /// The name of the file.
    pub(crate) fn name(&self) -> String {
        segment_name(self.segment.number)
    }

    /// How many of its bytes are needed.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn file(&self) -> &File {
        &self.segment.file
    }

    pub(crate) fn is_tail(&self) -> bool {
        self.is_tail
    }

    /// Whether another file holds the same bytes: nothing is ever changed in a segment.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let header = |segment: &Segment| (segment.number, segment.salt);
        header(&self.segment) == header(&other.segment) && self.len == other.len
    }
}

/// What only one writer at a time may touch.
struct Writer {
    /// For the names in the folder.
    folder: Folder,
    /// Whether a segment was made since the names were last made durable.
    has_new_names: bool,
    tail: Option<Tail>,
    next_segment: u32,
    /// Nodes that were put, or moved, since the last commit.
    fresh: BTreeSet<NodeId>,
    /// Nodes of the last commit that are not there any more.
    gone: BTreeSet<NodeId>,
    /// Bytes of nodes that were put since the last commit.
    brought: u64,
    /// The segment that is being emptied, and which of its nodes have not been looked at.
    emptying: Option<(u32, VecDeque<NodeId>)>,
    last: LastCommit,
    /// Segments that the commit which was found does not need. They stay until there is another one: if that is not the one that
    /// should be there, whoever looks into it still has all files.
    leftovers: Vec<u32>,
    /// The first error of a write.
    failed: Option<NodeStoreError>,
}

#[derive(Clone, Copy, Default)]
struct LastCommit {
    number: u64,
    whole_bytes: u64,
    chain_bytes: u64,
    vouched: u64,
}

impl SegmentNodeStore {
    /// Opens the node store in a folder that is there, which may be empty unless it is only to be read.
    ///
    /// Whoever opens it to write must be the only one: the store's folder has a lock for that. A read-only store
    /// refuses `put`, `commit` and `delete_from`, and changes nothing at all.
    ///
    /// # Errors
    /// What the file system said; [`NodeStoreError::Damaged`] when segments are missing or not whole.
    pub fn open(folder: &Path, read_only: bool) -> Result<Self, NodeStoreError> {
        let found = recover(folder)?;
        let mut index = found.index;
        let (mut tail, mut manifest, mut last) = (None, None, LastCommit::default());
        let at = found.last.as_ref().map(|commit| (commit.segment.number, commit.end));
        if let Some(commit) = found.last {
            last = LastCommit {
                number: commit.number,
                whole_bytes: commit.whole_bytes,
                chain_bytes: commit.chain_bytes,
                vouched: commit.vouched,
            };
            // What a crash left behind the last commit is dead: nothing is ever written behind it (N2).
            if !read_only && commit.end == commit.len {
                let again = Tail::resume(folder, &commit.segment, commit.at, commit.len)?;
                index.replace_segment(again.segment());
                tail = Some(again);
            }
            manifest = Some(commit.manifest);
        }
        let writer = if read_only {
            None
        } else {
            Some(Mutex::new(Writer {
                folder: Folder::open(folder).map_err(|error| of_folder(folder, &error))?,
                has_new_names: false,
                tail,
                next_segment: found.next_segment,
                fresh: BTreeSet::new(),
                gone: BTreeSet::new(),
                brought: 0,
                emptying: None,
                last,
                leftovers: found.leftovers,
                failed: None,
            }))
        };
        let (index, manifest) = (RwLock::new(index), RwLock::new(manifest));
        Ok(Self { folder: folder.to_owned(), writer, index, manifest, found: at })
    }

    /// The segments that the commit which was found needs, with how much of each, the one that it stands in last. They are read
    /// from here on, whatever becomes of their names.
    pub(crate) fn files(&self) -> Vec<SegmentFile> {
        let Some((tail, end)) = self.found else { return Vec::new() };
        let index = self.index.read();
        let needed = index.files().filter(|(segment, _)| segment.number <= tail);
        let file = |(segment, len): (Arc<Segment>, u64)| {
            let is_tail = segment.number == tail;
            SegmentFile { len: if is_tail { end } else { len }, segment, is_tail }
        };
        needed.map(file).collect()
    }

    /// Runs one write under the writer's lock, and remembers its error for all that come after it.
    fn write<T>(
        &self,
        action: &str,
        step: impl FnOnce(&mut Writer) -> Result<T, NodeStoreError>,
    ) -> Result<T, NodeStoreError> {
        let Some(writer) = &self.writer else {
            let text = format!("{action}: the node store in {} was opened read-only", self.folder.display());
            return Err(IoError::new(ErrorKind::ReadOnlyFilesystem, text).into());
        };
        let mut writer = writer.lock();
        if let Some(error) = &writer.failed {
            return Err(error.clone());
        }
        step(&mut writer).inspect_err(|error| writer.failed = Some(error.clone()))
    }

    /// How long a segment may become before another one is begun, where so many bytes live.
    fn segment_bytes(live: u64) -> u64 {
        (live / SMALL_PART).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES).max(live / LARGE_PART)
    }

    /// The segment that is written to, which is another one when the last is full.
    fn tail<'w>(&self, writer: &'w mut Writer, target: u64) -> Result<&'w mut Tail, NodeStoreError> {
        if let Some(full) = writer.tail.take_if(|tail| tail.is_full(target)) {
            // Its nodes are durable before the commit that names them is written behind others.
            let number = full.segment().number;
            let len = full.close()?;
            self.index.write().set_len(number, len);
        }
        match &mut writer.tail {
            Some(tail) => Ok(tail),
            none => {
                let number = writer.next_segment;
                let spent =
                    || IoError::other("the numbers of its segments are used up; make a copy of the store");
                writer.next_segment = number.checked_add(1).ok_or_else(spent)?;
                writer.has_new_names = true;
                let tail = none.insert(Tail::create(&self.folder, number)?);
                self.index.write().add_segment(tail.segment().clone(), tail.len());
                Ok(tail)
            }
        }
    }

    /// Moves nodes out of segments of which much is dead, about as many bytes as `budget`.
    fn empty(&self, writer: &mut Writer, budget: u64, dead: u64, target: u64) -> Result<(), NodeStoreError> {
        let mut moved = 0;
        while moved < budget {
            let tail = writer.tail.as_ref().map_or(0, |tail| tail.segment().number);
            let id = match &mut writer.emptying {
                Some((number, nodes)) => match nodes.pop_front() {
                    Some(id) => Some((*number, id)),
                    None => {
                        writer.emptying = None;
                        None
                    }
                },
                none => {
                    let index = self.index.read();
                    let Some(victim) = index.victim(tail, dead, target / SHORT_PART) else { return Ok(()) };
                    *none = Some((victim, index.nodes_of(victim).into()));
                    None
                }
            };
            let Some((number, id)) = id else { continue };
            let Some((segment, place)) = self.index.read().find(id) else { continue };
            if place.segment != number {
                continue;
            }
            let bytes = segment.read(place).map_err(|error| failed(&self.path_of(number), &error))?;
            let tail = self.tail(writer, target)?;
            let place = tail.append(id, &bytes)?;
            // A node must be in its file before anybody looks for it there.
            tail.flush()?;
            self.index.write().put(id, place);
            writer.fresh.insert(id);
            moved += place.size();
        }
        Ok(())
    }

    fn path_of(&self, number: u32) -> PathBuf {
        self.folder.join(segment_name(number))
    }

    /// Writes a commit, and returns when it is durable.
    fn commit_now(&self, writer: &mut Writer, manifest: &[u8], target: u64) -> Result<(), NodeStoreError> {
        self.tail(writer, target)?;
        if writer.has_new_names {
            // Before the commit is written: where it is found, the segments that it names are found, too.
            writer.folder.sync().map_err(|error| of_folder(&self.folder, &error))?;
            writer.has_new_names = false;
        }
        let Writer { tail, fresh, gone, last, .. } = writer;
        let Some(tail) = tail else { return Ok(()) };
        let before = tail.last_commit().filter(|_| last.chain_bytes <= CHAIN_BYTES.max(last.whole_bytes / 2));
        let nodes: Vec<(NodeId, Place)> = {
            let index = self.index.read();
            match before {
                None => index.nodes().collect(),
                Some(_) => fresh.iter().filter_map(|id| Some((*id, index.place(*id)?))).collect(),
            }
        };
        let gone = std::mem::take(gone).into_iter().filter(|_| before.is_some()).collect();
        let commit = Commit { before, since: 0, sum: 0, nodes, gone, manifest: manifest.to_vec() };
        let vouched = tail.vouches_for();
        let bytes = tail.commit(last.number + 1, commit)?;
        fresh.clear();
        *last = LastCommit {
            number: last.number + 1,
            whole_bytes: if before.is_some() { last.whole_bytes } else { bytes },
            chain_bytes: if before.is_some() { last.chain_bytes + bytes } else { 0 },
            vouched,
        };
        writer.brought = 0;
        Ok(())
    }

    /// Removes what nothing lives in, once a commit that names none of it is durable (N4).
    fn remove_dead(&self, writer: &mut Writer) {
        for number in std::mem::take(&mut writer.leftovers) {
            remove(&self.folder, number);
        }
        let Some(tail) = &writer.tail else { return };
        let number = tail.segment().number;
        let dead = {
            let mut index = self.index.write();
            index.set_len(number, tail.len());
            index.take_dead(number)
        };
        for segment in dead {
            remove(&self.folder, segment.number);
        }
    }
}

/// Removes a segment that nobody needs. If that fails it is tried again at the next opening.
fn remove(folder: &Path, number: u32) {
    if let Err(error) = std::fs::remove_file(folder.join(segment_name(number))) {
        log::warn!("a segment that nobody needs stays: {}, {error}", segment_name(number));
    }
}

impl NodeStore for SegmentNodeStore {
    fn memory(&self) -> usize {
        self.index.read().memory()
    }

    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        let found = self.index.read().find(id);
        let Some((segment, place)) = found else { return Ok(None) };
        let bytes = segment.read(place).map_err(|error| failed(&self.path_of(segment.number), &error))?;
        Ok(Some(bytes))
    }

    fn bytes_of(&self, nodes: &[NodeId]) -> u64 {
        let index = self.index.read();
        nodes.iter().filter_map(|id| index.place(*id)).map(Place::size).sum()
    }

    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        self.write("put", |writer| {
            let Some((first, _)) = nodes.first() else { return Ok(()) };
            if nodes.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
                let text = format!("put of nodes from {first} on: they must come in the order of their ids");
                return Err(IoError::new(ErrorKind::InvalidInput, text).into());
            }
            let bytes: u64 = nodes.iter().map(|(_, node)| node.len() as u64).sum();
            let target = Self::segment_bytes(self.index.read().live() + bytes);
            let mut places = Vec::with_capacity(nodes.len());
            for (id, bytes) in nodes {
                places.push((*id, self.tail(writer, target)?.append(*id, bytes)?));
            }
            if let Some(tail) = &mut writer.tail {
                tail.flush()?;
            }
            let mut index = self.index.write();
            for (id, place) in places {
                writer.brought += place.size();
                writer.fresh.insert(id);
                index.put(id, place);
            }
            Ok(())
        })
    }

    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        self.write("commit", |writer| {
            {
                let mut index = self.index.write();
                for id in deleted.iter().filter(|id| index.remove(**id)) {
                    writer.fresh.remove(id);
                    writer.gone.insert(*id);
                }
            }
            let (live, total, count) = {
                let index = self.index.read();
                (index.live(), index.total(), index.segments())
            };
            let target = Self::segment_bytes(live);
            // With so much that is dead, emptying half as much as was written would not hold it.
            let is_wide = total > live + live / 2 + target || count > SEGMENTS_MAX;
            let budget = if is_wide { writer.brought * 2 } else { writer.brought / 2 };
            self.empty(writer, budget, DEAD_PART, target)?;
            self.commit_now(writer, manifest, target)?;
            *self.manifest.write() = Some(manifest.to_vec());
            self.remove_dead(writer);
            Ok(())
        })
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.manifest.read().clone())
    }

    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError> {
        self.write("delete_from", |writer| {
            let gone = self.index.write().remove_from(first);
            writer.fresh.split_off(&first);
            writer.gone.extend(&gone);
            Ok(gone.len() as u64)
        })
    }

    fn compact(&self) -> Result<(), NodeStoreError> {
        self.write("compact", |writer| {
            let Some(manifest) = self.manifest.read().clone() else { return Ok(()) };
            let target = Self::segment_bytes(self.index.read().live());
            // What is dead in the last segment goes, too, if it is worth another one.
            let is_wide = |index: &Index| (index.total() - index.live()) * 100 > index.total() * COMPACT_PART;
            if !is_wide(&self.index.read()) {
                return Ok(());
            }
            if let Some(tail) = writer.tail.take() {
                let number = tail.segment().number;
                let len = tail.close()?;
                self.index.write().set_len(number, len);
            }
            self.tail(writer, target)?;
            writer.emptying = None;
            self.empty(writer, u64::MAX, COMPACT_PART, target)?;
            self.commit_now(writer, &manifest, target)?;
            self.remove_dead(writer);
            Ok(())
        })
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats { bytes: self.index.read().total() }
    }
}

impl Drop for SegmentNodeStore {
    fn drop(&mut self) {
        let manifest = self.manifest.get_mut().take();
        let (Some(writer), Some(manifest)) = (self.writer.take(), manifest) else { return };
        let mut writer = writer.into_inner();
        let is_long = writer.last.chain_bytes + writer.last.vouched > CLOSE_BYTES;
        // Only what counts already may be in it.
        let is_as_committed = writer.fresh.is_empty() && writer.gone.is_empty();
        if writer.failed.is_some() || writer.tail.is_none() || !is_as_committed || !is_long {
            return;
        }
        writer.last.chain_bytes = u64::MAX;
        if let Err(error) = self.commit_now(&mut writer, &manifest, u64::MAX) {
            log::warn!("the nodes were closed without a commit that names them all; the next opening takes longer: {error}");
        }
    }
}
