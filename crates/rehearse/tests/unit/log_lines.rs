use super::*;

fn all(log: &str) -> Result<Vec<Line>, RecordingError> {
    let mut found = Vec::new();
    read(log.as_bytes(), |line| {
        found.push(line);
        Ok(())
    })?;
    Ok(found)
}

fn entry(message: &str, detail: &str) -> Line {
    Line {
        severity: "LOG".to_owned(),
        message: message.to_owned(),
        detail: detail.to_owned(),
        ..Line::default()
    }
}

const CSV: &str = "2026-11-22 09:13:05.123 UTC,\"app\",\"shop\",4711,\"[local]\",6740.1,3,\"idle\",2026-11-22 09:00:00 UTC,2/3,0,LOG,00000,\
                   \"execute <unnamed>: select \"\"x\"\",\n$1\",\"parameters: $1 = 'it''s'\",,,,,,,,\"psql\",\"client backend\",,0\n";

#[test]
fn entries_of_both_forms_are_read() {
    let json = "{\"timestamp\":\"2026-11-22 09:13:05.123 UTC\",\"user\":\"app\",\"dbname\":\"shop\",\"session_id\":\"6740.1\",\
                \"error_severity\":\"LOG\",\"message\":\"execute <unnamed>: select \\\"x\\\",\\n$1\",\"detail\":\"parameters: $1 = 'it''s'\"}\n";
    let found = [all(CSV).unwrap(), all(json).unwrap()];
    assert_eq!(found[0], found[1]);
    let line = &found[0][0];
    assert_eq!((line.database.as_str(), line.session.as_str()), ("shop", "6740.1"));
    assert_eq!(line.at_us % 1_000_000, 123_000);
    let statement = line.statement().unwrap();
    assert_eq!((statement.sql, statement.is_named), ("select \"x\",\n$1", false));
    assert_eq!(statement.parameters, Some(vec![Some("it's".to_owned())]));
}

#[test]
fn an_entry_that_is_being_written_is_left_out_and_no_other() {
    for cut in 1..CSV.len() - 40 {
        let log = format!("{CSV}{}", &CSV[..cut]);
        let found = all(&log).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert!(!found.is_empty(), "cut at {cut}");
    }
    let cut = &CSV[..40];
    assert!(matches!(all(&format!("{CSV}{cut}\n{CSV}")), Err(RecordingError::Line(Wrong { line: 3, .. }))));
    assert!(matches!(all("anything\n"), Err(RecordingError::Line(Wrong { line: 1, .. }))));
    assert!(matches!(all("{\"a\":1}\n{}\n"), Err(RecordingError::Line(Wrong { line: 1, .. }))));
    assert_eq!(all("").unwrap(), Vec::new());
}

#[test]
fn statements_are_told_from_other_entries() {
    let of = |message: &str| {
        let line = entry(message, "");
        let found = line.statement();
        found.map(|it| (it.sql.to_owned(), it.is_extended, it.is_named, it.took_us))
    };
    let plain = |sql: &str, took_us| Some((sql.to_owned(), false, false, took_us));
    assert_eq!(of("statement: select 1"), plain("select 1", 0));
    assert_eq!(of("duration: 12.345 ms  statement: select 1"), plain("select 1", 12_345));
    assert_eq!(of("execute S_1: select: 1"), Some(("select: 1".to_owned(), true, true, 0)));
    assert_eq!(of("execute S_1/C_2: commit"), Some(("commit".to_owned(), true, true, 0)));
    assert_eq!(of("execute <unnamed>/C_3: commit"), Some(("commit".to_owned(), true, false, 0)));
    for other in [
        "duration: 12.345 ms",
        "duration: 1.0 ms  parse <unnamed>: select 1",
        "duration: 1.0 ms  bind <unnamed>: select 1",
        "execute fetch from S_1/C_2: select 1",
        "checkpoint starting: time",
        "execute ",
        "duration: x ms  statement: select 1",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
    let failed = Line { severity: "ERROR".to_owned(), ..entry("statement: select 1", "") };
    assert_eq!(failed.statement(), None);
}

#[test]
fn parameters_are_read_as_the_server_writes_them() {
    let some = |values: &[Option<&str>]| Some(values.iter().map(|it| it.map(str::to_owned)).collect());
    assert_eq!(parameters("parameters: $1 = 'a', $2 = NULL"), some(&[Some("a"), None]));
    assert_eq!(parameters("Parameters: $1 = ''"), some(&[Some("")]));
    assert_eq!(parameters("parameters: $1 = ''', $2 = ''', $2 = 'x'"), some(&[Some("', $2 = '"), Some("x")]));
    for wrong in [
        "",
        "prepare: x",
        "parameters: ",
        "parameters: $2 = 'a'",
        "parameters: $1 = 'a",
        "parameters: $1 = 'a'x",
    ] {
        assert_eq!(parameters(wrong), None, "{wrong}");
    }
}

/// What never ends is not read to its end.
#[test]
fn entries_without_an_end_are_given_up() {
    for (start, filling) in [("\"", "x"), ("{\"timestamp\":\"", "x"), ("a,", "b,")] {
        let endless = io::Cursor::new(start).chain(io::repeat(filling.as_bytes()[0]));
        let mut taken = 0;
        let error = read(io::BufReader::new(endless), |_| {
            taken += 1;
            Ok(())
        });
        let said = error.expect_err("it has no end").to_string();
        assert!(said.contains("160 MiB") && taken == 0, "{said}");
    }
}
