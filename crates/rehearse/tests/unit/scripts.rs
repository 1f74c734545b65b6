use super::*;

#[test]
fn statements_end_where_the_server_would_end_them() {
    let text = "-- first; not here\nselect ';' || E'\\';' /* ; /* ; */ ; */, \"a;b\";;\n\
                create rule r as on insert to t do (select 1; select 2);\n\
                do $x$ begin; $$ ; end $x$; select $1::int, a$b$ from t -- tail;\n";
    let found = statements(text).unwrap();
    let expected = [
        "select ';' || E'\\';' /* ; /* ; */ ; */, \"a;b\"",
        "create rule r as on insert to t do (select 1; select 2)",
        "do $x$ begin; $$ ; end $x$",
        "select $1::int, a$b$ from t -- tail;",
    ];
    assert_eq!(found, expected);
    assert!(statements(" \n-- nothing\n/* at all */ ;").unwrap().is_empty());
}

#[test]
fn what_does_not_end_is_told_with_its_line() {
    for (text, line) in [("select 1;\nselect 'x", 2), ("/* /* */", 1), ("\n\nselect $a$ $b$", 3), ("\"x", 1)]
    {
        assert_eq!(statements(text).unwrap_err().line, line, "{text}");
    }
    assert_eq!(statements("select 1;\n\\set a 1").unwrap_err().line, 2);
    assert!(statements(&"select 1;".repeat(STEPS_MAX + 1)).is_err());
}

#[test]
fn scripts_have_variables_where_pgbench_has_them() {
    let text = "\\set id random(1, 10)\n\\set top :id\n-- a comment\nselect ':id', x::id, y[1:2], :id + :top, :unknown\n from t;\\sleep 5 ms";
    let script = Script::parse("s", 1, text).unwrap();
    assert_eq!(script.steps.len(), 4, "{script:?}");
    assert_eq!(script.steps[3], Step::Sleep(Duration::from_millis(5)));
    let Step::Sql(template) = &script.steps[2] else { panic!("{script:?}") };
    let variables: Variables = [("id".to_owned(), -7), ("top".to_owned(), 8)].into();
    assert_eq!(template.fill(&variables), "select ':id', x::id, y[1:2], -7 + 8, :unknown\n from t");
    assert_eq!(template.label(), "select ':id', x::id, y[1:2], :id + :top, :unknown from t");

    let mut rng = duramen_base::entropy::rng(1);
    let Step::Set { value, .. } = &script.steps[0] else { panic!("{script:?}") };
    let drawn: Vec<i64> = (0..1000).map(|_| value.draw(&variables, &mut rng)).collect();
    assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&10)));
    for bad in [
        "\\set a\nselect 1",
        "\\set 1a 2\nselect 1",
        "\\sleep x\nselect 1",
        "\\shell rm\nselect 1",
        "\\set a random(1)\nselect 1",
    ] {
        assert_eq!(Script::parse("s", 1, bad).unwrap_err().line, 1, "{bad}");
    }
    assert!(Script::parse("s", 1, "\\set a 1").is_err(), "no statement");
}
