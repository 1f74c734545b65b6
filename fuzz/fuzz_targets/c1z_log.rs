//! Logs of a merge tree, with their batches.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    duramen_access::hostile::log(bytes);
});
