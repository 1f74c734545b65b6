use super::*;

fn listed(text: &str) -> Result<Answers, String> {
    let list = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Answers::listed(list).map_err(|error| error.to_string())
}

fn says(answers: &Answers, reached: Reached<'_>) -> Option<String> {
    let Source::Listed(list) = &answers.source else { panic!("it is a list") };
    let found = list.iter().find(|answer| answer.is_to(reached))?;
    Some(match &found.says {
        Says::Result(result) => result.text().to_owned(),
        other => format!("{other:?}"),
    })
}

#[test]
fn stars_stand_for_any_text() {
    for (pattern, text, is_so) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "ab/c?d", true),
        ("*b", "ab", true),
        ("a*b", "ab", true),
        ("a*a", "a", false),
        ("ab*ba", "aba", false),
        ("a*b*c", "a-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("*b*b*", "ab", false),
        ("**", "x", true),
        ("\u{e9}*", "\u{e9}t\u{e9}", true),
    ] {
        assert_eq!(fits(pattern, text), is_so, "{pattern} {text}");
    }
}

#[test]
fn the_first_answer_that_fits_counts() {
    let answers = listed(
        r#"{"answers": [
            {"http": "POST https://a.example/*", "status": 201, "body": {"id": 7}},
            {"http": "https://a.example/*", "error": "down", "sqlstate": "08006"},
            {"http": "* https://b.example/", "result": null},
            {"task": "resize*", "result": [1]},
            {"task": "*", "leave": true},
            {"database": "other", "result": {"rows": [], "row_count": 0}}]}"#,
    )
    .unwrap();
    let call = |method: &str, url: &str| HttpCall {
        method: method.to_owned(),
        url: url.to_owned(),
        ..HttpCall::default()
    };
    let post = call("POST", "https://a.example/x");
    let said = says(&answers, Reached::Http(&post)).unwrap();
    assert!(said.contains("201") && said.contains(r#"{\"id\":7}"#), "{said}");
    let said = says(&answers, Reached::Http(&call("GET", "https://a.example/x"))).unwrap();
    assert!(said.contains("down") && said.contains("08006"), "{said}");
    assert!(says(&answers, Reached::Http(&call("GET", "https://b.example/"))).unwrap().contains("null"));
    assert_eq!(says(&answers, Reached::Http(&call("GET", "https://c.example/"))), None);
    assert!(says(&answers, Reached::Task("resize_all")).unwrap().contains("[1]"));
    assert_eq!(says(&answers, Reached::Task("mail")).unwrap(), "Leave");
    assert!(says(&answers, Reached::Database("other")).is_some());
    assert_eq!(says(&answers, Reached::Server), None);
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    for (one, word) in [
        (r#"{}"#, "needs one of http"),
        (r#"{"http": "a", "task": "b", "result": 1}"#, "needs one of http"),
        (r#"{"http": "a"}"#, "needs one of result"),
        (r#"{"http": "a", "result": 1, "error": "x"}"#, "needs one of result"),
        (r#"{"http": "post x", "result": 1}"#, "not a pattern"),
        (r#"{"http": "GET x y", "result": 1}"#, "not a pattern"),
        (r#"{"http": "x", "status": 503}"#, "give an error"),
        (r#"{"http": "x", "leave": true}"#, "only a task"),
        (r#"{"task": "x", "status": 200}"#, "those of http"),
        (r#"{"task": "x", "error": "e", "sqlstate": "1"}"#, "five digits"),
        (r#"{"task": "x", "result": 1, "sqlstate": "08006"}"#, "that of an error"),
        (r#"{"task": "x", "outcome": 1}"#, "unknown field"),
    ] {
        let error = listed(&format!(r#"{{"answers": [{one}]}}"#)).unwrap_err();
        assert!(error.contains(word), "{one}: {error}");
    }
    let many = format!(r#"{{"answers": [{}]}}"#, vec![r#"{"task": "x", "result": 1}"#; 10_001].join(","));
    assert!(listed(&many).unwrap_err().contains("10001"));
}
