//! The commit log in the bucket: its segments are rows of objects, and the numbers of those fence writers.
//!
//! The log of the store writes files; here, a file is what was put of it, piece by piece: each sync is one put of what was
//! written since the last. All objects of a log are numbered through, and each is put on the condition that there is none of
//! that number. So of two writers only one goes on: whoever comes to a number that is taken has been taken over, and
//! acknowledges nothing more. The invariants (L1 to L8) are in `docs/design/store-s3.md`.

mod found;
mod reader;
mod segment;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use duramen_base::entropy;
use duramen_store::log::{LogDirectory, LogFile};
use parking_lot::Mutex;

use self::found::{load, Found};
pub(crate) use self::reader::ReaderLog;
use self::segment::{Segment, SegmentFile};
use crate::bucket::{Bucket, Put};
use crate::error::RemoteError;
use crate::piece::{name, number, Kind, Piece, WriterId};

/// The folder of the log in a store's place in the bucket.
pub(crate) const FOLDER: &str = "log";
/// How often an opening meets others that open at the same time, at most.
const CLAIMS_MAX: u32 = 50;

const SEGMENT_PREFIX: &str = "log-";

/// The number of a segment, if a file has the name of one.
fn segment_number(file: &str) -> Option<u64> {
    number(file.strip_prefix(SEGMENT_PREFIX)?)
}

fn segment_name(number: u64) -> String {
    format!("{SEGMENT_PREFIX}{}", name(number))
}

/// A log that is written.
#[derive(Clone)]
pub(crate) struct BucketLog {
    shared: Arc<Shared>,
}

/// What the files of a log share.
struct Shared {
    bucket: Bucket,
    writer: WriterId,
    who: String,
    epoch: u64,
    /// The right to put, and what has come of it.
    turn: Mutex<Turn>,
    state: Mutex<State>,
    /// Whether something was done since the last put that is sound only if this is the writer still.
    owes_proof: AtomicBool,
}

struct Turn {
    /// The number of the next object.
    next: u64,
    ended: Ended,
}

enum Ended {
    No,
    /// By whoever had the number that came next.
    Fenced(String),
    /// By an error, after which nobody knows what is there.
    Failed(String),
    /// By itself.
    Closed,
}

#[derive(Default)]
struct State {
    segments: BTreeMap<u64, Arc<Segment>>,
    spares: BTreeMap<String, Arc<Segment>>,
    /// Objects between segments, which go with the next one that is made.
    loose: Vec<u64>,
    /// Objects that nobody needs and that could not be deleted yet.
    garbage: Vec<u64>,
    /// Whether what was found is still in memory.
    has_found: bool,
}

/// Who wrote the last object of a log, unless that says that the writer has ended.
pub(crate) fn last_writer(bucket: &Bucket) -> Result<Option<String>, RemoteError> {
    let Some(last) = bucket.list()?.iter().rev().find_map(|(file, _)| number(file)) else { return Ok(None) };
    let Some(bytes) = bucket.get(&name(last))? else { return Ok(None) };
    let piece = Piece::decode(&bytes, last)
        .map_err(|reason| RemoteError::Damaged(format!("object {} of the log", name(last)), reason))?;
    Ok((piece.kind != Kind::End).then_some(piece.who))
}

impl BucketLog {
    /// Takes the log over: whoever wrote it before puts nothing more from here on (L2). `epoch` is that of the nodes, which were
    /// opened before; whoever claims looks once more whether they are his, before anything is acknowledged.
    pub(crate) fn claim(bucket: Bucket, who: String, epoch: u64) -> Result<Self, RemoteError> {
        let writer: WriterId = entropy::random_bytes();
        for _ in 0..CLAIMS_MAX {
            let last = bucket.list()?.iter().rev().find_map(|(file, _)| number(file)).unwrap_or(0);
            let has_ended = match last {
                0 => true,
                last => match bucket.get(&name(last))? {
                    Some(bytes) => Piece::decode(&bytes, last).is_ok_and(|piece| piece.kind == Kind::End),
                    // Somebody else is at work.
                    None => continue,
                },
            };
            let kind = if has_ended { Kind::Begin } else { Kind::Fence };
            let at = last + 1;
            let fence = Piece {
                kind,
                number: at,
                writer,
                who: who.clone(),
                segment: epoch,
                size: 0,
                offset: 0,
                bytes: Vec::new(),
            };
            if bucket.put_new(&name(at), fence.encode().into())? != Put::Done {
                continue;
            }
            // If this process slept between the list and the put, others may have come and gone, and freed that number (L3).
            let found = load(&bucket)?;
            if found.last != at {
                bucket.delete(vec![name(at)])?;
                continue;
            }
            return Ok(Self::start(bucket, (writer, who, epoch), found, kind));
        }
        let what = "take over the log";
        Err(RemoteError::Failed { what, said: "others took it over all the time".to_owned() })
    }

    fn start(
        bucket: Bucket,
        (writer, who, epoch): (WriterId, String, u64),
        found: Found,
        kind: Kind,
    ) -> Self {
        let Found { segments, mut loose, last, garbage } = found;
        if kind == Kind::Begin {
            loose.push(last);
        }
        let segments: BTreeMap<u64, Arc<Segment>> =
            segments.into_iter().map(|(number, segment)| (number, Arc::new(segment))).collect();
        let has_found = !segments.is_empty();
        let state = State { segments, spares: BTreeMap::new(), loose, garbage, has_found };
        let shared = Shared {
            bucket,
            writer,
            who,
            epoch,
            turn: Mutex::new(Turn { next: last + 1, ended: Ended::No }),
            state: Mutex::new(state),
            owes_proof: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Something was done that only the writer may do: before anything of the log goes, it is shown that this is the writer (L5).
    pub(crate) fn owe_proof(&self) {
        self.shared.owes_proof.store(true, Ordering::SeqCst);
    }

    /// Puts nothing more, not even that this writer has ended: it has never begun.
    pub(crate) fn abandon(&self) {
        self.shared.turn.lock().ended = Ended::Closed;
    }

    /// Says that this writer has ended, if it has not failed.
    pub(crate) fn end(&self) {
        match self.shared.put(Kind::End, None, Vec::new()) {
            Ok(_) => self.shared.turn.lock().ended = Ended::Closed,
            Err(error) => log::debug!("the log in the bucket was left without its end: {error}"),
        }
    }
}

/// Where bytes go.
struct Place {
    segment: u64,
    size: u64,
    offset: u64,
}

impl Shared {
    /// Puts the next object, one at a time. Returns its number. After an error nothing is put any more.
    fn put(&self, kind: Kind, place: Option<Place>, bytes: Vec<u8>) -> Result<u64, RemoteError> {
        let mut turn = self.turn.lock();
        match &turn.ended {
            Ended::No => {}
            Ended::Fenced(by) => return Err(RemoteError::Fenced { by: by.clone() }),
            Ended::Failed(first) => {
                let said = format!("nothing more is written after an error: {first}");
                return Err(RemoteError::Failed { what: "put an object", said });
            }
            Ended::Closed => {
                let said = "the log was closed".to_owned();
                return Err(RemoteError::Failed { what: "put an object", said });
            }
        }
        let Place { segment, size, offset } = place.unwrap_or(Place { segment: 0, size: 0, offset: 0 });
        let (writer, who) = (self.writer, self.who.clone());
        let mut piece = Piece { kind, number: turn.next, writer, who, segment, size, offset, bytes };
        // Whatever is done from here on owes another proof.
        let owed = self.owes_proof.swap(false, Ordering::SeqCst);
        for _ in 0..CLAIMS_MAX {
            let at = turn.next;
            piece.number = at;
            match self.bucket.put_new(&name(at), piece.encode().into()) {
                Ok(Put::Done) => {
                    turn.next += 1;
                    return Ok(at);
                }
                Ok(Put::Taken(bytes)) => match Piece::decode(&bytes, at) {
                    // Its nodes were fenced by this writer before it claimed: it will see that, and acknowledges nothing (L2).
                    Ok(other) if other.is_claim() && other.segment < self.epoch => turn.next += 1,
                    other => {
                        let by = other.map_or_else(|reason| reason, |piece| piece.who);
                        self.owes_proof.fetch_or(owed, Ordering::SeqCst);
                        turn.ended = Ended::Fenced(by.clone());
                        return Err(RemoteError::Fenced { by });
                    }
                },
                Err(error) => {
                    self.owes_proof.fetch_or(owed, Ordering::SeqCst);
                    turn.ended = Ended::Failed(error.to_string());
                    return Err(error);
                }
            }
        }
        let said = "others claimed the log all the time".to_owned();
        turn.ended = Ended::Failed(said.clone());
        Err(RemoteError::Failed { what: "put an object", said })
    }

    /// Puts bytes of a segment.
    fn put_data(&self, segment: &Segment, place: Place, bytes: Vec<u8>) -> Result<(), RemoteError> {
        let at = self.put(Kind::Data, Some(place), bytes)?;
        segment.add_piece(at);
        self.forget_found();
        Ok(())
    }

    /// Shows that this is the writer still, if that is owed.
    fn prove(&self) -> Result<(), RemoteError> {
        if self.owes_proof.load(Ordering::SeqCst) {
            let at = self.put(Kind::Mark, None, Vec::new())?;
            let mut state = self.state.lock();
            match state.segments.values().next_back() {
                Some(segment) => segment.add_piece(at),
                None => state.loose.push(at),
            }
        }
        Ok(())
    }

    /// Lets go of the bytes that were read when the log was opened: they have been replayed.
    fn forget_found(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_found) {
            state.segments.values().for_each(|segment| segment.forget());
        }
    }

    /// Deletes the objects of a segment that is not needed any more.
    fn remove(&self, number: u64) -> Result<(), RemoteError> {
        self.prove()?;
        let garbage = {
            let mut state = self.state.lock();
            let Some(segment) = state.segments.remove(&number) else {
                return Err(RemoteError::NotFound(segment_name(number)));
            };
            state.garbage.extend(segment.pieces());
            std::mem::take(&mut state.garbage)
        };
        let names = garbage.iter().map(|number| name(*number)).collect();
        if let Err(error) = self.bucket.delete(names) {
            // They are in nobody's way.
            log::warn!("objects of the log that nobody needs could not be deleted yet: {error}");
            self.state.lock().garbage.extend(garbage);
        }
        Ok(())
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name} is not in the log"))
}

impl LogDirectory for BucketLog {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.shared.state.lock();
        let segments = state.segments.keys().map(|number| segment_name(*number));
        Ok(segments.chain(state.spares.keys().cloned()).collect())
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>> {
        let segment = Arc::new(Segment::new(size));
        let mut state = self.shared.state.lock();
        if state.spares.contains_key(name) || segment_number(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // There is nothing in it yet, so nothing is put.
        state.spares.insert(name.to_owned(), segment.clone());
        drop(state);
        Ok(Arc::new(SegmentFile::new(self.shared.clone(), segment)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let state = self.shared.state.lock();
        let found = match segment_number(name) {
            Some(number) => state.segments.get(&number),
            None => state.spares.get(name),
        };
        let segment = found.cloned().ok_or_else(|| not_found(name))?;
        drop(state);
        Ok(Arc::new(SegmentFile::new(self.shared.clone(), segment)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match (segment_number(from), segment_number(to)) {
            (None, Some(number)) => {
                let segment = self.shared.state.lock().spares.get(from).cloned();
                let segment = segment.ok_or_else(|| not_found(from))?;
                segment.name(number);
                segment.put_pending(&self.shared)?;
                let mut state = self.shared.state.lock();
                state.spares.remove(from);
                let loose = std::mem::take(&mut state.loose);
                loose.into_iter().for_each(|at| segment.add_piece(at));
                state.segments.insert(number, segment);
                Ok(())
            }
            (Some(number), None) => {
                let size = self.shared.state.lock().segments.get(&number).map(|segment| segment.planned());
                let size = size.ok_or_else(|| not_found(from))?;
                self.shared.remove(number)?;
                self.shared.state.lock().spares.insert(to.to_owned(), Arc::new(Segment::new(size)));
                Ok(())
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{from} cannot become {to}"))),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match segment_number(name) {
            Some(number) => Ok(self.shared.remove(number)?),
            None => {
                let removed = self.shared.state.lock().spares.remove(name);
                removed.map(drop).ok_or_else(|| not_found(name))
            }
        }
    }
}
