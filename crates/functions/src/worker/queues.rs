//! Lets instances out of queues, as their limits and times allow. Which and how many is decided in the database, under
//! a lock on each queue; this only says when to look.

use std::sync::{atomic::Ordering, Arc};
use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::{types::Type, Client};

use super::control::{drains, seconds};
use super::hot::ROW_BYTES;
use super::lanes::{ERROR_PAUSES, LAST_LOOKS, PAUSES};
use super::metrics::add;
use super::shared::Shared;
use super::turn::TurnError;

/// Looks that let nothing in may take this part of the time at most: with a snapshot held open somewhere, looks go over dead
/// rows. Others may take half of it.
const LOOKS_SHARE: u32 = 10;

/// What a look has found.
struct Look {
    /// There are queues.
    queues: bool,
    admitted: i32,
    /// Behind which queue the next look begins.
    next: i64,
    /// In which time there may be more, without anything happening.
    due_in: Option<Duration>,
}

/// Looks into the queues whenever something may have changed. Starters notify only when the workers sleep, so that as long
/// as they are awake, looks are repeated; as long as there are no queues, nothing is looked at.
pub(crate) async fn admit(shared: Arc<Shared>) {
    let mut draining = shared.draining.subscribe();
    let mut client: Option<Client> = None;
    let mut error_pause = ERROR_PAUSES.0;
    let mut idle = 0;
    let mut was_asleep = false;
    let mut behind = 0;
    while !shared.is_draining() {
        let began = duramen_base::clock::now();
        let found = match look(&shared, &mut client, behind).await {
            Ok(found) => found,
            Err(error) => {
                add(&shared.metrics.failed_admissions_total, 1);
                tracing::warn!(%error, "the queues cannot be looked into; the worker tries again");
                client = None;
                sleep(error_pause).await;
                error_pause = (error_pause * 2).min(ERROR_PAUSES.1);
                continue;
            }
        };
        error_pause = ERROR_PAUSES.0;
        behind = found.next;
        shared.has_queues.store(found.queues, Ordering::Relaxed);
        if found.admitted > 0 {
            add(&shared.metrics.admitted_total, usize::try_from(found.admitted).unwrap_or(0));
            // The row that waited; the other two, with the turn that takes it, and with its end.
            shared.churn.add(usize::try_from(found.admitted).unwrap_or(0) * 2 * ROW_BYTES);
            shared.wake();
            idle = 0;
        }
        let asleep = shared.asleep.load(Ordering::Relaxed);
        if asleep != was_asleep {
            (was_asleep, idle) = (asleep, 0);
        }
        let pauses = if asleep { &LAST_LOOKS[1..] } else { &PAUSES[..] };
        let pause = match pauses.get(idle) {
            _ if !found.queues => None,
            Some(pause) => Some(*pause),
            None if asleep => None,
            None => pauses.last().copied(),
        };
        idle += 1;
        let least = began.elapsed() * if found.admitted > 0 { 1 } else { LOOKS_SHARE };
        let pause = pause.into_iter().chain(found.due_in).min().map(|pause| pause.max(least).max(PAUSES[0]));
        tokio::select! {
            () = shared.queues.notified() => idle = 0,
            () = async { match pause { Some(pause) => sleep(pause).await, None => std::future::pending().await } } => {}
            () = drains(&mut draining) => {}
        }
    }
}

async fn look(shared: &Shared, client: &mut Option<Client>, behind: i64) -> Result<Look, TurnError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        // What is let in and lost with a crash of the server waits in its queue again: that is not worth a flush.
        let target = shared.guarded().settings([("synchronous_commit", "off")]);
        *client = Some(shared.sessions.at_home(&target).await?);
    }
    let Some(client) = client else { unreachable!("it was set above") };
    let sql = "SELECT queues, admitted, next, due_in_s FROM df._admit($1)";
    let row = client.query_typed_one(sql, &[(&behind, Type::INT8)]).await?;
    Ok(Look { queues: row.get(0), admitted: row.get(1), next: row.get(2), due_in: seconds(row.get(3)) })
}
