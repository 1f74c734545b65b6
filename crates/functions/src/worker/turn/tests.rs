//! What becomes of a turn whose result cannot be written down.

use super::{to_json, TurnError};
use std::collections::BTreeMap;

/// It would be committed as if it had led to nothing: steps that wait for the rest would wait for ever.
#[test]
fn what_has_no_json_fails_the_turn_and_is_the_instances_own() {
    let without_json = BTreeMap::from([(vec![1_u8], 1)]);
    let error = to_json("the end of a child", &without_json).unwrap_err();
    assert!(matches!(error, TurnError::Encoding { .. }), "{error}");
    assert!(error.to_string().starts_with("the end of a child cannot be written as JSON: "), "{error}");
    assert!(error.refusal().is_some(), "after some tries the instance ends with the reason");
    assert!(!error.blames_steps());
}
