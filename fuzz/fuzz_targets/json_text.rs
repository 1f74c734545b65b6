//! JSON documents.
#![no_main]

use duramen_store::json::Json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(json) = text.parse::<Json>() else { return };
    let again: Json = json.as_str().parse().expect("what was written can be read");
    assert_eq!(again.as_str(), json.as_str());
    drop(json.to_value());
});
