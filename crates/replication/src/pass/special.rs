//! Passes that show one thing each: that a known delay is measured as what it is, and what becomes of a commit that is
//! cancelled while it waits.

use crate::error::{cannot_reach, refused};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duramen_base::clock;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client};

use super::super::level::Level;
use super::super::scenario::{Action, Node};
use super::act::REPLAY;
use super::counters::row;
use super::latency::shuffled;
use super::probe::Run;
use super::session::{within, PATIENCE};
use super::{Frame, Measured};
use duramen_reports::suite::SuiteError;

/// How long a load runs before its block, so that the replay has taken the new delay up.
const SETTLE: Duration = Duration::from_millis(200);
/// How often a state is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Blocks at remote_apply, with what the actions set and without, in random order.
pub(super) async fn calibrate(frame: &Frame<'_>) -> Result<Measured, SuiteError> {
    let options = frame.bench.options;
    let load = frame.sessions(frame.clients()).await?;
    load.set_level(Level::RemoteApply).await?;
    let rate = frame.scenario.probe.rate_per_s;
    let mut measured = Measured { wal_from: frame.flushed().await?, ..Measured::default() };
    for _ in 0..if options.quick { 2 } else { 4 } {
        for with_delay in shuffled(frame, &[true, false]) {
            frame.bench.pair.caught_up(REPLAY).await?;
            let mut stage = frame.stage(Some(&load));
            let run = async {
                if with_delay {
                    stage.carry_out(frame.scenario.actions).await?;
                }
                let delay = apply_delay(frame).await?;
                load.open(rate, sleep(SETTLE)).await?;
                Ok::<_, SuiteError>((delay, load.open(rate, sleep(options.block())).await?))
            }
            .await;
            let put_back = stage.put_back().await;
            let (delay, run) = run?;
            put_back?;
            measured.runs.push((Level::RemoteApply, load.clients(), delay, run));
        }
    }
    Ok(measured)
}

async fn apply_delay(frame: &Frame<'_>) -> Result<Duration, SuiteError> {
    let sql = "SELECT setting::int8 FROM pg_settings WHERE name = 'recovery_min_apply_delay'";
    let row = row(&frame.standby, Node::Standby, "read recovery_min_apply_delay", sql, &[]).await?;
    Ok(Duration::from_millis(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// A commit at remote_apply that is cancelled while a reader holds up the replay.
pub(super) async fn cancel(frame: &Frame<'_>) -> Result<Measured, SuiteError> {
    let wal_from = frame.flushed().await?;
    let actions = frame.scenario.actions;
    let waits = actions.iter().position(|action| matches!(action, Action::AwaitStartup(_)));
    let (before, after) = actions.split_at(waits.map_or(actions.len(), |at| at + 1));
    let mut stage = frame.stage(None);
    let done = async {
        stage.carry_out(before).await?;
        let commit = Commit::begin(frame).await?;
        let seen = commit.cancelled(frame).await?;
        stage.carry_out(after).await?;
        Ok::<_, SuiteError>((commit, seen))
    }
    .await;
    let finished = stage.finish().await;
    let put_back = stage.put_back().await;
    let (commit, (run, mut unmet)) = done?;
    let blocker = finished?;
    put_back?;
    frame.bench.pair.caught_up(REPLAY).await?;
    if !commit.is_visible(&frame.standby, Node::Standby).await? {
        unmet.push("the cancelled commit was not to be seen on the standby when it had caught up".to_owned());
    }
    unmet.extend(stage.take_unmet());
    let runs = vec![(Level::RemoteApply, 1, Duration::ZERO, run)];
    Ok(Measured { runs, wal_from, blocker, backlog_bytes: None, unmet })
}

/// A transaction that has done its work and is about to commit.
struct Commit {
    client: Client,
    pid: i32,
    /// Its number.
    id: String,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Commit {
    async fn begin(frame: &Frame<'_>) -> Result<Self, SuiteError> {
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&warnings);
        let target = frame.bench.pair.target(Node::Primary).clone();
        // The warning is looked for by its words.
        let target = target.settings([("synchronous_commit", "remote_apply"), ("lc_messages", "C")]);
        let client = target.connect_hearing(move |message| {
            if let AsyncMessage::Notice(notice) = message {
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(notice.message().to_owned());
            }
        });
        let client = client.await.map_err(cannot_reach(Node::Primary))?;
        let doing = "begin a transaction";
        within(PATIENCE, doing, client.batch_execute("BEGIN"))
            .await?
            .map_err(refused(doing, Node::Primary))?;
        super::statement::execute(frame, &client).await?;
        let sql = "SELECT pg_backend_pid(), pg_current_xact_id()::text";
        let row = row(&client, Node::Primary, "number a transaction", sql, &[]).await?;
        let (pid, id) = (row.get(0), row.get(1));
        Ok(Self { client, pid, id, warnings })
    }

    /// Commits, waits until the commit waits for the standby, and cancels it. Brings what was not as expected.
    async fn cancelled(&self, frame: &Frame<'_>) -> Result<(Run, Vec<String>), SuiteError> {
        let begin = clock::now();
        let has_ended = AtomicBool::new(false);
        // Whether it was cancelled while it waited.
        let cancel = async {
            let sql = "SELECT coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity WHERE pid = $1";
            let looking = "look at a commit";
            while !row(&frame.primary, Node::Primary, looking, sql, &[&self.pid]).await?.get::<_, bool>(0) {
                if has_ended.load(Ordering::Relaxed) || begin.elapsed() > PATIENCE {
                    return Ok(false);
                }
                sleep(LOOK).await;
            }
            let tls = frame.bench.pair.target(Node::Primary).tls();
            let tls = tls.map_err(cannot_reach(Node::Primary))?;
            let cancelled = self.client.cancel_token().cancel_query(tls).await;
            cancelled.map_err(refused("cancel a commit", Node::Primary))?;
            Ok::<_, SuiteError>(true)
        };
        let doing = "commit, and be cancelled";
        let commit = async {
            let committed = within(PATIENCE * 2, doing, self.client.batch_execute("COMMIT")).await;
            has_ended.store(true, Ordering::Relaxed);
            committed
        };
        let (committed, cancelled) = tokio::join!(commit, cancel);
        let was_cancelled = cancelled?;
        committed?.map_err(refused(doing, Node::Primary))?;
        let run = Run::single(begin.saturating_duration_since(frame.origin), begin.elapsed());
        if !was_cancelled {
            let unmet = "the commit was not seen to wait for the standby, and was not cancelled";
            return Ok((run, vec![unmet.to_owned()]));
        }

        let mut unmet = Vec::new();
        let warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !warnings.iter().any(|text| text.contains("canceling wait for synchronous replication")) {
            unmet.push(format!("the cancelled commit was not warned of; the server said {warnings:?}"));
        }
        if !self.is_visible(&frame.primary, Node::Primary).await? {
            unmet.push("the cancelled commit is not to be seen on the primary".to_owned());
        }
        if self.is_visible(&frame.standby, Node::Standby).await? {
            unmet.push("the cancelled commit was to be seen on the standby at once".to_owned());
        }
        Ok((run, unmet))
    }

    /// Whether new transactions see what this one has done.
    async fn is_visible(&self, client: &Client, node: Node) -> Result<bool, SuiteError> {
        let sql = "SELECT pg_visible_in_snapshot($1::text::xid8, pg_current_snapshot())";
        Ok(row(client, node, "look for a cancelled commit", sql, &[&self.id]).await?.get(0))
    }
}
