//! Tables of a version 3 file, with all their rows.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    duramen_access::hostile::table(bytes);
});
