//! What is found of a log in the bucket.

use std::collections::BTreeMap;

use super::segment::Segment;
use crate::bucket::Bucket;
use crate::error::RemoteError;
use crate::piece::{name, number, Kind, Piece};

/// How often objects may go while they are read, because a writer releases them.
const LOADS_MAX: u32 = 20;

/// What was found.
pub(super) struct Found {
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Objects that stand before the first segment, and go with the next one that is made.
    pub(super) loose: Vec<u64>,
    /// What was left when objects were deleted.
    pub(super) garbage: Vec<u64>,
    /// The number of the last object; 0 if there is none.
    pub(super) last: u64,
}

/// Lists the log, and reads all of it that may be needed: the row of objects without a gap that ends with the last one (L6).
pub(super) fn load(bucket: &Bucket) -> Result<Found, RemoteError> {
    for _ in 0..LOADS_MAX {
        let listed = bucket.list()?;
        let all: Vec<(u64, u64)> =
            listed.iter().filter_map(|(file, len)| Some((number(file)?, *len))).collect();
        let Some((last, _)) = all.last().copied() else {
            return Ok(Found { segments: BTreeMap::new(), loose: Vec::new(), garbage: Vec::new(), last: 0 });
        };
        let begin = all.windows(2).rposition(|pair| pair[0].0 + 1 != pair[1].0).map_or(0, |at| at + 1);
        let names = all[begin..].iter().map(|(number, len)| (name(*number), *len)).collect();
        let mut got = bucket.get_all(names)?;
        // A writer has released the oldest meanwhile.
        let gone = got.iter().rposition(Option::is_none).map_or(0, |at| at + 1);
        if gone == got.len() {
            continue;
        }
        let pieces = got.drain(gone..).flatten();
        return assemble(all[begin + gone].0, pieces, last);
    }
    let what = "read the log";
    Err(RemoteError::Failed { what, said: "it was released while it was read, each time".to_owned() })
}

fn assemble(
    first: u64,
    objects: impl Iterator<Item = bytes::Bytes>,
    last: u64,
) -> Result<Found, RemoteError> {
    let mut found = Found { segments: BTreeMap::new(), loose: Vec::new(), garbage: Vec::new(), last };
    let mut current: Option<u64> = None;
    for (number, bytes) in (first..).zip(objects) {
        let damaged = |reason: &str| {
            RemoteError::Damaged(format!("object {} of the log", name(number)), reason.to_owned())
        };
        let piece = Piece::decode(&bytes, number).map_err(|reason| damaged(&reason))?;
        match piece.kind {
            // Who comes to its number late must find it taken (L4).
            Kind::Fence => {}
            Kind::Data => {
                let is_new = current.is_none_or(|current| current < piece.segment);
                match (piece.offset, is_new) {
                    (0, true) => {
                        let segment = Segment::found(piece.segment, piece.size);
                        segment.add_found(number, 0, &piece.bytes);
                        found.segments.insert(piece.segment, segment);
                        current = Some(piece.segment);
                    }
                    // The rest of a segment that is being released, or was when somebody was killed.
                    (_, _) if current.is_none() => found.garbage.push(number),
                    (_, false) => {
                        let segment = current.and_then(|current| found.segments.get(&current));
                        let follows = segment.is_some_and(|segment| {
                            current == Some(piece.segment)
                                && segment.add_found(number, piece.offset, &piece.bytes)
                        });
                        if !follows {
                            return Err(damaged("it does not follow on the one before"));
                        }
                    }
                    (_, true) => return Err(damaged("its segment has no beginning")),
                }
            }
            Kind::Begin | Kind::Mark | Kind::End => {
                match current.and_then(|current| found.segments.get(&current)) {
                    Some(segment) => segment.add_piece(number),
                    None => found.loose.push(number),
                }
            }
        }
    }
    Ok(found)
}
