//! Documents come back as they were, whatever they are, and what does not fit is named.

use arrow_array::{Array as _, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use duramen_base::entropy;
use duramen_store::{Branch, Scope, Store};
use duramen_store_arrow::*;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) fn main_branch(store: &Store) -> Branch {
    store.branch("main").unwrap()
}

/// The documents of a space, without members that are null, and with all numbers as floats.
pub(crate) fn documents(branch: &Branch, space: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let space = branch.space(space).unwrap();
    let done = space.json().scan("", |key, text| {
        found.insert(key.to_owned(), plain(serde_json::from_str(text).unwrap(), true));
        ControlFlow::Continue(())
    });
    done.unwrap();
    found
}

fn plain(value: Value, is_top: bool) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(name, member)| (name, plain(member, false))).collect())
        }
        Value::Array(elements) => elements.into_iter().map(|element| plain(element, false)).collect(),
        Value::Number(number)
            if !is_top
                && (number.is_f64() || number.as_i64().is_some_and(|n| n.unsigned_abs() <= 1 << 53)) =>
        {
            number.as_f64().unwrap().into()
        }
        other => other,
    }
}

pub(crate) fn open(branch: &Branch, options: DocumentOptions) -> Batches<&Branch> {
    Batches::open(branch, "default", &Table::Documents(options)).unwrap()
}

fn rest(name: &str) -> DocumentOptions {
    DocumentOptions { misfits: Misfits::Rest(name.to_owned()), ..DocumentOptions::default() }
}

fn batches(branch: &Branch, options: DocumentOptions) -> Vec<RecordBatch> {
    open(branch, options).collect::<Result<_, _>>().unwrap()
}

pub(crate) fn random(rng: &mut fastrand::Rng, depth: u32) -> Value {
    let texts = ["", "oak", "a \"quoted\" one", "\u{e4}\u{1f333}", "line\nbreak", "null", "{}"];
    match rng.u32(..if depth > 3 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => rng.i64(-5..5).into(),
        3 => rng.i64(..).into(),
        4 => [0.5, -0.0, 1e300, 1e-7, 3.0][rng.usize(..5)].into(),
        5 => texts[rng.usize(..texts.len())].into(),
        6 => (u64::MAX - rng.u64(..10)).into(),
        7 => (0..rng.usize(..4)).map(|_| random(rng, depth + 1)).collect(),
        8 => (0..rng.usize(..4)).map(|at| json!({ "n": at, "t": texts[at] })).collect(),
        _ => object(rng, depth),
    }
}

fn object(rng: &mut fastrand::Rng, depth: u32) -> Value {
    let names = ["a", "b", "c.d", "e f", "key2", "$bytes"];
    let members: Map<String, Value> = (0..rng.usize(..5))
        .map(|_| (names[rng.usize(..names.len())].to_owned(), random(rng, depth + 1)))
        .collect();
    Value::Object(members)
}

#[test]
fn random_documents_are_lost_or_changed_by_a_round_trip() {
    for seed in 0..60 {
        let mut rng = entropy::rng(seed);
        let store = Store::memory();
        let main = main_branch(&store);
        let count = rng.usize(..80);
        for number in 0..count {
            // Sometimes all alike, so that columns have types; sometimes whatever comes.
            let document = match rng.u32(..12) {
                0 => random(&mut rng, 0),
                1..4 => object(&mut rng, 0),
                _ => {
                    json!({ "n": number, "x": number as f64 / 3.0, "s": { "t": ["u", null], "v": { "w": true } } })
                }
            };
            main.json().set(&format!("k{number:04}"), "", &document).unwrap();
        }
        let options = DocumentOptions {
            sample_rows: [0, 1, 10, usize::MAX][rng.usize(..4)],
            limits: Limits { rows_max: rng.usize(1..30), bytes_max: rng.usize(1..5000) },
            ..rest("left over")
        };
        let into = DocumentsIn {
            rest: Some("left over".to_owned()),
            commit: Commit { rows_max: rng.usize(1..20), bytes_max: rng.usize(1..5000) },
            nulls: if rng.bool() { Nulls::Keep } else { Nulls::LeaveOut },
            ..DocumentsIn::default()
        };
        let loaded = load_documents(&main.space("again").unwrap(), open(&main, options), &into);
        assert_eq!(loaded.unwrap().rows, count as u64, "seed {seed}");
        assert_eq!(documents(&main, "again"), documents(&main, "default"), "seed {seed}");
    }
}

#[test]
fn an_empty_space_has_no_batches() {
    let store = Store::memory();
    let main = main_branch(&store);
    let found = open(&main, rest("rest"));
    assert_eq!(found.schema().fields().len(), 2);
    assert_eq!(found.count(), 0);
    let empty = DocumentOptions { sample_rows: 0, ..DocumentOptions::default() };
    assert_eq!(batches(&main, empty).len(), 0);
}

#[test]
fn columns_have_other_types_than_the_fields_show() {
    let store = Store::memory();
    let main = main_branch(&store);
    let all = [
        json!({ "name": "oak", "n": 1, "x": 1, "tags": ["a"], "at": { "lat": 1.5 }, "odd": 1, "none": null, "empty": [] }),
        json!({ "name": null, "n": 2, "x": 0.5, "tags": [], "at": { "long": "east" }, "odd": "1" }),
        json!({ "big": u64::MAX, "at": {} }),
    ];
    main.json()
        .set_many(all.iter().enumerate().map(|(at, document)| (format!("{at}"), "", document)))
        .unwrap();
    let schema = open(&main, DocumentOptions::default()).schema();
    let told = |name: &str| schema.field_with_name(name).unwrap().data_type().clone();
    assert_eq!(told("name"), DataType::Utf8);
    assert_eq!(told("n"), DataType::Int64);
    assert_eq!(told("x"), DataType::Float64);
    assert_eq!(told("tags"), DataType::new_list(DataType::Utf8, true));
    let at = Field::new("lat", DataType::Float64, true);
    assert_eq!(told("at"), DataType::Struct(vec![at, Field::new("long", DataType::Utf8, true)].into()));
    for json in ["odd", "none", "empty", "big"] {
        assert!(is_json_text(schema.field_with_name(json).unwrap()), "{json}");
    }
    let one = &batches(&main, DocumentOptions::default())[0];
    let odd = one.column_by_name("odd").unwrap();
    let odd = odd.as_any().downcast_ref::<arrow_array::StringArray>().unwrap();
    assert_eq!((odd.value(0), odd.value(1), odd.is_null(2)), ("1", "\"1\"", true));
}

#[test]
fn a_misfit_is_not_named() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.json().set("a", "", json!({ "n": 1, "s": { "t": [1] } })).unwrap();
    let cases = [
        (json!({ "n": "one" }), "field \"n\" of document \"b\" is text and has to be an integer of 64 bits"),
        (json!({ "n": 1.5 }), "field \"n\" of document \"b\" is a float and has to be an integer"),
        (json!({ "s": { "t": [1, "two"] } }), "field \"s.t[1]\" of document \"b\" is text"),
        (json!({ "s": { "u": 1 } }), "field \"s.u\" of document \"b\" is an integer and has to be left out"),
        (json!({ "new": true }), "field \"new\" of document \"b\" is there and has to be left out"),
        (json!([1]), "the whole of document \"b\" is a list and has to be an object"),
    ];
    for (document, expected) in cases {
        main.json().set("b", "", &document).unwrap();
        let one = DocumentOptions { sample_rows: 1, ..DocumentOptions::default() };
        let mut found = open(&main, one.clone());
        let error = found.next_batch().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(found.next_batch().unwrap().is_none());
        let kept = batches(&main, DocumentOptions { sample_rows: 1, ..rest("rest") });
        let texts =
            kept[0].column_by_name("rest").unwrap().as_any().downcast_ref::<arrow_array::StringArray>();
        let expected: Value = document;
        assert_eq!(serde_json::from_str::<Value>(texts.unwrap().value(1)).unwrap(), expected);
    }
}

#[test]
fn batches_are_larger_than_their_limits() {
    let store = Store::memory();
    let main = main_branch(&store);
    let text = "x".repeat(100);
    main.json().set_many((0..25).map(|n| (format!("{n:02}"), "", json!({ "t": text })))).unwrap();
    let sized = |rows_max, bytes_max| {
        let limits = Limits { rows_max, bytes_max };
        let all = batches(&main, DocumentOptions { limits, ..DocumentOptions::default() });
        all.iter().map(RecordBatch::num_rows).collect::<Vec<_>>()
    };
    assert_eq!(sized(10, usize::MAX), [10, 10, 5]);
    assert_eq!(sized(25, usize::MAX), [25]);
    assert_eq!(sized(0, usize::MAX).len(), 25);
    assert_eq!(sized(1000, 1), [1; 25]);
    let by_bytes = sized(1000, 1000);
    assert!(by_bytes.len() == 3 && by_bytes[0] < 10, "{by_bytes:?}");
}

#[test]
fn a_schema_that_was_given_is_not_kept_to() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.json().set_many([("a", "", json!({ "n": 1, "m": 2 })), ("b", "", json!({ "m": "x" }))]).unwrap();
    let given =
        |fields: Vec<Field>| DocumentOptions { schema: Some(Arc::new(Schema::new(fields))), ..rest("rest") };
    let n = Field::new("n", DataType::Float64, false);
    let all = batches(&main, given(vec![n.clone()]));
    assert_eq!((all[0].num_columns(), all[0].column(1).null_count()), (3, 1));
    for (fields, said) in [
        (vec![Field::new("n", DataType::Int32, true)], "\"n\" is to be Int32"),
        (vec![Field::new("n", DataType::Binary, true)], "\"n\" is to be Binary"),
        (vec![Field::new("key", DataType::Int64, true)], "two columns \"key\""),
        (vec![n.clone(), n], "two columns \"n\""),
    ] {
        let error =
            Batches::open(&main, "default", &Table::Documents(given(fields))).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn rows_are_loaded_without_keys_or_with_wrong_ones() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.json().set_many([("a", "", json!({ "id": 7, "t": null })), ("b", "", json!({ "id": 8 }))]).unwrap();
    let all = batches(&main, DocumentOptions::default());
    let load = |space: &str, options: DocumentsIn| {
        let given = all.clone().into_iter().map(Ok::<_, ArrowError>);
        load_documents(&main.space(space).unwrap(), given, &options)
    };
    let by = |key| DocumentsIn { key, prefix: "user:".to_owned(), ..DocumentsIn::default() };
    load("field", by(KeyFrom::Field("id".to_owned()))).unwrap();
    assert_eq!(documents(&main, "field")["user:7"], json!({ "key": "a", "id": 7.0 }));
    load("numbered", by(KeyFrom::Number(5))).unwrap();
    assert_eq!(documents(&main, "numbered")["user:0000000006"], json!({ "key": "b", "id": 8.0 }));
    let kept = DocumentsIn { nulls: Nulls::Keep, ..DocumentsIn::default() };
    load("kept", kept).unwrap();
    let text = main.space("kept").unwrap().json().get("a", "").unwrap().unwrap();
    assert_eq!(text.as_str(), r#"{"id":7,"t":null}"#);
    let error = load("none", by(KeyFrom::Column("uid".to_owned()))).unwrap_err().to_string();
    assert!(error.contains("no column \"uid\"") && error.contains("the first 0 rows"), "{error}");
    let error = load("none", by(KeyFrom::Column("t".to_owned()))).unwrap_err().to_string();
    assert!(error.contains("column \"t\" of row 1 is null"), "{error}");
}

#[test]
fn a_load_that_fails_says_what_is_loaded() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.json().set_many((0..5).map(|n| (format!("{n}"), "", json!({ "n": n })))).unwrap();
    let all = batches(&main, DocumentOptions::default());
    let schema = all[0].schema();
    let broken = ArrowError::ComputeError("the wire broke".to_owned());
    let given = RecordBatchIterator::new([Ok(all[0].clone()), Err(broken)], schema);
    let two = DocumentsIn { commit: Commit { rows_max: 2, ..Commit::default() }, ..DocumentsIn::default() };
    let error = load_documents(&main.space("again").unwrap(), given, &two).unwrap_err();
    assert_eq!(error.loaded, Loaded { rows: 4, commits: 2 });
    assert!(error.to_string().contains("the wire broke"), "{error}");
    assert_eq!(documents(&main, "again").len(), 4);
}

/// Rows that are null take room as well, so a batch of a wide table has few.
#[test]
fn null_rows_of_a_wide_table_are_counted_as_nothing() {
    let store = Store::memory();
    let main = main_branch(&store);
    let object: serde_json::Map<_, _> = (0..250).map(|n| (format!("m{n:03}"), json!(n))).collect();
    main.json().set("0", "", json!({ "wide": object })).unwrap();
    main.json().set_many((1..1000).map(|n| (format!("{n}"), "", json!({})))).unwrap();
    let limits = Limits { bytes_max: 1 << 20, ..Limits::default() };
    let options = DocumentOptions { limits, sample_rows: 1, ..DocumentOptions::default() };
    let all = batches(&main, options);
    assert_eq!(all.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    assert!(all.iter().all(|batch| batch.num_rows() * 250 * 8 <= 1 << 20), "{}", all.len());
}

#[test]
fn a_schema_has_more_columns_than_are_read() {
    let store = Store::memory();
    let main = main_branch(&store);
    let many = (0..COLUMNS_MAX).map(|n| Field::new(format!("f{n}"), DataType::Int64, true)).collect();
    let schema = Schema::new(vec![Field::new("s", DataType::Struct(many), true)]);
    let options = DocumentOptions { schema: Some(Arc::new(schema)), ..DocumentOptions::default() };
    let refused = Batches::open(&main, "default", &Table::Documents(options)).map(drop);
    assert!(matches!(refused, Err(OutError::TooManyColumns { found: 4097, .. })), "{refused:?}");
}
