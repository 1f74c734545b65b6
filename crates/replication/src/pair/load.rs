//! The role of a workload on a pair, noted like everything else that has to be put back.

use duramen_reports::suite::SuiteError;

use super::Pair;

impl Pair {
    /// Notes that a role of a workload is about to be made, and says the number of the run that is to be in its name.
    ///
    /// # Errors
    /// When it cannot be recorded durably; or the pair lets in nobody but the suite.
    pub(in super::super) async fn note_load(&self) -> Result<u32, SuiteError> {
        if self.lent().is_some() {
            let text = "a pair of a source lets in nobody but the suite, and a workload has a role of its own: leave out \
                        --source, or --workload";
            return Err(SuiteError::Options(text.to_owned()));
        }
        let mut ledger = self.ledger.lock().await;
        let run = ledger.record().oid;
        ledger.note(|record| record.load = Some(run))?;
        Ok(run)
    }

    /// Notes that it is gone.
    ///
    /// # Errors
    /// When it cannot be recorded durably.
    pub(in super::super) async fn forget_load(&self) -> Result<(), SuiteError> {
        self.ledger.lock().await.note(|record| record.load = None)
    }
}
