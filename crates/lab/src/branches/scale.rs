//! Whether a branch of a large source costs more than one of a small source.
//!
//! Both sizes are measured in turns, in random order, so that whatever else the machine does meets both
//! alike. The figure is what a caller waits for a lease plus what the pool spends on the clone behind it, as
//! medians.

use duramen_base::{clock, entropy};
use duramen_branches::model::{CreateBranch, Policy};
use duramen_measure::evidence::{Evidence, Measurement, Severity};

use super::cold;
use super::control::Control;
use super::figures::note_values;
use super::options::Options;
use super::pool::{self, until_idle};
use super::source;
use super::workload::encode;
use duramen_reports::suite::SuiteError;

const REPEATS: u32 = 20;
/// Enough that a lease never waits for the pool.
const POOL: u32 = 20;
const RESAMPLES: usize = 2_000;

/// What was measured at one size, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs {
    /// Leases at the client.
    pub lease_ms: Vec<f64>,
    /// Clones in the daemon.
    pub clone_ms: Vec<f64>,
}

impl Costs {
    /// The median lease plus the median clone.
    #[must_use]
    pub(crate) fn sum_of_medians(&self) -> f64 {
        median(&self.lease_ms) + median(&self.clone_ms)
    }

    fn resampled(&self, rng: &mut fastrand::Rng) -> Costs {
        let mut resampled = |values: &[f64]| -> Vec<f64> {
            values.iter().map(|_| values[rng.usize(..values.len())]).collect()
        };
        Costs { lease_ms: resampled(&self.lease_ms), clone_ms: resampled(&self.clone_ms) }
    }
}

/// The median: of an even number of values, the mean of the middle two. Zero without values.
#[must_use]
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (len, middle) if len % 2 == 1 => sorted[middle],
        (_, middle) => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The ratio of the larger size's costs to the smaller's, and its 95 % interval by the percentile bootstrap.
/// `None` without values, or where the smaller size costs nothing.
#[must_use]
pub(crate) fn ratio(small: &Costs, large: &Costs, rng: &mut fastrand::Rng) -> Option<(f64, f64, f64)> {
    let of = |small: &Costs, large: &Costs| large.sum_of_medians() / small.sum_of_medians();
    let ratio = of(small, large);
    if !ratio.is_finite() {
        return None;
    }
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let small = small.resampled(rng);
            of(&small, &large.resampled(rng))
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get((ratios.len() as f64 * share) as usize).copied().unwrap_or(ratio);
    Some((ratio, at(0.025), at(0.975)))
}

/// Imports both sizes, unless they are there, and compares them.
pub(crate) async fn measure(
    control: &mut Control,
    options: &Options,
    seed: u64,
    evidence: &mut Evidence,
    say: &dyn Fn(&str),
) -> Result<(), SuiteError> {
    let [small, large] = options.scale.as_slice() else { return Ok(()) };
    let policy = options.write.policy();
    let mut sizes = Vec::new();
    for rows in [*small, *large] {
        let name = format!("flights_{rows}");
        if !control.sources().await?.iter().any(|source| source.name == name) {
            say(&format!("importing {name}"));
            source::import_flights(control, &name, Some(rows), say).await?;
        }
        source::set_pool(control, &name, policy, POOL).await?;
        sizes.push((name, Costs::default()));
    }
    let measured = alternate(control, policy, seed, &mut sizes, say).await;
    for (name, _) in &sizes {
        source::set_pool(control, name, policy, 0).await?;
    }
    if let Some(reason) = measured? {
        evidence.invalidate(format!("the pools of the two sizes never filled: {reason}"));
        return Ok(());
    }
    for (name, costs) in &sizes {
        note_values(evidence, &format!("scale_lease_ms_{name}"), "ms", &costs.lease_ms);
        note_values(evidence, &format!("scale_clone_ms_{name}"), "ms", &costs.clone_ms);
    }
    if let Some((ratio, low, high)) = ratio(&sizes[0].1, &sizes[1].1, &mut entropy::rng(seed)) {
        evidence.measurements.push(Measurement::scalar("scale_ratio", "ratio", ratio));
        let difference = if low <= 1.0 && 1.0 <= high { ": no detectable difference" } else { "" };
        let text = format!(
            "Lease and clone of {large} rows cost {ratio:.2} times those of {small} rows (95 % interval {low:.2} to \
             {high:.2}, bootstrap over {REPEATS} of each in turns){difference}."
        );
        evidence.find("scale", Severity::Info, Some(ratio), text);
    }
    let text = format!(
        "The sources {} and {} are kept for the next run; remove them with `duramen source remove`.",
        sizes[0].0, sizes[1].0
    );
    evidence.find("sources_kept", Severity::Info, None, text);
    Ok(())
}

/// Measures the sizes in turns. Returns why the pools never filled, if they did not.
async fn alternate(
    control: &mut Control,
    policy: Policy,
    seed: u64,
    sizes: &mut [(String, Costs)],
    say: &dyn Fn(&str),
) -> Result<Option<String>, SuiteError> {
    let mut rng = entropy::rng(seed);
    let mut connection = control.another().await?;
    let run = entropy::token(8);
    let within = pool::deadline(2 * POOL);
    for repeat in 1..=REPEATS {
        say(&format!("comparing two sizes: {repeat} of {REPEATS}"));
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            let (source, costs) = &mut sizes[at];
            if let Err(reason) = until_idle(control, within, &|_| {}).await?.status() {
                return Ok(Some(reason));
            }
            let name = format!("lab-{run}-s{at}-{repeat}");
            let create = CreateBranch {
                source: Some(source.clone()),
                name: Some(name.clone()),
                policy: Some(policy),
                ..CreateBranch::default()
            };
            let request = encode(&create)?;
            let begin = clock::now();
            let leased = connection.create_branch_text(request).await;
            let lease = begin.elapsed();
            leased.map_err(SuiteError::refused("create a branch"))?;
            control.destroy_branch(&name).await.map_err(SuiteError::refused("destroy a branch"))?;
            if let Err(reason) = until_idle(control, within, &|_| {}).await?.status() {
                return Ok(Some(reason));
            }
            costs.lease_ms.push(clock::ms(lease));
            costs.clone_ms.push(cold::one(control, source, policy).await?.clone_ms);
        }
    }
    Ok(None)
}
