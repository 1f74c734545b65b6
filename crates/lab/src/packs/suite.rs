//! The suite from the first process to the last figure.

use std::collections::BTreeMap;
use std::process::Command;

use duramen_measure::entropy;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::host::Host;

use super::engine::EngineName;
use super::error::PacksLabError;
use super::options::Options;
use super::part::{Figures, Part};
use super::SUITE;
use crate::rules;

pub(crate) fn run(options: &Options, say: &dyn Fn(&str)) -> Result<Evidence, PacksLabError> {
    std::fs::create_dir_all(&options.dir).map_err(PacksLabError::io("make the folder", &options.dir))?;
    say("describing the machine");
    let host = Host::fingerprint(&options.dir)?;
    let mut evidence = Evidence::new(SUITE, host);
    if !options.command.is_empty() {
        evidence.command.clone_from(&options.command);
    }
    options.note(&mut evidence);
    let seed = entropy::seed();
    evidence.configure("seed", format!("{seed:#x}"));
    let mut random = entropy::rng(seed);
    let mut all: BTreeMap<(usize, &str), Vec<Figures>> = BTreeMap::new();
    for grants in &options.grants {
        for round in 1..=options.rounds {
            // Who goes first is left to chance, so that nobody always finds the machine warm.
            let mut order = EngineName::ALL;
            random.shuffle(&mut order);
            for engine in order {
                let part = Part { engine, grants: *grants };
                say(&format!("{part}, round {round} of {}", options.rounds));
                all.entry((*grants, engine.name())).or_default().push(run_process(options, part)?);
            }
        }
    }
    let largest = options.grants.iter().max().copied().unwrap_or(0);
    for engine in EngineName::ALL {
        for grants in &options.grants {
            let Some(rounds) = all.get(&(*grants, engine.name())) else { continue };
            tell(&mut evidence, engine, *grants, rounds, *grants == largest);
        }
    }
    check(&mut evidence, &all);
    let found = super::diagnose(&evidence);
    evidence.findings.extend(found);
    let conditions = rules::conditions(&evidence);
    evidence.findings.extend(conditions);
    evidence.finish();
    Ok(evidence)
}

/// Runs one part as a process, and waits for its figures.
fn run_process(options: &Options, part: Part) -> Result<Figures, PacksLabError> {
    let mut command = Command::new(&options.exe);
    command.args(["lab", "run", "packs", "--part", &part.to_string(), "--dir"]).arg(&options.dir);
    let output = command.output().map_err(PacksLabError::io("start", &options.exe))?;
    let failed = |said: String| PacksLabError::Part { part: part.to_string(), said };
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

fn tell(evidence: &mut Evidence, engine: EngineName, grants: usize, rounds: &[Figures], is_largest: bool) {
    let prefix = engine.prefix();
    let mut add = |name: &str, unit: &str, values: Vec<f64>| {
        if !values.is_empty() {
            evidence.measurements.push(Measurement::from_values(format!("{prefix}{name}"), unit, &values));
        }
    };
    let several = |of: fn(&Figures) -> &Vec<f64>| -> Vec<f64> {
        rounds.iter().flat_map(|each| of(each).clone()).collect()
    };
    let one = |of: fn(&Figures) -> Option<f64>| -> Vec<f64> { rounds.iter().filter_map(of).collect() };
    add(&format!("write_ms/{grants}"), "ms", several(|each| &each.write_ms));
    add(&format!("write_cpu_ms/{grants}"), "ms", several(|each| &each.write_cpu_ms));
    // What SQLite asks of the C library is not counted, so its count would say nothing.
    if engine != EngineName::Sqlite {
        add(&format!("allocs/{grants}"), "calls", one(|each| each.allocs));
    }
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
