#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

#[test]
fn text_that_is_not_json_is_refused() {
    for bad in
        ["", " ", "{", "[1,]", "{\"a\":}", "nul", "'a'", "1 2", "\"\n\"", "01", "+1", "{a:1}", "\"\\x\""]
    {
        assert!(Json::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn half_a_surrogate_pair_is_refused_wherever_it_hides() {
    for bad in [r#""\ud800""#, r#"[1,{"a":["\uDC00x"]}]"#, r#"{"\ud83d":1}"#] {
        assert!(Json::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(shape(json(r#""\ud83d\ude00""#).text()), Shape::String(Some("\u{1f600}".into())));
    // An escaped backslash before the letters is not an escape of a surrogate.
    assert_eq!(json(r#"["\\ud800"]"#).text(), r#"["\\ud800"]"#);
}

#[test]
fn deep_nesting_is_read_without_recursion() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(json(&deep).text().len(), deep.len());
}

#[test]
fn the_digits_of_numbers_and_the_order_of_members_stay() {
    let text = r#"{"z":1.10,"a":12345678901234567890123,"m":-0.0}"#;
    assert_eq!(json(text).text(), text);
    assert_eq!(json(text).field("a").unwrap().text(), "12345678901234567890123");
}

#[test]
fn fields_are_found_behind_escapes_and_the_last_one_counts() {
    let object = json(r#"{"a":1,"caf\u00e9":2,"a\"b":[3],"a":{"x":4}}"#);
    assert_eq!(object.field("a"), Some(json(r#"{"x":4}"#)));
    assert_eq!(object.field("caf\u{e9}"), Some(json("2")));
    assert_eq!(object.field("a\"b"), Some(json("[3]")));
    assert_eq!(object.field("b"), None);
    assert_eq!(json("[1]").field("a"), None);
    assert_eq!(json("null").field("a"), None);
}

#[test]
fn only_rows_with_a_count_are_a_result_set() {
    assert!(json(r#"{"rows":[],"row_count":0}"#).is_result_set());
    assert!(json(r#" { "row_count" : 0 , "rows" : [ ] } "#).is_result_set());
    for other in [
        "[]",
        "1",
        "null",
        r#"{"rows":[]}"#,
        r#"{"row_count":1}"#,
        r#"{"rows":{},"row_count":0}"#,
        r#"{"rows":[],"row_count":"0"}"#,
        r#"[{"rows":[],"row_count":0}]"#,
    ] {
        assert!(!json(other).is_result_set(), "{other}");
        assert_eq!(json(other).rows(), None);
        assert_eq!(json(other).first_row(), None);
    }
}

#[test]
fn rows_keep_the_order_of_their_columns() {
    let result = json(r#"{"rows":[{"z":1,"a":null},{"z":2,"a":"x"}],"row_count":2}"#);
    let first = result.first_row().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["z", "a"]);
    assert_eq!(first["a"], Json::null());
    let rows = result.rows().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1]["a"], Json::string("x"));
    assert_eq!(json(r#"{"rows":[],"row_count":0}"#).first_row(), None);
    assert_eq!(json(r#"{"rows":[],"row_count":0}"#).rows().unwrap().len(), 0);
}

#[test]
fn a_document_holds_json_as_it_is() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Cell {
        r: Option<Json>,
        n: u8,
    }
    let cell = Cell { r: Some(json(r#"{"b":1.50,"a":[]}"#)), n: 1 };
    let text = serde_json::to_string(&cell).unwrap();
    assert_eq!(text, r#"{"r":{"b":1.50,"a":[]},"n":1}"#);
    assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell);
    // What claims to be valid and is not must not break the document around it.
    let broken = Cell { r: Some(Json::from_valid("1,\"n\":9")), n: 1 };
    assert!(serde_json::to_string(&broken).is_err());
}

#[test]
fn first_parts_are_found_without_reading_the_rest() {
    assert_eq!(first_element(" [ {\"a\":1} , 2]"), Some("{\"a\":1}"));
    assert_eq!(first_element("[]"), None);
    assert_eq!(first_element("{}"), None);
    assert_eq!(first_member("{\"a\\n\": [1] ,\"b\":2}"), Some("[1]"));
    assert_eq!(first_member("{}"), None);
    assert_eq!(values("{\"a\":1,\"a\":2}").unwrap(), ["1", "2"]);
    assert_eq!(
        members("{\"a\":1,\"b\":0,\"a\":2}").unwrap().into_iter().collect::<Vec<_>>(),
        [("a".to_owned(), "2"), ("b".to_owned(), "0")]
    );
}
