//! Rules for keeping generations, as they are written and read.

use super::*;

#[test]
fn a_rule_is_what_it_is_written_as() {
    for (text, shown) in [
        ("", ""),
        ("  ", ""),
        ("7 daily", "7 daily"),
        ("4 weekly,7   daily ", "7 daily, 4 weekly"),
        (
            "1 yearly, 2 monthly, 3 weekly, 4 daily, 5 hourly, 6 last",
            "6 last, 5 hourly, 4 daily, 3 weekly, 2 monthly, 1 yearly",
        ),
        ("1000 last", "1000 last"),
    ] {
        let keep: Keep = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(keep.to_string(), shown);
        assert_eq!(shown.parse::<Keep>().as_ref(), Ok(&keep), "{text}");
        let json = serde_json::to_string(&keep).unwrap();
        assert_eq!(serde_json::from_str::<Keep>(&json).unwrap(), keep, "{json}");
        assert_eq!(keep.is_empty(), shown.is_empty());
    }
}

#[test]
fn what_is_no_rule_is_refused_with_its_reason() {
    for (text, reason) in [
        ("daily", "not a number and a word"),
        ("7", "not a number and a word"),
        ("7 daily 4 weekly", "not a number and a word"),
        ("7 daily,", "not a number and a word"),
        ("0 daily", "1 to 1000"),
        ("1001 daily", "1 to 1000"),
        ("+7 daily", "1 to 1000"),
        ("-1 daily", "1 to 1000"),
        ("99999999999999999999 daily", "1 to 1000"),
        ("7 days", "\"days\" is not a stretch"),
        ("7 Daily", "\"Daily\" is not a stretch"),
        ("7 daily, 3 daily", "daily stands there twice"),
    ] {
        let error = text.parse::<Keep>().expect_err(text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
}
