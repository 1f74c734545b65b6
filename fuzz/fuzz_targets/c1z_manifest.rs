//! The manifest of a merge tree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    duramen_access::hostile::manifest(bytes);
});
