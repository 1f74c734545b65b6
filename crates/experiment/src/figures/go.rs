//! What `go test -bench` prints.
//!
//! ```text
//! pkg: example.org/rows
//! BenchmarkAppend/rows=100-2    7921    8553 ns/op    93.53 MB/s    100.0 rows    1984 B/op    5 allocs/op
//! ```

use super::{Figures, ReadError};
use std::collections::BTreeMap;

/// The values that an error shows.
const VALUES_LISTED: usize = 5;

pub(super) fn read(command: &str, text: &str, figures: &mut Figures) -> Result<(), ReadError> {
    let wanted = count(command);
    // By benchmark: the package, and the values of each unit.
    let mut benchmarks: BTreeMap<&str, (&str, BTreeMap<&str, Vec<f64>>)> = BTreeMap::new();
    let mut package = "";
    for line in text.lines() {
        // The status is lost when the command is a pipe, so the words count.
        let failed = ["FAIL\t", "panic: ", "fatal error: "].iter().any(|word| line.starts_with(word));
        if failed || line.trim_end() == "FAIL" || line.trim_start().starts_with("--- FAIL:") {
            return Err(ReadError::Failed { what: line.trim().to_owned() });
        }
        if let Some(name) = line.strip_prefix("pkg: ") {
            package = name.trim();
        }
        let Some((name, values)) = result(line) else { continue };
        let (of, units) = benchmarks.entry(name).or_insert_with(|| (package, BTreeMap::new()));
        if *of != package {
            let (first, second) = (format!("that of {of}"), format!("that of {package}"));
            return Err(ReadError::Duplicate { name: name.to_owned(), first, second });
        }
        for (value, unit) in values {
            units.entry(unit).or_default().push(value);
        }
    }

    let mut short: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in benchmarks.keys() {
        short.entry(without_procs(name)).or_default().push(name);
    }
    for (name, (_, units)) in &benchmarks {
        let base = without_procs(name);
        // Not if it would stand for several (`-cpu 2,4`), which may be different workloads (`size-100`,
        // `size-200`), or is the name of another (`-cpu 1,2`).
        let alias = short[base].len() == 1 && !benchmarks.contains_key(base);
        for (unit, values) in units {
            if values.len() != wanted {
                let listed: Vec<String> = values.iter().take(VALUES_LISTED).map(f64::to_string).collect();
                let (name, values) = (format!("{name}/{unit}"), listed.join(", "));
                return Err(ReadError::Count { name, found: units[unit].len(), wanted, values });
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            figures.put_number(&format!("{name}/{unit}"), Some(mean))?;
            if alias {
                figures.put_number(&format!("{base}/{unit}"), Some(mean))?;
            }
        }
    }
    Ok(())
}

/// The benchmark of a line, and its values with their units.
fn result(line: &str) -> Option<(&str, Vec<(f64, &str)>)> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|_| line.starts_with("Benchmark"))?;
    let _count: u64 = words.next()?.parse().ok()?;
    let mut values = Vec::new();
    while let (Some(value), Some(unit)) = (words.next(), words.next()) {
        values.push((value.parse().ok()?, unit));
    }
    (!values.is_empty()).then_some((name, values))
}

/// How often a command asks Go to run each benchmark: `-count N` (the last one counts, as for Go), or once.
fn count(command: &str) -> usize {
    let words: Vec<&str> =
        command.split_whitespace().map(|word| word.trim_matches(|c| "'\"();&|".contains(c))).collect();
    let flag = |word: &str| {
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
        let rest = name.strip_prefix("test.").unwrap_or(name).strip_prefix("count")?;
        Some(rest.strip_prefix('=').unwrap_or(rest).to_owned())
    };
    let number = |at: usize| {
        let value = flag(words[at])?;
        let value = if value.is_empty() { (*words.get(at + 1)?).to_owned() } else { value };
        value.parse().ok().filter(|count| *count > 0)
    };
    (0..words.len()).rev().find_map(number).unwrap_or(1)
}

/// A name without the `-N` that Go adds where `GOMAXPROCS` is not 1.
fn without_procs(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, procs)) if !procs.is_empty() && procs.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}
