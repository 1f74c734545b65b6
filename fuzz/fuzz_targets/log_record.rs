//! Records and segment headers of the commit log.
#![no_main]

use duramen_store::log::{decode_record, encode_record, SegmentHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u64, u32, &[u8])| {
    let (salt, first, count, bytes) = input;
    if let Some(record) = decode_record(bytes, salt) {
        assert!(record.size() <= bytes.len());
    }
    if let Ok(header) = SegmentHeader::decode(bytes) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
    // The checksum keeps mutants out, so what is valid is made here.
    if first > 0 && count > 0 && first.checked_add(u64::from(count)).is_some() {
        let mut valid = Vec::new();
        encode_record(&mut valid, salt, first, count, first - 1, bytes);
        let record = decode_record(&valid, salt).expect("a record that was just written");
        assert_eq!((record.first, record.count, record.body), (first, count, bytes));
    }
});
