//! Documents beside their vectors: what is near to a question, and what fits conditions, by an index.
//!
//! `cargo run -p duramen-store --example search`

use std::error::Error;
use std::path::Path;

use duramen_store::index::{Index, Query};
use duramen_store::vector::{Metric, SearchOptions};
use duramen_store::{Options, Primitive, Scope, Store};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    run(tempfile::tempdir()?.path())
}

/// A model would do this: here it is how often four words occur.
fn embed(text: &str) -> Vec<f32> {
    let words = ["tree", "leaf", "stone", "river"];
    words.map(|word| text.matches(word).count() as f32 + 0.1).to_vec()
}

/// Everything, in a folder.
pub(crate) fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let store = Store::open(folder, Options::default())?;
    let main = store.branch("main")?;
    main.vectors().create("texts", embed("").len(), Metric::Cosine)?;
    main.indexes().create("by-year", &Index::new(Primitive::Json, ["year"]))?;

    let texts = [
        ("oak", 1998, "a tree loses leaf after leaf"),
        ("pebble", 2007, "a stone in the river"),
        ("beech", 2015, "the tree, and the next tree"),
        ("delta", 2020, "the river, and the river again"),
    ];
    for (key, year, text) in texts {
        // A document and its vector are there together, or not at all.
        main.transact(|tx| {
            tx.json().set(key, "$", json!({ "year": year, "text": text }))?;
            tx.vectors().collection("texts").upsert(key, &embed(text), Some(&json!({ "year": year })))
        })?;
    }

    let near =
        main.vectors().collection("texts").search(&embed("which tree?"), 2, &SearchOptions::default())?;
    let keys: Vec<&str> = near.iter().map(|found| found.key.as_str()).collect();
    println!("near: {keys:?}");
    assert_eq!(keys[0], "beech");

    // Only what fits a condition on the metadata.
    let late = SearchOptions { filter: "year >= 2018".parse()? };
    let near = main.vectors().collection("texts").search(&embed("which tree?"), 2, &late)?;
    assert_eq!(near.len(), 1);
    assert_eq!(near[0].key, "delta");

    // Documents by their own fields, in their order.
    let since = Query::new("year >= 2000".parse()?).order(["year"]);
    assert_eq!(main.json().explain(&since)?.index.as_deref(), Some("by-year"));
    let found = main.json().find(&since, 10)?;
    let keys: Vec<&str> = found.rows.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["pebble", "beech", "delta"]);
    store.close()?;
    Ok(())
}
