//! What can be asked for.

use crate::store::{matches, Options, Sabotage};
use duramen_reports::suite::{run, SuiteError};

use super::small;

#[test]
fn globs_choose_operations() {
    assert!(matches("*", "kv.put.100B+snapshots"));
    assert!(matches("kv.*,state.set", "state.set") && !matches("kv.*,state.set", "state.get"));
    assert!(matches("kv.put.?KB", "kv.put.8KB") && !matches("kv.put.?KB", "kv.put.128B"));
    assert!(matches("*.get*", "json.get_root") && !matches("", "kv.get"));
    assert!(matches("branch.*1000*", "branch.diff.1000of1M"));
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let sound = || small(dir.path(), "kv.get.100B", Sabotage::None);
    let refused = [
        (Options { levels: Vec::new(), ..sound() }, "--durability"),
        (Options { ops: "kv.frobnicate".to_owned(), ..sound() }, "kv.put.100B"),
        (Options { rows: 10, ..sound() }, "--rows"),
        (Options { seconds: 0.0, ..sound() }, "--seconds"),
        (Options { seconds: f64::NAN, ..sound() }, "--seconds"),
    ];
    for (options, word) in refused {
        let error = run(&options, &|_| {}).unwrap_err();
        assert!(matches!(error, SuiteError::Options(_)), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = run(&small(&file.join("below"), "kv.get.100B", Sabotage::None), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("file/below"), "{error}");
}

#[test]
fn there_are_fewer_vectors_where_there_are_fewer_rows() {
    let options = |rows, vectors| Options { rows, vectors, ..Options::new("anywhere") };
    assert_eq!(options(1_000_000, None).vectors(), 100_000);
    assert_eq!(options(20_000, None).vectors(), 2_000);
    assert_eq!(options(2_000, None).vectors(), 1_000);
    assert_eq!(options(2_000, Some(50_000)).vectors(), 50_000);
}
