//! Batches are of one moment, while others write.

use crate::documents::{documents, main_branch, open};
use duramen_store::{Scope, Store};
use duramen_store_arrow::*;
use serde_json::json;
use std::sync::Arc;

#[test]
fn a_writer_shows_in_the_batches_of_an_earlier_moment() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.json().set_many((0..3000).map(|n| (format!("{n:05}"), "", json!({ "n": n, "round": 0 })))).unwrap();
    let before = documents(&main, "default");
    let limits = Limits { rows_max: 10, ..Limits::default() };
    let batches = open(&main, DocumentOptions { limits, ..DocumentOptions::default() });
    let copy = store.fork("main", "copy").unwrap();
    let writer = main.clone();
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for round in 1..200 {
                let rows =
                    (0..30).map(|n| (format!("{:05}", n * 97), "", json!({ "n": "text", "round": round })));
                writer.json().set_many(rows).unwrap();
                writer.json().delete(&format!("{:05}", round * 11), "").unwrap();
            }
        });
        let loaded = load_documents(&copy.space("again").unwrap(), batches, &DocumentsIn::default());
        assert_eq!(loaded.unwrap().rows, 3000);
    });
    assert!(documents(&copy, "again") == before);
    assert!(documents(&main, "default") != before);
}

#[test]
fn a_snapshot_or_a_transaction_is_read_as_a_branch() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.kv().put("a", 1).unwrap();
    let snapshot = Arc::new(main.snapshot().unwrap());
    main.kv().put("b", 2).unwrap();
    let table = Table::Pairs(PairOptions::default());
    let rows = |batches: &mut dyn Iterator<
        Item = Result<arrow_array::RecordBatch, arrow_schema::ArrowError>,
    >| { batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>() };
    // The reader has the snapshot for itself, and can go to another thread.
    let owned = Batches::open(Arc::clone(&snapshot), "default", &table).unwrap();
    let of_thread = std::thread::spawn(move || owned.map(|batch| batch.unwrap().num_rows()).sum::<usize>());
    assert_eq!(of_thread.join().unwrap(), 1);
    assert_eq!(rows(&mut Batches::open(&main, "default", &table).unwrap()), 2);
    let transaction = main.begin().unwrap();
    transaction.kv().put("c", 3).unwrap();
    assert_eq!(rows(&mut Batches::open(&transaction, "default", &table).unwrap()), 3);
}
