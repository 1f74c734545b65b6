//! Keeps hot tables small: those whose rows live only for as long as an instance goes on. Vacuum does that, unless somebody
//! holds a snapshot; then they are emptied.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duramen_base::clock;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::{
    types::{ToSql, Type},
    Client,
};

use super::control::drains;
use super::metrics::add;
use super::shared::Shared;
use super::turn::TurnError;

/// It is looked at the tables when so many bytes of rows have died since the last look: an eighth of how large they may become.
const LOOK_AFTER: usize = 64 << 10;
/// A table that has grown by so many bytes since it was vacuumed, although it is large, is vacuumed again.
const GROWN: i64 = 64 << 10;
/// So is one that is large and has not grown, after this time: what is dead must be used again. And after this time it is looked
/// at the tables if anything has died.
const EVERY: Duration = Duration::from_secs(5);
/// How long it is waited after what could not be done, which holds others up each time.
const PUT_OFF: Duration = Duration::from_millis(2500);
/// How long the turns are waited for that are being taken.
const CLOSE_PATIENCE: Duration = Duration::from_millis(50);
/// How long turns wait for an answer, which may never come: longer than the limit of the statement.
const PATIENCE: Duration = Duration::from_secs(3);
/// What the session has that empties them: everybody waits behind its locks, for the whole of which this is the limit.
const SETTINGS: [(&str, &str); 2] = [("lock_timeout", "50"), ("statement_timeout", "2000")];
/// What a row takes beside its columns that vary, with its entries in indexes.
pub(crate) const ROW_BYTES: usize = 128;

/// How many bytes of rows of hot tables have died by what this worker did, about.
#[derive(Default)]
pub(crate) struct Churn {
    bytes: AtomicUsize,
    enough: Notify,
}

impl Churn {
    pub(crate) fn add(&self, bytes: usize) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < LOOK_AFTER && before.saturating_add(bytes) >= LOOK_AFTER {
            self.enough.notify_one();
        }
    }

    /// Returns when it is time for a look: if something was put off, also when nothing has died since.
    async fn asks_for_a_look(&self, is_put_off: bool) {
        if is_put_off {
            let _ = timeout(PUT_OFF, self.enough.notified()).await;
            self.bytes.store(0, Ordering::Relaxed);
            return;
        }
        loop {
            // What is less is looked at as well, but not that soon.
            let _ = timeout(EVERY, self.enough.notified()).await;
            if self.bytes.swap(0, Ordering::Relaxed) > 0 {
                return;
            }
        }
    }
}

/// A table that is larger than it may become, as it was when something was last done about it.
struct Treated {
    bytes: i64,
    at: Instant,
    /// Vacuum has helped. If not, it should have been emptied, which was not possible.
    is_well: bool,
}

impl Treated {
    /// Whether something has to be done again about a table that has so many bytes now.
    fn is_due(&self, bytes: i64) -> bool {
        let since = self.at.elapsed();
        if self.is_well {
            bytes >= self.bytes + GROWN || since >= EVERY
        } else {
            since >= PUT_OFF
        }
    }
}

/// Looks at the tables as turns go on, until the worker drains. What cannot be done now is done the next time.
pub(crate) async fn keep_small(shared: Arc<Shared>) {
    let mut draining = shared.draining.subscribe();
    let mut client: Option<Client> = None;
    let mut treated = HashMap::new();
    let mut is_put_off = false;
    while !shared.is_draining() {
        tokio::select! {
            () = shared.churn.asks_for_a_look(is_put_off) => {}
            () = drains(&mut draining) => return,
        }
        let looked = tokio::select! {
            looked = look(&shared, &mut client, &mut treated) => looked,
            () = drains(&mut draining) => return,
        };
        let failed = looked.is_err();
        is_put_off = looked.unwrap_or_else(|error| {
            tracing::debug!(%error, "hot tables are not looked at now");
            client = None;
            true
        });
        if failed {
            tokio::select! {
                () = sleep(PUT_OFF) => {}
                () = drains(&mut draining) => return,
            }
        }
    }
}

/// Vacuums the tables that are too large, and empties those for which that does not help. Returns whether something of that is
/// to be done later: the rows that died may have been the last ones.
async fn look(
    shared: &Shared,
    client: &mut Option<Client>,
    treated: &mut HashMap<String, Treated>,
) -> Result<bool, LookError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = Some(shared.sessions.at_home(&shared.guarded().settings(SETTINGS)).await?);
    }
    let Some(client) = client else { unreachable!("it was set above") };
    let swollen = client.query_typed("SELECT hot::text, bytes FROM df._swollen()", &[]);
    let rows = timeout(PATIENCE, swollen).await??;
    let mut tables: Vec<(String, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    treated.retain(|table, _| tables.iter().any(|(swollen, _)| swollen == table));
    let swollen = tables.len();
    tables.retain(|(table, bytes)| treated.get(table).is_none_or(|treated| treated.is_due(*bytes)));
    let is_put_off = tables.len() < swollen;
    for (table, bytes) in &tables {
        let vacuum = format!("VACUUM (SKIP_LOCKED, TRUNCATE off) {table}");
        if let Err(error) = timeout(PATIENCE, client.batch_execute(&vacuum)).await? {
            // One that is so large that it takes longer than a statement may is left to autovacuum.
            tracing::debug!(%error, table, "a hot table is not vacuumed now");
        }
        treated.insert(table.clone(), Treated { bytes: *bytes, at: clock::now(), is_well: true });
    }
    if tables.is_empty() {
        return Ok(is_put_off);
    }
    let names: Vec<&str> = tables.iter().map(|(table, _)| table.as_str()).collect();
    let of: [(&(dyn ToSql + Sync), Type); 1] = [(&names, Type::TEXT_ARRAY)];
    let full = client
        .query_typed("SELECT h::text FROM unnest($1::text[]) h WHERE df._is_full_of_dead(h::regclass)", &of);
    let full: Vec<String> = timeout(PATIENCE, full).await??.iter().map(|row| row.get(0)).collect();
    if full.is_empty() {
        return Ok(is_put_off);
    }
    for table in &full {
        if let Some(treated) = treated.get_mut(table) {
            treated.is_well = false;
        }
    }
    // Turns of other workers meet the locks, and are taken again. A turn of this one that takes long is not waited for, because
    // others wait behind it.
    let Ok(closed) = timeout(CLOSE_PATIENCE, shared.turns_are_open.write()).await else { return Ok(true) };
    let of: [(&(dyn ToSql + Sync), Type); 1] = [(&full, Type::TEXT_ARRAY)];
    let rotate = client.query_typed("SELECT e::text FROM unnest(df._rotate($1::text[]::regclass[])) e", &of);
    let emptied = timeout(PATIENCE, rotate).await??;
    drop(closed);
    add(&shared.metrics.rotated_total, emptied.len());
    for row in &emptied {
        treated.remove(row.get::<_, &str>(0));
    }
    Ok(is_put_off || emptied.len() < full.len())
}

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Session(#[from] TurnError),
    #[error("{}", duramen_postgres::connection::with_sources(.0))]
    Server(#[from] tokio_postgres::Error),
    #[error("no answer within {PATIENCE:?}")]
    Silence(#[from] tokio::time::error::Elapsed),
}
