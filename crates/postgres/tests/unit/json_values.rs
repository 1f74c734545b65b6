use super::{write_value, Kind};

fn check(kind: Kind, value: Option<&str>, expected: &str) {
    let mut out = Vec::new();
    write_value(&mut out, kind, value.map(str::as_bytes));
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, expected);
    serde_json::from_str::<serde_json::Value>(&text).expect("every value is JSON");
}

#[test]
fn values_keep_their_type() {
    check(Kind::Integer, Some("-42"), "-42");
    check(Kind::Float, Some("1.5e+10"), "1.5e+10");
    check(Kind::Boolean, Some("t"), "true");
    check(Kind::Boolean, Some("f"), "false");
    check(Kind::Json, Some(r#"{"a": [1, null]}"#), r#"{"a": [1, null]}"#);
    check(Kind::Text, Some("it's \"quoted\"\n"), r#""it's \"quoted\"\n""#);
    check(Kind::Text, None, "null");
}

#[test]
fn what_json_numbers_cannot_hold_becomes_a_string() {
    check(Kind::Float, Some("NaN"), "\"NaN\"");
    check(Kind::Float, Some("-Infinity"), "\"-Infinity\"");
}
