//! Pairs come back as they were, of any kind, and keys of bytes stay bytes.

use crate::documents::main_branch;
use arrow_schema::{DataType, Field};
use duramen_base::entropy;
use duramen_store::kv::Key;
use duramen_store::{Branch, Scope, Store, Value};
use duramen_store_arrow::*;
use std::collections::BTreeMap;

fn pairs(branch: &Branch, space: &str) -> Vec<(Key, Value)> {
    branch.space(space).unwrap().kv().range(.., usize::MAX).unwrap()
}

fn random(rng: &mut fastrand::Rng, depth: u32) -> Value {
    match rng.u32(..if depth > 2 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 => rng.i64(..).into(),
        3 => 0.25.into(),
        4 => "text".into(),
        5 => vec![0_u8, 255, rng.u8(..)].into(),
        6 => (0..rng.usize(..3)).map(|_| random(rng, depth + 1)).collect::<Vec<_>>().into(),
        _ => {
            let names = ["$bytes", "$$bytes", "a", "b"];
            let member = |rng: &mut fastrand::Rng| (names[rng.usize(..4)].to_owned(), random(rng, depth + 1));
            (0..rng.usize(..3)).map(|_| member(rng)).collect::<BTreeMap<_, _>>().into()
        }
    }
}

#[test]
fn random_pairs_are_lost_or_changed_by_a_round_trip() {
    for seed in 0..60 {
        let mut rng = entropy::rng(seed);
        let store = Store::memory();
        let main = main_branch(&store);
        let kind = rng.u32(..3);
        for number in 0..rng.u64(..60) {
            let value = match kind {
                0 => Value::Int(rng.i64(..)),
                1 => vec![rng.u8(..); 3].into(),
                _ => random(&mut rng, 0),
            };
            match rng.bool() {
                true => main.kv().put(number, value).unwrap(),
                false => main.kv().put(format!("k{number}"), value).unwrap(),
            };
        }
        let options = PairOptions {
            keys: PairKeys::Bytes,
            sample_rows: [0, 1, 5, usize::MAX][rng.usize(..4)],
            misfits: Misfits::Rest("rest".to_owned()),
            limits: Limits { rows_max: rng.usize(1..20), bytes_max: rng.usize(1..500) },
            ..PairOptions::default()
        };
        let batches = Batches::open(&main, "default", &Table::Pairs(options)).unwrap();
        let into = PairsIn { rest: Some("rest".to_owned()), nulls: Nulls::Keep, ..PairsIn::default() };
        load_pairs(&main.space("again").unwrap(), batches, &into).unwrap();
        let (before, after) = (pairs(&main, "default"), pairs(&main, "again"));
        assert_eq!(before.len(), after.len());
        for ((key, value), (key_after, value_after)) in before.iter().zip(&after) {
            assert_eq!(key, key_after, "seed {seed}");
            // In objects of one shape, a member that is not there is null; numbers in one column are all floats.
            assert_eq!(loose(value), loose(value_after), "seed {seed}, key {key}");
        }
    }
}

fn loose(value: &Value) -> Value {
    match value {
        Value::Int(number) if number.unsigned_abs() <= 1 << 53 => Value::Float(*number as f64),
        Value::Array(elements) => elements.iter().map(loose).collect::<Vec<_>>().into(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(name, member)| (name.clone(), loose(member))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn keys_or_values_are_taken_for_what_they_are_not() {
    let store = Store::memory();
    let main = main_branch(&store);
    main.kv().put_many([("a", 1), ("b", 2)]).unwrap();
    let open = |options: PairOptions| Batches::open(&main, "default", &Table::Pairs(options));
    let types = |options: PairOptions| {
        let schema = open(options).unwrap().schema();
        (schema.field(0).data_type().clone(), schema.field(1).data_type().clone())
    };
    assert_eq!(types(PairOptions::default()), (DataType::Utf8, DataType::Int64));
    let bytes = PairOptions { keys: PairKeys::Bytes, ..PairOptions::default() };
    assert_eq!(types(bytes).0, DataType::Binary);
    let float =
        PairOptions { value: Some(Field::new("x", DataType::Float64, false)), ..PairOptions::default() };
    assert_eq!(types(float).1, DataType::Float64);

    main.kv().put([255_u8], "text").unwrap();
    assert_eq!(types(PairOptions::default()).0, DataType::Binary);
    let two = PairOptions { sample_rows: 2, ..PairOptions::default() };
    let error = open(two.clone()).unwrap().next_batch().unwrap_err().to_string();
    assert!(error.contains("key 0xff is not text"), "{error}");
    let error =
        open(PairOptions { keys: PairKeys::Bytes, ..two }).unwrap().next_batch().unwrap_err().to_string();
    assert!(error.contains("the value of key 0xff is text and has to be an integer"), "{error}");

    // The end of a prefix of the highest byte is the end of all keys.
    let high = PairOptions {
        prefix: vec![255],
        limits: Limits { rows_max: 1, ..Limits::default() },
        ..PairOptions::default()
    };
    assert_eq!(open(high).unwrap().map(|batch| batch.unwrap().num_rows()).collect::<Vec<_>>(), [1]);
}
