//! The body of a commit: which nodes it brings or has, which are gone, and the manifest.

use duramen_base::varint;
use duramen_tree::NodeId;

use super::format::u64_at;

/// Where a node lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    /// The length of its bytes.
    pub(super) len: u32,
    /// Where its record begins in the segment.
    pub(super) at: u64,
}

/// What a commit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    /// Where the commit before it begins in the same segment; none if this one names every node.
    pub(super) before: Option<u64>,
    /// What it vouches for in its segment: all bytes from here to its own first.
    pub(super) since: u64,
    pub(super) sum: u64,
    /// In the order of their ids: those that are new or lie elsewhere since the one before, or all.
    pub(super) nodes: Vec<(NodeId, Place)>,
    /// Those of the commit before that are not there any more, in order.
    pub(super) gone: Vec<NodeId>,
    pub(super) manifest: Vec<u8>,
}

impl Commit {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(self.manifest.len() + self.nodes.len() * 6 + self.gone.len() * 2 + 64);
        for number in [self.before.unwrap_or(0), self.since, self.sum] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        varint::put(&mut bytes, self.nodes.len() as u64);
        let mut last = Last::default();
        for (id, place) in &self.nodes {
            varint::put(&mut bytes, id.wrapping_sub(last.id));
            varint::put(&mut bytes, zigzag(i64::from(place.segment) - i64::from(last.segment)));
            varint::put(&mut bytes, zigzag((place.at / 8) as i64 - last.end as i64));
            varint::put(&mut bytes, u64::from(place.len));
            last = Last::of(*id, *place);
        }
        varint::put(&mut bytes, self.gone.len() as u64);
        let mut last = 0;
        for id in &self.gone {
            varint::put(&mut bytes, id.wrapping_sub(last));
            last = *id;
        }
        varint::put(&mut bytes, self.manifest.len() as u64);
        bytes.extend_from_slice(&self.manifest);
        bytes
    }

    /// Reads a body. None if it is not one; no bytes make it panic, or take more memory than a few times their length.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (before, since, sum) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?, u64_at(bytes, 16)?);
        let mut at = 24;
        let mut number = || varint::get(bytes, &mut at).ok();
        // Each takes at least so many bytes.
        let fits =
            |count: u64, each: u64| count.checked_mul(each).is_some_and(|all| all <= bytes.len() as u64);
        let count = number().filter(|count| fits(*count, 4))?;
        let mut nodes = Vec::with_capacity(count as usize);
        let mut last = Last::default();
        for _ in 0..count {
            let id = next_id(last.id, number()?, !nodes.is_empty())?;
            let segment = i64::from(last.segment).checked_add(unzigzag(number()?))?;
            let words = (last.end as i64).checked_add(unzigzag(number()?))?;
            let place = Place {
                segment: u32::try_from(segment).ok()?,
                len: u32::try_from(number()?).ok()?,
                at: u64::try_from(words).ok()?.checked_mul(8)?,
            };
            nodes.push((id, place));
            last = Last::of(id, place);
        }
        let count = number().filter(|count| fits(*count, 1))?;
        let mut gone = Vec::with_capacity(count as usize);
        let mut last = 0;
        for _ in 0..count {
            last = next_id(last, number()?, !gone.is_empty())?;
            gone.push(last);
        }
        let len = usize::try_from(number()?).ok()?;
        let manifest = bytes.get(at..)?.to_vec();
        let before = (before > 0).then_some(before);
        (manifest.len() == len).then_some(Self { before, since, sum, nodes, gone, manifest })
    }
}

/// The node before, of which the next one is written as the difference.
#[derive(Default)]
struct Last {
    id: NodeId,
    segment: u32,
    /// Where the next record would begin, in words of eight bytes.
    end: u64,
}

impl Last {
    fn of(id: NodeId, place: Place) -> Self {
        Self { id, segment: place.segment, end: place.end() / 8 }
    }
}

fn next_id(last: NodeId, step: u64, follows: bool) -> Option<NodeId> {
    if follows && step == 0 {
        return None;
    }
    last.checked_add(step)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
