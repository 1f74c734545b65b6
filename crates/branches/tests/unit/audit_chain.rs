//! The audit log must show every kind of tampering, and survive a torn tail.

use super::{segment_path, verify, Audit, SEGMENT_BYTES};
use serde_json::json;
use std::{fs, path::Path};

fn filled(dir: &Path) {
    let audit = Audit::open(dir).unwrap();
    for number in 0..5 {
        audit.append("leased", json!({ "branch": "b-1", "number": number })).unwrap();
    }
}

fn tamper(change: impl Fn(Vec<String>) -> Vec<String>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = segment_path(dir.path(), 1);
    let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(ToOwned::to_owned).collect();
    fs::write(&path, change(lines).join("\n") + "\n").unwrap();
    verify(dir.path(), None).unwrap().problem
}

#[test]
fn an_untouched_log_is_intact_and_goes_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    filled(dir.path());
    let result = verify(dir.path(), None).unwrap();
    assert!(result.intact, "{result:?}");
    assert_eq!(result.entries, 10);
    assert_eq!(Audit::open(dir.path()).unwrap().events_of("b-1", 3).unwrap().len(), 3);
}

#[test]
fn every_kind_of_tampering_is_found() {
    let changed = tamper(|mut lines| {
        lines[2] = lines[2].replace("\"number\":2", "\"number\":9");
        lines
    });
    assert!(changed.unwrap().contains("line 3 was changed"));
    let removed = tamper(|mut lines| {
        lines.remove(1);
        lines
    });
    assert!(removed.unwrap().contains("line 2 does not follow"));
    let swapped = tamper(|mut lines| {
        lines.swap(1, 2);
        lines
    });
    assert!(swapped.unwrap().contains("line 2 does not follow"));
    assert_eq!(tamper(|lines| lines), None);
}

#[test]
fn a_torn_last_line_is_cut_and_said() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = segment_path(dir.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 10]).unwrap();
    drop(Audit::open(dir.path()).unwrap());
    let result = verify(dir.path(), None).unwrap();
    assert!(result.intact, "{result:?}");
    assert_eq!(result.entries, 5, "four whole lines and the note about the cut");
    assert!(fs::read_to_string(&path).unwrap().contains("torn_tail_cut"));
}

/// Without a descriptor, or room in the directory, for the next segment nothing is written; as soon as there is one, all goes on.
#[test]
fn a_next_segment_that_cannot_be_made_yet_breaks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let audit = Audit::open(dir.path()).unwrap();
    audit.append("leased", json!({ "branch": "b-1" })).unwrap();
    let length = std::mem::replace(&mut audit.tail.lock().unwrap().length, SEGMENT_BYTES);
    let next = segment_path(dir.path(), 2);
    fs::create_dir(&next).unwrap();
    for _ in 0..2 {
        audit.append("renewed", json!({ "branch": "b-1" })).unwrap_err();
    }
    fs::remove_dir(&next).unwrap();
    audit.append("destroyed", json!({ "branch": "b-1" })).unwrap();
    assert!(length > 0 && audit.tail.lock().unwrap().segment == 2);
    let result = verify(dir.path(), None).unwrap();
    assert!(result.intact && result.entries == 2, "{result:?}");
}
