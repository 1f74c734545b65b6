//! The ledger: a table without any constraint, into which every step of an instance writes one row. What is not there
//! was lost; what is there twice was done twice.

/// What the ledger, the list of instances and the clients' notes say when all is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Instances whose start a client was told of.
    pub acknowledged: u64,
    /// Instances that are in the database, also those whose client was cut off before it was told.
    pub started: u64,
    /// Of those, how many have completed.
    pub completed: u64,
    /// Instances that a client was told of and that are not there.
    pub vanished: u64,
    /// Steps of the instances that are there and did not write their row.
    pub lost_effects: u64,
    /// Rows that a step wrote in excess of one.
    pub doubled_effects: u64,
    /// Rows of instances that are not there.
    pub strays: u64,
    /// How often the worker was killed.
    pub worker_kills: u32,
    /// How often the server was killed.
    pub postgres_kills: u32,
}

impl Ledger {
    /// Everything that was lost: instances that vanished, that did not complete, and effects.
    #[must_use]
    pub(crate) fn lost(&self) -> u64 {
        self.vanished + self.started.saturating_sub(self.completed) + self.lost_effects
    }

    /// Everything that was done too often: effects in excess of one, and effects of what was never started.
    #[must_use]
    pub(crate) fn doubled(&self) -> u64 {
        self.doubled_effects + self.strays
    }

    /// The kills, in words.
    #[must_use]
    pub(crate) fn kills(&self) -> String {
        format!("{} kills of the worker and {} of the server", self.worker_kills, self.postgres_kills)
    }
}
