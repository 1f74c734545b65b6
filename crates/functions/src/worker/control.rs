//! Keeps a worker alive in the eyes of the others, hears notifications, and watches the clock for timers.

use std::sync::{atomic::Ordering, Arc};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
    Client, Notification,
};

use duramen_base::clock;

use super::metrics::add;
use super::shared::Shared;
use super::turn::TurnError;
use crate::http::HttpPolicy;

/// How often a worker says that it lives and looks whether something was missed.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(7);
/// A worker that has not been heard of for so long is dead.
const DEAD_AFTER: &str = "20 seconds";
/// How often a worker does the housekeeping, and reads the settings again.
const MAINTENANCE_EVERY: Duration = Duration::from_secs(60);
/// How long the housekeeping waits for a lock: while it waits for a strong one, everybody waits behind it.
const MAINTENANCE_LOCK_TIMEOUT: &str = "200";
/// Pause after a lost connection.
const RECONNECT: Duration = Duration::from_millis(250);

/// Registers the worker and opens the connection that hears.
pub(crate) async fn join(shared: &Shared) -> Result<(Client, UnboundedReceiver<Notification>), TurnError> {
    let target = shared.guarded();
    let (client, notifications) = target.connect_listening().await?;
    shared.sessions.is_home(&client, &target).await?;
    let epoch = shared.epoch.lock().clone();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    // A name is registered once. Under one that was buried nobody may come back: what was taken under it is others'.
    client
        .execute_typed(
            "INSERT INTO df._worker_epoch (epoch_id, host) VALUES ($1::text::uuid, $2)",
            &[(&epoch, Type::TEXT), (&host, Type::TEXT)],
        )
        .await?;
    listen(shared, &client).await?;
    Ok((client, notifications))
}

/// Opens the connection that hears anew: under the name that the worker has if it is still believed to live, or else under
/// another one.
async fn rejoin(shared: &Arc<Shared>) -> Result<(Client, UnboundedReceiver<Notification>), TurnError> {
    let target = shared.guarded();
    let (client, notifications) = target.connect_listening().await?;
    shared.sessions.is_home(&client, &target).await?;
    let epoch = shared.epoch.lock().clone();
    let alive: bool =
        client.query_typed_one("SELECT df._is_alive($1::text::uuid)", &[(&epoch, Type::TEXT)]).await?.get(0);
    if alive {
        listen(shared, &client).await?;
        return Ok((client, notifications));
    }
    buried(shared);
    shared.sessions.restart(shared.guarded());
    join(shared).await
}

/// Others believed us dead and have given our activities away. What we still run of them will be refused.
fn buried(shared: &Arc<Shared>) {
    add(&shared.metrics.buried_total, 1);
    let epoch = super::new_epoch();
    tracing::warn!(%epoch, "this worker was believed dead; it goes on under a new name");
    *shared.epoch.lock() = epoch;
    shared.stop_all();
}

async fn listen(shared: &Shared, client: &Client) -> Result<(), TurnError> {
    client.batch_execute("LISTEN df_wake; LISTEN df_stop").await?;
    read_settings(shared, client).await
}

/// Does the housekeeping now and then, on a connection of its own.
pub(crate) async fn maintain(shared: Arc<Shared>) {
    let mut draining = shared.draining.subscribe();
    loop {
        let housekeeping = async {
            let target = shared.guarded().settings([("lock_timeout", MAINTENANCE_LOCK_TIMEOUT)]);
            let client = shared.sessions.at_home(&target).await?;
            client.query_typed("SELECT df._maintain()", &[]).await?;
            read_settings(&shared, &client).await
        };
        tokio::select! {
            result = housekeeping => match result {
                Ok(()) => {}
                Err(TurnError::Server(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    tracing::info!("somebody holds a lock that the housekeeping needs: it is put off");
                }
                Err(error) => {
                    add(&shared.metrics.failed_maintenance_total, 1);
                    tracing::warn!(%error, "the housekeeping has failed, and is put off");
                }
            },
            () = drains(&mut draining) => return,
        }
        tokio::select! {
            () = sleep(MAINTENANCE_EVERY) => {}
            () = drains(&mut draining) => return,
        }
    }
}

/// Serves for as long as the worker runs anything, also while it drains, because others take one that is not heard of for dead.
/// Connects again when the connection is lost.
pub(crate) async fn serve(shared: Arc<Shared>, mut connection: (Client, UnboundedReceiver<Notification>)) {
    let mut beat = clock::now() + HEARTBEAT;
    shared.health.hears();
    // What was there before we listened.
    wake_all(&shared);
    loop {
        shared.health.moves();
        let due = *shared.next_due.lock();
        // Why the worker must connect anew, if it must.
        let lost = tokio::select! {
            notification = connection.1.recv() => match notification {
                Some(notification) => hear(&shared, &connection.0, &notification).await.err().map(|e| e.to_string()),
                None => Some("it was closed".to_owned()),
            },
            () = at(due) => {
                *shared.next_due.lock() = None;
                shared.wake();
                None
            }
            () = shared.timers.notified() => None,
            () = at(Some(beat)) => {
                beat = clock::now() + HEARTBEAT;
                match heartbeat(&shared, &connection.0).await {
                    Ok(Pulse::Alive) => {
                        shared.health.hears();
                        None
                    }
                    Ok(Pulse::Silent) => Some(format!("no answer within {:?}", HEARTBEAT * 2)),
                    Ok(Pulse::Buried) => Some("others believed this worker dead".to_owned()),
                    Err(error) => Some(error.to_string()),
                }
            }
        };
        if let Some(cause) = lost {
            tracing::warn!(
                cause,
                "the connection to the database is lost; the worker tries again until it is back"
            );
            shared.health.loses();
            connection = loop {
                sleep(RECONNECT).await;
                shared.health.moves();
                shared.sessions.restart(shared.guarded());
                match rejoin(&shared).await {
                    Ok(connection) => break connection,
                    Err(error @ TurnError::Copy { .. }) => {
                        tracing::warn!(%error, "not here");
                    }
                    Err(error) => tracing::debug!(%error, "not yet"),
                }
            };
            shared.health.hears();
            tracing::info!("the database is back");
            wake_all(&shared);
        }
    }
}

/// Returns at that time, if there is one.
async fn at(time: Option<std::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Returns when the worker drains.
pub(crate) async fn drains(draining: &mut tokio::sync::watch::Receiver<bool>) {
    // The sender lives as long as the worker.
    let _ = draining.wait_for(|draining| *draining).await;
}

fn wake_all(shared: &Shared) {
    shared.wake();
    shared.activities.notify_one();
    shared.queues.notify_one();
    shared.schedules.notify_one();
}

async fn hear(shared: &Arc<Shared>, client: &Client, notification: &Notification) -> Result<(), TurnError> {
    match notification.channel() {
        "df_wake" => {
            add(&shared.metrics.wakes_total, 1);
            wake_all(shared);
        }
        "df_stop" => {
            // Anybody can notify: what names no step that runs here is nothing to us, and what is believed is the row.
            let Ok(number) = notification.payload().parse::<i64>() else { return Ok(()) };
            let Some(running) = shared.running_with(number) else { return Ok(()) };
            let epoch = shared.epoch.lock().clone();
            let still_wanted = client
                .query_typed_opt(
                    "SELECT FROM df._activity WHERE owner = $1::text::uuid AND number = $2 AND attempt = $3",
                    &[(&epoch, Type::TEXT), (&running.number, Type::INT8), (&running.attempt, Type::INT4)],
                )
                .await?;
            if still_wanted.is_none() {
                shared.end(running);
            }
        }
        _ => {}
    }
    Ok(())
}

/// What a heartbeat finds.
enum Pulse {
    Alive,
    /// The connection says nothing, which is as good as lost.
    Silent,
    /// Others believed this worker dead: it must join again, and finds the same.
    Buried,
}

async fn heartbeat(shared: &Arc<Shared>, client: &Client) -> Result<Pulse, TurnError> {
    add(&shared.metrics.heartbeats_total, 1);
    let epoch = shared.epoch.lock().clone();
    let (numbers, attempts) = shared.held();
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&epoch, Type::TEXT),
        (&DEAD_AFTER, Type::TEXT),
        (&numbers, Type::INT8_ARRAY),
        (&attempts, Type::INT4_ARRAY),
    ];
    let beat = client.query_typed_one(
        "SELECT alive, due_in_s, waiting FROM df._heartbeat($1::text::uuid, $2::text::interval, $3, $4)",
        &parameters,
    );
    let Ok(row) = tokio::time::timeout(HEARTBEAT * 2, beat).await else { return Ok(Pulse::Silent) };
    let row = row?;
    if !row.get::<_, bool>("alive") {
        return Ok(Pulse::Buried);
    }
    shared.due(seconds(row.get("due_in_s")));
    if row.get("waiting") {
        wake_all(shared);
    } else if shared.has_queues.load(Ordering::Relaxed) {
        shared.queues.notify_one();
    }
    Ok(Pulse::Alive)
}

/// A time that the server has given in seconds; one that is over is now.
pub(crate) fn seconds(seconds: Option<f64>) -> Option<Duration> {
    // What the server gives is a number, and what is clamped is none too large.
    Duration::try_from_secs_f64(seconds?.clamp(0.0, 1e9)).ok()
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
