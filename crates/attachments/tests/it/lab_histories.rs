//! Figures over runs that are alike: what `duramen lab history` says of the same documents.

use crate::lab_support::{copy, fixtures, folder, lab, run, write};
use duramen_api::attachments::lab::{LabHistory, LabTrend};
use duramen_attachments::lab::Lab;
use duramen_base::entropy;
use duramen_measure::evidence::Evidence;
use duramen_reports::{compare::better, trends, Document};
use std::path::Path;

/// Six runs of about 4 us, then six of about `later`.
fn twelve(at: &Path, later: f64) -> Vec<Document> {
    let mut rng = entropy::rng(7);
    let mut documents = Vec::new();
    for number in 0..12 {
        let about = if number < 7 { 4.0 } else { later };
        let evidence = run(number, about * (0.98 + 0.04 * rng.f64()));
        let name = format!("run-{number:02}.json");
        write(at, &name, &evidence);
        documents.push(Document { file: name.into(), evidence });
    }
    documents
}

fn series(lab: &Lab, at: &Path, measurement: Option<&str>) -> LabHistory {
    lab.series(at, "example", measurement).unwrap()
}

#[test]
fn a_change_is_told_as_the_command_tells_it_with_its_interval() {
    let folder = folder();
    let documents = twelve(folder.path(), 6.0);
    let expected = trends::series(&documents, 50, &better);
    let lab = lab();
    let told = series(&lab, folder.path(), None);
    assert_eq!(told.series.len(), 1);
    let (told, expected) = (&told.series[0], &expected[0]);
    assert_eq!((told.comparisons as usize, told.changed), (expected.comparisons, 1));
    let (put, of_put) = (&told.figures[0], expected.claims()[0]);
    assert_eq!((put.name.as_str(), put.trend, &put.words), ("put_us", LabTrend::Worse, &of_put.words));
    assert_eq!((put.before, put.last, &put.values), (of_put.before, of_put.last, &of_put.values));
    assert_eq!((put.before_count, put.last_count), (7, 5));
    let (before, last) = (put.before_band.unwrap(), put.last_band.unwrap());
    let change = of_put.change.unwrap();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(last.mean - before.mean, change.estimate) && close(last.low - before.mean, change.low));
    assert!(last.low > before.mean, "what changed lies beside what was");
    assert!(before.low <= before.mean && before.mean <= before.high);
    assert_eq!((put.percent, last.confidence), (change.percent, change.confidence));
    let target = put.target.as_ref().unwrap();
    assert_eq!((target.limit, target.at_least, target.words.as_str()), (5.0, false, "<= 5 us"));
    assert!(told.figures[1].target.is_none());

    // One figure of it is the same, and asking twice gives the same.
    let one = series(&lab, folder.path(), Some("put_us"));
    assert_eq!(one.series[0].figures, std::slice::from_ref(put));
    assert_eq!(one.series[0].comparisons, told.comparisons);
    assert_eq!(series(&lab, folder.path(), Some("put_us")), one);
    assert!(series(&lab, folder.path(), Some("none")).series.is_empty());
    assert!(lab.series(folder.path(), "none", None).unwrap().series.is_empty());
    // A run that is added is in it.
    write(folder.path(), "run-99.json", &run(99, 6.0));
    assert_eq!(series(&lab, folder.path(), None).series[0].runs.len(), 13);
}

#[test]
fn runs_that_are_alike_by_chance_show_no_change() {
    let folder = folder();
    twelve(folder.path(), 4.0);
    let told = series(&lab(), folder.path(), None);
    assert_eq!((told.series[0].changed, told.series[0].figures[0].trend), (0, LabTrend::NoChange));
    assert!(told.series[0].figures[0].last_band.is_some(), "the interval is told all the same");
}

#[test]
fn nothing_is_compared_across_machines_versions_and_configurations() {
    let folder = folder();
    let changes: [&dyn Fn(&mut Evidence); 6] = [
        &|_| {},
        &|evidence| evidence.host.cores = 8,
        &|evidence| evidence.host.cpu = "Another".to_owned(),
        &|evidence| evidence.version = "0.0.9".to_owned(),
        &|evidence| evidence.configure("rows", 2_000),
        &|evidence| evidence.host.kernel = "Linux 7".to_owned(),
    ];
    for (number, change) in changes.iter().enumerate() {
        for again in 0..2 {
            let mut evidence = run(i64::try_from(10 * number + again).unwrap(), 4.0);
            change(&mut evidence);
            write(folder.path(), &format!("{number}-{again}.json"), &evidence);
        }
    }
    let told = series(&lab(), folder.path(), None);
    let counts: Vec<usize> = told.series.iter().map(|one| one.runs.len()).collect();
    assert_eq!(counts, [2; 6], "a seed makes no other series");
    let differs: Vec<String> = told.series.iter().map(|one| one.differs.join("; ")).collect();
    assert_eq!(differs[0], "", "the one with the newest run first: {differs:?}");
    assert!(differs[1].contains("rows 2000 (newest:") && differs[5].starts_with("kernel "), "{differs:?}");
    assert_eq!(told.series[0].figures[0].trend, LabTrend::TooFew);
    let runs = lab().runs(folder.path(), None).unwrap().runs;
    let of = |id: &str| runs.iter().find(|run| run.id == id).unwrap();
    for one in &told.series {
        for point in &one.runs {
            let run = of(&point.id);
            assert_eq!((&run.machine, &run.version, &run.config), (&one.machine, &one.version, &one.config));
        }
    }
}

#[test]
fn runs_that_say_nothing_are_gaps_and_busy_ones_are_doubts() {
    let folder = folder();
    for number in 0..4 {
        let mut evidence = run(number, 4.0);
        if number == 1 {
            evidence.invalidate("nothing happened");
        }
        if number == 3 {
            evidence.check("what was written was read", false, "it was not");
            evidence.decide();
        }
        if number == 2 {
            evidence.host.load_average = [9.0; 3];
        }
        write(folder.path(), &format!("{number}.json"), &evidence);
    }
    let told = series(&lab(), folder.path(), Some("put_us"));
    assert_eq!(told.series[0].figures[0].values, [Some(4.0), None, Some(4.0), None]);
    assert_eq!((told.series[0].doubts.len(), told.series[0].runs[2].was_busy), (3, true));
    let marks: Vec<bool> = told.series[0].runs.iter().map(|run| run.is_mark).collect();
    assert_eq!(marks, [false, true, false, true]);
}

#[test]
fn of_very_many_runs_the_newest_count() {
    let folder = folder();
    for number in 0..60 {
        write(folder.path(), &format!("{number}.json"), &run(number, 4.0));
    }
    let told = series(&lab(), folder.path(), None);
    assert_eq!((told.series[0].runs.len(), told.runs_left_out), (50, 10));
    let newest = told.series[0].runs.last().unwrap().started_at;
    assert_eq!(newest, run(59, 4.0).started_at);
}

#[test]
fn real_documents_make_series() {
    let folder = folder();
    copy(&fixtures(), folder.path());
    let told = lab().series(folder.path(), "packs", None).unwrap();
    assert_eq!((told.series.len(), told.series[0].runs.len()), (1, 2));
    assert_eq!(told.series[0].figures.len(), 55);
}
