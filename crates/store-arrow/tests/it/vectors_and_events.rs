//! Collections and logs as tables.

use crate::documents::main_branch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float32Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use duramen_store::vector::Metric;
use duramen_store::{Scope, Store};
use duramen_store_arrow::*;
use serde_json::json;
use std::sync::Arc;

#[test]
fn vectors_come_back_with_other_numbers() {
    let store = Store::memory();
    let main = main_branch(&store);
    let copy = main.space("copy").unwrap();
    for vectors in [main.vectors(), copy.vectors()] {
        vectors.create("points", 3, Metric::Euclidean).unwrap();
    }
    let points = main.vectors().collection("points");
    for number in 0..50_u16 {
        let metadata = json!({ "n": number });
        let metadata = (number % 2 == 0).then_some(&metadata);
        points.upsert(&format!("{number:02}"), &[f32::from(number), 0.1, -0.0], metadata).unwrap();
    }
    let limits = Limits { rows_max: 7, ..Limits::default() };
    let table = Table::Vectors(VectorOptions { limits, ..VectorOptions::new("points") });
    let batches = Batches::open(&main, "default", &table).unwrap();
    let into = VectorsIn {
        metadata: Some("metadata".to_owned()),
        commit: Commit { rows_max: 20, ..Commit::default() },
        ..VectorsIn::new("points")
    };
    assert_eq!(load_vectors(&copy, batches, &into).unwrap(), Loaded { rows: 50, commits: 3 });
    let loaded = copy.vectors().collection("points");
    for number in 0..50 {
        let key = format!("{number:02}");
        assert_eq!(loaded.get(&key).unwrap(), points.get(&key).unwrap());
    }
    let missing = Batches::open(&main, "default", &Table::Vectors(VectorOptions::new("point"))).unwrap_err();
    assert!(missing.to_string().contains("points"), "{missing}");
}

#[test]
fn vectors_of_the_wrong_kind_are_stored() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.vectors().create("points", 2, Metric::Dot).unwrap();
    let load = |vectors: ArrayRef| {
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let batch = RecordBatch::try_from_iter([("key", keys), ("vector", vectors)]).unwrap();
        let space = main.space("default").unwrap();
        load_vectors(&space, [Ok::<_, ArrowError>(batch)], &VectorsIn::new("points"))
    };
    let list = |values: Vec<Option<f32>>| {
        Arc::new(arrow_array::ListArray::from_iter_primitive::<Float32Type, _, _>([Some(values)]))
    };
    load(list(vec![Some(1.0), Some(2.0)])).unwrap();
    for (values, said) in [
        (vec![Some(1.0)], "has 1 dimensions"),
        (vec![Some(1.0), None], "a null in its vector"),
        (vec![Some(1.0), Some(f32::NAN)], "not finite"),
    ] {
        let error = load(list(values)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let doubles = arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Float64Type, _, _>([
        Some(vec![Some(1.0)]),
    ]);
    assert!(load(Arc::new(doubles)).unwrap_err().to_string().contains("a list of Float32"));
}

#[test]
fn events_are_left_out_or_shown_twice() {
    let store = Store::memory();
    let main = main_branch(&store);
    let events = main.events();
    events
        .append_batch((0..25).map(|n| (if n % 5 == 0 { "fifth" } else { "tick" }, json!({ "n": n }))))
        .unwrap();
    events.trim(3).unwrap();
    let read = |options: EventOptions| -> Vec<u64> {
        let batches = Batches::open(&main, "default", &Table::Events(options)).unwrap();
        let mut seqs = Vec::new();
        for batch in batches {
            let batch = batch.unwrap();
            let [seq, kind, at, payload] = batch.columns() else { panic!("{} columns", batch.num_columns()) };
            for row in 0..batch.num_rows() {
                let seq = seq.as_primitive::<UInt64Type>().value(row);
                let event = events.get(seq).unwrap().unwrap();
                assert_eq!(kind.as_string::<i32>().value(row), event.event_type);
                assert_eq!(at.as_primitive::<TimestampMillisecondType>().value(row), event.at_ms);
                assert_eq!(payload.as_string::<i32>().value(row), event.payload.as_str());
                seqs.push(seq);
            }
        }
        seqs
    };
    let limits = Limits { rows_max: 4, ..Limits::default() };
    assert_eq!(read(EventOptions { limits, ..EventOptions::default() }), (3..25).collect::<Vec<_>>());
    assert_eq!(read(EventOptions { from: 20, ..EventOptions::default() }), [20, 21, 22, 23, 24]);
    let fifth = EventOptions { event_type: Some("fifth".to_owned()), limits, ..EventOptions::default() };
    assert_eq!(read(fifth), [5, 10, 15, 20]);
    assert!(read(EventOptions { from: u64::MAX, ..EventOptions::default() }).is_empty());
}
