//! Waiting for a commit to be durable, and leading the group that makes it so.

use super::core::Core;
use super::error::LogError;
use crate::sync::clock;

impl Core {
    /// Waits until the record that ends at `last` is durable, and leads a group if nobody does.
    pub(crate) fn wait_durable(&self, last: u64) -> Result<(), LogError> {
        if self.is_durable(last) {
            return Ok(());
        }
        let turns = self.turns();
        turns.arrive();
        loop {
            let ticket = turns.ticket(self.claim(), last);
            if self.is_durable(last) {
                return Ok(());
            }
            self.check()?;
            if turns.try_lead(&ticket) {
                self.lead()?;
            } else {
                turns.sleep(&ticket);
            }
            if self.is_durable(last) {
                return Ok(());
            }
        }
    }

    fn lead(&self) -> Result<(), LogError> {
        let turns = self.turns();
        turns.gather();
        let mut writer = self.lock_writer();
        let flushed = self.flush(&mut writer, true);
        let (number, file) = Self::current(&writer);
        drop(writer);
        let turn = self.claim().turn();
        turns.begin(turn);
        let before = clock::now();
        let done = flushed.and_then(|upto| self.sync_file(&file, number, upto));
        turns.end(turn, before.elapsed());
        if done.is_err() {
            turns.wake_all();
        }
        done
    }
}
