//! Branches without the pool, and what an idle branch of the pool holds.

use duramen_api::model::{ColdBranch, Policy};
use duramen_api::request::MeasureCold;
use duramen_measure::evidence::Evidence;

use super::control::Control;
use super::figures::note_values;
use super::options::Options;
use super::pool::{self, until_idle};
use super::source;
use duramen_reports::suite::SuiteError;

/// Makes one branch without the pool, and throws it away.
pub(crate) async fn one(
    control: &mut Control,
    source: &str,
    policy: Policy,
) -> Result<ColdBranch, SuiteError> {
    control.measure_cold(&MeasureCold { source: source.to_owned(), policy }).await
}

/// Makes branches without the pool, one after the other, after the pool has been given up: its branches would share
/// the blocks that a clone counts.
pub(crate) async fn measure(
    control: &mut Control,
    options: &Options,
    evidence: &mut Evidence,
    say: &dyn Fn(&str),
) -> Result<(), SuiteError> {
    if options.cold == 0 {
        return Ok(());
    }
    source::empty_pool(control, options).await?;
    until_idle(control, pool::deadline(options.pool_size()), say).await?;
    let mut made = Vec::new();
    // What was made before a failure is measured all the same.
    let mut failed = Ok(());
    for number in 1..=options.cold {
        if number == 1 || number % 10 == 0 {
            say(&format!("a branch without the pool: {number} of {}", options.cold));
        }
        match one(control, &options.source, options.write.policy()).await {
            Ok(cold) => made.push(cold),
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    let of = |figure: fn(&ColdBranch) -> f64| -> Vec<f64> { made.iter().map(figure).collect() };
    note_values(evidence, "cold_branch_ms", "ms", &of(|cold| cold.first_query_ms));
    note_values(evidence, "cold_clone_ms", "ms", &of(|cold| cold.clone_ms));
    note_values(evidence, "cold_start_ms", "ms", &of(|cold| cold.start_ms));
    note_values(evidence, "cold_connect_ms", "ms", &of(|cold| cold.connect_ms));
    note_values(evidence, "cpu_per_branch_ms", "ms", &of(|cold| cold.cpu_ms));
    failed
}

/// The memory of the pool's idle branches: of each, and of all together if all were looked at.
pub(crate) async fn idle(
    control: &mut Control,
    options: &Options,
    evidence: &mut Evidence,
) -> Result<(), SuiteError> {
    let pool = options.pool_size();
    let bytes = control.idle_pss(&options.source, pool).await?;
    let values: Vec<f64> = bytes.iter().map(|&bytes| bytes as f64).collect();
    note_values(evidence, "idle_branch_pss_bytes", "bytes", &values);
    if values.len() == pool as usize {
        note_values(evidence, "pool_pss_bytes", "bytes", &[values.iter().sum()]);
    }
    Ok(())
}
