//! The same work on Duramen's store and on other embedded engines, side by side.
//!
//! See the README for what the rows are and how the engines are set.

mod bench;
mod data;
mod engine;
mod engines;
mod floor;
mod glob;
mod group;
mod latency;
mod limited;
mod priority;
mod report;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use duramen_base::entropy;
use duramen_measure::evidence::{Evidence, Severity};
use duramen_measure::host::Host;

use bench::Bench;
use data::Data;
use engine::Kind;
use limited::Limited;
use report::Results;
use rows::{Metric, Row};

/// For every engine the same, and the same as in the `duramen` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares embedded engines. Exits with 1 when a row failed.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// How many rows of 16 + 100 bytes.
    #[arg(long, default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    rows: u32,
    /// Which engines, separated by commas; all of this build if none is named.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Which rows, by patterns with `*` and `?`, separated by commas.
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    only: Vec<String>,
    /// How often everything is done; the table shows the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: u32,
    /// How many seconds a row that writes single commits may take.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Instead of the rows: random gets and puts of data that is ten times this memory, each engine in a process and in a control
    /// group of its own that has no more (needs root).
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(128..=65_536))]
    #[arg(conflicts_with_all = ["only", "fifo", "rows"])]
    memory: Option<u64>,
    /// The process of an engine.
    #[arg(long, hide = true, requires = "memory")]
    child: Option<String>,
    /// Writes the evidence document there.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Gives the threads of the strict rows real-time priority (needs root), so that a busy machine is not
    /// mistaken for a slow disk.
    #[arg(long)]
    fifo: bool,
    /// Where the stores are made, in a folder that is removed at the end; the disk under it is what is
    /// measured.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    if (0.01..=3_600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("must be from 0.01 to 3600".to_owned())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.memory {
        Some(mib) => run_limited(&cli, mib),
        None => run(&cli),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every row worked.
fn run(cli: &Cli) -> Result<bool, Box<dyn std::error::Error>> {
    let kinds = choose_engines(&cli.engines)?;
    let rows = choose_rows(&cli.only)?;
    let names: Vec<&'static str> = kinds.iter().map(|kind| kind.name).collect();
    let metrics: Vec<Metric> = rows.iter().flat_map(|row| row.metrics).copied().collect();

    let host = Host::fingerprint(&cli.dir)?;
    let folder = tempfile::Builder::new().prefix("duramen-peers-").tempdir_in(&cli.dir)?;
    let seed = entropy::seed();
    let mut evidence = Evidence::new("peers", host);
    describe(cli, cli.rows.into(), &kinds, seed, &mut evidence);

    let data = Data::new(seed, cli.rows as usize);
    let cap = Duration::from_secs_f64(cli.seconds);
    let bench = Bench::new(data, folder.path().to_owned(), cap, cli.fifo, seed);
    let results = measure(&bench, cli.repeats, &kinds, &rows);

    println!("{}", results.table(&metrics, &names));
    for failure in results.failures() {
        println!("FAILED {failure}");
    }
    results.tell(&mut evidence, &metrics, &names);
    evidence.finish();
    if let Some(path) = &cli.json {
        evidence.write(path)?;
    }
    folder.close()?;
    Ok(results.is_clean())
}

/// Runs with data that is larger than the memory. Returns whether every engine worked.
fn run_limited(cli: &Cli, mib: u64) -> Result<bool, Box<dyn std::error::Error>> {
    let seed = entropy::seed();
    let limited = Limited { memory: mib << 20, time: Duration::from_secs_f64(cli.seconds), seed };
    if let Some(name) = &cli.child {
        engines::limit(limited.cache());
        let kind = choose_engines(std::slice::from_ref(name))?;
        limited.child(&cli.dir, kind[0])?;
        return Ok(true);
    }
    let mut kinds = choose_engines(&cli.engines)?;
    // It takes as long as all others together, and nobody asked for it.
    kinds.retain(|kind| kind.name != "sqlite" || !cli.engines.is_empty());
    let names: Vec<&'static str> = kinds.iter().map(|kind| kind.name).collect();
    let host = Host::fingerprint(&cli.dir)?;
    let folder = tempfile::Builder::new().prefix("duramen-peers-").tempdir_in(&cli.dir)?;
    let mut evidence = Evidence::new("peers-memory", host);
    describe(cli, limited.rows(), &kinds, seed, &mut evidence);
    evidence.configure("memory_mib", mib);
    let results = limited.run(folder.path(), &kinds, cli.repeats)?;
    println!(
        "{} rows in {mib} MiB of memory\n\n{}",
        limited.rows(),
        results.table(&limited::METRICS, &names)
    );
    results.tell(&mut evidence, &limited::METRICS, &names);
    limited::hold(&results, &mut evidence);
    evidence.finish();
    if let Some(path) = &cli.json {
        evidence.write(path)?;
    }
    folder.close()?;
    Ok(results.is_clean())
}

fn measure(bench: &Bench, repeats: u32, kinds: &[Kind], rows: &[Row]) -> Results {
    let mut results = Results::default();
    let mut random = entropy::rng(bench.seed);
    for round in 0..u64::from(repeats) {
        for row in rows {
            // In another order each time, so that nobody always follows the same neighbour.
            let mut order: Vec<Kind> = kinds.iter().filter(|kind| (kind.has)(row.level)).copied().collect();
            random.shuffle(&mut order);
            for kind in order {
                match row.run(bench, kind, round) {
                    Ok(values) => {
                        let values = row.metrics.iter().zip(values);
                        let told: Vec<String> = values
                            .map(|(metric, value)| {
                                results.add(metric, kind.name, value);
                                format!("{} {value:.3} {}", metric.name, metric.unit)
                            })
                            .collect();
                        eprintln!("{}/{repeats} {}: {}", round + 1, kind.name, told.join(", "));
                    }
                    Err(error) => {
                        eprintln!("{}/{repeats} {}: {} FAILED: {error}", round + 1, kind.name, row.name);
                        for metric in row.metrics {
                            results.fail(metric, kind.name, error.to_string());
                        }
                    }
                }
            }
        }
        if let Err(error) = bench.next_round() {
            eprintln!("{}/{repeats}: {error}; the next round replaces it", round + 1);
        }
    }
    results
}

fn choose_engines(names: &[String]) -> Result<Vec<Kind>, String> {
    let all = engines::all();
    if names.is_empty() {
        return Ok(all);
    }
    let known = all.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    for name in names {
        if !all.iter().any(|kind| kind.name == name) {
            return Err(format!("no engine is named {name:?}; this build has {known}"));
        }
    }
    Ok(all.into_iter().filter(|kind| names.iter().any(|name| name == kind.name)).collect())
}

fn choose_rows(patterns: &[String]) -> Result<Vec<Row>, String> {
    let chosen = |row: &Row| patterns.is_empty() || patterns.iter().any(|p| glob::matches(p, row.name));
    let rows: Vec<Row> = rows::ALL.into_iter().filter(chosen).collect();
    if rows.is_empty() {
        let known = rows::ALL.map(|row| row.name).join(", ");
        return Err(format!("--only selects no row; there are {known}"));
    }
    Ok(rows)
}

/// Says what is measured where, before it takes long.
fn describe(cli: &Cli, rows: u64, kinds: &[Kind], seed: u64, evidence: &mut Evidence) {
    let host = evidence.host.clone();
    println!(
        "{}, {} cores, {:.0} GiB, {}, {}; load {:.2}, {:.2}, {:.2}; sync floor {:.0} us",
        host.cpu,
        host.cores,
        host.memory_bytes as f64 / f64::from(1 << 30),
        host.kernel,
        host.file_system,
        host.load_average[0],
        host.load_average[1],
        host.load_average[2],
        host.fsync_floor_us
    );
    let fifo = if cli.fifo { "on" } else { "off" };
    println!(
        "{rows} rows, {} repeats, {} s per row of single commits, SCHED_FIFO in strict rows {fifo}, {}={seed}\n",
        cli.repeats,
        cli.seconds,
        entropy::SEED_VARIABLE
    );
    if host.file_system == "tmpfs" {
        println!("--dir is in memory (tmpfs): syncs cost nothing there and the strict rows say nothing\n");
        evidence.find("no disk", Severity::Problem, None, "tmpfs: the strict rows say nothing");
    }
    evidence.configure("rows", rows);
    evidence.configure("repeats", cli.repeats);
    evidence.configure("seconds", cli.seconds);
    evidence.configure("fifo", cli.fifo);
    evidence.configure("seed", seed.to_string());
    for kind in kinds {
        evidence.configure(format!("engine {}", kind.name), kind.configured);
    }
}
