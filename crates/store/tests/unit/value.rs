use std::collections::BTreeMap;

use duramen_base::entropy;
use serde_json::json;

use super::*;

fn encoded(value: impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    check_encoded(&value).unwrap();
    value.encode(&mut bytes);
    bytes
}

fn object(members: &[(&str, Value)]) -> Value {
    Value::Object(members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

fn random(rng: &mut fastrand::Rng, depth: usize) -> Value {
    match rng.u8(..if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Bool(rng.bool()),
        2 => Value::Int(rng.i64(..) >> rng.u32(..64)),
        3 => Value::Float(rng.f64() * 1e6 - 5e5),
        4 => Value::String((0..rng.usize(..20)).map(|_| rng.char(..)).collect()),
        5 => Value::Bytes((0..rng.usize(..200)).map(|_| rng.u8(..)).collect()),
        6 => Value::Array((0..rng.usize(..5)).map(|_| random(rng, depth - 1)).collect()),
        _ => Value::Object(
            (0..rng.usize(..4))
                .map(|number| {
                    let key = if rng.u8(..5) == 0 { "$bytes".to_owned() } else { format!("k{number}") };
                    ("$".repeat(rng.usize(..2)) + &key, random(rng, depth - 1))
                })
                .collect(),
        ),
    }
}

#[test]
fn the_length_is_known_before_writing() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    for _ in 0..1000 {
        let value = random(&mut rng, 4);
        let mut len = 0;
        encoding::check(&value, &mut len, 0).unwrap();
        assert_eq!(encoded(&value).len(), len, "seed {seed}: {value:?}");
    }
}

#[test]
fn what_is_written_is_read() {
    for value in [
        Value::Null,
        Value::from(true),
        Value::from(false),
        Value::from(0),
        Value::from(i64::MIN),
        Value::from(i64::MAX),
        Value::from(-1),
        Value::from(u32::MAX),
        Value::from(-0.0),
        Value::from(f64::INFINITY),
        Value::from(""),
        Value::from("\u{1f333} oak"),
        Value::from(vec![0_u8, 255]),
        Value::from(Vec::<Value>::new()),
        object(&[]),
        object(&[("", Value::Null), ("b", Value::from(vec![Value::from(1), object(&[("x", 2.into())])]))]),
    ] {
        let bytes = encoded(&value);
        assert_eq!(Value::decode(&bytes), Ok(value.clone()), "{bytes:?}");
        assert_eq!(encoded(Value::decode(&bytes).unwrap()), bytes);
    }
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    for _ in 0..3000 {
        let value = random(&mut rng, 4);
        assert_eq!(Value::decode(&encoded(&value)), Ok(value.clone()), "seed {seed}");
        let json = value.to_json().unwrap();
        assert_eq!(Value::from_json(&json), Ok(value), "seed {seed}: {json}");
    }
}

#[test]
fn nan_keeps_its_bits_and_is_not_itself() {
    let nan = f64::from_bits(0x7ff8_0000_0000_0042);
    let Value::Float(read) = Value::decode(&encoded(nan)).unwrap() else { panic!("a float went in") };
    assert_eq!(read.to_bits(), nan.to_bits());
    assert_ne!(Value::Float(nan), Value::Float(nan));
    assert_ne!(Value::Int(1), Value::Float(1.0));
    assert_ne!(encoded(1_i64), encoded(1.0));
}

#[test]
fn parts_encode_as_the_values_made_of_them() {
    assert_eq!(encoded("text"), encoded(Value::from("text")));
    assert_eq!(encoded(String::from("text")), encoded(Value::from("text")));
    assert_eq!(encoded(&b"bytes"[..]), encoded(Value::from(&b"bytes"[..])));
    assert_eq!(encoded(b"bytes"), encoded(Value::from(b"bytes")));
    assert_eq!(encoded(vec![1_u8]), encoded(Value::from([1_u8])));
    assert_eq!(encoded(-7_i64), encoded(Value::from(-7)));
    assert_eq!(encoded(7_u32), encoded(7_i32));
    assert_eq!(encoded(0.5), encoded(Value::from(0.5)));
    assert_eq!(encoded(true), encoded(Value::from(true)));
    assert_eq!(encoded(1_i64), [3, 2]);
    assert_eq!(encoded("ab"), [5, 2, b'a', b'b']);
}

#[test]
fn references_read_in_place() {
    let bytes = encoded(object(&[
        ("a", 1.into()),
        ("b", Value::from(vec![Value::from("x"), Value::Null])),
        ("c", 2.5.into()),
    ]));
    let ValueRef::Object(members) = ValueRef::decode(&bytes).unwrap() else { panic!("an object went in") };
    assert_eq!(members.iter().map(|member| member.unwrap().0).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(matches!(members.get("c"), Ok(Some(ValueRef::Float(2.5)))));
    assert!(matches!(members.get("bb"), Ok(None)));
    let Ok(Some(ValueRef::Array(elements))) = members.get("b") else { panic!("an array went in") };
    let Some(Ok(ValueRef::Str(text))) = elements.iter().next() else { panic!("text went in") };
    assert!(bytes.as_ptr_range().contains(&text.as_ptr()), "the text must be borrowed");
    assert_eq!((members.len(), elements.len()), (3, 2));
}

#[test]
fn values_over_a_limit_are_refused_and_leave_nothing_behind() {
    let mut out = vec![42];
    let long = "x".repeat(MAX_STRING_BYTES + 1);
    assert!(matches!(long.as_str().check(), Err(ValueError::TooLong { what: "string", .. })));
    assert!(matches!(
        object(&[(&long, 1.into())]).encode_into(&mut out),
        Err(ValueError::TooLong { what: "key", .. })
    ));
    let half = Value::from(&long[..MAX_STRING_BYTES]);
    assert_eq!(half.encode_into(&mut Vec::new()), Ok(()));
    let large = Value::Array(vec![half.clone(), half]);
    assert!(matches!(large.encode_into(&mut out), Err(ValueError::TooLarge { .. })));
    let many = Value::Array(vec![Value::Null; MAX_ELEMENTS + 1]);
    assert!(matches!(many.encode_into(&mut out), Err(ValueError::TooManyElements { .. })));
    assert_eq!(encoded(Value::Array(vec![Value::Null; MAX_ELEMENTS])).len(), MAX_ELEMENTS + 8);
    let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    assert_eq!(Value::decode(&encoded(nested(MAX_NESTING))), Ok(nested(MAX_NESTING)));
    assert_eq!(nested(MAX_NESTING + 1).encode_into(&mut out), Err(ValueError::TooDeep { max: MAX_NESTING }));
    assert_eq!(out, [42]);
}

#[test]
fn each_value_has_one_encoding() {
    let refused: [&[u8]; 12] = [
        &[],
        &[9],
        &[0, 0],
        &[3],
        &[3, 0x80, 0],
        &[3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
        &[5, 2, b'a'],
        &[5, 1, 0xff],
        &[7, 2, 0, 0, 0, 2, 0],
        &[7, 2, 0, 0, 0, 0, 0],
        &[8, 7, 0, 0, 0, 2, 1, b'b', 0, 1, b'a', 0],
        &[8, 7, 0, 0, 0, 2, 1, b'a', 0, 1, b'a', 0],
    ];
    for bytes in refused {
        assert!(matches!(Value::decode(bytes), Err(ValueError::Corrupt { .. })), "{bytes:?}");
    }
    assert_eq!(
        Value::decode(&[7, 3, 0, 0, 0, 1, 5, 9]),
        Err(ValueError::Corrupt { position: 8, what: "the bytes end too early" })
    );
}

#[test]
fn hostile_bytes_are_refused_or_read_back_as_they_are() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = encoded(random(&mut rng, 3));
        for _ in 0..rng.usize(..3) {
            let at = rng.usize(..bytes.len());
            bytes[at] = if rng.bool() { rng.u8(..10) } else { rng.u8(..) };
        }
        if let Ok(value) = Value::decode(&bytes) {
            assert_eq!(encoded(&value), bytes, "seed {seed}");
            read += 1;
        }
    }
    assert!(read > 4000, "seed {seed}: only {read}");
    // Arrays in arrays, each of which claims as many elements as it has bytes.
    let mut bytes = vec![0; 1 << 20];
    for level in 0..1 << 17 {
        let at = level * 8;
        let body = (bytes.len() - at - 5) as u32;
        bytes[at] = 7;
        bytes[at + 1..at + 5].copy_from_slice(&body.to_le_bytes());
        bytes[at + 5..at + 8].copy_from_slice(&[0x80, 0x80, 0x20]);
        if body < 0x8_0000 {
            bytes[at + 7] = 1;
        }
    }
    assert!(Value::decode(&bytes).is_err());
}

#[test]
fn json_keeps_bytes_and_what_looks_like_them() {
    for (value, json) in [
        (Value::from(*b"oak"), json!({ "$bytes": "b2Fr" })),
        (object(&[("$bytes", "b2Fr".into())]), json!({ "$$bytes": "b2Fr" })),
        (object(&[("$$bytes", 1.into())]), json!({ "$$$bytes": 1 })),
        (object(&[("$bytes", 1.into()), ("x", 2.into())]), json!({ "$bytes": 1, "x": 2 })),
        (object(&[("bytes", 1.into())]), json!({ "bytes": 1 })),
        (Value::from(vec![Value::from(1), Value::from(1.0)]), json!([1, 1.0])),
    ] {
        assert_eq!(value.to_json().unwrap(), json);
        assert_eq!(Value::from_json(&json), Ok(value));
    }
    assert!(matches!(Value::from_json(&json!({ "$bytes": "?" })), Err(ValueError::BadBytes { .. })));
    assert!(matches!(Value::from_json(&json!({ "$bytes": 1 })), Err(ValueError::BadBytes { .. })));
    assert!(matches!(Value::from_json(&json!(u64::MAX)), Err(ValueError::OutOfRange { .. })));
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let inside = Value::Object(BTreeMap::from([("x".to_owned(), Value::Float(number))]));
        assert!(matches!(inside.to_json(), Err(ValueError::NotFinite { .. })));
    }
}
