//! What the sessions of the server wait for while they work, by looking now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bench::{Bench, DATABASE};
use super::error::database;
use duramen_reports::suite::SuiteError;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(50);
/// So many kinds of waits are told.
const SHOWN: usize = 4;

/// How often sessions were seen waiting for what; on a processor, or waiting for one, is `CPU`.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    seen: BTreeMap<String, i64>,
}

impl Waits {
    /// Looks until it is dropped; what was seen is in `self`.
    pub(crate) async fn watch(&mut self, bench: &Bench<'_>) -> Result<(), SuiteError> {
        let observer = bench.observer().await?;
        let failed = || database("look at the server's sessions");
        let statement = observer
            .prepare(
                "SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU'), count(*) FROM pg_stat_activity
                 WHERE datname = $1 AND state = 'active' GROUP BY 1",
            )
            .await
            .map_err(failed())?;
        loop {
            for row in observer.query(&statement, &[&DATABASE]).await.map_err(failed())? {
                *self.seen.entry(row.get(0)).or_default() += row.get::<_, i64>(1);
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The most frequent, in words: `CPU 60 %, LWLock:WALWrite 30 %`.
    pub(crate) fn in_words(&self) -> Option<String> {
        let total: i64 = self.seen.values().sum();
        let mut seen: Vec<(&String, &i64)> = self.seen.iter().collect();
        seen.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let share =
            |(name, count): &(&String, &i64)| format!("{name} {} %", (**count * 100 + total / 2) / total);
        (total > 0).then(|| seen.iter().take(SHOWN).map(share).collect::<Vec<_>>().join(", "))
    }
}
