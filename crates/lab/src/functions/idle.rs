//! What the worker asks when there is nothing to do.

use std::time::Duration;

use duramen_measure::evidence::{Evidence, Measurement};

use super::bench::Bench;
use super::calibration::log_statements;
use super::checks;
use super::statements::{count_statements, length, written_since};
use duramen_reports::suite::SuiteError;

/// What a worker does when it begins, and the falling asleep, are over by then.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.say("watching the worker do nothing");
    log_statements(bench, true).await?;
    tokio::time::sleep(SETTLE).await;
    let log = bench.server.log();
    let unreadable = |path: &std::path::Path| SuiteError::file("read the server's log", path);
    let from = length(&log).map_err(unreadable(&log))?;
    tokio::time::sleep(bench.sizes.idle).await;
    let text = written_since(&log, from).map_err(unreadable(&log))?;
    log_statements(bench, false).await?;
    let counted = count_statements(&text);
    let seconds = bench.sizes.idle.as_secs_f64();
    let per_s = counted.worker as f64 / seconds;
    evidence.measurements.push(Measurement::scalar("idle_queries_per_s", "1/s", per_s));
    evidence.checks.push(checks::idle_is_silent(counted.worker, seconds));
    Ok(())
}
