//! The suite from the first row to the last figure.

use std::collections::BTreeMap;
use std::path::Path;

use duramen_base::entropy;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;
use duramen_store::{Durability, StoreError};

use duramen_postgres::Scratch;

use super::level::Level;
use super::matrix::Matrix;
use super::names::matches;
use super::ops::{Figure, Kind, Operation, OPERATIONS};
use super::options::{Options, ROUNDS};
use super::sample::Sample;
use super::slice::Slice;
use super::{checks, floor, priority, Store};
use duramen_reports::suite::{begin, conclude, Say, Suite as _, SuiteError};

/// Syncs without which their 99.9th percentile says nothing.
const TAIL_SYNCS: u64 = 1_000;

/// Before the figures are taken, an operation is run for this part of a slice, and forgotten.
const WARM_UP: u32 = 4;

/// What a run gathers besides the figures.
struct Run<'o> {
    options: &'o Options,
    levels: Vec<Level>,
    rng: fastrand::Rng,
    floor: LatencyHistogram,
    failed: Vec<String>,
    wrong: Vec<String>,
}

pub(crate) fn measure(options: &Options, say: Say<'_>) -> Result<Evidence, SuiteError> {
    let folder = Scratch::private(&options.dir, "lab-store").map_err(SuiteError::other)?;
    let mut evidence = begin(options, folder.path(), say)?;
    let seed = entropy::seed();
    options.note(&mut evidence);
    // A number of 64 bits is not kept by every reader of JSON.
    evidence.configure("seed", seed.to_string());
    let timer = floor::timer();
    if options.fifo {
        in_new_thread(priority::fifo).map_err(|error| {
            SuiteError::Failed(format!(
                "cannot run with --fifo: {error}; it needs chrt, and root or CAP_SYS_NICE"
            ))
        })?;
    }

    let mut levels = Vec::new();
    for durability in &options.levels {
        say(&format!("loading {} rows at the level {durability}", options.rows));
        let failed = |doing| SuiteError::refused(format!("{doing} the store of the level {durability}"));
        let path = folder.path().join(durability.name());
        let mut level = Level::open(options, *durability, path, seed).map_err(failed("open"))?;
        let ratio = level.load().map_err(failed("fill"))?;
        let name = format!("kv.bulk_load.size_ratio/{durability}");
        evidence.measurements.push(Measurement::scalar(name, "ratio", ratio));
        levels.push(level);
    }
    let mut run = Run {
        options,
        levels,
        rng: entropy::rng(seed),
        floor: LatencyHistogram::fine(),
        failed: Vec::new(),
        wrong: Vec::new(),
    };
    for operation in OPERATIONS.iter().filter(|op| matches(&options.ops, op.name)) {
        say(operation.name);
        run.operation(operation, folder.path(), &mut evidence);
    }
    if run.floor.is_empty() {
        floor::sync_floor(folder.path(), &mut run.floor)
            .map_err(SuiteError::file("measure the fsync floor in", folder.path()))?;
    }
    evidence.measurements.push(Measurement::from_histogram_us("fsync_floor", &run.floor));
    if run.floor.count() >= TAIL_SYNCS {
        let p999 = run.floor.quantile(0.999).as_nanos() as f64 / 1e3;
        evidence.measurements.push(Measurement::scalar("fsync_floor_p999", "us", p999));
    }
    evidence.measurements.push(Measurement::from_histogram_us("timer", &timer));
    judge(run, &mut evidence);
    say("removing the stores");
    drop(folder);
    conclude(Store.diagnose(&evidence), &mut evidence);
    Ok(evidence)
}

fn judge(run: Run<'_>, evidence: &mut Evidence) {
    let Run { failed, wrong, levels, .. } = run;
    for failure in &failed {
        evidence.find("not_measured", Severity::Problem, None, failure.clone());
    }
    let total = failed.len() + wrong.len();
    let mut detail = failed.into_iter().chain(wrong).collect::<Vec<_>>().join("; ");
    if total == 0 {
        detail = "what was written was read back, and counts agree".to_owned();
    }
    evidence.check("operations_did_their_work", total == 0, detail);
    drop(levels);
    let matrix = Matrix::from_evidence(evidence);
    let checked = checks::all(&matrix);
    evidence.checks.extend(checked);
}

impl Run<'_> {
    /// Runs one operation at all its levels, in slices.
    fn operation(&mut self, operation: &Operation, dir: &Path, evidence: &mut Evidence) {
        let (budget, most) = self.options.slice();
        let mut samples: BTreeMap<Durability, Sample> = BTreeMap::new();
        let mut given_up: Vec<Durability> = Vec::new();
        for round in 0..=ROUNDS {
            let mut order: Vec<usize> = (0..self.levels.len()).collect();
            self.rng.shuffle(&mut order);
            for index in order {
                let level = &mut self.levels[index];
                let durability = level.durability;
                let is_for = operation.level.is_none_or(|only| only == durability);
                if !is_for || given_up.contains(&durability) {
                    continue;
                }
                let is_warm_up = round == 0;
                if is_warm_up && operation.kind == Kind::Other {
                    continue;
                }
                let mut ignored = Sample::new();
                let sample = samples.entry(durability).or_insert_with(Sample::new);
                let done = if is_warm_up {
                    take(level, operation, (budget / WARM_UP, most / u64::from(WARM_UP)), &mut ignored, false)
                } else {
                    // The floor is that of the same moment as the commits that wait for it: a disk has its moods.
                    let is_write = operation.kind == Kind::Write || operation.threads.is_some();
                    let waits = durability == Durability::Strict && is_write;
                    if waits {
                        measure_floor(dir, self.options.fifo, &mut sample.floor, &mut self.failed);
                    }
                    let mark = sample.open();
                    let done = take(level, operation, (budget, most), sample, self.options.fifo && waits);
                    sample.close(&mark, if operation.figure == Figure::P999 { 0.999 } else { 0.5 });
                    done
                };
                if let Err(error) = done {
                    given_up.push(durability);
                    self.failed.push(format!("{}/{durability}: {error}", operation.name));
                }
                sample.beside.append(&mut ignored.beside);
                self.wrong.extend(
                    ignored.wrong.drain(..).map(|wrong| format!("{}/{durability}: {wrong}", operation.name)),
                );
            }
        }
        for (durability, sample) in &mut samples {
            let name = name_at(operation.name, operation.threads, *durability);
            if operation.figure == Figure::P999 {
                let distribution = operation.name.replace("p999_", "");
                let distribution = name_at(&distribution, None, *durability);
                evidence.measurements.push(Measurement::from_histogram_us(distribution, &sample.latencies));
                sample.values = vec![sample.latencies.quantile(0.999).as_nanos() as f64 / 1e3];
            }
            let unit = match operation.figure {
                Figure::Value(unit) => unit,
                Figure::Latency | Figure::P999 => "us",
            };
            sample.note(&name, unit, evidence);
            self.floor.merge(&sample.floor);
            for (name, unit, value) in sample.beside.drain(..) {
                evidence.measurements.push(Measurement::scalar(
                    name_at(name, None, *durability),
                    unit,
                    value,
                ));
            }
            self.wrong.extend(sample.wrong.drain(..).map(|wrong| format!("{name}: {wrong}")));
        }
    }
}

/// `OP/LEVEL`; the number of threads stands behind the level.
fn name_at(operation: &str, threads: Option<u32>, level: Durability) -> String {
    match (threads, operation.split_once('@')) {
        (Some(threads), Some((operation, _))) => format!("{operation}/{level}@{threads}"),
        _ => format!("{operation}/{level}"),
    }
}

fn take(
    level: &mut Level,
    operation: &Operation,
    (budget, most): (std::time::Duration, u64),
    sample: &mut Sample,
    fifo: bool,
) -> Result<(), StoreError> {
    let mut slice = Slice::new(level, operation, budget, most, sample);
    if !fifo {
        return (operation.run)(&mut slice);
    }
    // In a thread of its own, so that what comes after has an ordinary priority again.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // The first refusal was told when the run began.
            let _ = priority::fifo();
            (operation.run)(&mut slice)
        });
        thread.join().expect("an operation does not panic")
    })
}

fn measure_floor(dir: &Path, fifo: bool, floor: &mut LatencyHistogram, failed: &mut Vec<String>) {
    let measured = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _ = fifo.then(priority::fifo);
            floor::sync_floor(dir, floor)
        });
        thread.join().expect("writing a file does not panic")
    });
    if let Err(error) = measured {
        failed.push(format!("fsync_floor: {error}"));
    }
}

fn in_new_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(work).join().expect("asking for a priority does not panic"))
}
