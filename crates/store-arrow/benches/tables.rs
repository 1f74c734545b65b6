//! Documents out of a store as Arrow and into one: `cargo bench -p duramen-store-arrow --bench tables`, with `--features parquet`
//! also through a file.

use std::error::Error;

use duramen_base::clock;
use duramen_store::{Durability, Options, Scope, Store};
use duramen_store_arrow::{load_documents, Batches, DocumentOptions, DocumentsIn, Table};
use serde_json::{json, Value};

const DOCUMENTS: u64 = 1_000_000;
const BATCH: u64 = 10_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let options =
        || Options { durability: Durability::Buffered, memory_bytes: 4 << 30, ..Options::default() };
    let store = Store::open(folder.path().join("store"), options())?;
    let main = store.branch("main")?;
    println!("{DOCUMENTS} documents of about 100 bytes, level buffered");
    let begin = clock::now();
    for first in (0..DOCUMENTS).step_by(BATCH as usize) {
        main.json().set_many((first..first + BATCH).map(|number| (key(number), "", document(number))))?;
    }
    told("set from JSON values", begin.elapsed().as_secs_f64());
    let table = Table::Documents(DocumentOptions::default());
    for _ in 0..3 {
        let begin = clock::now();
        let mut rows = 0;
        for batch in Batches::open(&main, "default", &table)? {
            rows += batch?.num_rows();
        }
        assert_eq!(rows as u64, DOCUMENTS);
        told("out", begin.elapsed().as_secs_f64());
    }
    let batches: Vec<_> = Batches::open(&main, "default", &table)?.collect();
    let begin = clock::now();
    load_documents(&main.space("again")?, batches, &DocumentsIn::default())?;
    told("in", begin.elapsed().as_secs_f64());
    #[cfg(feature = "parquet")]
    {
        use duramen_store_arrow::parquet::{write_parquet, FileBatches};
        let path = folder.path().join("all.parquet");
        let begin = clock::now();
        write_parquet(&path, Batches::open(&main, "default", &table)?)?;
        told("out into a Parquet file", begin.elapsed().as_secs_f64());
        println!("  {} MB", path.metadata()?.len() / 1_000_000);
        let begin = clock::now();
        load_documents(&main.space("of-file")?, FileBatches::open(&path)?, &DocumentsIn::default())?;
        told("in from a Parquet file", begin.elapsed().as_secs_f64());
    }
    Ok(())
}

fn key(number: u64) -> String {
    format!("document:{number:010}")
}

fn document(number: u64) -> Value {
    json!({ "owner": number % 10_000, "at": number, "score": number as f64 / 7.0, "note": "x".repeat(40) })
}

fn told(what: &str, seconds: f64) {
    println!("{what}: {seconds:.2} s, {:.0} rows a second", DOCUMENTS as f64 / seconds);
}
