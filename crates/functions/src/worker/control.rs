//! Keeps a worker alive in the eyes of the others, hears notifications, and watches the clock for timers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::{types::Type, Client, Notification};

use duramen_measure::clock;

use super::metrics::add;
use super::shared::Shared;
use super::turn::TurnError;
use crate::http::HttpPolicy;

/// How often a worker says that it lives and looks whether something was missed.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(6);
/// A worker that has not been heard of for so long is dead.
const DEAD_AFTER: &str = "20 seconds";
/// How often a worker does the housekeeping, in heartbeats.
const MAINTENANCE_EVERY: u64 = 12;
/// Pause after a lost connection.
const RECONNECT: Duration = Duration::from_millis(250);

/// Registers the worker and opens the connection that hears.
pub(crate) async fn join(shared: &Shared) -> Result<(Client, UnboundedReceiver<Notification>), TurnError> {
    let (client, notifications) = shared.target.connect_listening().await?;
    let epoch = shared.epoch.lock().clone();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    client
        .execute_typed(
            "INSERT INTO df._worker_epoch (epoch_id, host) VALUES ($1::text::uuid, $2)
             ON CONFLICT (epoch_id) DO UPDATE SET last_seen_at = clock_timestamp()",
            &[(&epoch, Type::TEXT), (&host, Type::TEXT)],
        )
        .await?;
    client.batch_execute("LISTEN df_wake; LISTEN df_stop").await?;
    read_settings(shared, &client).await?;
    client.query_typed("SELECT df._maintain()", &[]).await?;
    Ok((client, notifications))
}

/// Serves until the worker has drained; connects again when the connection is lost.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    mut connection: (Client, UnboundedReceiver<Notification>),
) {
    let mut beat = Instant::from_std(clock::now() + HEARTBEAT);
    let mut beats = 0;
    let mut drained = shared.draining.subscribe();
    // What was there before we listened.
    wake_all(&shared);
    loop {
        let due = shared.next_due.lock().map(|at| {
            let wait = Duration::try_from(at.duration_since(clock::utc_now())).unwrap_or(Duration::ZERO);
            Instant::from_std(clock::now() + wait)
        });
        let lost = tokio::select! {
            notification = connection.1.recv() => match notification {
                Some(notification) => { hear(&shared, &notification); false }
                None => true,
            },
            () = async { match due { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } } => {
                *shared.next_due.lock() = None;
                shared.turns.notify_one();
                false
            }
            () = shared.timers.notified() => false,
            () = tokio::time::sleep_until(beat) => {
                beat = Instant::from_std(clock::now() + HEARTBEAT);
                beats += 1;
                let beat = heartbeat(&shared, &connection.0, beats % MAINTENANCE_EVERY == 0).await;
                !matches!(beat, Ok(Pulse::Alive))
            }
            () = drains(&mut drained) => return,
        };
        if lost {
            tracing::warn!("the connection to the database is lost; the worker tries again until it is back");
            connection = loop {
                sleep(RECONNECT).await;
                if shared.is_draining() {
                    return;
                }
                shared.sessions.clear();
                match join(&shared).await {
                    Ok(connection) => break connection,
                    Err(error) => tracing::debug!(%error, "not yet"),
                }
            };
            tracing::info!("the database is back");
            wake_all(&shared);
        }
    }
}

/// Returns when the worker drains.
pub(crate) async fn drains(draining: &mut tokio::sync::watch::Receiver<bool>) {
    // The sender lives as long as the worker.
    let _ = draining.wait_for(|draining| *draining).await;
}

fn wake_all(shared: &Shared) {
    shared.turns.notify_one();
    shared.activities.notify_one();
}

fn hear(shared: &Shared, notification: &Notification) {
    match notification.channel() {
        "df_wake" => {
            add(&shared.metrics.wakes_total, 1);
            wake_all(shared);
        }
        "df_stop" => {
            if let Some((seq, cell)) = notification.payload().split_once(' ') {
                shared.stop_where(|(of, at)| of.to_string() == seq && at == cell);
            }
        }
        _ => {}
    }
}

/// What a heartbeat finds.
enum Pulse {
    Alive,
    /// Other workers believe this one dead: it must join again, under a new name.
    Buried,
}

async fn heartbeat(shared: &Shared, client: &Client, maintain: bool) -> Result<Pulse, TurnError> {
    add(&shared.metrics.heartbeats_total, 1);
    let epoch = shared.epoch.lock().clone();
    let row = client
        .query_typed_one(
            "SELECT alive, next_due, waiting, at FROM df._heartbeat($1::text::uuid, $2::text::interval, $3)",
            &[(&epoch, Type::TEXT), (&DEAD_AFTER, Type::TEXT), (&maintain, Type::BOOL)],
        )
        .await?;
    if !row.get::<_, bool>("alive") {
        // Others believed us dead and have taken our activities. What we still run of them will be refused.
        add(&shared.metrics.buried_total, 1);
        let epoch = super::new_epoch();
        tracing::warn!(%epoch, "this worker was believed dead; it goes on under a new name");
        *shared.epoch.lock() = epoch;
        shared.stop_where(|_| true);
        return Ok(Pulse::Buried);
    }
    if maintain {
        read_settings(shared, client).await?;
    }
    shared.due(row.get("next_due"));
    if row.get("waiting") {
        wake_all(shared);
    }
    Ok(Pulse::Alive)
}

/// What the database's owner allows: `ALTER DATABASE ... SET df.http = 'on'` and the like, as new sessions see it.
async fn read_settings(shared: &Shared, client: &Client) -> Result<(), TurnError> {
    let row = client
        .query_typed_one(
            "SELECT current_setting('df.http', true), current_setting('df.http_allowed_hosts', true),
                    current_setting('df.http_allow_private', true)",
            &[],
        )
        .await?;
    match HttpPolicy::from_settings(row.get(0), row.get(1), row.get(2)) {
        Ok(policy) => *shared.http.lock() = policy,
        Err(error) => {
            tracing::warn!(%error, "HTTP steps are disabled");
            *shared.http.lock() = HttpPolicy::default();
        }
    }
    Ok(())
}
