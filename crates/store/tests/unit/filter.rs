use serde_json::json;

use super::*;

fn parse(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn condition(field: &str, op: FilterOp, value: Value) -> Condition {
    Condition { field: field.into(), op, value }
}

#[test]
fn conditions_on_one_document() {
    let metadata = json!({
        "year": 2021, "price": 9.5, "lang": "en", "tags": ["x", "y", 3], "ok": true, "none": null,
        "nested": {"deep": {"n": 1}}, "a.b": 5, "a": {"b": 6, "c": 7}, "big": 9007199254740993u64
    });
    let holds = [
        "year = 2021",
        "year == 2021.0",
        "year>=2021",
        "year>2020.5",
        "year <= 2021",
        "year < 2e4",
        "year != 2020",
        "price > 9",
        "price >= 9.5",
        "price < 10",
        "lang = en",
        "lang = \"en\"",
        "lang > \"ea\"",
        "lang < eo",
        "lang in [\"de\", \"en\"]",
        "year in [1, 2021.0]",
        "tags contains \"x\"",
        "tags contains x",
        "tags contains 3.0",
        "lang contains n",
        "ok = true",
        "ok != false",
        "none = null",
        "nested.deep.n = 1",
        "a.b = 5",
        "a.c = 7",
        "tags = [\"x\", \"y\", 3.0]",
        "nested = {\"deep\": {\"n\": 1.0}}",
        "missing != 1",
        "nested.deep.m != 1",
        "year != \"2021\"",
        "big = 9007199254740993",
        "big > 9007199254740992",
        "big < 1e30",
        "big > -1e300",
        "year >= 2020 and lang = en && ok = true",
        "",
        "  ",
        "\"lang\" = en",
        "year = 2021 AND lang = en",
    ];
    let fails = [
        "year = 2020",
        "year = \"2021\"",
        "year > \"2000\"",
        "lang > 1",
        "ok > false",
        "none > null",
        "ok = \"true\"",
        "missing = null",
        "missing > 0",
        "missing in [null]",
        "missing contains x",
        "tags contains \"z\"",
        "tags contains \"3\"",
        "year contains 2",
        "lang contains 1",
        "year in []",
        "lang in [\"e\"]",
        "tags = [\"x\"]",
        "big = 9007199254740992",
        "big <= 9007199254740992.0",
        "none != null",
        "tags > []",
        "year >= 2020 and lang = de",
        "nested.deep.n.x = 1",
    ];
    for text in holds {
        if text.contains("AND") {
            assert!(text.parse::<Filter>().is_err(), "{text}");
        } else {
            assert!(parse(text).matches(&metadata), "{text}");
        }
    }
    for text in fails {
        assert!(!parse(text).matches(&metadata), "{text}");
    }
}

#[test]
fn metadata_that_is_absent_or_no_object_has_no_fields() {
    for metadata in [json!(null), json!([1]), json!("year"), json!(3)] {
        assert!(!parse("year = 1").matches(&metadata));
        assert!(parse("year != 1").matches(&metadata));
    }
}

#[test]
fn text_and_json_go_both_ways() {
    let filter = Filter {
        conditions: vec![
            condition("year", FilterOp::Gte, json!(2020)),
            condition("tag", FilterOp::In, json!(["a", "b and c", 1.5, null])),
            condition("odd \"name\" = 1", FilterOp::Ne, json!({"x": [true]})),
            condition("t.u-v_w", FilterOp::Contains, json!("and")),
        ],
    };
    assert_eq!(parse(&filter.to_string()), filter);
    let text = r#"year >= 2020 and tag in ["a","b and c",1.5,null] and "odd \"name\" = 1" != {"x":[true]} and t.u-v_w contains "and""#;
    assert_eq!(filter.to_string(), text);
    let json = serde_json::to_value(&filter).unwrap();
    assert_eq!(json[0], json!({"field": "year", "op": "gte", "value": 2020}));
    assert_eq!(serde_json::from_value::<Filter>(json).unwrap(), filter);
    assert!(serde_json::from_value::<Filter>(json!([{"field": "a", "op": "like", "value": 1}])).is_err());
    assert!(
        serde_json::from_value::<Filter>(json!([{"field": "a", "op": "eq", "value": 1, "x": 1}])).is_err()
    );
    assert_eq!("year>=2020".parse::<Condition>().unwrap(), filter.conditions[0]);
}

#[test]
fn words_and_numbers_are_told_apart() {
    for (text, value) in [
        ("a = 2020", json!(2020)),
        ("a = -1.5e3", json!(-1500.0)),
        ("a = 2020-01-02", json!("2020-01-02")),
        ("a = v1.2", json!("v1.2")),
        ("a = true", json!(true)),
        ("a = trueish", json!("trueish")),
        ("a = 1.2.3", json!("1.2.3")),
        ("a=\"\"", json!("")),
        ("a=\u{e9}t\u{e9}", json!("\u{e9}t\u{e9}")),
    ] {
        assert_eq!(parse(text).conditions, [condition("a", FilterOp::Eq, value)], "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, at) in [
        ("year", 4),
        ("= 3", 0),
        ("year >=", 7),
        ("year ~ 3", 5),
        ("year = 3 lang = en", 9),
        ("year = 3 and", 12),
        ("year = 3 or a = 4", 9),
        ("tag in a", 7),
        ("tag in [\"a\"", 7),
        ("\"tag = 3", 0),
        ("year = \"x", 7),
        ("a = ,", 4),
        ("\u{e9} ~", 3),
    ] {
        let error = text.parse::<Filter>().unwrap_err();
        assert_eq!(error.at, at, "{text}: {error}");
    }
    let text = "year".parse::<Filter>().unwrap_err().to_string();
    assert!(
        text.starts_with("the filter is wrong at character 4: expected one of = != > >= < <= in contains")
    );
    assert!("a = 1 and b = 2".parse::<Condition>().is_err());
}

#[test]
fn no_text_panics() {
    let pieces = [
        "a", "=", ">=", "in", "[", "]", "\"", "\\", "1", ".", "-", " ", "and", "&&", "\u{e9}", "{",
        "contains",
    ];
    let mut state = 12345u32;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(pieces[(state >> 16) as usize % pieces.len()]);
        }
        if let Ok(filter) = text.parse::<Filter>() {
            assert_eq!(filter.to_string().parse(), Ok(filter), "{text}");
        }
    }
}
