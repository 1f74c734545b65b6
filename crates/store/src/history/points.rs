//! The retained states of one branch, and which nodes only they hold.
//!
//! A node that the branch drops, and that existed when its newest point was taken, is *dead* to that point: it is in the
//! point's tree, and in nobody's after it. When a point is forgotten, what is dead to it and existed at the point before
//! is dead to that one; the rest is what the branch drops now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_tree::{NodeId, StoredRoot};
use serde::{Deserialize, Serialize};

use super::Keep;
use crate::slot::Slot;

/// The points of a branch, at most.
pub(crate) const POINTS_MAX: usize = 1 << 16;

/// A state of a branch that is retained.
pub(crate) struct Point {
    /// The last version of the store at that moment.
    pub(crate) version: u64,
    /// When that was, in milliseconds since 1970 (UTC); never before the point before.
    pub(crate) time_ms: i64,
    /// No cell had a version below this.
    pub(crate) floor: u64,
    /// Nodes from here on did not exist yet.
    pub(crate) mark: NodeId,
    pub(crate) slot: Slot,
    /// Nodes of this point that the branch has dropped since, and before the next point.
    dead: Vec<NodeId>,
}

/// What the manifest says of a point beside its root. Nodes as the differences between them, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PointRecord {
    pub(crate) version: u64,
    pub(crate) time_ms: i64,
    pub(crate) floor: u64,
    pub(crate) mark: NodeId,
    dead: Vec<u64>,
}

impl PointRecord {
    fn of(point: &Point) -> Self {
        let mut dead = point.dead.clone();
        dead.sort_unstable();
        let mut before = 0;
        for id in &mut dead {
            let gap = *id - before;
            before = *id;
            *id = gap;
        }
        let Point { version, time_ms, floor, mark, .. } = *point;
        Self { version, time_ms, floor, mark, dead }
    }

    pub(crate) fn into_point(self, slot: Slot) -> Point {
        let Self { version, time_ms, floor, mark, mut dead } = self;
        let mut before = 0_u64;
        for gap in &mut dead {
            before = before.saturating_add(*gap);
            *gap = before;
        }
        Point { version, time_ms, floor, mark, slot, dead }
    }
}

/// The retained states of a branch, and how long more are retained.
#[derive(Default)]
pub(crate) struct Points {
    keep: Option<Keep>,
    /// In the order of their versions.
    points: Vec<Point>,
    /// The version of the point that each tag names.
    tags: BTreeMap<String, u64>,
    /// How many points have a tag.
    tagged: usize,
    /// When a point was taken for the last time in this process, whatever the clock says.
    taken: Option<Instant>,
    /// Nodes that the branch dropped and no point holds, and that no checkpoint has seen yet.
    loose: Vec<NodeId>,
}

impl Points {
    pub(crate) fn new(keep: Option<Keep>, points: Vec<Point>, tags: BTreeMap<String, u64>) -> Self {
        let mut made = Self { keep, points, tags, ..Self::default() };
        made.count_tagged();
        made
    }

    pub(crate) fn keep(&self) -> Option<&Keep> {
        self.keep.as_ref()
    }

    pub(crate) fn set_keep(&mut self, keep: Option<Keep>) {
        self.keep = keep;
    }

    pub(crate) fn tags(&self) -> &BTreeMap<String, u64> {
        &self.tags
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.points.iter()
    }

    pub(crate) fn newest(&self) -> Option<&Point> {
        self.points.last()
    }

    /// Nodes below this may be held by a point.
    pub(crate) fn mark(&self) -> NodeId {
        self.newest().map_or(0, |point| point.mark)
    }

    /// The newest point that is not after a version.
    pub(crate) fn up_to(&self, version: u64) -> Option<&Point> {
        self.points[..self.points.partition_point(|point| point.version <= version)].last()
    }

    /// The newest point that is not after a time.
    pub(crate) fn until(&self, time_ms: i64) -> Option<&Point> {
        self.points[..self.points.partition_point(|point| point.time_ms <= time_ms)].last()
    }

    /// The point of exactly this version.
    pub(crate) fn at(&self, version: u64) -> Option<&Point> {
        self.up_to(version).filter(|point| point.version == version)
    }

    /// Points are stored, and need no memory any more. Returns the trees that they had.
    pub(crate) fn stored(&mut self, roots: &[(u64, StoredRoot)]) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (version, root) in roots {
            let Ok(at) = self.points.binary_search_by_key(version, |point| point.version) else { continue };
            if let slot @ Slot::Open(_) = &mut self.points[at].slot {
                slots.push(std::mem::replace(slot, Slot::Stored(*root)));
            }
        }
        slots
    }

    /// Takes note of what the branch dropped.
    pub(crate) fn note_dropped(&mut self, dropped: Vec<NodeId>) {
        match self.points.last_mut() {
            None => self.loose.extend(dropped),
            Some(newest) => {
                for id in dropped {
                    if id < newest.mark {
                        newest.dead.push(id);
                    } else {
                        self.loose.push(id);
                    }
                }
            }
        }
    }

    /// Nodes that the branch dropped and no point of it holds.
    pub(crate) fn take_loose(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.loose)
    }

    /// Adds a point behind all others. What the branch dropped until now has been noted.
    pub(crate) fn push(&mut self, point: NewPoint) {
        let NewPoint { version, time_ms, floor, mark, slot } = point;
        debug_assert!(self.newest().is_none_or(|newest| newest.version < version));
        let time_ms = self.newest().map_or(time_ms, |newest| newest.time_ms.max(time_ms));
        self.taken = Some(clock::now());
        self.points.push(Point { version, time_ms, floor, mark, slot, dead: Vec::new() });
    }

    pub(crate) fn tag(&mut self, tag: String, version: u64) {
        self.tags.insert(tag, version);
        self.count_tagged();
    }

    fn count_tagged(&mut self) {
        self.tagged = self.tags.values().collect::<BTreeSet<_>>().len();
    }

    /// Whether a point has a tag.
    fn is_tagged(&self, version: u64) -> bool {
        self.tags.values().any(|at| *at == version)
    }

    /// Takes a tag away. The point goes, too, if nothing else keeps it: it is returned.
    pub(crate) fn untag(&mut self, tag: &str) -> Option<Slot> {
        let version = self.tags.remove(tag)?;
        self.count_tagged();
        if self.keep.is_some() || self.is_tagged(version) {
            return None;
        }
        self.forget(&[version]).pop()
    }

    /// The versions of the points without a tag that are too many, the oldest first. An eighth more than are asked for may
    /// be there, so that not each commit has to look for one to forget.
    pub(crate) fn surplus(&self) -> Vec<u64> {
        let Some(keep) = &self.keep else { return Vec::new() };
        let most =
            keep.versions.and_then(|most| usize::try_from(most).ok()).unwrap_or(POINTS_MAX).min(POINTS_MAX);
        let room = most + most / 8;
        if self.points.len() - self.tagged <= room {
            return Vec::new();
        }
        let mut free = self.untagged();
        free.truncate(free.len() - most);
        free
    }

    /// The versions of the points without a tag, the oldest first.
    pub(crate) fn untagged(&self) -> Vec<u64> {
        let tagged: BTreeSet<u64> = self.tags.values().copied().collect();
        self.points.iter().map(|point| point.version).filter(|version| !tagged.contains(version)).collect()
    }

    /// The versions of the points without a tag that say nothing about a time or any later one.
    pub(crate) fn before(&self, time_ms: i64) -> Vec<u64> {
        let Some(last) = self.until(time_ms).map(|point| point.version) else { return Vec::new() };
        let mut free = self.untagged();
        free.truncate(free.partition_point(|version| *version < last));
        free
    }

    /// Forgets points, which are given in their order. Returns their trees, whose memory can go. It costs what all points
    /// cost to look at.
    pub(crate) fn forget(&mut self, versions: &[u64]) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(versions.len());
        let mut kept: Vec<Point> = Vec::with_capacity(self.points.len());
        for mut point in std::mem::take(&mut self.points) {
            if versions.binary_search(&point.version).is_err() {
                kept.push(point);
                continue;
            }
            // What existed at the point before is in that, too.
            let mark = kept.last().map_or(0, |before| before.mark);
            let (older, own): (Vec<_>, Vec<_>) = point.dead.drain(..).partition(|id| *id < mark);
            if let Some(before) = kept.last_mut() {
                before.dead.extend(older);
            }
            self.loose.extend(own);
            slots.push(point.slot);
        }
        self.points = kept;
        let there: BTreeSet<u64> = self.points.iter().map(|point| point.version).collect();
        self.tags.retain(|_, version| there.contains(version));
        self.count_tagged();
        slots
    }

    /// All points go. Returns their trees, and the nodes that only they held.
    pub(crate) fn take_all(&mut self) -> (Vec<Slot>, Vec<NodeId>) {
        let mut dead = std::mem::take(&mut self.loose);
        let points = std::mem::take(&mut self.points);
        self.tags.clear();
        self.tagged = 0;
        let mut slots = Vec::with_capacity(points.len());
        for point in points {
            dead.extend(point.dead);
            slots.push(point.slot);
        }
        (slots, dead)
    }

    /// What a checkpoint stores: the points as they are now.
    pub(crate) fn capture(&self) -> (Vec<Slot>, Vec<PointRecord>) {
        self.points.iter().map(|point| (point.slot.share(), PointRecord::of(point))).unzip()
    }

    /// The trees of all points.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.points.iter().map(|point| point.slot.share()).collect()
    }

    /// Whether so much time has passed since the newest point, whatever was done to the clock since this process took it.
    pub(crate) fn is_older_than(&self, every: Duration, now_ms: i64) -> bool {
        let every_ms = i64::try_from(every.as_millis()).unwrap_or(i64::MAX);
        match (self.taken, self.newest()) {
            (Some(taken), _) => taken.elapsed() >= every,
            (None, Some(newest)) => {
                now_ms >= newest.time_ms.saturating_add(every_ms) || now_ms < newest.time_ms
            }
            (None, None) => true,
        }
    }

    /// The oldest points without a tag, by the lists of nodes that only they hold: what else goes on to a point before is left out.
    pub(crate) fn held_by_untagged(&self) -> Vec<(u64, Vec<NodeId>)> {
        let tagged: BTreeSet<u64> = self.tags.values().copied().collect();
        let mut mark = 0;
        let mut held = Vec::with_capacity(self.points.len() - self.tagged);
        for point in &self.points {
            if tagged.contains(&point.version) {
                mark = point.mark;
            } else {
                held.push((point.version, point.dead.iter().copied().filter(|id| *id >= mark).collect()));
            }
        }
        held
    }

    /// Nodes that only a point holds.
    pub(crate) fn dead_of(point: &Point) -> &[NodeId] {
        &point.dead
    }
}

/// A point to be taken.
pub(crate) struct NewPoint {
    pub(crate) version: u64,
    pub(crate) time_ms: i64,
    pub(crate) floor: u64,
    pub(crate) mark: NodeId,
    pub(crate) slot: Slot,
}
