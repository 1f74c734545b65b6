//! The suite from the first process to the last figure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use duramen_base::entropy;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::statistics::median;
use serde::de::DeserializeOwned;

use super::engine::EngineName;
use super::options::Options;
use super::part::{Figures, Part};
use super::{Packs, ALLOCATION_COUNTER};
use duramen_postgres::Scratch;
use duramen_reports::suite::{begin, conclude, Say, Suite as _, SuiteError};

/// How many values of a round are blocks of their own, at most.
const MOST_BLOCKS: usize = 50;

pub(crate) fn run(options: &Options, say: Say<'_>) -> Result<Evidence, SuiteError> {
    let folder = Scratch::private(&options.dir, "lab-packs").map_err(SuiteError::other)?;
    let mut evidence = begin(options, folder.path(), say)?;
    options.note(&mut evidence);
    let seed = entropy::seed();
    evidence.configure("seed", format!("{seed:#x}"));
    let mut random = entropy::rng(seed);
    let counter = allocation_counter(&options.exe);
    let by = counter.as_ref().map_or("nothing", |_| ALLOCATION_COUNTER);
    evidence.configure("allocations_counted_by", by);
    let mut all: BTreeMap<(usize, &str), Vec<Figures>> = BTreeMap::new();
    for grants in &options.grants {
        for round in 1..=options.rounds {
            // Who goes first is left to chance, so that nobody always finds the machine warm.
            let mut order = EngineName::ALL;
            random.shuffle(&mut order);
            for engine in order {
                let part = Part { engine, grants: *grants };
                say(&format!("{part}, round {round} of {}", options.rounds));
                let mut figures = run_process(options, folder.path(), part)?;
                // What SQLite asks of the C library is not counted, so its count would say nothing.
                if let Some(counter) = counter.as_deref().filter(|_| engine != EngineName::Sqlite) {
                    figures.allocs = Some(run_counter(counter, folder.path(), part)?);
                }
                all.entry((*grants, engine.name())).or_default().push(figures);
            }
        }
    }
    let largest = options.grants.iter().max().copied().unwrap_or(0);
    for engine in EngineName::ALL {
        for grants in &options.grants {
            let Some(rounds) = all.get(&(*grants, engine.name())) else { continue };
            add_figures(&mut evidence, engine, *grants, rounds, *grants == largest);
        }
    }
    check(&mut evidence, &all);
    conclude(Packs.diagnose(&evidence), &mut evidence);
    Ok(evidence)
}

/// Runs one part as a process, and waits for its figures.
fn run_process(options: &Options, folder: &Path, part: Part) -> Result<Figures, SuiteError> {
    let mut command = Command::new(&options.exe);
    command.args(["lab", "run", "packs", "--part", &part.to_string(), "--dir"]).arg(folder);
    // By its working directory the guardian of the folder finds it.
    command.current_dir(folder);
    printed(command, &options.exe, part)
}

/// The program that counts allocations, if it is beside the one that runs the suite.
fn allocation_counter(exe: &Path) -> Option<PathBuf> {
    Some(exe.with_file_name(ALLOCATION_COUNTER)).filter(|program| program.is_file())
}

/// How many allocations a write of a part takes.
fn run_counter(counter: &Path, folder: &Path, part: Part) -> Result<f64, SuiteError> {
    let mut command = Command::new(counter);
    command.arg(part.to_string()).arg(folder).current_dir(folder);
    printed(command, counter, part)
}

/// Waits for what a process of the suite prints.
fn printed<T: DeserializeOwned>(mut command: Command, program: &Path, part: Part) -> Result<T, SuiteError> {
    let output = command.output().map_err(SuiteError::file("start", program))?;
    let failed = |said: String| SuiteError::Failed(format!("the part {part} of the suite failed: {said}"));
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

fn add_figures(
    evidence: &mut Evidence,
    engine: EngineName,
    grants: usize,
    rounds: &[Figures],
    is_largest: bool,
) {
    let prefix = engine.prefix();
    let mut add = |name: &str, unit: &str, rounds: Vec<Vec<f64>>| {
        let values = rounds.concat();
        if !values.is_empty() {
            let name = format!("{prefix}{name}");
            evidence.keep_blocks(&name, rounds.iter().map(|values| blocks(values)).collect());
            evidence.measurements.push(Measurement::from_values(name, unit, &values));
        }
    };
    let several = |figure: fn(&Figures) -> &Vec<f64>| -> Vec<Vec<f64>> {
        rounds.iter().map(|each| figure(each).clone()).collect()
    };
    let one = |figure: fn(&Figures) -> Option<f64>| -> Vec<Vec<f64>> {
        rounds.iter().filter_map(figure).map(|value| vec![value]).collect()
    };
    add(&format!("write_ms/{grants}"), "ms", several(|each| &each.write_ms));
    add(&format!("write_cpu_ms/{grants}"), "ms", several(|each| &each.write_cpu_ms));
    add(&format!("allocs/{grants}"), "calls", one(|each| each.allocs));
    add(&format!("peak_rss_bytes/{grants}"), "bytes", one(|each| Some(each.peak_rss_bytes)));
    add(&format!("file_bytes/{grants}"), "bytes", one(|each| Some(each.file_bytes)));
    add(&format!("read_ms/{grants}"), "ms", several(|each| &each.read_ms));
    add(&format!("read_cpu_ms/{grants}"), "ms", several(|each| &each.read_cpu_ms));
    add(&format!("lookup_us/{grants}"), "us", several(|each| &each.lookup_us));
    add(&format!("put_one_us/{grants}"), "us", several(|each| &each.put_one_us));
    if is_largest {
        add("lookup_us", "us", several(|each| &each.lookup_us));
        add("put_one_us", "us", several(|each| &each.put_one_us));
    }
}

/// The blocks of a round. Of many operations in a row the middle is one: they wait behind the same things.
fn blocks(values: &[f64]) -> Vec<f64> {
    if values.len() <= MOST_BLOCKS {
        return values.to_vec();
    }
    median(values).into_iter().collect()
}

fn check(evidence: &mut Evidence, all: &BTreeMap<(usize, &str), Vec<Figures>>) {
    let mut details = Vec::new();
    let (mut equal, mut found) = (true, true);
    for ((grants, engine), rounds) in all {
        for figures in rounds {
            let same = figures.rows_read == *grants as u64 && figures.rows_equal == *grants as u64;
            if !same {
                let text =
                    format!("{engine}: {} read, {} equal of {grants}", figures.rows_read, figures.rows_equal);
                details.push(text);
            }
            equal &= same;
            found &= figures.wrong_lookups == 0;
        }
    }
    let detail = if equal {
        "every row of every size and engine, field by field".to_owned()
    } else {
        details.join("; ")
    };
    evidence.check("rows_read_equal_rows_written", equal, detail);
    evidence.check("lookups_find_all_grants_of_a_user", found, "some users of every size and engine");
}
