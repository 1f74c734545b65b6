//! Batches of Arrow have the rows that are printed, in batches that are no larger than was asked for.

use std::collections::BTreeMap;
use std::path::Path;

use crate::c1z_support::*;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use duramen_access::c1z::ReadOptions;
use duramen_access::file::GraphFile;
use duramen_access::graph::*;
use duramen_access::rows::*;
use serde_json::Value;

fn cell(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Timestamp(_, _) => column.as_primitive::<TimestampMicrosecondType>().value(row).into(),
        DataType::List(_) => {
            let texts = column.as_list::<i32>().value(row);
            texts.as_string::<i32>().iter().map(|text| Value::from(text.unwrap())).collect()
        }
        other => panic!("{other}"),
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<BTreeMap<String, Value>> {
    let schema = batch.schema();
    let row = |row| {
        let cells = schema.fields().iter().zip(batch.columns());
        cells.map(|(field, column)| (field.name().clone(), cell(column, row))).collect()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The rows that are printed, with times as microseconds.
fn printed(path: &Path, table: Table, filter: &Filter) -> Vec<BTreeMap<String, Value>> {
    let file = GraphFile::open(path, &ReadOptions::default()).unwrap();
    let mut text = Vec::new();
    let sync = file.sync(None).unwrap();
    write_rows(&file, &sync, (table, filter), Form::Json, u64::MAX, &mut text).unwrap();
    let lines = String::from_utf8(text).unwrap();
    let row = |line: &str| {
        let mut row: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
        for (name, kind) in table.columns() {
            if let (Kind::Time, Value::String(text)) = (kind, &row[*name]) {
                let time: jiff::Timestamp = text.parse().unwrap();
                row.insert((*name).to_owned(), time.as_microsecond().into());
            }
        }
        row
    };
    lines.lines().map(row).collect()
}

#[test]
fn batches_have_the_rows_that_are_printed_and_no_more_than_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let graph = Graph::random(61, 700);
    let path = dir.path().join("3.c1z");
    write_v3(&graph, &path);
    let of_one = Filter { principal: Some(graph.grants[9].principal.id.clone()), ..Filter::default() };
    for table in Table::ALL {
        for (filter, rows_max) in [(Filter::default(), 1000), (Filter::default(), 64), (of_one.clone(), 0)] {
            let options = BatchOptions { rows_max, filter: filter.clone(), ..BatchOptions::default() };
            let batches = Batches::open(&path, table, options).unwrap();
            let names: Vec<String> =
                batches.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(names, table.columns().iter().map(|(name, _)| *name).collect::<Vec<_>>());
            let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
            let sizes: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
            assert!(sizes.iter().all(|rows| (1..=rows_max.max(1)).contains(rows)), "{sizes:?}");
            let found: Vec<_> = batches.iter().flat_map(rows_of).collect();
            assert_eq!(found, printed(&path, table, &filter), "{table:?} {filter:?}");
        }
    }
}

#[test]
fn a_batch_with_much_text_ends_before_it_has_as_many_rows_as_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let long = "a".repeat(4 << 20);
    for number in 0..20 {
        let description = long.clone();
        store
            .put_resource_types([&ResourceType {
                id: format!("t{number}"),
                description,
                ..ResourceType::default()
            }])
            .unwrap();
    }
    store.end_sync().unwrap();
    store.close().unwrap();
    let batches = Batches::open(&path, Table::ResourceTypes, BatchOptions::default()).unwrap();
    let sizes: Vec<usize> = batches.map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(sizes, [16, 4], "{BATCH_BYTES_MAX} bytes");
}

#[test]
fn what_fails_while_rows_are_read_is_an_item() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("many.c1z");
    let count = write_many(&path);
    let whole = std::fs::read(&path).unwrap();
    let mut failures = 0;
    for place in 1..20 {
        let mut bytes = whole.clone();
        let at = bytes.len() * place / 20;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let Ok(batches) = Batches::open(&path, Table::Grants, BatchOptions::default()) else { continue };
        let (mut rows, mut failed) = (0, false);
        for batch in batches {
            assert!(!failed, "nothing follows an error");
            match batch {
                Ok(batch) => rows += batch.num_rows(),
                Err(error) => {
                    assert!(
                        error.to_string().contains("many.c1z") || error.to_string().contains("byte"),
                        "{error}"
                    );
                    failed = true;
                }
            }
        }
        assert!(failed || rows == count, "{rows} rows without an error");
        failures += usize::from(failed);
    }
    assert!(failures > 0);
    std::fs::write(&path, whole).unwrap();
    // Who takes one batch of many leaves no thread behind that waits for ever.
    let mut batches =
        Batches::open(&path, Table::Grants, BatchOptions { rows_max: 10, ..BatchOptions::default() })
            .unwrap();
    assert_eq!(batches.next().unwrap().unwrap().num_rows(), 10);
    drop(batches);
    let is_reading = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        threads
            .filter_map(|each| std::fs::read_to_string(each.path().join("comm")).ok())
            .any(|name| name.starts_with("rows of gr"))
    };
    let begun = duramen_base::clock::now();
    while is_reading() {
        assert!(begun.elapsed().as_secs() < 20, "a thread goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
