//! What became of what was started.

use std::collections::HashMap;
use std::time::Duration;

use duramen_base::clock;
use duramen_postgres::connection::Target;
use serde::{Deserialize, Serialize};

use super::load::{Started, STEPS};
use crate::error::DrillError;
use crate::writer::said;

/// All instances have ended within this when everything is there again.
const ENDED: Duration = Duration::from_secs(240);

/// What became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Starts that were acknowledged.
    pub acknowledged: u64,
    /// Of these, instances that are not there.
    pub lost: u64,
    /// Instances that have ended in another way than to complete.
    pub failed: u64,
    /// Effects of instances that have completed that are not there.
    pub undone: u64,
    /// Effects that are there more than once.
    pub twice: u64,
    /// Effects that belong to no start of any client.
    pub strange: u64,
}

/// Waits until no shard has anything that goes on, and counts.
pub(super) async fn account(shards: &[Target], started: &[Started]) -> Result<Account, DrillError> {
    let mut account = Account { acknowledged: started.len() as u64, ..Account::default() };
    for (shard, target) in shards.iter().enumerate() {
        let failed = |detail: String| DrillError::failed(format!("counting on shard {shard}"), detail);
        let begin = clock::now();
        let client = loop {
            // A leader that comes back is not there at once.
            match target.connect().await {
                Ok(client) => break client,
                Err(error) if begin.elapsed() > ENDED => return Err(failed(error.to_string())),
                Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        };
        let going = "SELECT (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._work)";
        loop {
            let left: i64 = client.query_one(going, &[]).await.map_err(|error| failed(said(&error)))?.get(0);
            if left == 0 {
                break;
            }
            if begin.elapsed() > ENDED {
                return Err(DrillError::Timeout {
                    what: format!("instances to end on shard {shard}"),
                    seconds: ENDED.as_secs(),
                    said: format!("{left} go on"),
                });
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        let keys = client
            .query(
                "SELECT k.key, d.status::text, df._id(k.seq) FROM df._key k LEFT JOIN df._done d USING (seq)",
                &[],
            )
            .await
            .map_err(|error| failed(said(&error)))?;
        let mut ends: HashMap<String, (Option<String>, String)> =
            keys.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect();
        let rows = client
            .query("SELECT client, number, step, count(*) FROM public.effects GROUP BY 1, 2, 3", &[])
            .await
            .map_err(|error| failed(said(&error)))?;
        let mut effects: HashMap<String, i32> = HashMap::new();
        for row in &rows {
            let (client, number): (i32, i64) = (row.get(0), row.get(1));
            let key = Started::key(usize::try_from(client).unwrap_or(usize::MAX), number);
            account.twice += u64::from(row.get::<_, i64>(3) > 1);
            account.strange += u64::from(!ends.contains_key(&key));
            *effects.entry(key).or_insert(0) += 1;
        }
        for (key, (status, _)) in &ends {
            match status.as_deref() {
                Some("c") => {
                    let missing = STEPS - effects.get(key).copied().unwrap_or(0);
                    account.undone += u64::try_from(missing.max(0)).unwrap_or(0);
                }
                _ => account.failed += 1,
            }
        }
        for start in started.iter().filter(|start| start.shard == shard) {
            let there = ends.remove(&Started::key(start.client, start.number));
            account.lost += u64::from(there.is_none_or(|(_, id)| id != start.id));
        }
    }
    Ok(account)
}
