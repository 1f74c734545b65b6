//! How much memory a process takes with a store that has ten times as much data as it is to keep in memory, and how long its slowest
//! writes take: `cargo bench -p duramen-store --bench memory [-- WORKLOAD...]`.
//!
//! Each workload runs in a process of its own, whose peak is read from the system. What is asked for: 1.15 times the budget and 64 MB;
//! of puts, a 99.99th percentile of 50 ms.

use std::error::Error;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use duramen_base::clock;
use duramen_store::blob::BLOB_BYTES_MAX;
use duramen_store::vector::{Metric, SearchOptions};
use duramen_store::{Branch, Options, Scope, Store};

const MB: usize = 1_000_000;
const BUDGET: usize = 64 * MB;
/// Of what is in the store, times the budget.
const DATA: usize = 10;
const VALUE: usize = 500;
const PAIRS: usize = BUDGET * DATA / (VALUE + 16);
const WRITES: usize = 400_000;
const ASKED: f64 = 1.15 * BUDGET as f64 + 64.0 * MB as f64;

type Outcome = Result<Vec<Duration>, Box<dyn Error>>;
type Workload = (&'static str, fn(&Store) -> Outcome);

const WORKLOADS: &[Workload] = &[
    ("put, random", random_puts),
    ("put, in order", ordered_puts),
    ("get, random", random_gets),
    ("batches of 10,000", batches),
    ("json, a path", json),
    ("events", events),
    ("forks", forks),
    ("snapshots that are held", snapshots),
    ("vectors, searched", vectors),
    ("pairs that end", pairs_that_end),
    ("a blob of 1 GiB", blob),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    if let [flag, name] = &arguments[..] {
        if flag == "--run" {
            let (_, run) = WORKLOADS.iter().find(|(it, _)| it == name).ok_or("no such workload")?;
            return alone(*run);
        }
    }
    let asked = ASKED / MB as f64;
    println!(
        "budget {} MB, data {} MB; asked: {asked:.0} MB at most, and p99.99 of writes 50 ms",
        BUDGET / MB,
        DATA * BUDGET / MB
    );
    for (name, _) in WORKLOADS {
        if !arguments.is_empty() && !arguments.iter().any(|it| name.starts_with(it.as_str())) {
            continue;
        }
        let output = Command::new(std::env::current_exe()?).args(["--run", name]).output()?;
        if !output.status.success() {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        print!("{name:<26}{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}

/// A workload in this process.
fn alone(run: fn(&Store) -> Outcome) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options { memory_bytes: BUDGET, ..Options::default() };
    let store = Store::open(dir.path().join("store"), options)?;
    let begun = clock::now();
    let mut took = run(&store)?;
    let whole = begun.elapsed();
    let counters = store.counters();
    store.close()?;
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    let peak = peak_rss()? / 1e6;
    println!(
        "{peak:6.0} MB{}  p50 {:8.4} ms  p99.9 {:7.2}  p99.99 {:7.2}  max {:7.2}  {:6.1} s  {} checkpoints",
        if peak * 1e6 > ASKED { " MISSED" } else { "       " },
        at(0.5),
        at(0.999),
        at(0.9999),
        at(1.0),
        whole.as_secs_f64(),
        counters.checkpoints
    );
    Ok(())
}

/// The most memory that this process ever had, in bytes.
fn peak_rss() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}

fn timed<R>(took: &mut Vec<Duration>, work: impl FnOnce() -> R) -> R {
    let begun = clock::now();
    let result = work();
    took.push(begun.elapsed());
    result
}

fn key(number: usize) -> String {
    format!("key {number:012}")
}

/// A store that has all pairs.
fn filled(store: &Store) -> Result<Branch, Box<dyn Error>> {
    let main = store.branch("main")?;
    main.bulk_load("default", (0..PAIRS).map(|number| (key(number), vec![number as u8; VALUE])))?;
    Ok(main)
}

fn random_puts(store: &Store) -> Outcome {
    let main = filled(store)?;
    let kv = main.kv();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut took = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let (at, value) = (key(rng.usize(0..PAIRS)), vec![rng.u8(..); VALUE]);
        timed(&mut took, || kv.put(&at, value))?;
    }
    Ok(took)
}

fn ordered_puts(store: &Store) -> Outcome {
    let main = store.branch("main")?;
    let kv = main.kv();
    let mut took = Vec::with_capacity(PAIRS);
    for number in 0..PAIRS {
        let (at, value) = (key(number), vec![number as u8; VALUE]);
        timed(&mut took, || kv.put(&at, value))?;
    }
    Ok(took)
}

fn random_gets(store: &Store) -> Outcome {
    let main = filled(store)?;
    let kv = main.kv();
    let mut rng = fastrand::Rng::with_seed(2);
    let mut took = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let at = key(rng.usize(0..PAIRS));
        timed(&mut took, || kv.get(&at))?.ok_or("a pair is missing")?;
    }
    Ok(took)
}

fn batches(store: &Store) -> Outcome {
    let main = filled(store)?;
    let mut rng = fastrand::Rng::with_seed(3);
    let mut took = Vec::new();
    for _ in 0..20 {
        let keys: Vec<String> = (0..10_000).map(|_| key(rng.usize(0..PAIRS))).collect();
        timed(&mut took, || {
            main.transact(|transaction| {
                let kv = transaction.kv();
                keys.iter().try_for_each(|at| kv.put(at, vec![1_u8; VALUE]).map(drop))
            })
        })?;
    }
    Ok(took)
}

fn json(store: &Store) -> Outcome {
    let main = store.branch("main")?;
    let json = main.json();
    let documents = BUDGET * DATA / 2 / 600;
    let text = "x".repeat(500);
    let mut took = Vec::new();
    for number in 0..documents {
        let document = serde_json::json!({ "count": 0, "text": text });
        timed(&mut took, || json.set(&key(number), "", &document))?;
    }
    let mut rng = fastrand::Rng::with_seed(4);
    for round in 0..WRITES / 2 {
        let at = key(rng.usize(0..documents));
        timed(&mut took, || json.set(&at, "count", serde_json::json!(round)))?;
    }
    Ok(took)
}

fn events(store: &Store) -> Outcome {
    let main = store.branch("main")?;
    let events = main.events();
    let payload = serde_json::json!({ "text": "x".repeat(VALUE) });
    let mut took = Vec::with_capacity(PAIRS / 2);
    for _ in 0..PAIRS / 2 {
        timed(&mut took, || events.append("happened", &payload))?;
    }
    Ok(took)
}

fn forks(store: &Store) -> Outcome {
    let main = filled(store)?;
    let mut rng = fastrand::Rng::with_seed(5);
    let mut took = Vec::new();
    for number in 0..200 {
        let fork = main.fork(&format!("fork-{number}"))?;
        let kv = fork.kv();
        for _ in 0..WRITES / 400 {
            let at = key(rng.usize(0..PAIRS));
            timed(&mut took, || kv.put(&at, vec![2_u8; VALUE]))?;
        }
    }
    Ok(took)
}

fn snapshots(store: &Store) -> Outcome {
    let main = filled(store)?;
    let kv = main.kv();
    let mut rng = fastrand::Rng::with_seed(6);
    let (mut held, mut took) = (Vec::new(), Vec::new());
    for round in 0..WRITES / 4 {
        if round % 4_000 == 0 {
            held.push(main.snapshot()?);
        }
        let at = key(rng.usize(0..PAIRS));
        timed(&mut took, || kv.put(&at, vec![3_u8; VALUE]))?;
    }
    Ok(took)
}

fn vectors(store: &Store) -> Outcome {
    const DIMENSION: usize = 128;
    let main = store.branch("main")?;
    let vectors = main.vectors();
    vectors.create("all", DIMENSION, Metric::Cosine)?;
    let all = vectors.collection("all");
    let rows = BUDGET * DATA / 2 / (4 * DIMENSION);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut some = || -> Vec<f32> { (0..DIMENSION).map(|_| rng.f32() - 0.5).collect() };
    let mut took = Vec::with_capacity(rows);
    for number in 0..rows {
        let vector = some();
        timed(&mut took, || all.upsert(&key(number), &vector, None))?;
        if number % 100_000 == 50_000 {
            all.search(&some(), 10, &SearchOptions::default())?;
        }
    }
    for _ in 0..10 {
        all.search(&some(), 10, &SearchOptions::default())?;
    }
    Ok(took)
}

/// Each pair is over soon after it was put, so that the store deletes as fast as it is written to.
fn pairs_that_end(store: &Store) -> Outcome {
    let main = store.branch("main")?;
    let kv = main.kv();
    let mut took = Vec::with_capacity(PAIRS);
    for number in 0..PAIRS {
        let (at, value) = (key(number), vec![number as u8; VALUE]);
        timed(&mut took, || kv.put_with_ttl(&at, value, Duration::from_millis(500)))?;
    }
    Ok(took)
}

/// The longest blob, put, read, put anew and deleted; one that is longer is refused. Times are those of a mebibyte.
fn blob(store: &Store) -> Outcome {
    let main = store.branch("main")?;
    let blobs = main.blobs();
    let (mut took, mib) = (Vec::new(), BLOB_BYTES_MAX as u32 >> 20);
    for byte in [1, 2] {
        let begun = clock::now();
        blobs.put("blob", std::io::repeat(byte).take(BLOB_BYTES_MAX))?;
        took.push(begun.elapsed() / mib);
        let begun = clock::now();
        let mut reader = blobs.open("blob")?.ok_or("no blob")?;
        let read = std::io::copy(&mut reader, &mut std::io::sink())?;
        took.push(begun.elapsed() / mib);
        if read != BLOB_BYTES_MAX {
            return Err(format!("{read} bytes were read").into());
        }
    }
    let begun = clock::now();
    if blobs.put("other", std::io::repeat(3)).is_ok() {
        return Err("more than the longest blob was put".into());
    }
    took.push(begun.elapsed() / mib);
    blobs.delete("blob")?;
    // Its chunks are deleted by the thread of the store.
    let begun = clock::now();
    while main.snapshot()?.entries() > 0 {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(format!("{} entries are left", main.snapshot()?.entries()).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(took)
}
