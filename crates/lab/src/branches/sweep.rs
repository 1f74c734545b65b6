//! How many branches should be made at a time, and whether step by step or branch by branch.
//!
//! Every number is tried both ways, several times and in random order, so that other load on the machine affects all of them
//! alike. The figure is the time of a whole refill, from the request for a pool until it is full.

use duramen_api::model::{Refill, RefillSettings};
use duramen_base::{clock, entropy};
use duramen_measure::evidence::{Evidence, Severity};

use super::control::Control;
use super::figures::note_values;
use super::options::{refill_name, Options};
use super::pool::{self, until_full, until_idle};
use super::scale::median;
use super::source;
use duramen_reports::suite::SuiteError;

const REPEATS: usize = 3;
const WAYS: [Refill; 2] = [Refill::Phased, Refill::Pipelined];

/// One way of refilling, and what its refills took.
struct Tried {
    way: Refill,
    at_a_time: u32,
    ms: Vec<f64>,
}

impl Tried {
    fn name(&self) -> String {
        name(self.way, self.at_a_time)
    }
}

fn name(way: Refill, at_a_time: u32) -> String {
    format!("sweep_{}_{at_a_time}_ms", refill_name(way))
}

/// Refills the pool in every way that is asked for.
pub(crate) async fn measure(
    control: &mut Control,
    options: &Options,
    seed: u64,
    evidence: &mut Evidence,
    say: &dyn Fn(&str),
) -> Result<(), SuiteError> {
    if options.sweep.is_empty() {
        return Ok(());
    }
    let all = options.sweep.iter().flat_map(|count| WAYS.map(|way| (way, *count)));
    let mut tried: Vec<Tried> =
        all.map(|(way, at_a_time)| Tried { way, at_a_time, ms: Vec::new() }).collect();
    let mut rng = entropy::rng(seed);
    for repeat in 1..=REPEATS {
        say(&format!("comparing {} ways of refilling: {repeat} of {REPEATS}", tried.len()));
        rng.shuffle(&mut tried);
        for one in &mut tried {
            match refill(control, options, one.way, one.at_a_time).await? {
                Ok(ms) => one.ms.push(ms),
                Err(reason) => {
                    let (way, count) = (refill_name(one.way), one.at_a_time);
                    evidence.invalidate(format!("the pool never filled {way}, {count} at a time: {reason}"));
                    return Ok(());
                }
            }
        }
    }
    tried.sort_by_key(|one| (refill_name(one.way), one.at_a_time));
    for one in &tried {
        note_values(evidence, &one.name(), "ms", &one.ms);
    }
    let fastest = tried.iter().min_by(|a, b| median(&a.ms).total_cmp(&median(&b.ms)));
    if let Some(fastest) = fastest {
        let text = format!(
            "Of {} ways, a refill of {} branches is fastest {} with {} at a time: {:.0} ms (median of {REPEATS}).",
            tried.len(),
            options.pool_size(),
            refill_name(fastest.way),
            fastest.at_a_time,
            median(&fastest.ms),
        );
        evidence.find("sweep", Severity::Info, Some(median(&fastest.ms)), text);
    }
    Ok(())
}

/// Empties the pool and fills it; the time of that in milliseconds, or why it never filled.
async fn refill(
    control: &mut Control,
    options: &Options,
    way: Refill,
    at_a_time: u32,
) -> Result<Result<f64, String>, SuiteError> {
    let (name, policy) = (&options.source, options.write.policy());
    let within = pool::deadline(options.pool_size());
    source::set_pool(control, name, policy, 0).await?;
    let count = Some(at_a_time);
    let refill = RefillSettings { way: Some(way), clones: count, starts: count, connects: count };
    source::set_refill(control, name, &refill).await?;
    if let Err(reason) = until_idle(control, within, &|_| {}).await?.status() {
        return Ok(Err(reason));
    }
    let begin = clock::now();
    source::set_pool(control, name, policy, options.pool_size()).await?;
    let filled = until_full(control, name, policy, begin, within).await?;
    Ok(filled.map(clock::ms).ok_or_else(|| format!("not within {} s", within.as_secs())))
}

/// The medians in an evidence document: for each way, points over the number made at a time.
pub(crate) fn series(evidence: &Evidence) -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let swept = evidence.config.get("sweep").and_then(|value| value.as_array()).cloned().unwrap_or_default();
    let mut counts: Vec<u32> =
        swept.iter().filter_map(|count| count.as_u64()).filter_map(|count| count.try_into().ok()).collect();
    counts.sort_unstable();
    let line = |way: Refill| {
        let point = |count: &u32| Some((f64::from(*count), evidence.measurement(&name(way, *count))?.p50));
        (refill_name(way), counts.iter().filter_map(point).collect())
    };
    WAYS.map(line).into()
}
