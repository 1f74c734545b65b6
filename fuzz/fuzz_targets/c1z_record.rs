//! Records of rows, of both versions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    duramen_access::hostile::record(bytes);
});
