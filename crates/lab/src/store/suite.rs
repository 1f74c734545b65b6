//! The suite from the first row to the last figure.

use std::collections::BTreeMap;
use std::path::Path;

use duramen_measure::entropy;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use duramen_store::{Durability, StoreError};

use crate::rules;

use super::error::StoreLabError;
use super::level::Level;
use super::matrix::Matrix;
use super::names::matches;
use super::ops::{Figure, Kind, Operation, OPERATIONS};
use super::options::{Options, ROUNDS};
use super::sample::Sample;
use super::slice::Slice;
use super::{checks, findings, floor, priority, SUITE};

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

pub(crate) fn measure(options: &Options, say: &dyn Fn(&str)) -> Result<Evidence, StoreLabError> {
    let folder_error = |doing| {
        let path = options.dir.clone();
        move |source| StoreLabError::Folder { doing, path, source }
    };
    std::fs::create_dir_all(&options.dir).map_err(folder_error("make the folder"))?;
    let folder = Folder::make(&options.dir).map_err(folder_error("make a folder in"))?;
    say("describing the machine");
    let host = Host::fingerprint(&folder.0)?;
    let mut evidence = Evidence::new(SUITE, host);
    if !options.command.is_empty() {
        evidence.command.clone_from(&options.command);
    }
    let seed = entropy::seed();
    options.note(&mut evidence);
    // A number of 64 bits is not kept by every reader of JSON.
    evidence.configure("seed", seed.to_string());
    evidence.configure("optimised", !cfg!(debug_assertions));
    let timer = floor::timer();
    if options.fifo {
        in_new_thread(priority::fifo).map_err(StoreLabError::Priority)?;
    }

    let mut levels = Vec::new();
    for durability in &options.levels {
        say(&format!("loading {} rows at the level {durability}", options.rows));
        let failed = |doing| {
            let level = durability.name();
            move |source| StoreLabError::Store { doing, level, source: Box::new(source) }
        };
        let path = folder.0.join(durability.name());
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
        run.operation(operation, &folder.0, &mut evidence);
    }
    if run.floor.is_empty() {
        floor::sync_floor(&folder.0, &mut run.floor).map_err(folder_error("measure the fsync floor in"))?;
    }
    evidence.measurements.push(Measurement::from_histogram_us("fsync_floor", &run.floor));
    evidence.measurements.push(Measurement::from_histogram_us("timer", &timer));
    conclude(run, &mut evidence);
    say("removing the stores");
    drop(folder);
    evidence.finish();
    Ok(evidence)
}

fn conclude(run: Run<'_>, evidence: &mut Evidence) {
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
    let matrix = Matrix::of(evidence);
    let checked = checks::of(&matrix, checks::Conditions::of(evidence));
    evidence.checks.extend(checked);
    let found = findings::of_document(evidence);
    evidence.findings.extend(found);
    let conditions = rules::conditions(evidence);
    evidence.findings.extend(conditions);
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
                    take(level, operation, (budget, most), sample, self.options.fifo && waits)
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

/// The folder of the stores, removed when it is dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn make(dir: &Path) -> std::io::Result<Self> {
        let path = dir.join(format!("lab-store-{}", entropy::token(8)));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: there is nobody left to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
