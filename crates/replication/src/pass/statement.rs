//! One statement, timed on a connection that is open.

use crate::error::refused;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duramen_base::{clock, entropy};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::super::scenario::Node;
use super::act::STATEMENT;
use super::probe::Run;
use super::session::{within, Number, PATIENCE};
use super::{counters, Frame, Measured};
use duramen_reports::suite::SuiteError;

pub(super) async fn measure(frame: &Frame<'_>) -> Result<Measured, SuiteError> {
    let wal_from = frame.flushed().await?;
    let mut stage = frame.stage(None);
    let timed = async {
        stage.carry_out(frame.scenario.actions).await?;
        time(frame).await
    }
    .await;
    let finished = stage.finish().await;
    let put_back = stage.put_back().await;
    let (run, backlog_bytes) = timed?;
    let blocker = finished?;
    put_back?;
    Ok(Measured {
        runs: vec![(frame.unit.level, 1, Duration::ZERO, run)],
        wal_from,
        blocker,
        backlog_bytes: Some(backlog_bytes),
        unmet: stage.take_unmet(),
    })
}

/// Runs the statement; also how much the standby had to replay just before.
async fn time(frame: &Frame<'_>) -> Result<(Run, u64), SuiteError> {
    let client = frame.bench.pair.connect(Node::Primary).await?;
    let (doing, set) = ("set the level", format!("SET synchronous_commit = {}", frame.unit.level));
    within(PATIENCE, doing, client.batch_execute(&set)).await?.map_err(refused(doing, Node::Primary))?;
    let ready = Ready::prepare(frame, &client).await?;
    let backlog = frame.flushed().await?.saturating_sub(counters::replayed(&frame.standby).await?);
    let begin = clock::now();
    ready.execute(&client).await?;
    Ok((Run::single(begin.saturating_duration_since(frame.origin), begin.elapsed()), backlog))
}

/// Runs the first statement of the load.
pub(super) async fn execute(frame: &Frame<'_>, client: &Client) -> Result<(), SuiteError> {
    Ready::prepare(frame, client).await?.execute(client).await
}

/// The first statement of the load, prepared, with its numbers.
struct Ready {
    doing: String,
    statement: Statement,
    numbers: Vec<Number>,
}

impl Ready {
    async fn prepare(frame: &Frame<'_>, client: &Client) -> Result<Self, SuiteError> {
        let probe = &frame.scenario.probe;
        let Some((_, sql)) = probe.statements.first() else {
            return Err(SuiteError::Options(format!("S{} has no statement", frame.scenario.number)));
        };
        let sql = frame.names.fill(sql);
        let doing = format!("run {sql:?}");
        let prepared = within(PATIENCE, &doing, client.prepare(&sql)).await?;
        let statement = prepared.map_err(refused(doing.clone(), Node::Primary))?;
        let mut rng = entropy::rng(frame.bench.seed.fetch_add(1, Ordering::Relaxed));
        let mut numbers = Vec::new();
        for (first, last) in probe.draws.iter().take(statement.params().len()) {
            let (first, last) = (frame.names.number(first)?, frame.names.number(last)?);
            numbers.push(Number(rng.i64(first..=last.max(first))));
        }
        Ok(Self { doing, statement, numbers })
    }

    async fn execute(&self, client: &Client) -> Result<(), SuiteError> {
        let parameters: Vec<&(dyn ToSql + Sync)> =
            self.numbers.iter().map(|number| number as &(dyn ToSql + Sync)).collect();
        within(STATEMENT, &self.doing, client.execute(&self.statement, &parameters))
            .await?
            .map_err(refused(self.doing.clone(), Node::Primary))?;
        Ok(())
    }
}
