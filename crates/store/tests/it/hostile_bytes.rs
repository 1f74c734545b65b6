//! Every decoder is given bytes that are nearly right, and bytes that are anything: it refuses them or reads them, and
//! never panics, loops, or takes memory by what a length says. What it reads can be written again.
//!
//! The same decoders are targets of the fuzzer under `fuzz/`.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::json::{Json, Path};
use duramen_store::log::{decode_record, encode_record, SegmentHeader, RECORD_HEADER_BYTES};
use duramen_store::value::ValueRef;
use duramen_store::vector::decode_row;
use duramen_store::Value;
use duramen_tree::{check_node, Forest, MemoryNodeStore, Tree};

const TIME: Duration = Duration::from_millis(1000);

/// Changes bytes as disks and attackers do.
fn mutate(rng: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.usize(1..4) {
        let len = bytes.len();
        match rng.u8(..8) {
            _ if len == 0 => bytes.extend((0..rng.usize(1..40)).map(|_| rng.u8(..))),
            0 => bytes[rng.usize(..len)] ^= 1 << rng.u8(..8),
            1 => bytes[rng.usize(..len)] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
            2 => bytes.truncate(rng.usize(..len)),
            3 => {
                // A length that is far too large.
                let at = rng.usize(..len);
                let end = (at + [2, 4, 8][rng.usize(..3)]).min(len);
                bytes[at..end].fill(0xff);
            }
            4 => {
                let from = rng.usize(..len);
                let to = rng.usize(from..len.min(from + 64));
                let copy = bytes[from..to].to_vec();
                let at = rng.usize(..len);
                bytes.splice(at..at, copy);
            }
            5 => {
                let from = rng.usize(..len);
                bytes.drain(from..rng.usize(from..len.min(from + 16)));
            }
            6 => bytes.extend((0..rng.usize(1..40)).map(|_| rng.u8(..))),
            _ => {
                let from = rng.usize(..len);
                let to = rng.usize(from..len.min(from + 16));
                bytes[from..to].fill_with(|| rng.u8(..));
            }
        }
    }
}

/// Gives a decoder mutants of what is valid, and random bytes, for a while. `read` tells whether it took them.
fn attack(valid: &[Vec<u8>], mut read: impl FnMut(&[u8]) -> bool) {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    for bytes in valid {
        assert!(read(bytes), "what is valid is read");
    }
    let (mut taken, mut refused) = (0_u64, 0_u64);
    let begin = clock::now();
    while begin.elapsed() < TIME {
        for _ in 0..50 {
            let mut bytes = valid[rng.usize(..valid.len())].clone();
            match rng.u8(..10) {
                0 => bytes = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
                _ => mutate(&mut rng, &mut bytes),
            }
            if read(&bytes) {
                taken += 1;
            } else {
                refused += 1;
            }
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(refused > 0);
}

fn values() -> Vec<Value> {
    let json = r#"{"name": "oak", "rings": [1, -2, 3.5, null, true], "of": {"a": {"b": [[], {}]}}, "t\u0000": "\u00e9"}"#;
    let json = serde_json::from_str(json).unwrap();
    vec![
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Float(-0.5),
        Value::String("text \u{1f333}".repeat(20)),
        Value::Bytes(vec![7; 300]),
        Value::from_json(&json).unwrap(),
        Value::Array((0..100).map(Value::Int).collect()),
    ]
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode_into(&mut bytes).unwrap();
    bytes
}

#[test]
fn values_from_hostile_bytes() {
    let valid: Vec<_> = values().iter().map(encoded).collect();
    attack(&valid, |bytes| {
        let borrowed = ValueRef::decode(bytes).and_then(|value| value.to_value());
        match Value::decode(bytes) {
            Ok(value) => {
                assert_eq!(Value::decode(&encoded(&value)).map(|again| encoded(&again)), Ok(encoded(&value)));
                assert!(borrowed.is_ok(), "both readers agree");
                true
            }
            Err(_) => false,
        }
    });
}

#[test]
fn nodes_from_hostile_bytes() {
    let nodes = Arc::new(MemoryNodeStore::new());
    let forest = Forest::new(nodes, 1, usize::MAX / 2);
    let mut tree = Tree::new(&forest);
    let mut valid = Vec::new();
    for n in 0_u64..600 {
        let key = format!("\x10\0key {:05}/{}", n * 7919 % 10_000, "x".repeat(n as usize % 30));
        tree.insert(&forest, key.as_bytes(), n, &vec![n as u8; n as usize % 90]).unwrap();
    }
    let mark = forest.begin_checkpoint();
    tree.clone()
        .persist(&mut |_, bytes| {
            valid.push(bytes);
            Ok(())
        })
        .unwrap();
    forest.end_checkpoint(mark);
    assert!(valid.len() > 3);
    attack(&valid, |bytes| check_node(bytes).is_ok());
}

#[test]
fn log_records_from_hostile_bytes() {
    let bodies = [b"".to_vec(), b"a commit".to_vec(), vec![3; 500]];
    let valid = bodies.iter().enumerate().map(|(n, body)| {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, 77, 5 + n as u64, 1 + n as u32, 4, body);
        bytes
    });
    let valid: Vec<_> = valid.collect();
    attack(&valid, |bytes| match decode_record(bytes, 77) {
        Some(record) => {
            assert_eq!(record.size(), RECORD_HEADER_BYTES + record.body.len());
            assert!(record.size() <= bytes.len());
            assert!(
                valid.iter().any(|valid| bytes.starts_with(valid)),
                "a checksum does not match by chance"
            );
            true
        }
        None => false,
    });
}

#[test]
fn segment_headers_from_hostile_bytes() {
    let header = SegmentHeader { number: 3, salt: 0x0123_4567_89ab_cdef, first: 1000 };
    attack(&[header.encode().to_vec()], |bytes| match SegmentHeader::decode(bytes) {
        Ok(found) => {
            assert_eq!(found, header);
            true
        }
        Err(_) => false,
    });
}

#[test]
fn json_from_hostile_text() {
    let texts = [
        r#"{"a": [1, 2.5e3, -0, "x\u00e9\ud83c\udf33", null, true, {"b": {}}], "z": {"y": [[[[]]]]}}"#,
        "[1,[2,[3,[4,[5]]]]]",
        "\"text\"",
        "  12345678901234567890  ",
        "{\"deep\": [[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]}",
    ];
    let valid: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let path: Path = "$.a[0]".parse().unwrap();
    attack(&valid, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match text.parse::<Json>() {
            Ok(json) => {
                // What is kept is canonical, and valid for others as well.
                let again: Json = json.as_str().parse().unwrap();
                assert_eq!(again.as_str(), json.as_str());
                serde_json::from_str::<serde_json::Value>(json.as_str()).unwrap();
                drop(json.get(&path));
                drop(json.to_value());
                true
            }
            Err(_) => false,
        }
    });
}

#[test]
fn paths_from_hostile_text() {
    let texts = ["$", "$.a.b[0]", "$['it''s'].x[12]", "$.list[-1]", "$[\"q\"][0][1][2]", "a.b[3]"];
    let valid: Vec<_> = texts
        .iter()
        .filter(|text| text.parse::<Path>().is_ok())
        .map(|text| text.as_bytes().to_vec())
        .collect();
    assert!(valid.len() > 2);
    attack(&valid, |bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match text.parse::<Path>() {
            Ok(path) => {
                assert_eq!(path.to_string().parse::<Path>().as_ref(), Ok(&path), "{text:?}");
                true
            }
            Err(_) => false,
        }
    });
}

#[test]
fn vector_rows_from_hostile_bytes() {
    let metadata = serde_json::json!({"lang": "en", "tags": [1, null, {"deep": []}]});
    let valid: Vec<_> = [None, Some(&metadata)]
        .into_iter()
        .map(|metadata| duramen_store::vector::encode_row(4, &[1.0, -2.5, 0.0, 1e-3], metadata).unwrap())
        .collect();
    attack(&valid, |bytes| match decode_row(bytes) {
        Ok(row) => {
            assert_eq!(row.to_vec().len(), row.dimension());
            drop(row.metadata());
            true
        }
        Err(_) => false,
    });
}
