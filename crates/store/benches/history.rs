//! What it costs to retain each commit, to read what was, and to read on beside a writer:
//! `cargo bench -p duramen-store --bench history`.

use std::error::Error;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::{Branch, Durability, Follower, Keep, Moment, Options, Scope, Store};

const PAIRS: u64 = 1_000_000;
const WRITES: u64 = 100_000;
const SEED: u64 = 1;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    println!("{PAIRS} pairs of 16 and 100 bytes, {WRITES} random puts, one a commit, level buffered");
    let mut bytes = [0; 2];
    for (index, keep) in [None, Some(Keep::each_commit())].into_iter().enumerate() {
        let path = folder.path().join(index.to_string());
        let store = Store::open(&path, Options { durability: Durability::Buffered, ..Options::default() })?;
        let main = store.branch("main")?;
        main.bulk_load("default", (0..PAIRS).map(|number| (key(number), "x".repeat(100))))?;
        for pair in 0..PAIRS {
            main.kv().exists(key(pair))?;
        }
        store.keep_history("main", keep)?;
        let begin = clock::now();
        let puts = puts(&main)?;
        let all = begin.elapsed();
        let begin = clock::now();
        store.checkpoint()?;
        let checkpoint = begin.elapsed();
        bytes[index] = store.info().node_bytes;
        let states = main.history()?.states.len();
        println!(
            "{}: p50 {:.2} us, p99 {:.2} us, p99.9 {:.0} us, {:.0} puts a second; checkpoint {:.2} s; {states} states, {} MB",
            if keep.is_some() { "each commit retained" } else { "no history" },
            at(&puts, 0.5),
            at(&puts, 0.99),
            at(&puts, 0.999),
            WRITES as f64 / all.as_secs_f64(),
            checkpoint.as_secs_f64(),
            bytes[index] / 1_000_000,
        );
        if keep.is_some() {
            println!("a state holds {} bytes", bytes[1].saturating_sub(bytes[0]) / states.max(1) as u64);
            past(&main)?;
            let begin = clock::now();
            store.keep_history("main", None)?;
            println!("all states forgotten: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
        }
        store.close()?;
    }
    following(&folder.path().join("0"))
}

fn key(number: u64) -> String {
    format!("{number:016}")
}

fn puts(main: &Branch) -> Outcome<Vec<Duration>> {
    let mut rng = entropy::rng(SEED);
    let mut times = Vec::with_capacity(WRITES as usize);
    let value = "y".repeat(100);
    for _ in 0..WRITES {
        let key = key(rng.u64(0..PAIRS));
        let begin = clock::now();
        main.kv().put(key, value.as_str())?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

fn past(main: &Branch) -> Outcome<()> {
    let mut rng = entropy::rng(SEED);
    let states = main.history()?.states;
    let (mut opens, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let version = states[rng.usize(0..states.len())].version;
        let begin = clock::now();
        let then = main.at(&Moment::Version(version))?;
        opens.push(begin.elapsed());
        let key = key(rng.u64(0..PAIRS));
        let begin = clock::now();
        then.kv().get(key)?;
        gets.push(begin.elapsed());
    }
    opens.sort_unstable();
    gets.sort_unstable();
    println!(
        "a state of {}: opened in {:.1} us, its first get {:.1} us (p50)",
        states.len(),
        at(&opens, 0.5),
        at(&gets, 0.5)
    );
    Ok(())
}

/// How late a reader beside the writer sees a commit.
fn following(path: &std::path::Path) -> Outcome<()> {
    let store = Store::open(path, Options::default())?;
    let main = store.branch("main")?;
    let follower = Follower::open(path, Options::default())?;
    let mut times = Vec::new();
    for number in 0..20_000_u64 {
        main.kv().put("n", number as i64)?;
        let begin = clock::now();
        let seen = follower.branch("main")?.kv().get("n")?;
        times.push(begin.elapsed());
        if seen != Some((number as i64).into()) {
            return Err(format!("commit {number} was not seen").into());
        }
    }
    times.sort_unstable();
    println!(
        "a commit is seen by a reader's next look, which takes {:.1} us, p99.9 {:.1} us, at most {:.1} ms",
        at(&times, 0.5),
        at(&times, 0.999),
        at(&times, 1.0) / 1e3
    );
    Ok(())
}

fn at(sorted: &[Duration], part: f64) -> f64 {
    let index = ((sorted.len() as f64 * part) as usize).min(sorted.len() - 1);
    sorted[index].as_secs_f64() * 1e6
}
