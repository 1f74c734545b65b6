//! What a folder of segments holds: the last commit that counts, and the nodes that it names.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use duramen_base::file::open_plain;
use duramen_base::system::FileAt;
use duramen_tree::{NodeId, NodeStoreError};
use xxhash_rust::xxh3::Xxh3;

use super::commit::{Commit, Place};
use super::format::{
    padded, u64_at, HeaderError, Kind, RecordHeader, SegmentHeader, HEADER_BYTES, RECORD_BYTES,
};
use super::index::{segment_name, segment_number, Index, Segment};

/// Files are read in pieces of this size where they are read whole.
const PIECE_BYTES: usize = 1 << 20;

/// What was found.
pub(super) struct Found {
    pub(super) index: Index,
    /// The last commit, if there is one.
    pub(super) last: Option<Last>,
    /// The number for the next segment.
    pub(super) next_segment: u32,
    /// Segments that the last commit does not need.
    pub(super) leftovers: Vec<u32>,
}

/// The last commit that counts.
pub(super) struct Last {
    pub(super) segment: Arc<Segment>,
    /// Where it begins and ends.
    pub(super) at: u64,
    pub(super) end: u64,
    /// The length of its segment: more than `end` if something came behind it that does not count.
    pub(super) len: u64,
    pub(super) number: u64,
    /// The bytes of the last commit that named all nodes, and of those since.
    pub(super) whole_bytes: u64,
    pub(super) chain_bytes: u64,
    /// The bytes of nodes that it vouches for.
    pub(super) vouched: u64,
    pub(super) manifest: Vec<u8>,
}

/// Looks what a folder holds, and changes nothing.
pub(super) fn recover(folder: &Path) -> Result<Found, NodeStoreError> {
    let mut numbers = Vec::new();
    let of_folder = |error| of_folder(folder, &error);
    for entry in std::fs::read_dir(folder).map_err(of_folder)? {
        numbers.extend(segment_number(&entry.map_err(of_folder)?.file_name().to_string_lossy()));
    }
    numbers.sort_unstable();
    let next_segment = numbers.last().map_or(Some(1), |last| last.checked_add(1));
    let next_segment =
        next_segment.ok_or_else(|| damaged(folder, "the numbers of its segments are used up"))?;
    for number in numbers.iter().rev() {
        let Some((segment, len)) = open_segment(folder, *number)? else { continue };
        let segment = Arc::new(segment);
        let at = last_commit(&segment, len);
        if let Some(at) = at.map_err(|error| failed(&folder.join(segment_name(*number)), &error))? {
            return whole(folder, &segment, len, at, &numbers, next_segment);
        }
    }
    Ok(Found { index: Index::default(), last: None, next_segment, leftovers: numbers })
}

/// Opens a segment, if its header ever became durable.
fn open_segment(folder: &Path, number: u32) -> Result<Option<(Segment, u64)>, NodeStoreError> {
    let path = folder.join(segment_name(number));
    // Whoever gave us the folder may have put a link or a pipe there.
    let file = open_plain(&path).map_err(|error| failed(&path, &error))?;
    let len = file.metadata().map_err(|error| failed(&path, &error))?.len();
    let mut header = [0; HEADER_BYTES];
    if len < HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut header, 0).map_err(|error| failed(&path, &error))?;
    match SegmentHeader::decode(&header) {
        Ok(header) if header.number == number => Ok(Some((Segment { number, salt: header.salt, file }, len))),
        Ok(_) | Err(HeaderError::Invalid) => Ok(None),
        Err(HeaderError::FromTheFuture(format)) => Err(damaged(
            &path,
            &format!("it has format {format}, which a later version wrote; open the store with that"),
        )),
    }
}

/// The commit at a place, if there is a whole one, with the length of its record.
fn commit_at(segment: &Segment, len: u64, at: u64) -> io::Result<Option<(RecordHeader, Commit)>> {
    let Some((header, bytes)) = header_at(segment, len, at)? else { return Ok(None) };
    if header.kind != Kind::Commit {
        return Ok(None);
    }
    let mut body = vec![0; header.len as usize];
    segment.file.read_exact_at(&mut body, at + RECORD_BYTES as u64)?;
    if !RecordHeader::holds(&bytes, &body, segment.salt) {
        return Ok(None);
    }
    let commit = Commit::decode(&body).filter(|commit| {
        commit.since <= at
            && commit.since >= HEADER_BYTES as u64
            && commit.before.is_none_or(|before| before < at)
    });
    Ok(commit.map(|commit| (header, commit)))
}

/// The header of a record that lies whole in the file.
fn header_at(segment: &Segment, len: u64, at: u64) -> io::Result<Option<(RecordHeader, [u8; RECORD_BYTES])>> {
    let mut bytes = [0; RECORD_BYTES];
    if at != padded(at) || at.checked_add(RECORD_BYTES as u64).is_none_or(|end| end > len) {
        return Ok(None);
    }
    segment.file.read_exact_at(&mut bytes, at)?;
    let header = RecordHeader::decode(&bytes, segment.salt);
    Ok(header.filter(|header| header.size() <= len - at).map(|header| (header, bytes)))
}

/// Whether all that a commit vouches for is there.
fn is_vouched(segment: &Segment, at: u64, commit: &Commit) -> io::Result<bool> {
    let mut sum = Xxh3::with_seed(segment.salt);
    let mut from = commit.since;
    let mut piece = vec![0; PIECE_BYTES.min((at - from) as usize)];
    while from < at {
        let part = piece.len().min((at - from) as usize);
        segment.file.read_exact_at(&mut piece[..part], from)?;
        sum.update(&piece[..part]);
        from += part as u64;
    }
    Ok(sum.digest() == commit.sum)
}

/// Where the last commit of a segment that counts begins.
fn last_commit(segment: &Segment, len: u64) -> io::Result<Option<u64>> {
    // As the segment was left by whoever closed it.
    if len >= (HEADER_BYTES + RECORD_BYTES + 8) as u64 {
        let mut end = [0; 8];
        segment.file.read_exact_at(&mut end, len - 8)?;
        let size = u64_at(&end, 0).filter(|size| *size < len);
        if let Some(at) = size.map(|size| len - size) {
            if let Some((header, commit)) = commit_at(segment, len, at)? {
                if header.size() == len - at && is_vouched(segment, at, &commit)? {
                    return Ok(Some(at));
                }
            }
        }
    }
    let mut commits = Vec::new();
    let mut at = HEADER_BYTES as u64;
    while let Some((header, _)) = header_at(segment, len, at)? {
        if header.kind == Kind::Commit {
            commits.push(at);
        }
        at += header.size();
    }
    for (behind, at) in commits.into_iter().rev().enumerate() {
        let Some((_, commit)) = commit_at(segment, len, at)? else { continue };
        // Behind a commit that was durable others may have begun.
        if behind > 0 || is_vouched(segment, at, &commit)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// All nodes as of a commit: that of the last one before it that named all, and what changed since.
fn whole(
    folder: &Path,
    segment: &Arc<Segment>,
    len: u64,
    at: u64,
    numbers: &[u32],
    next_segment: u32,
) -> Result<Found, NodeStoreError> {
    let path = folder.join(segment_name(segment.number));
    let broken =
        || damaged(&path, &format!("the commit at byte {at} does not go back to one that names all nodes"));
    let mut chain: Vec<(RecordHeader, Commit)> = Vec::new();
    let mut next = Some(at);
    while let Some(at) = next {
        let found = commit_at(segment, len, at).map_err(|error| failed(&path, &error))?.ok_or_else(broken)?;
        next = found.1.before;
        // Each is the one before the one that names it.
        if chain.last().is_some_and(|(after, _)| after.id != found.0.id.wrapping_add(1)) {
            return Err(broken());
        }
        chain.push(found);
    }
    let sizes: Vec<u64> = chain.iter().map(|(header, _)| header.size()).collect();
    let mut places: BTreeMap<NodeId, Place> = BTreeMap::new();
    let mut newest = None;
    for (header, commit) in chain.into_iter().rev() {
        let Commit { nodes, gone, .. } = &commit;
        for id in gone {
            places.remove(id);
        }
        // The first of them names all, in order, of which a map is made at once.
        if places.is_empty() {
            places = nodes.iter().copied().collect();
        } else {
            places.extend(nodes.iter().copied());
        }
        newest = Some((header, commit));
    }
    let Some((header, commit)) = newest else { return Err(broken()) };
    let (segments, leftovers) = segments_of(folder, &places, segment, len, numbers)?;
    let last = Last {
        segment: segment.clone(),
        at,
        end: at + header.size(),
        len,
        number: header.id,
        whole_bytes: sizes.last().copied().unwrap_or(0),
        chain_bytes: sizes.iter().rev().skip(1).sum(),
        vouched: at - commit.since,
        manifest: commit.manifest,
    };
    Ok(Found { index: Index::new(places, segments), last: Some(last), next_segment, leftovers })
}

type Segments = Vec<(Arc<Segment>, u64)>;

/// The segments that nodes lie in, which must be there and as long as that takes, and the numbers of the others.
fn segments_of(
    folder: &Path,
    places: &BTreeMap<NodeId, Place>,
    last: &Arc<Segment>,
    len: u64,
    numbers: &[u32],
) -> Result<(Segments, Vec<u32>), NodeStoreError> {
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for place in places.values() {
        let end = ends.entry(place.segment).or_default();
        *end = (*end).max(place.end());
    }
    let mut segments = vec![(last.clone(), len)];
    for (number, end) in &ends {
        let path = folder.join(segment_name(*number));
        let (segment, len) = if *number == last.number {
            (None, len)
        } else {
            if numbers.binary_search(number).is_err() {
                return Err(damaged(&path, "it holds nodes of the store, and is not there"));
            }
            let (segment, len) = open_segment(folder, *number)?
                .ok_or_else(|| damaged(&path, "it does not begin as a segment"))?;
            (Some(segment), len)
        };
        if *end > len {
            return Err(damaged(&path, &format!("it has {len} bytes, and nodes lie in it up to byte {end}")));
        }
        segments.extend(segment.map(|segment| (Arc::new(segment), len)));
    }
    let leftovers = numbers.iter().copied();
    let leftovers = leftovers.filter(|number| *number != last.number && !ends.contains_key(number));
    Ok((segments, leftovers.collect()))
}

fn damaged(path: &Path, what: &str) -> NodeStoreError {
    NodeStoreError::Damaged(format!("{}: {what}", path.display()))
}

/// What the operating system said of the folder.
pub(super) fn of_folder(folder: &Path, error: &io::Error) -> NodeStoreError {
    io::Error::new(error.kind(), format!("{}: {error}", folder.display())).into()
}

/// What the operating system said of a file.
pub(super) fn failed(path: &Path, error: &io::Error) -> NodeStoreError {
    match error.kind() {
        // Whoever asked knew that it should be there.
        ErrorKind::UnexpectedEof | ErrorKind::NotFound => damaged(path, &error.to_string()),
        kind => io::Error::new(kind, format!("{}: {error}", path.display())).into(),
    }
}
