//! Group commit: one thread leads and syncs for all who wait, and the others sleep.
//!
//! Two words are waited on. Turns have numbers, and who waits for turn `n` waits on word `n % 2`: so the end of a turn
//! wakes those whom it served with one call, and of those whom the next one will serve only one, as its leader.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use duramen_measure::clock;
use rustix::thread::futex;

use super::core::Core;
use super::error::LogError;

/// The longest time that a leader waits for others to join, whatever a sync takes.
const GATHER_MAX: Duration = Duration::from_micros(200);

/// Each stands in cache lines of its own, because others spin on one while one is written.
#[derive(Default)]
#[repr(align(128))]
struct Word {
    tick: AtomicU32,
    sleepers: AtomicU32,
}

impl Word {
    /// Sleeps until the tick is another one. May return earlier.
    fn sleep(&self, tick: u32) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // An error means that the tick has changed, or that a signal came: the caller looks again in any case.
        futex::wait(&self.tick, futex::Flags::PRIVATE, tick, None).ok();
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self, count: u32) {
        self.tick.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.tick, futex::Flags::PRIVATE, count).ok();
        }
    }
}

/// Every sleeper: the kernel takes the count as a signed number.
const ALL: u32 = i32::MAX as u32;

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
    pub(crate) fn wake_all(&self) {
        for word in &self.words {
            word.wake(ALL);
        }
    }

    /// Waits a little for those who were in the last groups: they are likely to come right away, and what they bring
    /// would otherwise wait for a whole sync.
    fn gather(&self) {
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
            std::thread::yield_now();
        }
    }

    /// Remembers how many came for this turn.
    fn begin(&self, turn: u64) {
        let arrivals = self.arrivals.load(Ordering::Relaxed);
        let seen = self.seen.swap(arrivals, Ordering::Relaxed);
        self.groups[turn as usize % 2].store(arrivals.wrapping_sub(seen), Ordering::Relaxed);
    }

    /// Ends a turn: wakes whom it served, and one of those who wait for the next.
    fn end(&self, turn: u64) {
        self.words[turn as usize % 2].wake(ALL);
        self.leading.store(false, Ordering::SeqCst);
        self.words[(turn + 1) as usize % 2].wake(1);
    }
}

impl Core {
    /// Waits until the record that ends at `last` is durable, and leads a group if nobody does.
    pub(crate) fn wait_durable(&self, last: u64) -> Result<(), LogError> {
        let is_durable = || self.durable.load(Ordering::Acquire) >= last;
        if is_durable() {
            return Ok(());
        }
        let turns = &self.turns;
        turns.arrivals.fetch_add(1, Ordering::Relaxed);
        loop {
            let (covered, turn) = self.turn_of(last);
            let word = &turns.words[turn as usize % 2];
            // Read before the last look: whatever ends after it changes the tick, so no wake-up is missed.
            let tick = word.tick.load(Ordering::SeqCst);
            if is_durable() {
                return Ok(());
            }
            self.check()?;
            if !covered && !turns.leading.swap(true, Ordering::SeqCst) {
                self.lead()?;
            } else {
                word.sleep(tick);
            }
            if is_durable() {
                return Ok(());
            }
        }
    }

    fn lead(&self) -> Result<(), LogError> {
        let turns = &self.turns;
        turns.gather();
        let mut writer = self.writer.lock();
        let claim = self.flush(&mut writer, true);
        let (number, file) = Self::current(&writer);
        drop(writer);
        let (_, turn) = self.turn_of(0);
        turns.begin(turn);
        let before = clock::now();
        let done = claim.and_then(|upto| self.sync_file(&file, number, upto));
        turns.sync_nanos.store(before.elapsed().as_nanos() as u64, Ordering::Relaxed);
        turns.end(turn);
        if done.is_err() {
            turns.wake_all();
        }
        done
    }
}
