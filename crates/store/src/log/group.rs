//! Group commit: one thread leads and syncs for all who wait, and the others sleep.
//!
//! Two words are waited on. Turns have numbers, and who waits for turn `n` waits on word `n % 2`: so the end of a turn
//! wakes those whom it served with one call, and of those whom the next one will serve only one, as its leader.

use std::time::Duration;

use crate::sync::{clock, yield_now, AtomicBool, AtomicU32, AtomicU64, Futex, Ordering};

/// The longest time that a leader waits for others to join, whatever a sync takes.
const GATHER_MAX: Duration = Duration::from_micros(200);

/// What the sync that began last covers, and its number. Kept under the lock of what is appended.
#[derive(Clone, Copy)]
pub(crate) struct Claim {
    upto: u64,
    turn: u64,
}

impl Claim {
    /// Nothing was appended after version `last`.
    pub(crate) fn new(last: u64) -> Self {
        Self { upto: last, turn: 0 }
    }

    /// Begins a turn that covers all that was appended: up to version `last`.
    pub(crate) fn begin(&mut self, last: u64) {
        self.upto = last;
        self.turn += 1;
    }

    /// The number of the turn that began last.
    pub(crate) fn turn(self) -> u64 {
        self.turn
    }

    fn covers(self, last: u64) -> bool {
        last <= self.upto
    }
}

/// Each stands in cache lines of its own, because others spin on one while one is written.
#[derive(Default)]
#[repr(align(128))]
struct Word {
    tick: Futex,
    sleepers: AtomicU32,
}

impl Word {
    /// Sleeps until the tick is another one. May return earlier.
    fn sleep(&self, tick: u32) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.tick.wait(tick);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self, count: u32) {
        self.tick.increment();
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.tick.wake(count);
        }
    }
}

/// A place in a turn: where to sleep until it is over, and since when.
pub(crate) struct Ticket {
    turn: u64,
    tick: u32,
    covered: bool,
}

/// Whose turn it is.
#[derive(Default)]
pub(crate) struct Turns {
    leading: AtomicBool,
    words: [Word; 2],
    /// How many have come to wait for a sync.
    arrivals: AtomicU64,
    /// The arrivals at the start of the turn before; only leaders touch this and the next two.
    seen: AtomicU64,
    groups: [AtomicU64; 2],
    sync_nanos: AtomicU64,
}

impl Turns {
    fn word(&self, turn: u64) -> &Word {
        &self.words[turn as usize % 2]
    }

    /// Counts somebody who comes to wait for a sync.
    pub(crate) fn arrive(&self) {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
    }

    /// A place in the turn that makes version `last` durable. Whatever ends after this changes the tick: who looks
    /// whether to wait after taking a ticket, and before sleeping on it, misses no wake-up.
    pub(crate) fn ticket(&self, claim: Claim, last: u64) -> Ticket {
        let covered = claim.covers(last);
        let turn = if covered { claim.turn } else { claim.turn + 1 };
        Ticket { turn, tick: self.word(turn).tick.load(), covered }
    }

    /// Whether the holder of the ticket is to lead its turn: nobody does, and the sync that began last does not cover
    /// its record.
    pub(crate) fn try_lead(&self, ticket: &Ticket) -> bool {
        !ticket.covered && !self.leading.swap(true, Ordering::SeqCst)
    }

    /// Sleeps until the turn is over, or a leader is needed. May return earlier.
    pub(crate) fn sleep(&self, ticket: &Ticket) {
        self.word(ticket.turn).sleep(ticket.tick);
    }

    pub(crate) fn wake_all(&self) {
        for word in &self.words {
            word.wake(Futex::ALL);
        }
    }

    /// Waits a little for those who were in the last groups: they are likely to come right away, and what they bring
    /// would otherwise wait for a whole sync.
    pub(crate) fn gather(&self) {
        let before = self.groups.iter().map(|group| group.load(Ordering::Relaxed)).max().unwrap_or(0);
        let seen = self.seen.load(Ordering::Relaxed);
        let here = || self.arrivals.load(Ordering::Relaxed).wrapping_sub(seen);
        if before <= 1 || here() >= before {
            return;
        }
        let limit = Duration::from_nanos(self.sync_nanos.load(Ordering::Relaxed)).min(GATHER_MAX);
        let begin = clock::now();
        while here() < before && begin.elapsed() < limit {
            // Gives the processor to those who are waited for.
            yield_now();
        }
    }

    /// Remembers how many came for this turn.
    pub(crate) fn begin(&self, turn: u64) {
        let arrivals = self.arrivals.load(Ordering::Relaxed);
        let seen = self.seen.swap(arrivals, Ordering::Relaxed);
        self.groups[turn as usize % 2].store(arrivals.wrapping_sub(seen), Ordering::Relaxed);
    }

    /// Ends a turn whose sync took this long: wakes whom it served, and one of those who wait for the next.
    pub(crate) fn end(&self, turn: u64, sync_time: Duration) {
        self.sync_nanos.store(sync_time.as_nanos() as u64, Ordering::Relaxed);
        self.word(turn).wake(Futex::ALL);
        self.leading.store(false, Ordering::SeqCst);
        self.word(turn + 1).wake(1);
    }
}
