//! Evidence documents round-trip, agree with their schema, and say fail or invalid where they must.

use std::path::Path;

use duramen_measure::evidence::{
    Evidence, EvidenceError, Finding, Measurement, Severity, Verdict, SCHEMA, SCHEMA_ID,
};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use serde_json::{json, Value};

fn host() -> Host {
    Host {
        cpu: "A processor".to_owned(),
        cores: 2,
        memory_bytes: 25_200_000_000,
        kernel: "Linux 6.1 x86_64".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.1, 1.23, 4.5],
        fsync_floor_us: 812.345_678_9,
    }
}

fn specimen() -> Evidence {
    let latencies: LatencyHistogram = (1..500).map(|us| std::time::Duration::from_micros(us * us)).collect();
    let mut evidence = Evidence::new("forks", host());
    evidence.configure("seed", 42);
    evidence.configure("postgres", json!({ "version": "18.6", "fsync": true }));
    evidence.measurements.push(Measurement::from_histogram("fork", &latencies));
    evidence.measurements.push(Measurement::scalar("syncs_per_commit", "syncs", 0.1 + 0.2));
    evidence.measurements.push(Measurement::from_values("restart", "s", &[1.0 / 3.0, 2.0 / 3.0, 1e-300]));
    evidence.check("p95 below 15 ms", true, "12.1 ms");
    evidence.find("busy", Severity::Warning, Some(3.7), "The machine was busy.");
    evidence.find("note", Severity::Info, None, "Nothing to do.");
    evidence.finish();
    evidence
}

fn schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

fn as_json(evidence: &Evidence) -> Value {
    serde_json::from_str(&evidence.to_json().unwrap()).unwrap()
}

#[test]
fn a_document_round_trips_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evidence.json");
    let evidence = specimen();
    evidence.write(&path).unwrap();
    assert_eq!(Evidence::read(&path).unwrap(), evidence);
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["evidence.json"], "no temporary file stays");
}

#[test]
fn writing_replaces_and_a_refusal_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evidence.json");
    let mut evidence = specimen();
    evidence.write(&path).unwrap();
    evidence.suite = "other".to_owned();
    evidence.write(&path).unwrap();
    evidence.measurements.push(Measurement::scalar("ratio", "", f64::NAN));
    assert!(matches!(evidence.write(&path), Err(EvidenceError::NotFinite { .. })));
    assert_eq!(Evidence::read(&path).unwrap().suite, "other");
    let nowhere = specimen().write(Path::new("/no/such/folder/evidence.json")).unwrap_err();
    assert!(nowhere.to_string().contains("/no/such/folder/evidence.json"), "{nowhere}");
}

#[test]
fn documents_agree_with_the_schema() {
    let schema = schema();
    let mut invalid = specimen();
    invalid.invalidate("no checkpoint happened");
    let mut failed = specimen();
    failed.check("p99 below 20 ms", false, "21 ms");
    failed.decide();
    let empty = Evidence::new("empty", host());
    for evidence in [specimen(), invalid, failed, empty] {
        let document = as_json(&evidence);
        let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(document["schema"], SCHEMA_ID);
    }
    let measured = Evidence::new("measured", Host::fingerprint(&std::env::temp_dir()).unwrap());
    assert!(schema.is_valid(&as_json(&measured)));
}

#[test]
fn broken_documents_are_refused_by_schema_and_reader() {
    type Break = fn(&mut Value);
    let breaks: [(&str, Break); 14] = [
        ("another schema", |d| d["schema"] = json!("duramen.evidence/2")),
        ("no schema", |d| drop(d.as_object_mut().unwrap().remove("schema"))),
        ("no host", |d| drop(d.as_object_mut().unwrap().remove("host"))),
        ("no verdict", |d| drop(d.as_object_mut().unwrap().remove("verdict"))),
        ("an unknown field", |d| d["mood"] = json!("good")),
        ("an unknown field of the host", |d| d["host"]["name"] = json!("here")),
        ("an unknown verdict", |d| d["verdict"] = json!("Pass")),
        ("an unknown severity", |d| d["findings"][0]["severity"] = json!("error")),
        ("a figure that is text", |d| d["measurements"][0]["p95"] = json!("12 ms")),
        ("a figure that is missing", |d| d["measurements"][0]["p95"] = Value::Null),
        ("a negative count", |d| d["measurements"][0]["count"] = json!(-1)),
        ("no histogram, not even null", |d| {
            drop(d["measurements"][1].as_object_mut().unwrap().remove("histogram"));
        }),
        ("two loads", |d| d["host"]["load_average"] = json!([1, 2])),
        ("a time that is none", |d| d["started_at"] = json!("yesterday")),
    ];
    let schema = schema();
    let dir = tempfile::tempdir().unwrap();
    for (what, spoil) in breaks {
        let mut document = as_json(&specimen());
        spoil(&mut document);
        assert!(!schema.is_valid(&document), "the schema allows {what}");
        let path = dir.path().join("broken.json");
        std::fs::write(&path, document.to_string()).unwrap();
        assert!(Evidence::read(&path).is_err(), "the reader allows {what}");
    }
}

#[test]
fn the_schema_knows_that_a_failed_check_is_no_pass() {
    let mut document = as_json(&specimen());
    document["checks"][0]["passed"] = json!(false);
    assert!(!schema().is_valid(&document));
    document["verdict"] = json!("fail");
    assert!(schema().is_valid(&document));
}

#[test]
fn a_time_of_another_zone_is_refused_by_the_schema() {
    let mut document = as_json(&specimen());
    document["started_at"] = json!("2026-01-01T00:00:00+02:00");
    assert!(!schema().is_valid(&document));
}

#[test]
fn another_schema_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later.json");
    std::fs::write(&path, r#"{ "schema": "duramen.evidence/2", "new": 1 }"#).unwrap();
    let error = Evidence::read(&path).unwrap_err();
    assert!(matches!(error, EvidenceError::Schema { .. }));
    let text = error.to_string();
    assert!(text.contains("duramen.evidence/2") && text.contains(SCHEMA_ID), "{text}");

    for (content, expected) in [("{}", "none"), ("[]", "none"), ("3", "none")] {
        std::fs::write(&path, content).unwrap();
        assert!(
            matches!(Evidence::read(&path), Err(EvidenceError::Schema { found, .. }) if found == expected)
        );
    }
    std::fs::write(&path, "{ \"schema\"").unwrap();
    assert!(matches!(Evidence::read(&path), Err(EvidenceError::Malformed { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Evidence::read(&path), Err(EvidenceError::Io { .. })));
}

#[test]
fn a_failed_check_fails_the_run() {
    let mut evidence = specimen();
    assert_eq!(evidence.decide(), Verdict::Pass);
    evidence.check("p99 below 20 ms", false, "21 ms");
    assert!(matches!(evidence.to_json(), Err(EvidenceError::Undecided { .. })), "not before it is decided");
    assert_eq!(evidence.decide(), Verdict::Fail);
    assert!(evidence.to_json().is_ok());
}

#[test]
fn invalid_wins_over_everything() {
    for passed in [true, false] {
        let mut evidence = specimen();
        evidence.check("late", passed, "");
        evidence.invalidate("no checkpoint happened");
        assert_eq!(evidence.finish(), Verdict::Invalid);
        let expected = Finding {
            rule: "invalid".to_owned(),
            severity: Severity::Problem,
            figure: None,
            text: "no checkpoint happened".to_owned(),
        };
        assert_eq!(evidence.findings.last(), Some(&expected));
    }
}

#[test]
fn a_scalar_is_equal_in_all_its_figures() {
    let m = Measurement::scalar("syncs", "syncs", 0.1);
    assert_eq!(m.count, 1);
    assert!([m.mean, m.min, m.p50, m.p90, m.p95, m.p99, m.max].iter().all(|figure| *figure == 0.1));
    assert_eq!(m.histogram, None);
}

#[test]
fn percentiles_of_values_are_among_them() {
    let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
    let m = Measurement::from_values("v", "", &values);
    assert_eq!([m.min, m.p50, m.p90, m.p95, m.p99, m.max], [1.0, 100.0, 180.0, 190.0, 198.0, 200.0]);
    assert_eq!((m.count, m.mean), (200, 100.5));
    let none = Measurement::from_values("v", "", &[]);
    assert_eq!((none.count, none.mean, none.p99), (0, 0.0, 0.0));
}

#[test]
fn a_histogram_is_kept_whole() {
    let evidence = specimen();
    let fork = evidence.measurement("fork").unwrap();
    let latencies = LatencyHistogram::from_base64_v2(fork.histogram.as_deref().unwrap()).unwrap();
    assert_eq!(Measurement::from_histogram("fork", &latencies), *fork);
    assert_eq!(fork.unit, "ms");
    assert!(evidence.measurement("spoon").is_none());
}

#[test]
fn a_new_document_never_takes_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("evidence.json");
    let first = specimen();
    first.write_new(&path).unwrap();
    let mut other = first.clone();
    other.suite = "another".to_owned();
    let error = other.write_new(&path).unwrap_err();
    let is_taken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AlreadyExists;
    assert!(matches!(&error, EvidenceError::Io { source, .. } if is_taken(source)), "{error}");
    assert_eq!(Evidence::read(&path).unwrap(), first);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn figures_of_parts_that_were_not_seen_say_nothing() {
    let mut evidence = specimen();
    assert!(evidence.is_sound("fork"));
    evidence.check("mechanism/S2", false, "no stall");
    evidence.check("mechanism/S5", true, "seen");
    evidence.invalidate("S2 was not seen");
    assert_eq!(evidence.unseen_parts().collect::<Vec<_>>(), ["S2"]);
    assert!(!evidence.is_sound("latency_ms/S2/on") && evidence.is_sound("latency_ms/S20/on"));
    let mut whole = specimen();
    whole.invalidate("nothing happened");
    assert!(!whole.is_sound("fork"));
}
