//! Which segments there are, and where in them each node lies.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use duramen_base::system::FileAt;
use duramen_tree::NodeId;

use super::commit::Place;
use super::format::{Kind, RecordHeader, HEADER_BYTES, RECORD_BYTES};

const NAME: &str = "segment-";

/// The name of the file of a segment.
pub(super) fn segment_name(number: u32) -> String {
    format!("{NAME}{number:016x}")
}

/// The number of the segment whose file has this name.
pub(crate) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(NAME)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (segment_name(number) == name).then_some(number)
}

/// A file of nodes.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) salt: u64,
    pub(super) file: File,
}

impl Segment {
    /// The bytes of a node that lies here.
    pub(super) fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; place.len as usize];
        self.file.read_exact_at(&mut bytes, place.at + RECORD_BYTES as u64)?;
        Ok(bytes)
    }
}

impl Place {
    /// The length of the whole record.
    pub(super) fn size(self) -> u64 {
        RecordHeader { kind: Kind::Node, len: self.len, id: 0 }.size()
    }

    /// Where the next record may begin.
    pub(super) fn end(self) -> u64 {
        self.at.saturating_add(self.size())
    }
}

/// A segment, and what lives in it.
struct Held {
    segment: Arc<Segment>,
    /// The length of the file.
    len: u64,
    /// The bytes of records of nodes that are needed.
    live: u64,
}

/// The segments and the nodes in them.
#[derive(Default)]
pub(super) struct Index {
    places: BTreeMap<NodeId, Place>,
    segments: BTreeMap<u32, Held>,
    live: u64,
    total: u64,
}

impl Index {
    /// One with nodes in the order of their ids, all of whose segments are given with their lengths.
    pub(super) fn new(places: BTreeMap<NodeId, Place>, segments: Vec<(Arc<Segment>, u64)>) -> Self {
        let mut index = Self::default();
        for (segment, len) in segments {
            index.add_segment(segment, len);
        }
        for place in places.values() {
            index.count(*place);
        }
        index.places = places;
        index
    }

    fn count(&mut self, place: Place) {
        if let Some(held) = self.segments.get_mut(&place.segment) {
            held.live += place.size();
            self.live += place.size();
        }
    }

    fn uncount(&mut self, place: Place) {
        if let Some(held) = self.segments.get_mut(&place.segment) {
            held.live = held.live.saturating_sub(place.size());
            self.live = self.live.saturating_sub(place.size());
        }
    }

    /// Bytes of all files.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of memory, about: nodes of a B-tree are two thirds full.
    pub(super) fn memory(&self) -> usize {
        self.places.len() * size_of::<(NodeId, Place)>() * 3 / 2
    }

    /// The files with their lengths, in the order of their numbers.
    pub(super) fn files(&self) -> impl Iterator<Item = (Arc<Segment>, u64)> + '_ {
        self.segments.values().map(|held| (held.segment.clone(), held.len))
    }

    /// How many files there are.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of what lives in them.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Where a node lies, with its segment.
    pub(super) fn find(&self, id: NodeId) -> Option<(Arc<Segment>, Place)> {
        let place = *self.places.get(&id)?;
        Some((self.segments.get(&place.segment)?.segment.clone(), place))
    }

    pub(super) fn place(&self, id: NodeId) -> Option<Place> {
        self.places.get(&id).copied()
    }

    /// All nodes, in the order of their ids.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeId, Place)> + '_ {
        self.places.iter().map(|(id, place)| (*id, *place))
    }

    /// A node that is new, or lies elsewhere now.
    pub(super) fn put(&mut self, id: NodeId, place: Place) {
        if let Some(before) = self.places.insert(id, place) {
            self.uncount(before);
        }
        self.count(place);
    }

    /// Forgets a node. Returns whether it was there.
    pub(super) fn remove(&mut self, id: NodeId) -> bool {
        let Some(place) = self.places.remove(&id) else { return false };
        self.uncount(place);
        true
    }

    /// Forgets the nodes from `first` on, and returns them.
    pub(super) fn remove_from(&mut self, first: NodeId) -> Vec<NodeId> {
        let gone = self.places.split_off(&first);
        gone.values().for_each(|place| self.uncount(*place));
        gone.into_keys().collect()
    }

    pub(super) fn add_segment(&mut self, segment: Arc<Segment>, len: u64) {
        self.total += len;
        self.segments.insert(segment.number, Held { segment, len, live: 0 });
    }

    /// Another handle on a segment that is there.
    pub(super) fn replace_segment(&mut self, segment: &Arc<Segment>) {
        if let Some(held) = self.segments.get_mut(&segment.number) {
            held.segment = segment.clone();
        }
    }

    /// Says how long a segment has become.
    pub(super) fn set_len(&mut self, number: u32, len: u64) {
        if let Some(held) = self.segments.get_mut(&number) {
            self.total = self.total - held.len + len;
            held.len = len;
        }
    }

    /// Takes out the segments in which nothing lives, but for `tail`.
    pub(super) fn take_dead(&mut self, tail: u32) -> Vec<Arc<Segment>> {
        let dead = self.segments.iter().filter(|(number, held)| held.live == 0 && **number != tail);
        let numbers: Vec<u32> = dead.map(|(number, _)| *number).collect();
        let dead: Vec<Held> = numbers.iter().filter_map(|number| self.segments.remove(number)).collect();
        self.total -= dead.iter().map(|held| held.len).sum::<u64>();
        dead.into_iter().map(|held| held.segment).collect()
    }

    /// The segment, other than `tail`, that gives most for what it takes to empty it, among those of which a part of
    /// at least `dead` per cent is dead, or that are shorter than `short`.
    pub(super) fn victim(&self, tail: u32, dead: u64, short: u64) -> Option<u32> {
        let part = |held: &Held| {
            let room = held.len.saturating_sub(HEADER_BYTES as u64).max(1);
            (room.saturating_sub(held.live) as u128 * 100 / u128::from(room)) as u64
        };
        let others = self.segments.iter().filter(|(number, _)| **number != tail);
        // Where nothing lives there is nothing to move.
        let others = others.filter(|(_, held)| held.live > 0);
        let worth = others.filter(|(_, held)| part(held) >= dead || held.len < short);
        worth.max_by_key(|(_, held)| part(held)).map(|(number, _)| *number)
    }

    /// The nodes that lie in a segment, in the order in which they lie there.
    pub(super) fn nodes_of(&self, number: u32) -> Vec<NodeId> {
        let mut found: Vec<_> = self.nodes().filter(|(_, place)| place.segment == number).collect();
        found.sort_unstable_by_key(|(_, place)| place.at);
        found.into_iter().map(|(id, _)| id).collect()
    }
}
