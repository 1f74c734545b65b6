//! Rows of a vector collection.
#![no_main]

use duramen_store::vector::decode_row;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(row) = decode_row(bytes) {
        assert_eq!(row.to_vec().len(), row.dimension());
        drop(row.metadata());
    }
});
