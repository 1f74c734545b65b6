//! What a type of Arrow becomes, as the table in `into` has it.

use crate::documents::main_branch;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use duramen_store::{Scope, Store, Value};
use duramen_store_arrow::*;
use std::sync::Arc;

/// What the cells of a column become in a document and as a pair, or what is said of them.
fn becomes(field: Field, array: ArrayRef) -> (Result<Vec<String>, String>, Result<Vec<Value>, String>) {
    let store = Store::memory();
    let main = main_branch(&store);
    let keys: ArrayRef =
        Arc::new((0..array.len()).map(|row| Some(format!("{row:03}"))).collect::<StringArray>());
    let schema = Schema::new(vec![Field::new("key", DataType::Utf8, false), field.with_name("value")]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![keys, array]).unwrap();
    let given = || [Ok::<_, ArrowError>(batch.clone())];
    let space = main.space("default").unwrap();
    let kept = DocumentsIn { nulls: Nulls::Keep, ..DocumentsIn::default() };
    let documents = load_documents(&space, given(), &kept).map_err(|error| error.to_string()).map(|_| {
        let keys = space.json().list("", None, 100).unwrap().items;
        keys.iter().map(|key| space.json().get(key, "value").unwrap().unwrap().as_str().to_owned()).collect()
    });
    let pairs = load_pairs(&space, given(), &PairsIn::default()).map_err(|error| error.to_string());
    let pairs =
        pairs.map(|_| space.kv().range(.., 100).unwrap().into_iter().map(|(_, value)| value).collect());
    (documents, pairs)
}

fn plain(array: impl Array + 'static) -> (Vec<String>, Vec<Value>) {
    let field = Field::new("value", array.data_type().clone(), true);
    let (documents, pairs) = becomes(field, Arc::new(array));
    (documents.unwrap(), pairs.unwrap())
}

fn refused(array: impl Array + 'static) -> String {
    let field = Field::new("value", array.data_type().clone(), true);
    becomes(field, Arc::new(array)).0.unwrap_err()
}

fn texts(texts: &[&str]) -> (Vec<String>, Vec<Value>) {
    (
        texts.iter().map(|text| format!("{text:?}")).collect(),
        texts.iter().map(|text| Value::from(*text)).collect(),
    )
}

#[test]
fn numbers_lose_digits() {
    assert_eq!(
        plain(Int64Array::from(vec![i64::MIN, i64::MAX])).1,
        [Value::Int(i64::MIN), Value::Int(i64::MAX)]
    );
    assert_eq!(plain(UInt8Array::from(vec![255])), (vec!["255".to_owned()], vec![Value::Int(255)]));
    let large = || UInt64Array::from(vec![u64::MAX]);
    let (documents, pairs) = becomes(Field::new("v", DataType::UInt64, true), Arc::new(large()));
    assert_eq!(documents.unwrap(), ["18446744073709551615"]);
    assert!(pairs.unwrap_err().contains("does not fit a signed 64-bit integer"));
    assert_eq!(plain(Float64Array::from(vec![1.0, 2.5, -0.0])).0, ["1.0", "2.5", "-0.0"]);
    assert_eq!(plain(Float32Array::from(vec![0.1])).1, [Value::Float(f64::from(0.1_f32))]);
    let (documents, pairs) =
        becomes(Field::new("v", DataType::Float64, true), Arc::new(Float64Array::from(vec![f64::INFINITY])));
    assert!(documents.unwrap_err().contains("column \"value\" of row 1 is inf"));
    assert_eq!(pairs.unwrap(), [Value::Float(f64::INFINITY)]);
    let decimals = Decimal128Array::from(vec![1250, -5]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(plain(decimals), texts(&["12.50", "-0.05"]));
}

#[test]
fn times_are_shifted_or_cut() {
    assert_eq!(
        plain(Date32Array::from(vec![0, -1, 20_784])),
        texts(&["1970-01-01", "1969-12-31", "2026-11-27"])
    );
    assert_eq!(plain(Date64Array::from(vec![-86_400_000])), texts(&["1969-12-31"]));
    assert!(refused(Date64Array::from(vec![1])).contains("is 1 of its unit"));
    assert!(refused(Date32Array::from(vec![i32::MAX])).contains("until the year 9999"));
    let utc = TimestampMicrosecondArray::from(vec![-1, 1_500_000]).with_timezone("Europe/Berlin");
    assert_eq!(plain(utc), texts(&["1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:01.5Z"]));
    assert_eq!(plain(TimestampNanosecondArray::from(vec![1])), texts(&["1970-01-01T00:00:00.000000001"]));
    assert_eq!(plain(TimestampSecondArray::from(vec![60])), texts(&["1970-01-01T00:01:00"]));
    assert!(refused(TimestampSecondArray::from(vec![i64::MAX])).contains("no day, time or moment"));
    assert_eq!(plain(Time32MillisecondArray::from(vec![500])), texts(&["00:00:00.5"]));
    assert_eq!(plain(Time64NanosecondArray::from(vec![86_399_000_000_001])), texts(&["23:59:59.000000001"]));
    assert!(refused(Time32SecondArray::from(vec![86_400])).contains("is 86400"));
}

#[test]
fn bytes_and_texts_are_mixed_up() {
    let (documents, pairs) = plain(BinaryArray::from(vec![&b"oak"[..]]));
    assert_eq!(documents, ["{\"$bytes\":\"b2Fr\"}"]);
    assert_eq!(pairs, [Value::from(*b"oak")]);
    assert_eq!(
        plain(FixedSizeBinaryArray::try_from_iter([[0_u8, 255]].iter()).unwrap()).1,
        [Value::from([0_u8, 255])]
    );
    assert_eq!(plain(BinaryViewArray::from(vec![&b"oak"[..]])).1, [Value::from(*b"oak")]);
    for array in [
        Arc::new(StringArray::from(vec!["a"])) as ArrayRef,
        Arc::new(LargeStringArray::from(vec!["a"])),
        Arc::new(StringViewArray::from(vec!["a"])),
        Arc::new(DictionaryArray::<Int8Type>::from_iter(["a"])),
    ] {
        let field = Field::new("v", array.data_type().clone(), true);
        let (documents, pairs) = becomes(field, array);
        assert_eq!((documents.unwrap(), pairs.unwrap()), texts(&["a"]));
    }
    let with_null: DictionaryArray<Int32Type> = [Some("b"), None].into_iter().collect();
    assert_eq!(plain(with_null).1, [Value::from("b"), Value::Null]);
    let json = Arc::new(StringArray::from(vec![Some("{\"a\": [1]}"), None]));
    let (documents, pairs) = becomes(json_text("v"), json);
    assert_eq!(documents.unwrap(), ["{\"a\":[1]}", "null"]);
    assert_eq!(pairs.unwrap()[0].kind(), "object");
    let breaks_out = Arc::new(StringArray::from(vec!["1,\"admin\":true"]));
    assert!(becomes(json_text("v"), breaks_out).0.unwrap_err().contains("is not JSON"));
}

#[test]
fn nested_values_lose_their_places() {
    let lists =
        ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let one = lists.slice(0, 3);
    assert_eq!(plain(one).0, ["[1,null]", "null", "[]"]);
    assert_eq!(plain(lists.slice(2, 1)).0, ["[]"]);
    let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        (0..3).map(|_| Some(vec![Some(0.5), Some(1.0)])),
        2,
    );
    assert_eq!(plain(fixed.slice(1, 2)).0, ["[0.5,1.0]"; 2]);
    let times: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None]));
    let inner = Field::new("a \"day\"", DataType::Date32, true);
    let structs = StructArray::from(vec![(Arc::new(inner), times)]);
    assert_eq!(plain(structs).0, ["{\"a \\\"day\\\"\":\"1970-01-01\"}", "{\"a \\\"day\\\"\":null}"]);
    let mut maps =
        builder::MapBuilder::new(None, builder::StringBuilder::new(), builder::Int64Builder::new());
    maps.keys().append_value("x");
    maps.values().append_value(1);
    maps.append(true).unwrap();
    maps.append(true).unwrap();
    assert_eq!(plain(maps.finish()).0, ["{\"x\":1}", "{}"]);
}

#[test]
fn types_without_a_counterpart_are_guessed() {
    let said = refused(DurationSecondArray::from(vec![1]));
    assert!(said.contains("column \"value\" is Duration(s)") && said.contains("the first 0 rows"), "{said}");
    let unit = DataType::Duration(TimeUnit::Second);
    let inner: ArrayRef = Arc::new(DurationSecondArray::from(vec![1]));
    let said = refused(StructArray::from(vec![(Arc::new(Field::new("d", unit, true)), inner)]));
    assert!(said.contains("\"value.d\""), "{said}");
}

#[test]
fn keys_of_other_types_are_taken_for_text() {
    let store = Store::memory();
    let main = main_branch(&store);
    let load = |keys: ArrayRef| {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1; keys.len()]));
        let batch = RecordBatch::try_from_iter([("key", keys), ("value", values)]).unwrap();
        load_pairs(&main.space("default").unwrap(), [Ok::<_, ArrowError>(batch)], &PairsIn::default())
    };
    load(Arc::new(UInt64Array::from(vec![7]))).unwrap();
    assert_eq!(main.kv().get(7_u64).unwrap(), Some(Value::Int(1)));
    load(Arc::new(BinaryArray::from(vec![&[255_u8][..]]))).unwrap();
    assert!(main.kv().exists([255_u8]).unwrap());
    assert!(load(Arc::new(Int64Array::from(vec![7]))).unwrap_err().to_string().contains("UInt64"));
    assert!(load(Arc::new(StringArray::from(vec![None::<&str>])))
        .unwrap_err()
        .to_string()
        .contains("needs a key"));
}
