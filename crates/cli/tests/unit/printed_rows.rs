//! Rows that are printed must be read back as the same rows.

use super::{objects, param, quoted, quoted_value, rows};
use duramen_api::model::StatementReply;
use serde_json::{json, Value};

fn reply() -> StatementReply {
    serde_json::from_str(
        r#"{"columns":[{"name":"a","type":"int4"},{"name":"b","type":"text"}],
            "rows":[[1,"x"],[null,"y"]],"row_count":2,"truncated":false,"command":"SELECT 2"}"#,
    )
    .unwrap()
}

#[test]
fn csv_fields_are_quoted_where_they_must_be() {
    assert_eq!(quoted("plain"), "plain");
    assert_eq!(quoted("a,b"), "\"a,b\"");
    assert_eq!(quoted("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
    // NULL and the empty string stay apart.
    assert_eq!(quoted_value(&Value::Null), "");
    assert_eq!(quoted_value(&json!("")), "\"\"");
    assert_eq!(quoted_value(&json!({"k": 1})), "\"{\"\"k\"\":1}\"");
}

#[test]
fn rows_become_objects() {
    let reply = reply();
    let objects = objects(&reply, rows(&reply).unwrap());
    assert_eq!(serde_json::to_value(objects).unwrap(), json!([{"a": 1, "b": "x"}, {"a": null, "b": "y"}]));
}

#[test]
fn only_backslash_n_is_null() {
    assert_eq!(param("\\N".to_owned()), Value::Null);
    assert_eq!(param("null".to_owned()), json!("null"));
    assert_eq!(param("007".to_owned()), json!("007"));
}
