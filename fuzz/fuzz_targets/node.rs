//! Nodes of a tree.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    drop(duramen_tree::check_node(bytes));
});
