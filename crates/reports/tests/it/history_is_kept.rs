//! Results are filed by machine and suite, whole, once, within limits, and found again.

use std::fs;
use std::path::Path;

use crate::support::{fixture, host, run, HOSTILE};
use duramen_reports::history::{Filed, History, HistoryError, MOST_RUNS};
use duramen_reports::{config_digest, machine_id, Document};

fn id() -> String {
    machine_id(&host().machine())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_filed_is_found_again_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path().join("not/there/yet"));
    assert!(history.machines().unwrap().is_empty() && history.suites(&id()).unwrap().is_empty());
    assert!(history.runs(&id(), "store", 5).unwrap().documents.is_empty());
    for hours in [3, 1, 2] {
        let filed = history.file(&run(hours, 5.0, 1.0).evidence).unwrap();
        assert!(matches!(&filed, Filed::New(file) if file.exists()), "{filed:?}");
    }
    history.file(&fixture("packs").evidence).unwrap();
    let mut machines = vec![id(), machine_id(&fixture("packs").evidence.host.machine())];
    machines.sort_unstable();
    assert_eq!(history.machines().unwrap(), machines);
    assert_eq!(history.suites(&id()).unwrap(), ["store"]);
    let runs = history.runs(&id(), "store", 2).unwrap();
    let seeds: Vec<_> = runs.documents.iter().map(|run| run.evidence.config["seed"].clone()).collect();
    assert_eq!(seeds, [2, 3], "the last two, oldest first");
    assert_eq!(runs.documents[0].evidence, run(2, 5.0, 1.0).evidence);
}

#[test]
fn a_document_is_filed_once_and_never_over_another() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path());
    let Filed::New(first) = history.file(&run(1, 5.0, 1.0).evidence).unwrap() else { panic!("it is new") };
    assert_eq!(history.file(&run(1, 5.0, 1.0).evidence).unwrap(), Filed::Known(first.clone()));
    // Another one of the same moment.
    let Filed::New(other) = history.file(&run(1, 6.0, 1.0).evidence).unwrap() else { panic!("it is new") };
    assert_ne!(first, other);
    assert_eq!(Document::read(&first).unwrap().evidence, run(1, 5.0, 1.0).evidence);
    assert_eq!(history.runs(&id(), "store", 9).unwrap().documents.len(), 2);
}

#[test]
fn the_oldest_go_first_and_what_is_not_ours_stays() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path());
    let folder = dir.path().join(id()).join("store");
    fs::create_dir_all(&folder).unwrap();
    for foreign in ["0.json", "notes.txt", "20250101T000000.000Z-xyz.json"] {
        fs::write(folder.join(foreign), "mine").unwrap();
    }
    let most = i64::try_from(MOST_RUNS).unwrap();
    for hours in 10..10 + most {
        history.file(&run(hours, 5.0, 1.0).evidence).unwrap();
    }
    assert_eq!(history.file(&run(1, 5.0, 1.0).evidence).unwrap(), Filed::TooOld);
    assert!(matches!(history.file(&run(10 + most, 5.0, 1.0).evidence).unwrap(), Filed::New(_)));
    let runs = history.runs(&id(), "store", 10 * MOST_RUNS).unwrap();
    assert_eq!(runs.documents.len(), MOST_RUNS);
    assert_eq!(runs.documents[0].evidence.config["seed"], 11, "the oldest is gone");
    assert_eq!(names(&folder).len(), MOST_RUNS + 3);
}

#[test]
fn a_damaged_file_keeps_no_other_from_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path());
    let Filed::New(first) = history.file(&run(1, 5.0, 1.0).evidence).unwrap() else { panic!("it is new") };
    history.file(&run(2, 5.0, 1.0).evidence).unwrap();
    fs::write(&first, "{\"schema\": \"duramen.evi").unwrap();
    let runs = history.runs(&id(), "store", 9).unwrap();
    assert_eq!((runs.documents.len(), runs.unreadable.len()), (1, 1));
    let name = first.file_name().unwrap().to_str().unwrap();
    assert!(runs.unreadable[0].to_string().contains(name), "{}", runs.unreadable[0]);
}

#[test]
fn what_a_killed_process_left_goes_and_what_another_writes_stays() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path());
    let folder = dir.path().join(id()).join("store");
    fs::create_dir_all(&folder).unwrap();
    let (stale, fresh) = (folder.join(".duramen-stale"), folder.join(".duramen-fresh"));
    fs::write(&fresh, "half").unwrap();
    let file = fs::File::create(&stale).unwrap();
    let two_hours = std::time::Duration::from_secs(7_200);
    file.set_modified(file.metadata().unwrap().modified().unwrap() - two_hours).unwrap();
    history.file(&run(1, 5.0, 1.0).evidence).unwrap();
    assert!(!stale.exists() && fresh.exists());
    assert_eq!(history.runs(&id(), "store", 9).unwrap().documents.len(), 1);
}

#[test]
fn no_suite_leads_out_of_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let history = History::at(dir.path().join("history"));
    for name in ["../../etc", "", ".", "a/b", HOSTILE, &"x".repeat(65)] {
        let mut document = run(1, 5.0, 1.0);
        document.evidence.suite = name.to_owned();
        let error = history.file(&document.evidence).unwrap_err();
        assert!(matches!(error, HistoryError::Suite(_)), "{name}: {error}");
        assert!(history.runs(&id(), name, 9).unwrap().documents.is_empty());
    }
    assert!(names(dir.path()).is_empty(), "nothing was made");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("history"), "a file").unwrap();
    let error = History::at(dir.path().join("history")).file(&run(1, 5.0, 1.0).evidence).unwrap_err();
    assert!(error.to_string().contains("make the folder"), "{error}");
}

#[test]
fn the_machine_is_the_same_under_another_kernel_and_the_config_with_another_seed() {
    let (a, mut b) = (host(), host());
    b.kernel = "Linux 7".to_owned();
    b.memory_bytes -= 10_000_000;
    b.load_average = [9.0; 3];
    assert_eq!(machine_id(&a.machine()), machine_id(&b.machine()));
    b.cores = 4;
    assert_ne!(machine_id(&a.machine()), machine_id(&b.machine()));
    assert_eq!(id().len(), 16);

    let (one, mut other) = (run(1, 1.0, 1.0).evidence, run(2, 1.0, 1.0).evidence);
    other.configure("samples", vec![1]);
    assert_eq!(config_digest(&one), config_digest(&other));
    other.configure("rows", 2_000);
    assert_ne!(config_digest(&one), config_digest(&other));
}

#[test]
fn a_slim_document_is_of_the_same_series() {
    for name in ["packs", "replication"] {
        let (whole, slim) = (fixture(name), fixture(name).slim());
        assert_eq!(config_digest(&whole.evidence), config_digest(&slim.evidence), "{name}");
        let size = |document: &Document| document.evidence.to_json().unwrap().len();
        assert!(size(&slim) <= size(&whole));
        // What has distributions and time lines has them no more.
        assert!(name == "packs" || size(&slim) * 2 < size(&whole), "{} of {}", size(&slim), size(&whole));
    }
}
