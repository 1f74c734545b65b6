//! What an index costs a write, and what it saves a reader: `cargo bench -p duramen-store --bench indexes`.

use std::error::Error;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::index::{Index, Query};
use duramen_store::{Branch, Durability, Options, Primitive, Scope, Store};
use serde_json::{json, Value};

const DOCUMENTS: u64 = 1_000_000;
const WRITES: u64 = 50_000;
/// Documents with the same value in the first field of the index.
const ALIKE: u64 = 100;
const BATCH: u64 = 10_000;
const SEED: u64 = 1;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(
        folder.path(),
        Options { durability: Durability::Buffered, memory_bytes: 4 << 30, ..Options::default() },
    )?;
    let main = store.branch("main")?;
    println!("{DOCUMENTS} documents of about 100 bytes, {ALIKE} alike in the first field, level buffered");
    for first in (0..DOCUMENTS).step_by(BATCH as usize) {
        main.json().set_many((first..first + BATCH).map(|number| (key(number), "", document(number, 0))))?;
    }
    let open = |number: u64| {
        Query::new(format!("owner = {}", number % (DOCUMENTS / ALIKE)).parse().expect("a filter"))
    };
    let begin = clock::now();
    let found = main.json().find(&open(7), 1000)?;
    println!("find {} without an index: {:.0} ms", found.rows.len(), begin.elapsed().as_secs_f64() * 1e3);
    println!("set, no index: {}", puts(&main)?);
    for (name, fields) in [("owner", &["owner", "at"][..]), ("at", &["at"])] {
        let begin = clock::now();
        main.indexes().create(name, &Index::new(Primitive::Json, fields.iter().copied()))?;
        println!("index of {} field(s) made in {:.1} s", fields.len(), begin.elapsed().as_secs_f64());
        println!("set, with it: {}", puts(&main)?);
    }
    let mut rng = entropy::rng(SEED);
    for (what, order, limit) in [("all", None, 1000), ("the first 10 by a second field", Some("at"), 10)] {
        let mut times = Vec::new();
        let mut rows = 0;
        for _ in 0..2000 {
            let query = open(rng.u64(..));
            let query = order.map_or(query.clone(), |order| query.order([order]));
            let begin = clock::now();
            rows += main.json().find(&query, limit)?.rows.len();
            times.push(begin.elapsed());
        }
        println!("find {what} of {ALIKE} alike ({} rows): {}", rows / times.len(), shown(times));
    }
    let begin = clock::now();
    let whole = store.verify(&mut |_| {})?.is_whole();
    println!(
        "verified in {:.1} s: {}",
        begin.elapsed().as_secs_f64(),
        if whole { "whole" } else { "damaged" }
    );
    Ok(())
}

fn key(number: u64) -> String {
    format!("document:{number:010}")
}

fn document(number: u64, at: u64) -> Value {
    json!({ "owner": number % (DOCUMENTS / ALIKE), "at": at, "note": "x".repeat(60) })
}

fn puts(main: &Branch) -> Outcome<String> {
    let mut rng = entropy::rng(SEED);
    let mut times = Vec::with_capacity(WRITES as usize);
    for at in 0..WRITES {
        let number = rng.u64(..DOCUMENTS);
        let (key, document) = (key(number), document(number, at));
        let begin = clock::now();
        main.json().set(&key, "", &document)?;
        times.push(begin.elapsed());
    }
    Ok(shown(times))
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e6;
    format!("p50 {:.1} us, p99 {:.1} us", at(0.5), at(0.99))
}
