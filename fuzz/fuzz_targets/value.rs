//! Values, by both of their readers.
#![no_main]

use duramen_store::value::ValueRef;
use duramen_store::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let borrowed = ValueRef::decode(bytes).and_then(|value| value.to_value());
    let Ok(value) = Value::decode(bytes) else { return };
    assert!(borrowed.is_ok());
    let mut again = Vec::new();
    value.encode_into(&mut again).expect("what was read can be written");
    // Compared as bytes, because NaN is not equal to itself.
    let mut twice = Vec::new();
    Value::decode(&again).expect("what was written").encode_into(&mut twice).expect("what was read");
    assert_eq!(again, twice);
});
