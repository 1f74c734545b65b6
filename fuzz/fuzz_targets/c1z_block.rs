//! Blocks of a table, by rows and by columns.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    duramen_access::hostile::block(bytes);
});
