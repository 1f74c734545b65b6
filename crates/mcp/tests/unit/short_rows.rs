use super::*;
use duramen_api::model::ResultColumn;

fn result(columns: &[(&str, &str)], rows: &Value, truncated: bool) -> StatementReply {
    let column = |(name, kind): &(&str, &str)| ResultColumn {
        name: (*name).to_owned(),
        type_name: (*kind).to_owned(),
    };
    StatementReply {
        columns: columns.iter().map(column).collect(),
        rows: RawValue::from_string(rows.to_string()).unwrap(),
        row_count: rows.as_array().map_or(0, |rows| rows.len() as u64),
        truncated,
        command: "SELECT".to_owned(),
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_result_is_one_object_with_the_types_of_its_columns() {
    let found =
        text(&result(&[("a", "int4"), ("b", "text")], &serde_json::json!([[1, "x"], [null, "\"\n"]]), false));
    let expected = serde_json::json!({ "columns": ["a int4", "b text"], "rows": [[1, "x"], [null, "\"\n"]], "row_count": 2 });
    assert_eq!(read(&found.unwrap()), expected);
    let empty = text(&result(&[("a", "int4")], &serde_json::json!([]), false)).unwrap();
    assert_eq!(read(&empty)["rows"], serde_json::json!([]));
    let command =
        StatementReply { command: "DELETE 3".to_owned(), ..result(&[], &serde_json::json!([]), false) };
    assert_eq!(text(&command).unwrap(), r#"{"command":"DELETE 3"}"#);
}

/// M3.
#[test]
fn whatever_the_rows_are_a_reply_is_short_and_says_what_is_missing() {
    let many: Vec<Value> = (0..1000).map(|number| serde_json::json!([number, "y".repeat(200)])).collect();
    let found = text(&result(&[("a", "int4"), ("b", "text")], &Value::from(many), false)).unwrap();
    assert!(found.len() < BYTES_MAX + 1000, "{}", found.len());
    let found = read(&found);
    assert_eq!(found["row_count"], found["rows"].as_array().unwrap().len());
    assert!(
        found["row_count"].as_u64().unwrap() > 100 && found["truncated"].as_str().unwrap().contains("LIMIT")
    );

    // A value that is longer than any reply, of letters of several bytes; an object, which is cut as its text.
    let long = serde_json::json!([["\u{1F332}".repeat(1_000_000), { "k": "v".repeat(5000) }]]);
    let found = text(&result(&[("a", "text"), ("b", "jsonb")], &long, false)).unwrap();
    assert!(found.len() < 10_000);
    let found = read(&found);
    assert!(found["rows"][0][0].as_str().unwrap().ends_with("... (1000000 characters)"));
    assert!(found["rows"][0][1].as_str().unwrap().starts_with("{\"k\":\"vvv"));
    assert!(found["truncated"].as_str().unwrap().contains("long values are cut"));

    // More columns than anybody reads, each of them full, and none of them plain.
    let wide: Vec<Value> = (0..1600).map(|_| Value::from("\u{1}".repeat(5000))).collect();
    let names: Vec<(&str, &str)> = (0..1600).map(|_| ("c", "text")).collect();
    let found = text(&result(&names, &serde_json::json!([wide]), true)).unwrap();
    assert!(found.len() < 8 * BYTES_MAX, "{}", found.len());
    let found = read(&found);
    assert_eq!(
        (found["rows"][0].as_array().unwrap().len(), found["columns"].as_array().unwrap().len()),
        (200, 200)
    );
    assert!(found["truncated"].as_str().unwrap().contains("more columns"));
}
