//! Paths into JSON documents.
#![no_main]

use duramen_store::json::{Json, Path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let Ok(path) = input.0.parse::<Path>() else { return };
    assert_eq!(path.to_string().parse::<Path>().as_ref(), Ok(&path));
    if let Ok(json) = input.1.parse::<Json>() {
        drop(json.get(&path));
    }
});
