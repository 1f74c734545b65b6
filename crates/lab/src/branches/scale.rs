//! Whether a branch of a large source costs more than one of a small source.
//!
//! Both sources are made for it: the same narrow tables, of which one has so many rows. The sizes are measured in turns, in
//! random order, so that whatever else the machine does meets both alike. What a caller waits for is compared (the lease,
//! the first query, and the read of a row that nobody has read yet), and what the pool spends on the clone behind a lease.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duramen_api::model::{CreateBranch, Origin, Policy};
use duramen_base::{clock, entropy, file};
use duramen_client::Connection;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use serde_json::json;

use super::cold;
use super::control::Control;
use super::figures::note_values;
use super::options::Options;
use super::pool::{self, until_idle};
use super::reply::{self, Answered};
use super::source;
use super::targets;
use super::workload::{encode, one, AIRLINE_READ};
use duramen_reports::suite::SuiteError;

const TURNS: u32 = 300;
/// Enough that a lease never waits for the pool.
const POOL: u32 = 20;
const RESAMPLES: usize = 1_000;
/// A branch that the lab lost sight of goes away by itself after so long.
const TTL_S: i64 = 900;
/// The read of one row by its key, anywhere in the large table.
const ROW_READ: &str = "select carrier, delay, distance from flights where id = $1";

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Leases at the client.
    Lease,
    /// The read of an airline, as it is the first query of a round.
    FirstQuery,
    /// The read of a row of the large table, by its key.
    RowRead,
    /// Clones in the daemon.
    Clone,
}

impl Cost {
    const ALL: [Cost; 4] = [Cost::Lease, Cost::FirstQuery, Cost::RowRead, Cost::Clone];

    fn name(self) -> &'static str {
        match self {
            Cost::Lease => "lease",
            Cost::FirstQuery => "first_query",
            Cost::RowRead => "row_read",
            Cost::Clone => "clone",
        }
    }
}

/// What was measured at one size, in milliseconds, by [`Cost`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs([Vec<f64>; 4]);

impl Costs {
    pub(crate) fn of(&self, cost: Cost) -> &[f64] {
        &self.0[cost as usize]
    }

    pub(crate) fn add(&mut self, cost: Cost, ms: f64) {
        self.0[cost as usize].push(ms);
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

/// The 95th percentile, as [`Measurement`] has it. Zero without values.
#[must_use]
pub(crate) fn p95(values: &[f64]) -> f64 {
    Measurement::from_values("", "", values).p95
}

/// The ratio of a figure of the larger size to that of the smaller, and its 95 % interval by the percentile bootstrap.
/// `None` without values, or where the smaller size costs nothing.
#[must_use]
pub(crate) fn ratio(
    small: &[f64],
    large: &[f64],
    figure: fn(&[f64]) -> f64,
    rng: &mut fastrand::Rng,
) -> Option<(f64, f64, f64)> {
    let ratio = figure(large) / figure(small);
    if !ratio.is_finite() {
        return None;
    }
    let mut resampled = |values: &[f64]| {
        let values: Vec<f64> = values.iter().map(|_| values[rng.usize(..values.len())]).collect();
        figure(&values)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let small = resampled(small);
            resampled(large) / small
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get((ratios.len() as f64 * share) as usize).copied().unwrap_or(ratio);
    Some((ratio, at(0.025), at(0.975)))
}

/// The SQL that makes a source with so many rows: 44 bytes each in the table and 22 in the index of their key, with what
/// surrounds them. Everything happens in one transaction, so nothing of it is written to the log besides.
#[must_use]
pub(crate) fn script(rows: u64) -> String {
    format!(
        "begin;
set local maintenance_work_mem = '1GB';
create table airlines (carrier text, name text not null);
insert into airlines select 'C' || n, 'airline ' || n from generate_series(1, 16) n;
alter table airlines add primary key (carrier);
create table flights (id bigint not null, carrier smallint not null, delay smallint not null, distance int not null);
insert into flights select id, id % 16 + 1, id % 400 - 20, id % 5000 from (select generate_series(1, {rows}::bigint) id) n;
alter table flights add primary key (id);
commit;
"
    )
}

/// The answer to [`ROW_READ`].
#[must_use]
pub(crate) fn row(id: i64) -> String {
    json!([[id % 16 + 1, id % 400 - 20, id % 5000]]).to_string()
}

/// One of the sizes.
struct Size {
    source: String,
    rows: u64,
    costs: Costs,
}

/// Imports both sizes, unless they are there, compares them, and removes what it imported.
pub(crate) async fn measure(
    control: &mut Control,
    options: &Options,
    seed: u64,
    evidence: &mut Evidence,
    say: &dyn Fn(&str),
) -> Result<(), SuiteError> {
    if options.scale.is_empty() {
        return Ok(());
    }
    let mut imported = Vec::new();
    let measured = import_and_compare(control, options, seed, evidence, &mut imported, say).await;
    for source in imported {
        control.remove_source(&source).await?;
    }
    measured
}

async fn import_and_compare(
    control: &mut Control,
    options: &Options,
    seed: u64,
    evidence: &mut Evidence,
    imported: &mut Vec<String>,
    say: &dyn Fn(&str),
) -> Result<(), SuiteError> {
    let policy = options.write.policy();
    let mut sizes = Vec::new();
    for rows in options.scale.iter().copied() {
        let source = format!("rows_{rows}");
        let known = control.sources().await?.into_iter().find(|known| known.name == source);
        let view = match known {
            Some(view) => view,
            None => {
                say(&format!("importing {source}"));
                let begin = clock::now();
                let script = Script::write(&options.home, rows)?;
                let view = source::import(control, &source, script.origin(), say).await?;
                imported.push(source.clone());
                note_values(
                    evidence,
                    &format!("scale_import_s_{source}"),
                    "s",
                    &[begin.elapsed().as_secs_f64()],
                );
                view
            }
        };
        note_values(evidence, &format!("scale_snapshot_bytes_{source}"), "bytes", &[view.bytes as f64]);
        source::set_pool(control, &source, policy, POOL).await?;
        sizes.push(Size { source, rows, costs: Costs::default() });
    }
    let measured = alternate(control, policy, seed, &mut sizes, say).await;
    for size in &sizes {
        source::set_pool(control, &size.source, policy, 0).await?;
    }
    if let Some(reason) = measured? {
        evidence.invalidate(format!("the pools of the two sizes never filled: {reason}"));
        return Ok(());
    }
    note(&sizes, seed, evidence);
    Ok(())
}

fn note(sizes: &[Size], seed: u64, evidence: &mut Evidence) {
    for Size { source, costs, .. } in sizes {
        for cost in Cost::ALL {
            note_values(evidence, &format!("scale_{}_ms_{source}", cost.name()), "ms", costs.of(cost));
        }
    }
    let [small, large] = sizes else { return };
    let mut rng = entropy::rng(seed);
    for cost in Cost::ALL {
        for (percentile, figure) in [("p50", median as fn(&[f64]) -> f64), ("p95", p95)] {
            let (name, of) =
                (cost.name(), ratio(small.costs.of(cost), large.costs.of(cost), figure, &mut rng));
            let Some((ratio, low, high)) = of else { continue };
            let measurement = format!("scale_{name}_{percentile}_ratio");
            let difference = in_words([low, high], targets::limit(&measurement));
            evidence.keep_interval(&measurement, [low, high], 0.95);
            evidence.measurements.push(Measurement::scalar(measurement, "ratio", ratio));
            let text = format!(
                "{name}, {percentile}: {} rows cost {ratio:.2} times what {} rows cost (95 % interval {low:.2} to {high:.2}, \
                 bootstrap over {TURNS} of each in turns){difference}.",
                large.rows, small.rows
            );
            evidence.find("scale", Severity::Info, Some(ratio), text);
        }
    }
}

/// What the interval of a ratio tells, in the same words as its target: whether the sizes differ, and on which side of the
/// limit it is.
#[must_use]
pub(crate) fn in_words([low, high]: [f64; 2], limit: Option<f64>) -> String {
    let limit = limit.filter(|limit| *limit >= low);
    match (low <= 1.0 && 1.0 <= high, limit) {
        (true, Some(limit)) if high < limit => {
            format!(": no detectable difference, and less than {limit}")
        }
        (true, Some(limit)) => {
            format!(": neither a difference nor on which side of the target of {limit} it is can be told")
        }
        (true, None) => ": no detectable difference".to_owned(),
        (false, Some(limit)) if high >= limit => {
            format!(": on which side of the target of {limit} it is cannot be told")
        }
        (false, _) => String::new(),
    }
}

/// The file that a source is imported from, for as long as that takes.
struct Script(PathBuf);

impl Script {
    /// In the home, because a daemon that runs in a file system of its own sees that in any case.
    fn write(home: &Path, rows: u64) -> Result<Script, SuiteError> {
        let path = home.join("logs").join(format!("scale-{}.sql", entropy::token(8)));
        let script = Script(path);
        file::replace(&script.0, self::script(rows).as_bytes(), 0o600)
            .map_err(|error| SuiteError::Failed(format!("cannot write {}: {error}", script.0.display())))?;
        Ok(script)
    }

    fn origin(&self) -> Origin {
        Origin::Script { path: self.0.display().to_string() }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Measures the sizes in turns. Returns why the pools never filled, if they did not.
async fn alternate(
    control: &mut Control,
    policy: Policy,
    seed: u64,
    sizes: &mut [Size],
    say: &dyn Fn(&str),
) -> Result<Option<String>, SuiteError> {
    let mut rng = entropy::rng(seed);
    let mut connection = control.another().await?;
    let run = entropy::token(8);
    let within = pool::deadline(2 * POOL);
    for turn in 1..=TURNS {
        if turn == 1 || turn % 10 == 0 {
            say(&format!("comparing two sizes: {turn} of {TURNS}"));
        }
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            let Size { source, rows, costs } = &mut sizes[at];
            if let Err(reason) = until_idle(control, within, &|_| {}).await?.status() {
                return Ok(Some(reason));
            }
            let name = format!("lab-{run}-s{at}-{turn}");
            let create = CreateBranch {
                source: Some(source.clone()),
                name: Some(name.clone()),
                policy: Some(policy),
                ttl_s: Some(TTL_S),
                ..CreateBranch::default()
            };
            let request = encode(&create)?;
            let begin = clock::now();
            let leased = connection.create_branch_text(request).await;
            costs.add(Cost::Lease, clock::ms(begin.elapsed()));
            leased.map_err(SuiteError::refused("create a branch"))?;
            let number = rng.u8(1..=16);
            let (key, airline) = (format!("C{number}"), json!([[format!("airline {number}")]]).to_string());
            let took = read(&mut connection, &name, AIRLINE_READ, json!(key), &airline).await?;
            costs.add(Cost::FirstQuery, clock::ms(took));
            let id = rng.i64(1..=i64::try_from(*rows).unwrap_or(i64::MAX));
            let took = read(&mut connection, &name, ROW_READ, json!(id), &row(id)).await?;
            costs.add(Cost::RowRead, clock::ms(took));
            control.destroy_branch(&name).await.map_err(SuiteError::refused("destroy a branch"))?;
            if let Err(reason) = until_idle(control, within, &|_| {}).await?.status() {
                return Ok(Some(reason));
            }
            costs.add(Cost::Clone, cold::one(control, source, policy).await?.clone_ms);
        }
    }
    Ok(None)
}

/// Times a query, and refuses a wrong answer.
async fn read(
    connection: &mut Connection,
    branch: &str,
    sql: &str,
    key: serde_json::Value,
    expected: &str,
) -> Result<Duration, SuiteError> {
    let request = one(sql, vec![key.clone()])?;
    let begin = clock::now();
    let answer = connection.query_text(branch, request).await;
    let took = begin.elapsed();
    let answer = answer.map_err(SuiteError::refused("query a branch"))?;
    let wrong = |found: &str| SuiteError::Failed(format!("{sql:?} of {key} should give {expected}: {found}"));
    let answered: Answered<'_> = reply::read(&answer).map_err(|error| wrong(&error))?;
    match answered.results.as_slice() {
        [only] if reply::same_rows(only.rows.get(), expected) => Ok(took),
        results => Err(wrong(results.first().map_or("no result", |only| only.rows.get()))),
    }
}
