//! Logs of autoresearch loops become rows of ours, under both of their names; what is no such log is refused
//! whole.

use duramen_experiment::event::{Event, Metrics};
use duramen_experiment::import::{autoresearch, ImportError};

const OLD: &str = include_str!("../fixtures/autoresearch.jsonl");
const NEW: &str = include_str!("../fixtures/auto-log.jsonl");

/// The number, figure's name, figures, status and time of each row.
fn rows(text: &str, file: &str) -> Vec<(u64, String, Metrics, String, String)> {
    let events = autoresearch(text, file).expect("a log");
    let row = |event| match event {
        Event::Imported { file: named, run, metric, metrics, status, timestamp, .. } => {
            assert_eq!(named, file);
            (run, metric, metrics, status, timestamp)
        }
        other => panic!("not imported: {other:?}"),
    };
    events.into_iter().map(row).collect()
}

fn metrics(figures: &[(&str, f64)]) -> Metrics {
    figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn an_old_log_keeps_its_segments_and_statuses() {
    let rows = rows(OLD, "autoresearch.jsonl");
    let seen: Vec<(u64, &str, &str)> =
        rows.iter().map(|(run, metric, _, status, _)| (*run, metric.as_str(), status.as_str())).collect();
    let wanted = [
        (1, "write_ms", "checks_failed"),
        (2, "write_ms", "keep"),
        (3, "write_ms", "discard"),
        (4, "write_ms", "crash"),
        (5, "read_\u{b5}s", "keep"),
    ];
    assert_eq!(seen, wanted);
    assert_eq!(rows[1].2, metrics(&[("write_ms", 3310.25), ("sqlite_ms", 815.0), ("rows", 1e6)]));
    // What is not a number, or no name, is not there.
    assert_eq!(rows[2].2, metrics(&[("write_ms", 3422.0)]));
    assert_eq!(rows[1].4, "2025-11-04T23:56:40.123Z");
    assert_eq!(rows[4].4, "2026-02-03T04:05:06Z");
}

#[test]
fn a_new_log_may_have_rows_that_are_unknown() {
    let rows = rows(NEW, ".auto/log.jsonl");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].2, metrics(&[("total_ms", 15.5), ("compile_ms", 4.0)]));
    assert_eq!((rows[1].0, rows[1].2.len(), rows[1].3.as_str()), (2, 0, "crash"));
}

#[test]
fn commits_and_descriptions_stay_as_they_were() {
    match &autoresearch(OLD, "x").expect("a log")[0] {
        Event::Imported { commit, description, .. } => {
            assert_eq!(
                (commit.as_str(), description.as_str()),
                ("fdde009", "baseline; the linter complains")
            );
        }
        other => panic!("not imported: {other:?}"),
    }
}

#[test]
fn rows_without_a_number_are_counted() {
    let text = "{\"metric\":1,\"status\":\"keep\"}\r\n{\"metric\":2,\"status\":\"discard\"}\r\n";
    let seen: Vec<u64> = rows(text, "x").into_iter().map(|row| row.0).collect();
    assert_eq!(seen, [1, 2]);
    assert_eq!(rows(text, "x")[0].1, "metric");
}

#[test]
fn imported_rows_survive_our_log() {
    for event in autoresearch(OLD, "autoresearch.jsonl").expect("a log") {
        let line = serde_json::to_string(&event).expect("JSON");
        assert_eq!(serde_json::from_str::<Event>(&line).expect("an event"), event);
    }
}

#[test]
fn x5_a_row_has_one_value_of_a_figure() {
    for row in [
        "{\"status\":\"keep\",\"metric\":4.5,\"metrics\":{\"metric\":3.5}}",
        "{\"status\":\"keep\",\"metric\":4.5,\"metric\":3.5}",
        "{\"status\":\"keep\",\"metric\":1,\"metrics\":{\"rows\":4.5,\"rows\":3.5}}",
    ] {
        let told = autoresearch(row, "log.jsonl").expect_err("two values").to_string();
        assert!(told.contains("log.jsonl:1") && told.contains("two values"), "{told}");
        assert!(told.contains("4.5") && told.contains("3.5"), "{told}");
    }
    let same = "{\"status\":\"keep\",\"metric\":4.5,\"metrics\":{\"metric\":4.5}}";
    assert_eq!(rows(same, "x")[0].2, metrics(&[("metric", 4.5)]));
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    let cases = [
        ("{\"status\":\"keep\",\"metric\":1}\nplain text\n", 2, "not a JSON object"),
        ("[1,2]\n", 1, "not a JSON object"),
        ("{\"status\":\"keep\",\"metric\":1e999}\n", 1, "not a JSON object"),
        ("{\"run\":1,\"metric\":1}\n", 1, "no `status`"),
        ("\n\n{\"status\":\"keep\",\"metric\":\"fast\"}\n", 3, "not a number"),
        ("{\"status\":\"keep\",\"metric\":1,\"metrics\":[1]}\n", 1, "not an object"),
        ("{\"status\":\"keep\",\"metric\":1}{}\n", 1, "something follows"),
        ("{\"status\":\"keep\",\"metric\":1}\n{\"status\":\"keep\",\"met", 2, "not a JSON object"),
    ];
    for (text, wanted_line, wanted) in cases {
        match autoresearch(text, "log.jsonl") {
            Err(ImportError::Line { file, line, what }) => {
                assert_eq!((file.as_str(), line), ("log.jsonl", wanted_line), "{text}");
                assert!(what.contains(wanted), "{what}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for empty in ["", "\n \n", "{\"type\":\"config\",\"metricName\":\"x\"}\n", "{\"type\":\"hook\"}\n"] {
        assert!(matches!(autoresearch(empty, "log"), Err(ImportError::Empty { .. })), "{empty}");
    }
}
