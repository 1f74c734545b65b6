//! A disk as it may be after a power cut: what was flushed is there, of the rest anything that a file system allows.
//!
//! Files are kept page by page. A page that was written since its file was last flushed may have any of the contents
//! that it has had since; the length of the file any of its lengths. Names that were made, changed or removed since
//! their folder was last flushed may be as before or as after, each by itself or in the order of the changes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

/// A folder of which the engine of the nodes flushes the files only. It relies on what ext4, XFS and Btrfs do, and POSIX
/// does not promise: that the flush of a new file keeps its name, too.
const FLUSHED_WITH_FILES: &str = "blobs";
const PAGE: usize = 4096;
/// What a disk writes at least: within a page, a cut comes between two of these.
const SECTOR: usize = 512;

/// One thing that a process did, as `recorder.c` writes it.
pub(crate) struct Record<'r> {
    pub(crate) kind: Kind,
    pub(crate) inode: u64,
    pub(crate) number: u64,
    pub(crate) name: &'r str,
    pub(crate) bytes: &'r [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Length,
    Write,
    Sync,
    SyncFolder,
    Rename,
    Unlink,
    MakeFolder,
    RemoveFolder,
    Mark,
    Entry,
}

/// The records in the bytes of a recording. A mark has its text as its name.
pub(crate) fn records(mut bytes: &[u8]) -> Vec<Record<'_>> {
    use Kind::{
        Create, Entry, Length, MakeFolder, Mark, RemoveFolder, Rename, Sync, SyncFolder, Unlink, Write,
    };
    const KINDS: [Kind; 11] =
        [Create, Length, Write, Sync, SyncFolder, Rename, Unlink, MakeFolder, RemoveFolder, Mark, Entry];
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<25>() {
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
        let len = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize;
        let (name, rest) = rest.split_at(len(17));
        let (content, rest) = rest.split_at(len(21));
        let kind = KINDS[usize::from(head[0]) - 1];
        let name = std::str::from_utf8(name).unwrap();
        found.push(Record { kind, inode: long(1), number: long(9), name, bytes: content });
        bytes = rest;
    }
    found
}

impl Record<'_> {
    /// The text of a mark.
    pub(crate) fn mark(&self) -> Option<&str> {
        (self.kind == Kind::Mark).then_some(self.name)
    }

    /// Whether a cut after this leaves another disk than one before.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.kind, Kind::Mark | Kind::Entry)
    }
}

type Page = Rc<[u8; PAGE]>;
/// No page is one of zeros.
type Pages = HashMap<u64, Page>;

#[derive(Clone, Default)]
struct Content {
    pages: Pages,
    len: u64,
}

/// A file from one shortening to the next: the old blocks are given back then, and can never be seen under a new length.
#[derive(Clone, Default)]
struct Epoch {
    base: Content,
    /// What each page has been since, in order.
    written: BTreeMap<u64, Vec<Page>>,
    lens: Vec<u64>,
}

#[derive(Default)]
struct Node {
    is_folder: bool,
    is_flushed_with_files: bool,
    /// Of a file: as programs see it, and what the disk may have.
    now: Content,
    epochs: Vec<Epoch>,
    /// Of a folder.
    names: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
}

/// Sets a name in a folder, or removes it, and returns what had it.
type SetName<'s> = dyn FnMut(usize, &str, Option<usize>) -> Option<usize> + 's;

/// A change of names that is not durable yet.
#[derive(Clone)]
struct Change {
    removed: Option<(usize, String)>,
    added: Option<(usize, String)>,
    node: usize,
}

impl Change {
    fn is_in(&self, folder: usize) -> bool {
        [&self.removed, &self.added].into_iter().flatten().any(|(at, _)| *at == folder)
    }

    /// Makes the change, whatever became of others before it.
    fn apply(&self, names: &mut SetName<'_>) {
        if let Some((folder, name)) = &self.removed {
            let was = names(*folder, name, None);
            if let Some(other) = was.filter(|was| *was != self.node) {
                names(*folder, name, Some(other));
            }
        }
        if let Some((folder, name)) = &self.added {
            names(*folder, name, Some(self.node));
        }
    }
}

/// Sets or removes a name, and returns what had it.
fn set(names: &mut BTreeMap<String, usize>, name: &str, node: Option<usize>) -> Option<usize> {
    match node {
        Some(node) => names.insert(name.to_owned(), node),
        None => names.remove(name),
    }
}

/// All that was recorded up to some point.
pub(crate) struct Disk {
    /// The first is the folder of all.
    nodes: Vec<Node>,
    by_inode: HashMap<u64, usize>,
    changes: Vec<Change>,
    entries: Vec<(String, u64, bool)>,
    /// The page that was written last, which may be torn.
    last: Option<(usize, u64)>,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let root = Node { is_folder: true, ..Node::default() };
        let (by_inode, changes, entries) = Default::default();
        Self { nodes: vec![root], by_inode, changes, entries, last: None }
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The folder of a path, and the name in it.
    fn place(&self, path: &str) -> (usize, String) {
        let mut at = 0;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return (at, part.to_owned());
            }
            at = self.nodes[at].names[part];
        }
        unreachable!("a path has a last part")
    }

    fn folder(&self, path: &str) -> usize {
        path.split('/').filter(|part| !part.is_empty()).fold(0, |at, part| self.nodes[at].names[part])
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut |folder, name, node| set(&mut self.nodes[folder].names, name, node));
        self.changes.push(change);
    }

    fn file(&mut self, inode: u64) -> usize {
        if let Some(node) = self.by_inode.get(&inode) {
            return *node;
        }
        let node = self.add(Node { epochs: vec![Epoch::default()], ..Node::default() });
        self.by_inode.insert(inode, node);
        node
    }

    /// Takes the next record in.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Mark => {}
            Kind::Create => {
                self.by_inode.remove(&record.inode);
                let node = self.file(record.inode);
                let added = Some(self.place(record.name));
                self.change(Change { removed: None, added, node });
            }
            Kind::MakeFolder => {
                let is_flushed_with_files = record.name.ends_with(FLUSHED_WITH_FILES);
                let node = self.add(Node { is_folder: true, is_flushed_with_files, ..Node::default() });
                let added = Some(self.place(record.name));
                self.change(Change { removed: None, added, node });
            }
            Kind::Unlink | Kind::RemoveFolder => {
                let (folder, name) = self.place(record.name);
                let node = self.nodes[folder].names[&name];
                self.change(Change { removed: Some((folder, name)), added: None, node });
            }
            Kind::Rename => {
                let (folder, name) = self.place(record.name);
                let node = self.nodes[folder].names[&name];
                let added = Some(self.place(std::str::from_utf8(record.bytes).unwrap()));
                self.change(Change { removed: Some((folder, name)), added, node });
            }
            Kind::Write => self.write(record),
            Kind::Length => self.set_len(record),
            Kind::Sync => {
                let node = self.file(record.inode);
                let file = &mut self.nodes[node];
                file.epochs = vec![Epoch { base: file.now.clone(), ..Epoch::default() }];
                self.last = None;
                let flushed: Vec<_> = self.nodes.iter().map(|folder| folder.is_flushed_with_files).collect();
                self.keep(|change| {
                    let folder = change.added.as_ref().map(|(folder, _)| *folder);
                    change.node == node && folder.is_some_and(|folder| flushed[folder])
                });
            }
            Kind::Entry => {
                let name = std::str::from_utf8(record.bytes).unwrap().to_owned();
                self.entries.push((name, record.inode, record.number == 1));
            }
            Kind::SyncFolder => {
                let folder = self.folder(record.name);
                self.reconcile(folder);
                self.keep(|change| change.is_in(folder));
            }
        }
    }

    /// Makes changes of names durable.
    fn keep(&mut self, is_kept: impl Fn(&Change) -> bool) {
        let (kept, left): (Vec<_>, _) = std::mem::take(&mut self.changes).into_iter().partition(is_kept);
        self.changes = left;
        for change in kept {
            change.apply(&mut |folder, name, node| set(&mut self.nodes[folder].durable, name, node));
        }
    }

    /// Finds the changes that went past the recorder, by the listing that came before the flush of a folder.
    fn reconcile(&mut self, folder: usize) {
        let entries = std::mem::take(&mut self.entries);
        let here = |disk: &Self, node| {
            let names = disk.nodes[folder].names.iter();
            names.filter(|(_, at)| **at == node).map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        for (name, inode, _) in entries.iter().filter(|(.., is_folder)| !is_folder) {
            let node = self.file(*inode);
            if self.nodes[folder].names.get(name) == Some(&node) {
                continue;
            }
            let gone = |old: &String| !entries.iter().any(|(name, ..)| name == old);
            let removed = here(self, node).into_iter().find(gone).map(|name| (folder, name));
            self.change(Change { removed, added: Some((folder, name.clone())), node });
        }
        let gone = |(name, _): &(&String, &usize)| !entries.iter().any(|(entry, ..)| entry == *name);
        let gone: Vec<_> =
            self.nodes[folder].names.iter().filter(gone).map(|(name, node)| (name.clone(), *node)).collect();
        for (name, node) in gone {
            self.change(Change { removed: Some((folder, name)), added: None, node });
        }
    }

    fn write(&mut self, record: &Record<'_>) {
        let node = self.file(record.inode);
        let file = &mut self.nodes[node];
        let epoch = file.epochs.last_mut().unwrap();
        let (mut at, mut left) = (record.number, record.bytes);
        while !left.is_empty() {
            let (number, offset) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let (now, later) = left.split_at(left.len().min(PAGE - offset));
            let mut page = file.now.pages.get(&number).map_or([0; PAGE], |page| **page);
            page[offset..offset + now.len()].copy_from_slice(now);
            let page = Rc::new(page);
            file.now.pages.insert(number, page.clone());
            epoch.written.entry(number).or_default().push(page);
            self.last = Some((node, number));
            (at, left) = (at + now.len() as u64, later);
        }
        if at > file.now.len {
            file.now.len = at;
            epoch.lens.push(at);
        }
    }

    fn set_len(&mut self, record: &Record<'_>) {
        let node = self.file(record.inode);
        let file = &mut self.nodes[node];
        let shorter = record.number < file.now.len;
        file.now.len = record.number;
        if !shorter {
            file.epochs.last_mut().unwrap().lens.push(record.number);
            return;
        }
        let (whole, rest) = (record.number / PAGE as u64, (record.number % PAGE as u64) as usize);
        file.now.pages.retain(|number, _| *number < whole + u64::from(rest > 0));
        if let Some(page) = file.now.pages.get_mut(&whole) {
            let mut cut = **page;
            cut[rest..].fill(0);
            *page = Rc::new(cut);
        }
        file.epochs.push(Epoch { base: file.now.clone(), ..Epoch::default() });
    }

    /// Writes the disk as a power cut may leave it into a folder.
    pub(crate) fn cut(&self, rng: &mut fastrand::Rng, into: &Path) {
        let mut folders: HashMap<usize, BTreeMap<String, usize>> = HashMap::new();
        // Some file systems keep the order of the names, others do not.
        let in_order = rng.bool().then(|| rng.usize(..=self.changes.len()));
        for (at, change) in self.changes.iter().enumerate() {
            if in_order.map_or_else(|| rng.bool(), |upto| at < upto) {
                change.apply(&mut |folder, name, node| {
                    let durable = || self.nodes[folder].durable.clone();
                    set(folders.entry(folder).or_insert_with(durable), name, node)
                });
            }
        }
        // How much of what was not flushed is there: all, nothing, or each page as it comes.
        let luck = [0.0, 0.5, 0.9, 0.97, 1.0][rng.usize(..5)];
        self.put(0, &folders, rng, luck, into);
    }

    fn put(
        &self,
        node: usize,
        folders: &HashMap<usize, BTreeMap<String, usize>>,
        rng: &mut fastrand::Rng,
        luck: f64,
        into: &Path,
    ) {
        if !self.nodes[node].is_folder {
            let content = self.content(node, rng, luck);
            let file = File::create(into).unwrap();
            file.set_len(content.len).unwrap();
            for (number, page) in content.pages {
                let at = number * PAGE as u64;
                let len = content.len.saturating_sub(at).min(PAGE as u64) as usize;
                file.write_all_at(&page[..len], at).unwrap();
            }
            return;
        }
        std::fs::create_dir_all(into).unwrap();
        let names = folders.get(&node).unwrap_or(&self.nodes[node].durable);
        for (name, node) in names {
            self.put(*node, folders, rng, luck, &into.join(name));
        }
    }

    /// What may be there of a file.
    fn content(&self, node: usize, rng: &mut fastrand::Rng, luck: f64) -> Content {
        let epochs = &self.nodes[node].epochs;
        let epoch = if rng.f64() < luck { epochs.len() - 1 } else { rng.usize(..epochs.len()) };
        let Epoch { base, written, lens } = &epochs[epoch];
        let mut found = base.clone();
        if let Some(len) = pick(lens, rng, luck) {
            found.len = *len;
        }
        for (number, versions) in written {
            let Some(page) = pick(versions, rng, luck) else { continue };
            let mut page = page.clone();
            if self.last == Some((node, *number)) && rng.bool() {
                // The cut came while this page was written: its first sectors are new.
                let old = found.pages.get(number).map_or([0; PAGE], |page| **page);
                let at = rng.usize(..=PAGE / SECTOR) * SECTOR;
                let mut torn = old;
                torn[..at].copy_from_slice(&page[..at]);
                page = Rc::new(torn);
            }
            found.pages.insert(*number, page);
        }
        let end = found.len.div_ceil(PAGE as u64);
        found.pages.retain(|number, _| *number < end);
        found
    }
}

/// One of the states that something has had since it was flushed; none if that is all it is.
fn pick<'v, T>(versions: &'v [T], rng: &mut fastrand::Rng, luck: f64) -> Option<&'v T> {
    if rng.f64() < luck {
        return versions.last();
    }
    let at = rng.usize(..=versions.len());
    at.checked_sub(1).map(|at| &versions[at])
}
