//! What the first row of a result says of its columns.

use super::type_oids;
use crate::result::ResultError;

/// `(1::int8, NULL::numeric)`, as `record_send` writes it.
fn row() -> Vec<u8> {
    let parts: [&[u8]; 6] = [
        &2_u32.to_be_bytes(),
        &20_u32.to_be_bytes(),
        &8_u32.to_be_bytes(),
        &1_i64.to_be_bytes(),
        &1700_u32.to_be_bytes(),
        &u32::MAX.to_be_bytes(),
    ];
    parts.concat()
}

/// Its columns would be taken for plain ones, and a `numeric` be kept as a number that readers round.
#[test]
fn a_row_that_is_cut_off_is_no_description() {
    let row = row();
    assert_eq!(type_oids(&row).expect("a whole row"), [20, 1700]);
    assert_eq!(type_oids(&0_u32.to_be_bytes()).expect("a row without columns"), [0_u32; 0]);
    for length in 0..row.len() {
        let error = type_oids(&row[..length]).expect_err("a part of a row");
        assert!(matches!(error, ResultError::CutOff { .. }), "{length}: {error}");
    }
}
