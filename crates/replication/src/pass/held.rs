//! Commits that stop: an open loop at one level, and something that holds up the replay for a known time.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Frame, Measured};
use duramen_reports::suite::SuiteError;

/// How long the load goes on when everything beside it has ended: long enough to see commits flow again.
const TAIL: Duration = Duration::from_secs(1);
const TAIL_QUICK: Duration = Duration::from_millis(500);

pub(super) async fn measure(frame: &Frame<'_>) -> Result<Measured, SuiteError> {
    let level = frame.unit.level;
    let load = frame.sessions(frame.clients()).await?;
    load.set_level(level).await?;
    let wal_from = frame.flushed().await?;
    let (ended, stop) = oneshot::channel::<()>();
    let mut stage = frame.stage(Some(&load));
    let beside = async {
        let carried_out = stage.carry_out(frame.scenario.actions).await;
        let finished = stage.finish().await;
        if carried_out.is_ok() && finished.is_ok() {
            tokio::time::sleep(if frame.bench.options.quick { TAIL_QUICK } else { TAIL }).await;
        }
        // A load that has ended needs no signal.
        let _ = ended.send(());
        carried_out.and(finished)
    };
    let stopped = async {
        // It is also stopped when the actions were given up.
        let _ = stop.await;
    };
    let (run, blocker) = tokio::join!(load.open(frame.scenario.probe.rate_per_s, stopped), beside);
    let put_back = stage.put_back().await;
    let (run, blocker) = (run?, blocker?);
    put_back?;
    Ok(Measured {
        runs: vec![(level, load.clients(), Duration::ZERO, run)],
        wal_from,
        blocker,
        unmet: stage.take_unmet(),
        ..Measured::default()
    })
}
