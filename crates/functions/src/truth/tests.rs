#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[track_caller]
fn check(value: &str, expected: bool) {
    let value = Json::parse(value).unwrap();
    assert_eq!(is_true(&value), expected, "{value}");
    // Alone and as the first column of the first row it is the same.
    let row = format!(r#"{{"rows":[{{"a":{value},"b":true}},{{"a":true}}],"row_count":2}}"#);
    let other = format!(r#"{{"rows":[{{"a":{value},"b":false}},{{"a":false}}],"row_count":2}}"#);
    assert_eq!(is_true(&Json::parse(&row).unwrap()), expected, "{row}");
    assert_eq!(is_true(&Json::parse(&other).unwrap()), expected, "{other}");
}

#[test]
fn what_is_false() {
    for value in [
        "null",
        "false",
        "0",
        "-0",
        "0.0",
        "-0.000",
        "0e5",
        "0.0E-7",
        r#""""#,
        r#""false""#,
        r#""f""#,
        r#""no""#,
        r#""0""#,
        r#""False""#,
        r#""NO""#,
        r#""\u0030""#,
        "[]",
        "{}",
        "[ ]",
        "{ \n }",
    ] {
        check(value, false);
    }
}

#[test]
fn what_is_true() {
    for value in [
        "true",
        "1",
        "-1",
        "0.1",
        "1e-400",
        "10",
        r#""true""#,
        r#""t""#,
        r#""yes""#,
        r#""x""#,
        r#"" ""#,
        r#""00""#,
        r#""0.00""#,
        r#""null""#,
        r#""n""#,
        "[0]",
        "[[]]",
        r#"{"a":null}"#,
        "[null]",
    ] {
        check(value, true);
    }
}

#[test]
fn without_a_row_or_a_column_it_is_false() {
    for value in
        [r#"{"rows":[],"row_count":0}"#, r#"{"rows":[],"row_count":5}"#, r#"{"rows":[{}],"row_count":1}"#]
    {
        assert!(!is_true(&Json::parse(value).unwrap()), "{value}");
    }
}

#[test]
fn the_answer_of_a_signal_or_a_request_is_true() {
    for value in
        [r#"{"timed_out":true,"data":null}"#, r#"{"status":404,"ok":false}"#, r#"{"slept":true,"seconds":0}"#]
    {
        assert!(is_true(&Json::parse(value).unwrap()), "{value}");
    }
}
