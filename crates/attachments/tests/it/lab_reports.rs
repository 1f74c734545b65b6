//! One run in full.

use crate::lab_support::{copy, fixtures, folder, host, lab, run, write, HOSTILE};
use duramen_api::attachments::lab::{LabBetter, LabOutcome, LabReport, LabSeverity};
use duramen_attachments::lab::LabError;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use std::{fs, path::Path};

fn only(at: &Path) -> LabReport {
    let lab = lab();
    let runs = lab.runs(at, None).unwrap();
    lab.run(at, &runs.runs[0].id).unwrap()
}

#[test]
fn a_report_has_figures_targets_checks_findings_and_the_machine() {
    let folder = folder();
    let mut evidence = run(0, 7.5);
    evidence.check("recovers", false, "it did not");
    evidence.find("slow", Severity::Warning, Some(7.5), "a put takes long");
    evidence.find("wrong", Severity::Problem, None, "something is wrong");
    evidence.configure("samples", serde_json::json!({ "put_us": [[1.0, 2.0]] }));
    evidence.decide();
    write(folder.path(), "run.json", &evidence);
    let report = only(folder.path());
    assert_eq!(report.about.as_deref(), Some("What a put takes"));
    assert_eq!(report.command, ["duramen", "lab", "run", "example"]);
    assert_eq!(report.seed.as_deref(), Some("0"));
    let figure = &report.measurements[0];
    assert_eq!((figure.name.as_str(), figure.unit.as_str(), figure.p50), ("put_us", "us", 7.5));
    assert_eq!((figure.better, figure.is_sound), (LabBetter::Lower, true));
    let target = &report.targets[0];
    assert_eq!((target.outcome, target.limit, target.measured), (LabOutcome::Missed, 5.0, Some(7.5)));
    assert_eq!((target.measured_words.as_str(), target.limit_words.as_str()), ("7.5 us", "<= 5 us"));
    assert_eq!(report.tiles[0].figure, "7.5 us");
    let checks: Vec<_> = report.checks.iter().map(|check| (check.name.as_str(), check.passed)).collect();
    assert_eq!(checks, [("recovers", false), ("syncs happen", true)], "what did not hold comes first");
    let severities: Vec<_> = report.findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [LabSeverity::Problem, LabSeverity::Warning]);
    assert_eq!((report.host.kernel.as_str(), report.host.fsync_floor_us), ("Linux 6.1 x86_64", 812.0));
    let settings: Vec<_> = report.settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(settings, ["rows", "seed"], "data is no setting");
}

#[test]
fn real_documents_are_shown_whatever_is_known_of_their_suites() {
    let folder = folder();
    copy(&fixtures(), folder.path());
    let lab = lab();
    for run in lab.runs(folder.path(), None).unwrap().runs {
        let report = lab.run(folder.path(), &run.id).unwrap();
        assert_eq!(report.measurements.len(), run.figures as usize, "{}", run.file);
        assert_eq!((report.about.is_some(), report.targets.len(), report.left_out), (false, 0, 0));
    }
}

#[test]
fn a_part_that_did_not_happen_says_nothing() {
    let folder = folder();
    let mut evidence = run(0, 1.0);
    evidence.measurements.push(Measurement::scalar("latency_ms/S2/on", "ms", 3.0));
    evidence.check("mechanism/S2", false, "no stall was seen");
    evidence.invalidate("a stall was not seen");
    write(folder.path(), "run.json", &evidence);
    let sound: Vec<bool> = only(folder.path()).measurements.iter().map(|figure| figure.is_sound).collect();
    assert_eq!(sound, [true, true, false]);
}

#[test]
fn a_document_that_its_suite_trips_over_is_shown_without_targets() {
    let folder = folder();
    let mut evidence = run(0, 1.0);
    evidence.configure("panics", "yes");
    write(folder.path(), "run.json", &evidence);
    let report = only(folder.path());
    assert_eq!((report.targets.len(), report.measurements.len()), (0, 2));
}

#[test]
fn hostile_texts_are_texts_and_have_an_end() {
    let folder = folder();
    let long = HOSTILE.repeat(100);
    let mut evidence = Evidence::new(HOSTILE, host());
    evidence.host.cpu = long.clone();
    evidence.version = long.clone();
    evidence.command = vec![long.clone(); 1_000];
    evidence.configure("seed", long.clone());
    evidence.configure(HOSTILE, long.clone());
    evidence.configure(long.clone(), 1);
    evidence.measurements.push(Measurement::scalar(HOSTILE, HOSTILE, f64::MAX));
    evidence.measurements.push(Measurement::scalar(long.clone(), long.clone(), f64::MIN));
    evidence.check(long.clone(), false, long.clone());
    evidence.find(long.clone(), Severity::Problem, Some(f64::MAX), long.clone());
    evidence.decide();
    write(folder.path(), &format!("{}.json", HOSTILE.replace(['/', '\0'], "_")), &evidence);
    let report = only(folder.path());
    assert_eq!((report.run.suite.as_str(), report.measurements[0].name.as_str()), (HOSTILE, HOSTILE));
    assert_eq!((report.measurements.len(), report.left_out), (1, 2), "names that are too long are left out");
    let sent = serde_json::to_string(&report).unwrap();
    assert!(sent.len() < 4 << 20, "{}", sent.len());
    let again: LabReport = serde_json::from_str(&sent).unwrap();
    assert_eq!(again, report);
}

#[test]
fn one_that_is_damaged_since_is_told_as_such() {
    let folder = folder();
    let path = folder.path().join("run.json");
    write(folder.path(), "run.json", &run(0, 1.0));
    let lab = lab();
    let id = lab.runs(folder.path(), None).unwrap().runs[0].id.clone();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..100]).unwrap();
    assert!(matches!(lab.run(folder.path(), &id), Err(LabError::UnknownRun(_))), "it is no run any more");
    assert_eq!(lab.runs(folder.path(), None).unwrap().damaged[0].file, "run.json");
}
