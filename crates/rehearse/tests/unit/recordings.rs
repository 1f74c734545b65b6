use super::*;

/// A recording of statements with their sessions, a millisecond apart.
fn of(statements: &[(&str, &str)]) -> Recording {
    let mut reader = Reader::default();
    for (at, (session, sql)) in statements.iter().enumerate() {
        let line = Line {
            at_us: at as i64 * 1_000,
            database: "shop".to_owned(),
            session: (*session).to_owned(),
            severity: "LOG".to_owned(),
            message: format!("statement: {sql}"),
            detail: String::new(),
        };
        reader.take(line).expect("it fits");
    }
    reader.of("shop").expect("a recording")
}

fn texts(recording: &Recording) -> Vec<Vec<Vec<&str>>> {
    fn of(transaction: &Transaction) -> Vec<&str> {
        transaction.statements.iter().map(|it| &*it.sql).collect()
    }
    recording.sessions.iter().map(|session| session.transactions.iter().map(of).collect()).collect()
}

#[test]
fn statements_are_transactions_of_their_sessions() {
    let recording = of(&[
        ("a", "begin"),
        ("b", "select 1"),
        ("a", "insert into t values (1)"),
        ("b", "START TRANSACTION"),
        ("a", "rollback to s"),
        ("a", "ROLLBACK"),
        ("b", "set local x = 1"),
        ("b", "/* begin */ commit"),
        ("b", "begin; select 2; end"),
        ("b", "select 3"),
        ("a", "begin"),
    ]);
    let expected = vec![
        vec![vec!["begin", "insert into t values (1)", "rollback to s", "ROLLBACK"], vec!["begin"]],
        vec![
            vec!["select 1"],
            vec!["START TRANSACTION", "set local x = 1", "/* begin */ commit"],
            vec!["begin; select 2; end"],
            vec!["select 3"],
        ],
    ];
    assert_eq!(texts(&recording), expected);
    assert_eq!(recording.sessions.iter().map(|it| it.is_open).collect::<Vec<_>>(), [true, false]);
    assert_eq!(recording.span, Duration::from_millis(10));
}

#[test]
fn settings_belong_to_what_comes_after_them() {
    let recording = of(&[
        ("a", "set search_path = x"),
        ("a", "select 1"),
        ("a", "-- why\n RESET search_path"),
        ("a", "select 2"),
        ("b", "set x = 1"),
    ]);
    assert_eq!(recording.sessions.len(), 1, "a session without transactions is none");
    let session = &recording.sessions[0];
    assert_eq!(session.settings.len(), 2);
    assert_eq!(session.transactions.iter().map(|it| it.settings).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn shapes_are_what_statements_have_in_common() {
    for (text, expected) in [
        ("select  1,\n -2.5e3 from t1 where a2 = 'it''s' -- x\n;", "select ?, -? from t1 where a2 = ?"),
        ("select * from t where id in (1, 2,3 , 'x')", "select * from t where id in (? , ?)"),
        ("select $1::int, $$a $b$ 1$$, \"col 1\", E'\\'1' /* 2 */", "select $1::int, ?, \"col 1\", E?"),
        ("select 'open", "select ?"),
        ("", ""),
    ] {
        assert_eq!(shape(text), expected, "{text}");
    }
    let many: Vec<(String, String)> =
        (0..300).map(|at| ("a".to_owned(), format!("select c{} = {at}", at % 150))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(one, two)| (one.as_str(), two.as_str())).collect();
    let recording = of(&many);
    assert_eq!(recording.shapes.len(), SHAPES_MAX + 1);
    assert_eq!(recording.shapes.iter().map(|(_, count)| count).sum::<u64>(), 300);
    assert_eq!(recording.shapes[SHAPES_MAX], (OTHERS.to_owned(), 100));
    let all = recording.sessions.iter().flat_map(|session| &session.transactions);
    let kept = all.flat_map(|it| &it.statements).filter(|it| it.shape < SHAPES_MAX);
    for statement in kept {
        assert_eq!(shape(&statement.sql), recording.shapes[statement.shape].0);
    }
}

/// Times that no server writes end nothing.
#[test]
fn odd_times_are_survived() {
    let mut reader = Reader::default();
    for took in ["-inf", "inf", "NaN", "1e300", "0.1"] {
        let message = format!("duration: {took} ms  statement: select 1");
        let line =
            Line { at_us: 1_700_000_000_000_000, severity: "LOG".to_owned(), message, ..Line::default() };
        reader.take(line).expect("it fits");
    }
    let recording = reader.of("").expect("a recording");
    assert_eq!(recording.transactions(), 5);
    let schedule = crate::replay::Schedule::new(Arc::new(recording), 0.01);
    assert_eq!(schedule.due_by(Duration::ZERO), 2, "those that took for ever");
    assert_eq!(schedule.due_by(Duration::MAX), 5);
}

#[test]
fn what_is_too_large_is_refused() {
    let mut reader = Reader { statements: RECORDED_MAX, ..Reader::default() };
    let line =
        Line { severity: "LOG".to_owned(), message: "statement: select 1".to_owned(), ..Line::default() };
    assert!(matches!(reader.take(line), Err(RecordingError::TooLarge)));
    // Nor are names that nobody asked for.
    let mut reader = Reader::default();
    let mut taken = 0;
    let refused = loop {
        let database = format!("{taken:0>1000}");
        let line = Line { database, severity: "ERROR".to_owned(), ..Line::default() };
        match reader.take(line) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, RecordingError::TooLarge) && taken <= BYTES_MAX / 1000);
}
