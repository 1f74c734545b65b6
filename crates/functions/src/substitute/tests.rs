#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::json;

mod containment;

/// Results: `n` (two rows), `empty`, `gone` (NULLs), `o` (an object), and others by their JSON type.
fn env() -> Environment {
    let mut env =
        Environment { instance_id: "0a1b2c3d".into(), label: Some("nightly".into()), ..Default::default() };
    for (name, value) in
        [("table", "people"), ("x y", "spaced"), ("n", "a var"), ("fragment", "WHERE id = $n.id")]
    {
        env.vars.insert(name.into(), value.into());
    }
    let row = r#"{"name":"O'Neil","id":7,"price":"1.50","ok":true,"neg":-5,"doc":{"a":"it's"},"gr\u00f6\u00dfe":1}"#;
    for (name, value) in [
        ("n", format!(r#"{{"rows":[{row},{{"name":"b","id":8}}],"row_count":2}}"#)),
        ("two", r#"{"rows":[{"a":"x'y"},{"a":1}],"row_count":2}"#.to_owned()),
        ("empty", r#"{"rows":[],"row_count":0}"#.to_owned()),
        ("gone", r#"{"rows":[{"a":null,"b":1}],"row_count":1}"#.to_owned()),
        ("o", r#"{"status":200,"body":"say \"hi\"","headers":{"a":"b"},"nil":null}"#.to_owned()),
        ("list", "[1,\"x\"]".to_owned()),
        ("text", r#""it's""#.to_owned()),
        ("back", r#""a\\b'c""#.to_owned()),
        ("num", "-2.50".to_owned()),
        ("nil", "null".to_owned()),
        ("name", "1".to_owned()),
        ("name_long", "2".to_owned()),
        ("zero", r#""a\u0000b""#.to_owned()),
        ("cash", r#""$n.id {table} $$""#.to_owned()),
        ("line", r#""1\n2""#.to_owned()),
    ] {
        env.results.insert(name.into(), Json::parse(&value).unwrap());
    }
    env
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(sql(text, None, &env()).unwrap(), expected, "{text}");
}

#[track_caller]
fn bound(text: &str, params: &str, expected: &str) {
    let params = Json::parse(params).unwrap();
    assert_eq!(sql(text, Some(&params), &env()).unwrap(), expected, "{text}");
}

#[track_caller]
fn refuse(text: &str, part: &str) {
    let error = sql(text, None, &env()).unwrap_err().to_string();
    assert!(error.contains(part), "{text}: {error}");
}

#[test]
fn variables_are_raw_and_unknown_ones_stay() {
    check("SELECT * FROM {table}", "SELECT * FROM people");
    check("{table}{table}{{table}}", "peoplepeople{people}");
    check("{x y} {unknown} { table } {} {", "spaced {unknown} { table } {} {");
    check("'{\"a\": {\"b\": \"{table}\"}}'", "'{\"a\": {\"b\": \"people\"}}'");
    check("'{sys_instance_id}', '{sys_label}'", "'0a1b2c3d', 'nightly'");
    assert_eq!(sql("[{sys_label}]", None, &Environment::default()).unwrap(), "[]");
    // An instance's own names are not to be forged.
    let mut env = env();
    env.vars.insert("sys_instance_id".into(), "forged".into());
    assert_eq!(plain("{sys_instance_id}", &env).unwrap(), "0a1b2c3d");
}

#[test]
fn what_was_put_in_is_not_read_again() {
    let mut env = env();
    env.vars.insert("a".into(), "{table}".into());
    assert_eq!(sql("{a} {{a}", None, &env).unwrap(), "{table} {{table}");
    // References in a variable's fragment are found, because results come second.
    check("SELECT {fragment}", "SELECT WHERE id = 7");
    check("SELECT $cash", "SELECT '$n.id {table} $$'");
    assert_eq!(plain("$cash", &env).unwrap(), "$n.id {table} $$");
    assert_eq!(value("$cash!", &env).unwrap().text(), r#""$n.id {table} $$!""#);
    bound("SELECT $1, $2", r#"["$$2", "$cash"]"#, "SELECT '$2', '$n.id {table} $$'");
}

#[test]
fn every_json_type_in_code() {
    check("SELECT $n, $n.name, $n.id", "SELECT 'O''Neil', 'O''Neil', 7");
    check("SELECT $n.price, $n.ok, $n.doc", r#"SELECT '1.50', true, '{"a":"it''s"}'"#);
    check("SELECT $n.gr\u{f6}\u{df}e", "SELECT 1");
    check("SELECT $list, $text, $num", "SELECT '[1,\"x\"]', 'it''s', -2.50");
    let whole = r#"{"status":200,"body":"say \\"hi\\"","headers":{"a":"b"},"nil":null}"#;
    check("SELECT $o", &format!("SELECT E'{whole}'"));
    check("SELECT $o.status, $o.headers", r#"SELECT 200, '{"a":"b"}'"#);
    check("SELECT $back", r"SELECT E'a\\b''c'");
}

#[test]
fn names_are_whole_words() {
    check("$name $name_long $name_longer $nam", "1 2 $name_longer $nam");
    check("$name.$name $name, $name; $name)", "1.1 1, 1; 1)");
    check(
        "$N $unknown $unknown.col $unknown.* $unknown? $ $1 $5.00 $",
        "$N $unknown $unknown.col $unknown.* $unknown? $ $1 $5.00 $",
    );
    check("$name\u{e9} $\u{e9}", "$name\u{e9} $\u{e9}");
    check("t_$name x$n.id", "t_1 x7");
    check("$n.id.x $o.headers->>'a'", r#"7.x '{"a":"b"}'->>'a'"#);
    check("$name. $n.id.", "1. 7.");
}

#[test]
fn strict_references_to_nothing_fail_and_optional_ones_are_null() {
    refuse("SELECT $empty", "$empty has no rows - query returned zero results");
    refuse("SELECT $empty.col", "$empty has no rows - query returned zero results");
    refuse("SELECT $gone", "$gone is NULL");
    refuse("SELECT $gone.a", "$gone.a is NULL");
    refuse("SELECT $nil", "$nil is NULL");
    refuse("SELECT $nil.x", "$nil.x is NULL");
    refuse("SELECT $o.nil", "$o.nil is NULL");
    check("SELECT $empty?, $empty.col?, $gone?, $gone.a?", "SELECT NULL, NULL, NULL, NULL");
    check("SELECT $nil?, $nil.x?, $o.nil?, $o.missing?", "SELECT NULL, NULL, NULL, NULL");
    check("SELECT $n?, $n.id?, $gone.b?", "SELECT 'O''Neil', 7, 1");
    check("WHERE $n.doc ? 'a'", r#"WHERE '{"a":"it''s"}' ? 'a'"#);
    refuse("SELECT '$gone'", "$gone is NULL");
    check("SELECT '$gone?'", "SELECT 'NULL'");
}

#[test]
fn fields_that_do_not_exist_are_named() {
    refuse("SELECT $n.nope", "$n.nope: the result has no field \"nope\"; it has \"name\", \"id\"");
    // A column of a query that returned rows is never missing by chance.
    refuse("SELECT $n.nope?", "$n.nope?: the result has no field \"nope\"");
    refuse("SELECT $o.nope", "\"status\", \"body\", \"headers\", \"nil\"");
    refuse("SELECT $list.a", "$list.a: the result is neither a result set nor a JSON object");
    refuse("SELECT $num.a?", "so that it has no fields: write $num");
}

#[test]
fn negative_numbers_make_no_comment_and_no_other_operator() {
    check("SELECT 1 -$num", "SELECT 1 - -2.50");
    check("SELECT 1-$n.neg, @$n.neg, ($n.neg), $n.neg", "SELECT 1- -5, @ -5, (-5), -5");
    check("SELECT '-$num', \"-$num\"", "SELECT '--2.50', \"--2.50\"");
}

#[test]
fn inside_a_literal_the_bare_text_is_put() {
    check("SELECT 'Hello $text!'", "SELECT 'Hello it''s!'");
    check("SELECT '$n.doc $num $n.ok $list'", r#"SELECT '{"a":"it''s"} -2.50 true [1,"x"]'"#);
    check("SELECT 'it''s $text', $text", "SELECT 'it''s it''s', 'it''s'");
    check(r"SELECT '$back' || '\' || $name", r"SELECT 'a\b''c' || '\' || 1");
    check(r"SELECT E'$back\'$back\\' || $name", r"SELECT E'a\\b''c\'a\\b''c\\' || 1");
    check(r"SELECT e'\\$text'", r"SELECT e'\\it''s'");
    check(r"SELECT U&'\0061$back' || $back", r"SELECT U&'\0061a\\b''c' || E'a\\b''c'");
    check("SELECT some'$text', n'$text'", "SELECT some'it''s', n'it''s'");
    // A word that ends with e is not a prefix.
    check(r"SELECT type'\' || $name", r"SELECT type'\' || 1");
    check("SELECT '$two.*'", r#"SELECT '[{"a":"x''y"},{"a":1}]'"#);
    // A literal that goes on after a line break goes on by the same rules.
    check("SELECT E'a'\n  '\\'$back'", "SELECT E'a'\n  '\\'a\\\\b''c'");
    check("SELECT E'a' -- it's\n'\\'$back'", "SELECT E'a' -- it's\n'\\'a\\\\b''c'");
}

#[test]
fn inside_a_quoted_name_too() {
    check("SELECT \"part_$name\", \"$text\"", "SELECT \"part_1\", \"it's\"");
    let mut env = env();
    env.results.insert("q".into(), Json::string("a\"b\\c"));
    assert_eq!(sql("\"$q\" U&\"$q\" $q", None, &env).unwrap(), r#""a""b\c" U&"a""b\\c" E'a"b\\c'"#);
}

#[test]
fn comments_stay_as_they_are() {
    check("SELECT 1 -- $gone, $n\n, $name", "SELECT 1 -- $gone, $n\n, 1");
    check("/* $gone /* $n */ $n */ $name --$gone", "/* $gone /* $n */ $n */ 1 --$gone");
    check("1 +--$n\r$name", "1 +--$n\r1");
    check("/* $n", "/* $n");
    check("'--' || $name || '/*' || $name", "'--' || 1 || '/*' || 1");
}

#[test]
fn dollar_quoted_text_is_code() {
    check("DO $$ BEGIN PERFORM $text; END $$", "DO $$ BEGIN PERFORM 'it''s'; END $$");
    check("DO $body$ x := '$text'; -- $n\n $body$", "DO $body$ x := 'it''s'; -- $n\n $body$");
    check("$a$ $b$ $text $b$ $a$ || $text", "$a$ $b$ 'it''s' $b$ $a$ || 'it''s'");
    // A tag with the name of a result quotes all the same.
    check("SELECT $name$ $name_long $name$", "SELECT $name$ 2 $name$");
    refuse("SELECT $$ $cash $$", "quoted with $$ would end it");
    check("SELECT $q$ $cash $q$", "SELECT $q$ '$n.id {table} $$' $q$");
    let mut env = env();
    for (value, text) in [("$", "$$ '$v$$"), ("q$", "$q$ '$$v' $q$"), ("$q", "$q$ '$v$' $q$")] {
        env.results.insert("v".into(), Json::string(value));
        let error = sql(text, None, &env).unwrap_err();
        assert!(matches!(error, SubstituteError::Delimiter { .. }), "{text}: {error}");
    }
    // In names, dollar signs quote nothing; quotes that never end hold no code.
    check("foo$$ $name $$bar", "foo$$ 1 $$bar");
    check("$tag$ $name", "$tag$ $name");
    check("$$ $name", "$$ $name");
    let deep: String =
        (0..2000).map(|i| format!("$t{i}$")).chain((0..2000).rev().map(|i| format!("$t{i}$"))).collect();
    check(&deep, &deep);
}

#[test]
fn values_do_not_melt_into_what_stands_beside_them() {
    check("SELECT $text'x'", "SELECT ('it''s')'x'");
    check("SELECT 'x'$text", "SELECT 'x'('it''s')");
    check("SELECT E'x' -- c\n$text", "SELECT E'x' -- c\n('it''s')");
    check("SELECT $text\n$text", "SELECT 'it''s'\n('it''s')");
    check("SELECT $text$text", "SELECT 'it''s'('it''s')");
    check("SELECT $text\n'x\\'", "SELECT ('it''s')\n'x\\'");
    check("SELECT $text -- '\n 'x'", "SELECT ('it''s') -- '\n 'x'");
    check("SELECT $text 'x'", "SELECT 'it''s' 'x'");
    check("SELECT E$back, U&$back", "SELECT E E'a\\\\b''c', U& E'a\\\\b''c'");
    check("SELECT t_$name$name_long", "SELECT t_12");
    check("SELECT $n.ok$$ $name $$", "SELECT true $$ 1 $$");
}

#[test]
fn all_rows_become_a_table_of_constants() {
    let mut env = env();
    let mut expand = |rows: &str| {
        let count = json::elements(rows).unwrap().len();
        let result = format!(r#"{{"rows":{rows},"row_count":{count}}}"#);
        env.results.insert("Tab".into(), Json::parse(&result).unwrap());
        sql("$Tab.*;", None, &env).unwrap()
    };
    assert_eq!(
        expand(
            r#"[{"id":1,"na\"me":"it's","b":true,"z":null},{"id":-2.50,"na\"me":"a\\b","b":null,"z":null}]"#
        ),
        r#"(VALUES (1,'it''s'::text,true,NULL),(-2.50,E'a\\b'::text,NULL,NULL)) AS "Tab"("id","na""me","b","z");"#
    );
    // A column of several JSON types is JSON.
    assert_eq!(
        expand(r#"[{"d":{"a":"'"}},{"d":"x"},{"d":1},{"d":null},{}]"#),
        r#"(VALUES ('{"a":"''"}'::jsonb),('"x"'::jsonb),('1'::jsonb),(NULL),(NULL)) AS "Tab"("d");"#
    );
    assert_eq!(expand("[]"), r#"(SELECT NULL WHERE false) AS "Tab";"#);
    assert_eq!(expand("[{},{}]"), r#"(SELECT NULL WHERE false) AS "Tab";"#);
    assert_eq!(expand(r#"[{"a":1,"a":2}]"#), r#"(VALUES (2)) AS "Tab"("a");"#);
    refuse("SELECT * FROM $o.*", "$o.*: the result is not a result set");
    // A row that is none is not left out.
    for rows in ["[1,2]", r#"[{"a":1},null]"#, r#"[{"a":1},[2]]"#] {
        let result = format!(r#"{{"rows":{rows},"row_count":2}}"#);
        env.results.insert("odd".into(), Json::parse(&result).unwrap());
        let error = sql("SELECT * FROM $odd.*", None, &env).unwrap_err().to_string();
        assert!(error.contains("each of which is an object"), "{rows}: {error}");
    }
}

#[test]
fn at_most_ten_thousand_rows() {
    let mut env = env();
    let mut expand = |count: usize| {
        let rows = vec![r#"{"a":1}"#; count].join(",");
        let result = format!(r#"{{"rows":[{rows}],"row_count":{count}}}"#);
        env.results.insert("big".into(), Json::parse(&result).unwrap());
        sql("$big.*", None, &env)
    };
    assert_eq!(expand(10_000).unwrap().matches("(1)").count(), 10_000);
    let error = expand(10_001).unwrap_err().to_string();
    assert!(error.starts_with("$big.* has 10001 rows, and at most 10000 can be expanded"), "{error}");
}

#[test]
fn texts_that_postgresql_cannot_hold_are_refused() {
    for text in ["$zero", "'$zero'", "\"$zero\"", "$$ $zero $$"] {
        refuse(text, "$zero holds U+0000");
    }
    assert_eq!(plain("$zero", &env()).unwrap(), "a\0b");
    let mut env = env();
    env.results.insert("half".into(), Json::from_valid(r#""\ud800""#));
    assert!(matches!(sql("$half", None, &env), Err(SubstituteError::Character { .. })));
    env.results.insert("t".into(), Json::from_valid(r#"{"rows":[{"a":"\u0000"}],"row_count":1}"#));
    let error = sql("$t.*", None, &env).unwrap_err().to_string();
    assert!(error.starts_with("$t.a holds U+0000"), "{error}");
}

#[test]
fn a_text_that_grows_without_end_is_refused() {
    let mut env = Environment::default();
    let large = "x".repeat(1 << 20);
    env.vars.insert("v".into(), large.clone());
    env.results.insert("r".into(), Json::string(&large));
    let many = |what: &str| what.repeat(65);
    for result in [sql(&many("{v}"), None, &env), sql(&many("$r "), None, &env), plain(&many("$r "), &env)] {
        assert!(matches!(result, Err(SubstituteError::TooLong)));
    }
    assert!(sql(&"{v}".repeat(63), None, &env).is_ok());
}

#[test]
fn parameters_stand_for_values() {
    bound("SELECT $1, $2, $3, $4", r#"[1, "it's", true, null]"#, "SELECT 1, 'it''s', true, NULL");
    bound("SELECT $1::text, 2-$1", "[-5]", "SELECT (-5)::text, 2-(-5)");
    bound("SELECT $1->>'a', $2", r#"[{"a":"b"}, [1]]"#, r#"SELECT '{"a":"b"}'::jsonb->>'a', '[1]'::jsonb"#);
    bound("SELECT $2, $1, $2", "[1, 2.50]", "SELECT 2.50, 1, 2.50");
    bound("SELECT $10$1", "[1,2,3,4,5,6,7,8,9,10]", "SELECT 10 1");
    bound("SELECT 1", "[1]", "SELECT 1");
}

#[test]
fn parameters_refer_to_results_by_exact_texts_only() {
    bound(
        "SELECT $1, $2, $3",
        r#"["$n", "$n.id", "$o.headers"]"#,
        r#"SELECT 'O''Neil', 7, '{"a":"b"}'::jsonb"#,
    );
    bound("SELECT $1, $2", r#"["$gone?", "$n.id?"]"#, "SELECT NULL, 7");
    bound("SELECT $1", r#"["$two.*"]"#, r#"SELECT '[{"a":"x''y"},{"a":1}]'::jsonb"#);
    let literals = r#"["$5", "costs $n", "$n and more", " $n", "$$n", "$$", "$", "$$$n"]"#;
    bound(
        "SELECT $1,$2,$3,$4,$5,$6,$7,$8",
        literals,
        "SELECT '$5','costs $n','$n and more',' $n','$n','$','$','$$n'",
    );
}

#[test]
fn parameters_stand_in_code_only() {
    let same = "SELECT '$1', \"$1\", E'\\'$1', a$1, /* $1 */ $$ $1 $$, $f$ $1 $f$ -- $1";
    bound(same, "[7]", same);
    bound("SELECT 'x' || $1, '$name'", "[7]", "SELECT 'x' || 7, '1'");
    // Without parameters there are none.
    check("SELECT $1, $name", "SELECT $1, 1");
    bound("SELECT $1x, $1_", "[7]", "SELECT $1x, $1_");
}

#[test]
fn wrong_parameters_are_named() {
    let refused =
        |text, params: &str| sql(text, Some(&Json::parse(params).unwrap()), &env()).unwrap_err().to_string();
    assert!(refused("SELECT $3", "[1,2]").starts_with("there is no parameter $3: 2 were given"));
    assert!(refused("SELECT $0", "[1,2]").starts_with("there is no parameter $0"));
    assert!(refused("SELECT $99999999999999999999", "[1]").starts_with("there is no parameter $9999"));
    assert!(refused("SELECT $1", "{}").starts_with("the parameters are not a JSON array"));
    assert!(
        refused("SELECT $1", r#"["$nope.x"]"#).starts_with("parameter $1 refers to $nope.x, but no result")
    );
    assert!(refused("SELECT $1", r#"["$gone"]"#).starts_with("$gone is NULL"));
    assert!(refused("SELECT $1", r#"["a\u0000"]"#).starts_with("$1 holds U+0000"));
}

#[test]
fn plain_text_is_raw() {
    let plain = |text| plain(text, &env());
    assert_eq!(plain("https://h/{table}/$n.id?x=$text").unwrap(), "https://h/people/7x=it's");
    assert_eq!(
        plain("$o.body|$n.ok|$num|$n.doc|$list").unwrap(),
        "say \"hi\"|true|-2.50|{\"a\":\"it's\"}|[1,\"x\"]"
    );
    assert_eq!(plain("$gone?|$empty.x?|$o.missing?").unwrap(), "null|null|null");
    assert_eq!(plain("$two.*").unwrap(), r#"[{"a":"x'y"},{"a":1}]"#);
    assert_eq!(plain("$empty.*").unwrap(), "[]");
    assert_eq!(plain("-- '$name' $$ $name $unknown $1").unwrap(), "-- '1' $$ 1 $unknown $1");
    assert!(plain("$o.missing").unwrap_err().to_string().contains("no field \"missing\""));
    assert!(plain("$empty").unwrap_err().to_string().contains("query returned zero results"));
}

#[test]
fn values_keep_their_json_type() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let value = value(text, &env()).unwrap();
        assert_eq!(value.text(), expected, "{text}");
        Json::parse(value.text()).unwrap();
    }
    check("$n.id", "7");
    check(" $n.name ", "\"O'Neil\"");
    check("$o.headers", r#"{"a":"b"}"#);
    check("$two.*", r#"[{"a":"x'y"},{"a":1}]"#);
    check("$gone?", "null");
    check("plain", "\"plain\"");
    check("", "\"\"");
    check(" 1.50 ", "1.50");
    check("null", "null");
    check(r#"{"b": 1.0, "a": [true]}"#, r#"{"b": 1.0, "a": [true]}"#);
    check(
        r#"{"$n.id": "$n.id", "x": ["$o.body", "a $o.body", "\"$name"]}"#,
        r#"{"7": 7, "x": ["say \"hi\"", "a say \"hi\"", "\"1"]}"#,
    );
    check(
        r#"{"v": $n.name, "w": "$o.body!", "x": $n.doc}"#,
        r#"{"v": "O'Neil", "w": "say \"hi\"!", "x": {"a":"it's"}}"#,
    );
    check("{table}: $text $line", r#""people: it's 1\n2""#);
    check("\"$num\"", "-2.50");
    check("$unknown", "\"$unknown\"");
    check("[\"$unknown\", \"$1\"]", "[\"$unknown\", \"$1\"]");
    assert!(value("$empty", &env()).unwrap_err().to_string().contains("zero results"));
    assert!(value("[\"$gone.a\"]", &env()).unwrap_err().to_string().contains("$gone.a is NULL"));
}
