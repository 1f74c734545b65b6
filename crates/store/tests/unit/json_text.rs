use duramen_base::entropy;
use serde_json::json;

use super::super::document::Json;
use super::super::merge::{merge_patch, three_way, ThreeWay};
use super::*;

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

fn set_in(text: &str, at: &str, new: Value) -> Result<String, JsonError> {
    let changed = set(Some(text.as_bytes()), &path(at), &new)?.apply(text.as_bytes());
    Ok(String::from_utf8(changed).unwrap())
}

fn delete_in(text: &str, at: &str) -> Option<String> {
    let splice = delete(text.as_bytes(), &path(at)).unwrap()?;
    Some(String::from_utf8(splice.apply(text.as_bytes())).unwrap())
}

fn get<'a>(text: &'a str, at: &str) -> Option<&'a str> {
    locate(text.as_bytes(), &path(at)).unwrap().map(|range| &text[range])
}

const TREE: &str =
    r#"{"a":{"b":[1,{"c":"x"},[]],"e\"s":null},"long":"0123456789 [{\"} 0123456789","0":{},"z":-1.5e3}"#;

#[test]
fn values_are_located() {
    for (at, expected) in [
        ("$", Some(TREE)),
        ("a.b", Some(r#"[1,{"c":"x"},[]]"#)),
        ("a.b[0]", Some("1")),
        ("a.b[1].c", Some("\"x\"")),
        ("/a/b/1/c", Some("\"x\"")),
        ("a.b[2]", Some("[]")),
        ("a['e\"s']", Some("null")),
        ("['0']", Some("{}")),
        ("z", Some("-1.5e3")),
        ("a.b[3]", None),
        ("/a/b/-", None),
        ("a.b.c", None),
        ("a.c", None),
        ("a[0]", None),
        ("z.x", None),
        ("a['e\\\\\"s']", None),
    ] {
        assert_eq!(get(TREE, at), expected, "{at}");
    }
}

#[test]
fn setting_replaces_appends_and_creates() {
    for (text, at, new, expected) in [
        (r#"{"a":1}"#, "$", json!([2]), "[2]"),
        (r#"{"a":1,"b":2}"#, "a", json!("x"), r#"{"a":"x","b":2}"#),
        (r#"{"b":1}"#, "a", json!(2), r#"{"b":1,"a":2}"#),
        ("{}", "a.b.c", json!(1), r#"{"a":{"b":{"c":1}}}"#),
        ("{}", "a[0].b", json!(1), r#"{"a":[{"b":1}]}"#),
        ("[]", "[0]", json!(1), "[1]"),
        ("[1]", "[1]", json!(2), "[1,2]"),
        ("[1]", "/-", json!(2), "[1,2]"),
        ("[1]", "/1/x", json!(2), r#"[1,{"x":2}]"#),
        (r#"{"a\nb":1}"#, "['a\\nb']", json!({}), r#"{"a\nb":{}}"#),
        (r#"{}"#, "['a\\nb']", json!(null), r#"{"a\nb":null}"#),
    ] {
        assert_eq!(set_in(text, at, new).as_deref(), Ok(expected), "{text} {at}");
    }
    let splice = set(None, &path("a.b"), &json!(1)).unwrap();
    assert_eq!(splice, Splice { at: 0, remove: 0, insert: br#"{"a":{"b":1}}"#.to_vec() });
    let text: Json = r#" {"z": 1, "a": 2.50} "#.parse().unwrap();
    assert_eq!(set(Some(b"{}"), &path("x"), &text).unwrap().insert, br#""x":{"z":1,"a":2.5}"#);
}

#[test]
fn setting_where_nothing_can_stand_is_refused() {
    let wrong =
        |place: &str, found, expected| Err(JsonError::WrongType { place: place.to_owned(), found, expected });
    assert_eq!(set_in(TREE, "z.x", json!(1)), wrong("$.z", "a number", "an object"));
    assert_eq!(set_in(TREE, "long[0]", json!(1)), wrong("$.long", "a string", "an array"));
    assert_eq!(set_in(TREE, "a[0]", json!(1)), wrong("$.a", "an object", "an array"));
    assert_eq!(set_in(TREE, "a.b.c", json!(1)), wrong("$.a.b", "an array", "an object"));
    assert_eq!(set_in("null", "x", json!(1)), wrong("$", "null", "an object"));
    let beyond =
        |place: &str, index, len| Err(JsonError::IndexOutOfRange { place: place.to_owned(), index, len });
    assert_eq!(set_in(TREE, "a.b[4]", json!(1)), beyond("$.a.b", 4, 3));
    assert_eq!(set_in(TREE, "a.new[1]", json!(1)), beyond("$.a.new", 1, 0));
}

#[test]
fn deleting_takes_the_comma_along() {
    for (text, at, expected) in [
        (r#"{"a":1,"b":2,"c":3}"#, "a", Some(r#"{"b":2,"c":3}"#)),
        (r#"{"a":1,"b":2,"c":3}"#, "b", Some(r#"{"a":1,"c":3}"#)),
        (r#"{"a":1,"b":2,"c":3}"#, "c", Some(r#"{"a":1,"b":2}"#)),
        (r#"{"a":[7]}"#, "a[0]", Some(r#"{"a":[]}"#)),
        (r#"{"a":[7]}"#, "a", Some("{}")),
        (r#"{"a":[7]}"#, "a[1]", None),
        (r#"{"a":[7]}"#, "a.b.c", None),
    ] {
        assert_eq!(delete_in(text, at).as_deref(), expected, "{text} {at}");
    }
    assert_eq!(delete(b"{}", &Path::root()), Err(JsonError::Root));
}

#[test]
fn limits_hold() {
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(validate(&nested(100)), Ok(()));
    assert_eq!(validate(&nested(101)), Err(JsonError::TooDeep { max: 100 }));
    assert!(set_in("{}", "a.b", nested(98)).is_ok());
    assert_eq!(set_in("{}", "a.b", nested(99)), Err(JsonError::TooDeep { max: 100 }));
    let text = Json::from_value(&nested(99)).unwrap();
    assert!(set(Some(b"{}"), &path("a"), &text).is_ok());
    assert_eq!(set(Some(b"{}"), &path("a.b"), &text), Err(JsonError::TooDeep { max: 100 }));
    assert_eq!(set_in("{}", &vec!["a"; 101].join("."), json!(1)), Err(JsonError::TooDeep { max: 100 }));
    assert_eq!(
        format!("{}1{}", "[".repeat(101), "]".repeat(101)).parse::<Json>(),
        Err(JsonError::TooDeep { max: 100 })
    );
    let long = "x".repeat(MAX_DOCUMENT_BYTES - 2);
    assert_eq!(validate(&json!(long)), Ok(()));
    assert!(matches!(validate(&json!([long])), Err(JsonError::TooLarge { .. })));
    assert!(matches!(set_in(r#"{"a":1}"#, "b", json!(long)), Err(JsonError::TooLarge { .. })));
    let full = json!(vec![1; MAX_DOCUMENT_ARRAY]);
    assert_eq!(validate(&full), Ok(()));
    assert!(matches!(set_in(&full.to_string(), "/-", json!(1)), Err(JsonError::ArrayTooLong { .. })));
    assert!(matches!(validate(&json!(vec![1; MAX_DOCUMENT_ARRAY + 1])), Err(JsonError::ArrayTooLong { .. })));
}

#[test]
fn texts_are_made_canonical() {
    for (text, expected) in [
        (
            " { \"z\" : [ 1 , 2.50 , [ ] , { } ] , \"a\" : \"\\u0041\\/\\n\" } ",
            r#"{"z":[1,2.5,[],{}],"a":"A/\n"}"#,
        ),
        ("18446744073709551615", "18446744073709551615"),
        ("true", "true"),
    ] {
        assert_eq!(text.parse::<Json>().unwrap().as_str(), expected);
    }
    let twice = r#"{"a":{"k":1,"\u006b":2}}"#.parse::<Json>();
    assert_eq!(twice, Err(JsonError::DuplicateKey { key: "k".to_owned() }));
    for text in ["", "{", "[1,]", "{\"a\"}", "1 2", "nul"] {
        assert!(matches!(text.parse::<Json>(), Err(JsonError::Syntax { .. })), "{text}");
    }
    let json: Json = serde_json::from_str(r#"{"b": 1, "a": 2}"#).unwrap();
    assert_eq!(serde_json::to_string(&vec![json.clone()]).unwrap(), r#"[{"b":1,"a":2}]"#);
    assert_eq!(json.to_value().unwrap(), json!({ "a": 2, "b": 1 }));
    assert_eq!(json.get(&path("a")).unwrap().unwrap().to_string(), "2");
}

#[test]
fn merge_patches_of_the_standard() {
    // RFC 7396, appendix A: original, patch, result.
    for (original, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        let merged = merge_patch(original.as_bytes(), &serde_json::from_str(patch).unwrap()).unwrap();
        assert_eq!(String::from_utf8(merged).unwrap(), result, "{original} {patch}");
    }
}

#[test]
fn three_way_merges_by_key() {
    let merged = |text: &str| ThreeWay::Merged(text.as_bytes().to_vec());
    let conflicts =
        |paths: &[&str]| ThreeWay::Conflicts(paths.iter().map(|path| (*path).to_owned()).collect());
    for (base, ours, theirs, expected) in [
        (Some(r#"{"a":1,"b":1}"#), r#"{"a":2,"b":1}"#, r#"{"a":1,"b":2}"#, merged(r#"{"a":2,"b":2}"#)),
        (
            Some(r#"{"a":{"x":1}}"#),
            r#"{"a":{"x":1,"y":2}}"#,
            r#"{"a":{"x":3,"z":4}}"#,
            merged(r#"{"a":{"x":3,"y":2,"z":4}}"#),
        ),
        (Some(r#"{"a":1,"b":1}"#), r#"{"b":1}"#, r#"{"a":1,"b":2}"#, merged(r#"{"b":2}"#)),
        (Some(r#"{"a":1,"b":1}"#), r#"{"a":3,"b":1}"#, r#"{"a":1}"#, merged(r#"{"a":3}"#)),
        (Some(r#"{"a":1}"#), r#"{"a":2}"#, r#"{"a":2}"#, merged(r#"{"a":2}"#)),
        (Some(r#"{"a":1}"#), r#"{}"#, r#"{}"#, merged("{}")),
        (Some(r#"{"a":{"b":[1]}}"#), r#"{"a":{"b":[1,2]}}"#, r#"{"a":{"b":[0,1]}}"#, conflicts(&["$.a.b"])),
        (Some(r#"{"a":1,"b":1}"#), r#"{"a":2}"#, r#"{"a":3,"b":2}"#, conflicts(&["$.a", "$.b"])),
        (Some(r#"{"o d":1}"#), "{}", r#"{"o d":2}"#, conflicts(&["$[\"o d\"]"])),
        (Some(r#"{"a":{"x":1,"y":2}}"#), "{}", r#"{"a":{"y":2,"x":1}}"#, merged("{}")),
        (
            None,
            r#"{"a":1,"c":{"x":1}}"#,
            r#"{"b":2,"c":{"y":1}}"#,
            merged(r#"{"a":1,"c":{"x":1,"y":1},"b":2}"#),
        ),
        (None, r#"{"a":1}"#, r#"{"a":2}"#, conflicts(&["$.a"])),
        (None, "[1]", "[1]", merged("[1]")),
        (Some("1"), r#"{"a":1}"#, r#"{"b":1}"#, conflicts(&["$"])),
        (Some("[1]"), "[1]", "[2]", merged("[2]")),
    ] {
        let found = three_way(base.map(str::as_bytes), ours.as_bytes(), theirs.as_bytes()).unwrap();
        assert_eq!(found, expected, "{base:?} {ours} {theirs}");
    }
}

const SIGNS: &[u8] = b"ab{}[],:\"\\\n\xe9";
const KEYS: [&str; 9] = ["a", "b", "c", "0", "1", "", "odd \"key\\", "\n\u{1}", "\u{1f333}{[\""];

fn random(rng: &mut fastrand::Rng, depth: usize) -> Value {
    match rng.u8(..if depth == 0 { 4 } else { 8 }) {
        0 => json!(null),
        1 => json!(rng.i64(..) >> rng.u32(..64)),
        2 => json!(rng.f64()),
        3 => json!((0..rng.usize(..90)).map(|_| *rng.choice(SIGNS).unwrap() as char).collect::<String>()),
        4 | 5 => (0..rng.usize(..5)).map(|_| random(rng, depth - 1)).collect(),
        _ => (0..rng.usize(..6)).map(|_| (*rng.choice(&KEYS).unwrap(), random(rng, depth - 1))).collect(),
    }
}

fn random_path(rng: &mut fastrand::Rng) -> Path {
    (0..rng.usize(..4)).fold(Path::root(), |path, _| match rng.u8(..3) {
        0 => path.index(rng.usize(..5)),
        _ => path.key(*rng.choice(&KEYS).unwrap()),
    })
}

/// The place of a path in a parsed value, created if it is missing and `create` is set.
fn place<'a>(value: &'a mut Value, segments: &[Segment], create: bool) -> Option<&'a mut Value> {
    let [first, rest @ ..] = segments else { return Some(value) };
    let missing = || match rest.first() {
        Some(Segment::Key(_)) => json!({}),
        Some(Segment::Index(_)) => json!([]),
        None => json!(null),
    };
    let part = match (value, first) {
        (Value::Object(members), Segment::Key(key)) => {
            if create && !members.contains_key(key) {
                members.insert(key.clone(), missing());
            }
            members.get_mut(key)?
        }
        (Value::Array(elements), step) => {
            let index = match step {
                Segment::Index(index) => *index,
                Segment::Key(key) => key.parse().ok()?,
            };
            if create && index == elements.len() {
                elements.push(missing());
            }
            elements.get_mut(index)?
        }
        _ => return None,
    };
    place(part, rest, create)
}

fn remove(value: &mut Value, path: &Path) -> bool {
    let Some((last, before)) = path.segments().split_last() else { return false };
    match (place(value, before, false), last) {
        (Some(Value::Object(members)), Segment::Key(key)) => members.remove(key).is_some(),
        (Some(Value::Array(elements)), step) => {
            let index = match step {
                Segment::Index(index) => Some(*index),
                Segment::Key(key) => key.parse().ok(),
            };
            index.filter(|index| *index < elements.len()).map(|index| elements.remove(index)).is_some()
        }
        _ => false,
    }
}

#[test]
fn splices_do_what_changing_the_parsed_value_does() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    let mut counts = [0; 4];
    for _ in 0..6000 {
        // Mostly with something inside: in most of the scalars that chance makes, nothing can be set.
        let value =
            std::iter::repeat_with(|| random(&mut rng, 4)).take(4).max_by_key(|v| v.to_string().len());
        let value = value.expect("one of four");
        let text = to_text(&value).unwrap();
        let path = random_path(&mut rng);
        let shown = format!("seed {seed}: {path} in {value}");
        let parsed =
            |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or_else(|_| panic!("{shown}"));

        let mut model = value.clone();
        let there = place(&mut model, path.segments(), false).map(|part| part.clone());
        let located = locate(&text, &path).unwrap().map(|range| parsed(&text[range]));
        assert_eq!(located, there, "{shown}");
        counts[0] += usize::from(there.is_some());

        let new = random(&mut rng, 2);
        match (set(Some(&text), &path, &new), place(&mut model, path.segments(), true)) {
            (Ok(splice), Some(part)) => {
                *part = new;
                assert_eq!(parsed(&splice.apply(&text)), model, "{shown}");
                counts[1] += 1;
            }
            (Err(JsonError::WrongType { .. } | JsonError::IndexOutOfRange { .. }), None) => counts[2] += 1,
            (found, _) => panic!("{shown}: {found:?}"),
        }

        let mut model = value.clone();
        match (path.is_root(), delete(&text, &path)) {
            (true, found) => assert_eq!(found, Err(JsonError::Root)),
            (false, Ok(None)) => assert!(!remove(&mut model, &path), "{shown}"),
            (false, Ok(Some(splice))) => {
                assert!(remove(&mut model, &path), "{shown}");
                assert_eq!(parsed(&splice.apply(&text)), model, "{shown}");
                counts[3] += 1;
            }
            (false, Err(error)) => panic!("{shown}: {error}"),
        }
    }
    assert!(counts.iter().all(|count| *count > 200), "seed {seed}: {counts:?}");
}

#[test]
fn merges_keep_what_one_side_alone_changed() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    for _ in 0..3000 {
        let (base, side) = (random(&mut rng, 3), random(&mut rng, 3));
        let (base, side) = (to_text(&base).unwrap(), to_text(&side).unwrap());
        let merged = Ok(ThreeWay::Merged(side.clone()));
        assert_eq!(three_way(Some(&base), &side, &base), merged, "seed {seed}");
        assert_eq!(three_way(Some(&base), &base, &side), merged, "seed {seed}");
        assert_eq!(three_way(Some(&base), &side, &side), merged, "seed {seed}");
    }
}

#[test]
fn damaged_texts_end_in_an_error_or_a_range_within_them() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    for _ in 0..8000 {
        let mut text = to_text(&random(&mut rng, 4)).unwrap();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..text.len());
            text[at] = *rng.choice(b"{}[]\",:\\0a \xff").unwrap();
        }
        text.truncate(rng.usize(text.len() / 2..=text.len()));
        let path = random_path(&mut rng);
        if let Ok(Some(range)) = locate(&text, &path) {
            assert!(text.get(range).is_some(), "seed {seed}");
        }
        if let Ok(splice) = set(Some(&text), &path, &json!(1)) {
            splice.apply(&text);
        }
        if let Ok(Some(splice)) = delete(&text, &path) {
            splice.apply(&text);
        }
        let _ = merge_patch(&text, &json!({ "a": { "b": 1 }, "0": null }));
        let _ = three_way(Some(b"{\"a\":1}"), &text, b"{\"a\":{\"b\":[2]},\"b\":2}");
    }
    let deep = br#"{"a":"#.repeat(100_000);
    assert!(merge_patch(&deep, &json!({ "a": 1 })).is_err());
    assert!(three_way(None, &deep, b"{\"a\":{}}").is_err());
}

#[test]
fn strings_and_brackets_may_stand_at_any_place_of_a_block() {
    for length in 0..200 {
        for odd in ["", "\\\"", "\\\\", "]", "[{", "\\\\\\\""] {
            let filler = "x".repeat(length);
            let text =
                format!(r#"{{"s":[{{"k":"{filler}{odd}","l":[[],{{}}]}},"{odd}{filler}"],"z":"{odd}"}}"#);
            assert_eq!(get(&text, "z").unwrap(), format!("\"{odd}\""), "{length} {odd}");
            assert_eq!(get(&text, "s[0].l[1]"), Some("{}"), "{length} {odd}");
        }
    }
}
