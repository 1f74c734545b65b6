//! Two variants compared: what `duramen lab compare` says of the same documents.

use crate::lab_support::{copy, fixtures, folder, lab, run, write};
use duramen_api::attachments::lab::{LabComparison, LabDifference};
use duramen_attachments::lab::{ids, Lab, LabError, SIDE_MAX};
use duramen_base::entropy;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_reports::compare::{compare, method};
use serde_json::json;
use std::path::Path;

fn id(lab: &Lab, at: &Path, file: &str) -> String {
    let runs = lab.runs(at, None).unwrap().runs;
    runs.into_iter().find(|run| run.file == file).unwrap_or_else(|| panic!("{file}")).id
}

fn compared(lab: &Lab, at: &Path, a: &[&str], b: &[&str]) -> Result<LabComparison, LabError> {
    let find = |files: &[&str]| files.iter().map(|file| id(lab, at, file)).collect::<Vec<_>>().join(",");
    let (a, b) = (find(a), find(b));
    lab.comparison(at, &ids(&a), &ids(&b))
}

#[test]
fn runs_of_two_variants_are_compared_as_the_command_does() {
    let folder = folder();
    let mut rng = entropy::rng(3);
    let mut sides: [Vec<Evidence>; 2] = [Vec::new(), Vec::new()];
    for number in 0..5 {
        for (side, about) in [(0_usize, 4.0), (1, 6.0)] {
            let minutes = i64::try_from(2 * number + side).unwrap();
            let evidence = run(minutes, about * (0.98 + 0.04 * rng.f64()));
            write(folder.path(), &format!("{side}-{number}.json"), &evidence);
            sides[side].push(evidence);
        }
    }
    let [a, b] = &sides;
    let expected = compare(a, b, &[]).unwrap();
    let lab = lab();
    let files = |side: &str| (0..5).map(|at| format!("{side}-{at}.json")).collect::<Vec<_>>();
    let (of_a, of_b) = (files("0"), files("1"));
    let told = compared(
        &lab,
        folder.path(),
        &of_a.iter().map(String::as_str).collect::<Vec<_>>(),
        &of_b.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .unwrap();
    assert_eq!((told.a.len(), told.b.len(), told.suite.as_str()), (5, 5, "example"));
    assert_eq!((told.method.clone(), told.is_comparable), (method(&expected), true));
    let (put, of_put) = (&told.figures[0], &expected.rows[0]);
    assert_eq!((put.name.as_str(), put.difference), ("put_us", LabDifference::Worse));
    assert_eq!((put.effect, put.low, put.high), (of_put.effect, of_put.low, of_put.high));
    assert_eq!((&put.words, put.percent, put.a_count), (&of_put.words, of_put.percent, 5));
    assert!(put.low.unwrap() > 0.0 && put.ratio_low.unwrap() > 1.0);
    assert_eq!((put.ratio, put.ratio_high), (of_put.ratio, of_put.ratio_high));
}

#[test]
fn real_documents_are_compared() {
    let folder = folder();
    copy(&fixtures(), folder.path());
    let told = compared(&lab(), folder.path(), &["packs.json"], &["packs_later.json"]).unwrap();
    assert_eq!(told.figures.len(), 55);
    assert!(told.warnings.iter().any(|warning| warning.contains("only one run")), "{:?}", told.warnings);
}

#[test]
fn what_cannot_be_compared_is_said() {
    let folder = folder();
    copy(&fixtures(), folder.path());
    let mut invalid = run(0, 1.0);
    invalid.invalidate("it did not happen");
    write(folder.path(), "invalid.json", &invalid);
    write(folder.path(), "valid.json", &run(1, 1.0));
    let lab = lab();
    let suites = compared(&lab, folder.path(), &["packs.json"], &["store.json"]).unwrap_err();
    assert!(suites.to_string().contains("packs and store"), "{suites}");
    let invalid = compared(&lab, folder.path(), &["valid.json"], &["invalid.json"]).unwrap_err();
    assert!(invalid.to_string().contains("it did not happen"), "{invalid}");
    let nothing = compared(&lab, folder.path(), &[], &["valid.json"]).unwrap_err();
    assert!(matches!(nothing, LabError::NotComparable(_)));
    let many = vec!["valid.json"; SIDE_MAX + 1];
    assert!(matches!(compared(&lab, folder.path(), &many, &many), Err(LabError::NotComparable(_))));
    let unknown = lab.comparison(folder.path(), &["nowhere"], &["nowhere"]).unwrap_err();
    assert!(matches!(unknown, LabError::UnknownRun(_)));
}

/// A document decides on no hours of comparing.
#[test]
fn documents_with_very_many_values_or_figures_are_refused_or_told_soon() {
    let folder = folder();
    for (name, minutes) in [("a.json", 0), ("b.json", 1)] {
        let mut evidence = run(minutes, 1.0);
        let repeats: Vec<[u8; 1]> = vec![[1]; 60_000];
        evidence.configure("samples", json!({ "put_us": repeats }));
        write(folder.path(), name, &evidence);
        let mut wide = run(minutes + 10, 1.0);
        wide.measurements =
            (0..4_999).map(|at| Measurement::scalar(format!("figure-{at}"), "us", f64::from(at))).collect();
        for at in 0..1_999 {
            wide.check(format!("mechanism/part-{at}"), false, "not seen");
        }
        wide.invalidate("nothing of it happened");
        write(folder.path(), &format!("wide-{name}"), &wide);
    }
    let lab = lab();
    let refused = compared(&lab, folder.path(), &["a.json"], &["b.json"]).unwrap_err();
    assert!(refused.to_string().contains("values"), "{refused}");
    let told = compared(&lab, folder.path(), &["wide-a.json"], &["wide-b.json"]).unwrap();
    assert_eq!(told.figures.len(), 4_999);
}
