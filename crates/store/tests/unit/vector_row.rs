use serde_json::json;

use super::*;

#[test]
fn rows_come_back_as_they_were() {
    for dimension in [1, 2, 3, 128, MAX_DIMENSION] {
        let vector: Vec<f32> = (0..dimension).map(|i| i as f32 * -0.37 + 1e-30).collect();
        for metadata in
            [None, Some(json!({})), Some(json!({"a": [1, "x", null], "b": "\u{e9}"})), Some(json!(null))]
        {
            let bytes = encode_row(dimension, &vector, metadata.as_ref()).unwrap();
            let row = decode_row(&bytes).unwrap();
            assert_eq!(row.dimension(), dimension);
            assert_eq!(row.to_vec(), vector);
            assert_eq!(row.vector_bytes().len(), dimension * 4);
            assert_eq!(row.metadata(), Ok(metadata));
        }
    }
    assert_eq!(encode_row(1, &[1.0], None).unwrap(), [1, 0, 0, 0, 0x80, 0x3f]);
    assert_eq!(encode_row(1, &[1.0], Some(&json!({"a": 1}))).unwrap()[6..], *br#"{"a":1}"#);
}

#[test]
fn vectors_that_do_not_fit_are_refused() {
    for (index, bad) in [(0, f32::NAN), (2, f32::INFINITY), (1, f32::NEG_INFINITY)] {
        let mut vector = [1.0, 2.0, 3.0];
        vector[index] = bad;
        assert_eq!(encode_row(3, &vector, None), Err(VectorError::NotFinite { index }));
    }
    assert_eq!(
        encode_row(3, &[1.0; 2], None),
        Err(VectorError::DimensionMismatch { expected: 3, actual: 2 })
    );
    assert_eq!(encode_row(0, &[], None), Err(VectorError::DimensionOutOfRange { dimension: 0 }));
    assert_eq!(
        encode_row(8193, &[0.0; 8193], None),
        Err(VectorError::DimensionOutOfRange { dimension: 8193 })
    );
    let text = VectorError::DimensionMismatch { expected: 3, actual: 2 }.to_string();
    assert_eq!(text, "the vector has 2 dimensions but the collection has 3");
}

#[test]
fn damaged_rows_are_told_and_never_panic() {
    let good = encode_row(3, &[1.0, 2.0, 3.0], Some(&json!({"a": 1}))).unwrap();
    for length in 0..14 {
        assert!(matches!(decode_row(&good[..length]), Err(VectorError::Damaged { .. })), "{length} bytes");
    }
    assert_eq!(decode_row(&good[..14]).unwrap().metadata(), Ok(None));
    for length in 15..good.len() {
        assert!(matches!(decode_row(&good[..length]).unwrap().metadata(), Err(VectorError::Damaged { .. })));
    }
    assert!(decode_row(&[0, 0, 1, 2, 3]).is_err());
    assert!(decode_row(&[0xff; 100]).is_err());
    // Every flip of one byte gives a row or an error.
    for at in 0..good.len() {
        for flip in 1..=255 {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            if let Ok(row) = decode_row(&bytes) {
                let _ = row.metadata();
                assert_eq!(row.to_vec().len(), row.dimension());
            }
        }
    }
}

#[test]
fn a_row_without_metadata_has_no_fields() {
    let filter = |text: &str| text.parse::<Filter>().unwrap();
    let row = |metadata: Option<&Value>| encode_row(1, &[0.5], metadata).unwrap();
    let (bare, full) = (row(None), row(Some(&serde_json::json!({ "year": 1 }))));
    let (bare, full) = (decode_row(&bare).unwrap(), decode_row(&full).unwrap());
    assert_eq!(bare.fulfils(&filter("year = 1")), Ok(false));
    assert_eq!(bare.fulfils(&filter("year != 1")), Ok(true));
    assert_eq!(bare.fulfils(&Filter::default()), Ok(true));
    assert_eq!(full.fulfils(&filter("year = 1")), Ok(true));
    let mut damaged = encode_row(1, &[0.5], None).unwrap();
    damaged.push(b'{');
    assert!(decode_row(&damaged).unwrap().fulfils(&filter("year = 1")).is_err());
}
