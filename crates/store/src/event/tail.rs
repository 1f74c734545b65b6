//! The end of a log: where it is, and what is put there.

use std::ops::ControlFlow;

use duramen_tree::KeyRange;

use super::entry::{chain, decode_seq, Event, Hash, Keys, Stored, NO_HASH};
use crate::access::{Edit, View};
use crate::error::StoreError;

/// The last event of a log, as far as the next one needs it.
#[derive(Clone, Copy)]
struct Last {
    hash: Hash,
    at_ms: i64,
}

/// What comes before the first event.
const NOTHING: Last = Last { hash: NO_HASH, at_ms: i64::MIN };

impl Last {
    fn of(seq: u64, bytes: &[u8]) -> Result<Self, StoreError> {
        let stored = Stored::decode(seq, bytes)?;
        Ok(Self { hash: *stored.hash, at_ms: stored.at_ms })
    }
}

/// Where the next event goes, and what it follows.
pub(super) struct Tail {
    keys: Keys,
    /// Events that the reader did not write itself.
    committed: u64,
    next: u64,
    last: Last,
}

impl Tail {
    /// The end of a log as a reader sees it, with what it wrote itself.
    ///
    /// A scan of a transaction sorts all that it wrote, which would make each append dearer than the one before. So
    /// the committed end is looked up, and what was appended behind it is searched: a log has no gaps, and no commit
    /// both appends to a log and shortens it.
    pub(super) fn find<V: View + ?Sized>(view: &V, keys: Keys) -> Result<Self, StoreError> {
        let (committed, mut last) = committed(view, &keys)?;
        let mut next = committed;
        let there = |seq: u64| -> Result<Option<Last>, StoreError> {
            let mut last = None;
            view.get(&keys.entry(seq), &mut |_, bytes| last = Some(Last::of(seq, bytes)))?;
            last.transpose()
        };
        // Steps double as long as there is an event, and are halved after that.
        let (mut step, mut grows) = (1_u64, true);
        while step > 0 {
            match there(next + step - 1)? {
                Some(found) => {
                    next += step;
                    last = found;
                }
                None => grows = false,
            }
            step = if grows { step * 2 } else { step / 2 };
        }
        Ok(Self { keys, committed, next, last })
    }

    /// The number of the next event.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Appends an event whose type and payload were checked, which happened now or, if the clock was set back, when the
    /// last one did. Returns its number.
    pub(super) fn push(
        &mut self,
        edit: &mut dyn Edit,
        event_type: &str,
        payload: &str,
        at_ms: i64,
    ) -> Result<u64, StoreError> {
        let (seq, payload) = (self.next, payload.as_bytes());
        let at_ms = at_ms.max(self.last.at_ms);
        // The branch may be reset before a transaction commits: without its predecessor an event would stand alone.
        if let Some(last) = self.committed.checked_sub(1) {
            edit.depend(&self.keys.entry(last));
        }
        let hash = chain(&self.last.hash, seq, at_ms, event_type, payload);
        let stored = Stored { at_ms, hash: &hash, event_type, payload };
        edit.put(&self.keys.entry(seq), &mut |out| stored.encode(out))?;
        edit.put(&self.keys.index_entry(event_type, seq), &mut |_| {})?;
        self.next += 1;
        self.last = Last { hash, at_ms };
        Ok(seq)
    }
}

/// The number of the next event and the one before it, but for those that the reader itself wrote.
fn committed<V: View + ?Sized>(view: &V, keys: &Keys) -> Result<(u64, Last), StoreError> {
    let (start, end) = keys.entries(0, None);
    let range = KeyRange::new(&start, Some(&end)).reversed();
    let mut last = Ok((0, NOTHING));
    view.leaves(&range, &mut |leaf| match leaf.len() {
        0 => ControlFlow::Continue(()),
        entries => {
            let entry = leaf.entry(entries - 1);
            last = decode_seq(entry.key).and_then(|seq| Ok((seq + 1, Last::of(seq, entry.value)?)));
            ControlFlow::Break(())
        }
    })?;
    last
}

/// The number of the event after the last that the reader did not write itself.
pub(super) fn committed_length<V: View + ?Sized>(view: &V, keys: &Keys) -> Result<u64, StoreError> {
    Ok(committed(view, keys)?.0)
}

/// The number of the next event of a log.
pub(crate) fn length<V: View + ?Sized>(view: &V, space: &str) -> Result<u64, StoreError> {
    Ok(Tail::find(view, Keys::new(space))?.next)
}

/// Appends an event of another log, with a number and a hash of its own here. Returns the number.
pub(crate) fn append_resequenced(edit: &mut dyn Edit, space: &str, event: &Event) -> Result<u64, StoreError> {
    let mut tail = Tail::find(edit, Keys::new(space))?;
    tail.push(edit, &event.event_type, event.payload.as_str(), event.at_ms)
}
